"""The line with which a hub begins: who it is, and what it knows of each cluster."""

from importlib.metadata import version

from aggregator.config.model import HubConfig
from aggregator.doctor.introduction import Greeted, introduction, releases

CONFIG = {
    "hub": "demo",
    "central": {"bootstrap_servers": "c:9092", "client": {"security.protocol": "ssl"}},
    "edges": {
        "eu": {"bootstrap_servers": "e1:9092,e2:9092"},
        "us": {"bootstrap_servers": "127.0.0.1:1"},
        "ap": {"bootstrap_servers": "a:9092"},
    },
    "topics": [],
}


def test_every_cluster_is_named_once_and_in_one_line():
    """Name, id, address, protocol, release; what is not known is told as such."""
    config = HubConfig.model_validate(CONFIG | {"topics": [{"match": "a", "policy": "p.yaml"}]})
    greeted = {"": Greeted("C1", "4.1"), "eu": Greeted("E1", ""), "us": Greeted(None, ""), "ap": Greeted("", "2.8")}
    assert introduction(config, greeted) == (
        f"hub demo, aggregator {version('aggregator')}: central is cluster C1 at c:9092 (SSL, Kafka 4.1 or newer);"
        " edge eu is cluster E1 at e1:9092,e2:9092 (PLAINTEXT, its release is not known);"
        " edge us does not answer at 127.0.0.1:1 (PLAINTEXT);"
        " edge ap is a cluster that tells no id at a:9092 (PLAINTEXT, Kafka 2.8 or newer)"
    )


def test_a_cluster_that_does_not_answer_has_no_release():
    """Nothing of it ends a start."""
    local = {"bootstrap_servers": "127.0.0.1:1"}
    config = HubConfig.model_validate(
        CONFIG | {"central": local, "edges": {"eu": local}, "topics": [{"match": "a", "policy": "p.yaml"}]}
    )
    assert releases(config) == {"": "", "eu": ""}
