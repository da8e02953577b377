"""A topic that somebody made at an edge and no rule takes is named; what is excluded or internal is not."""

from aggregator.config.model import HubConfig
from aggregator.observe.topics_without_rule import without_rule

CONFIG = HubConfig.model_validate(
    {
        "hub": "h",
        "central": {"bootstrap_servers": "127.0.0.1:1"},
        "edges": {"eu": {"bootstrap_servers": "127.0.0.1:2", "schemas": "directory:s"}},
        "schemas": "directory:c",
        "exclude": "tmp-.*",
        "topics": [{"match": "orders|crew", "exclude": "crew", "policy": "p.yaml"}],
    }
)


def test_only_what_nobody_has_decided_about_is_named():
    """Neither the hub's heartbeats, nor internal topics, nor what some `exclude` names."""
    topics = ("tmp-1", "orders", "crew", "heartbeats", "__consumer_offsets", "wages", "invoices")
    assert without_rule(CONFIG, "eu", topics) == ("invoices", "wages")
