"""Processes of Spark that are not one know each other by a secret: where it is asked for, and what is refused."""

import pytest

from aggregator.config.load import load_config
from aggregator.config.model import HubConfig, SparkConfig
from aggregator.engine.session import open_session
from aggregator.errors import ConfigError

HUB = {"hub": "h", "central": {"bootstrap_servers": "127.0.0.1:1"}, "edges": {}}


def test_a_standalone_cluster_asks_for_its_secret(tmp_path):
    """By reference, told with its line; a secret that nothing asks for is told, too."""
    file = tmp_path / "hub.yaml"
    head = 'hub: h\ncentral: {bootstrap_servers: "c:1"}\nedges: {eu: {bootstrap_servers: "e:1"}}\n'
    file.write_text(f'{head}spark: {{master: "spark://m:7077"}}\n')
    with pytest.raises(ConfigError, match=r"hub\.yaml:4: spark: a standalone cluster is told from others by a secret"):
        load_config(file, {})
    file.write_text(f'{head}spark: {{master: "spark://m:7077", secret: "file:s"}}\n')
    assert load_config(file, {}).spark.secret.target == str(tmp_path / "s")
    file.write_text(f'{head}spark: {{master: "spark://m:7077", conf: {{spark.authenticate: false}}}}\n')
    assert load_config(file, {}).spark.secret is None
    file.write_text(f'{head}spark: {{master: "k8s://m", secret: "file:s"}}\n')
    with pytest.raises(ConfigError, match="a `secret` that nothing asks for"):
        load_config(file, {})
    file.write_text(f'{head}spark: {{master: "spark://m:7077", secret: "in-clear"}}\n')
    with pytest.raises(ConfigError, match="never a value in clear"):
        load_config(file, {})


def test_a_master_from_the_command_line_asks_as_well():
    """Before Spark starts."""
    hub = HubConfig.model_validate(HUB)
    hub = hub.model_copy(update={"spark": SparkConfig().model_copy(update={"master": "spark://127.0.0.1:1"})})
    with pytest.raises(ConfigError, match="asks for the secret of its cluster"):
        open_session(hub, "test-ports")
