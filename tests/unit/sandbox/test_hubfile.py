"""The hub.yaml that the sandbox writes is a configuration that loads, without any environment."""

import stat

from aggregator.config.load import load_config
from aggregator.privacy.policy.file import load_policy
from aggregator.sandbox.hubfile import KEY_FILE, write_hub
from aggregator.schema.registries import open_registry
from aggregator.shipped import CONFIGS

EDGES = {"ewr": "127.0.0.1:1111", "jfk": "127.0.0.1:2222"}


def test_what_is_written_loads_without_environment(tmp_path):
    """No variable is needed: the key is in a file beside it, readable by its owner only, and long enough."""
    config = load_config(write_hub(tmp_path, "127.0.0.1:9999", EDGES), {})
    assert config.central.bootstrap_servers == "127.0.0.1:9999"
    assert {name: edge.bootstrap_servers for name, edge in config.edges.items()} == EDGES
    assert stat.S_IMODE((tmp_path / KEY_FILE).stat().st_mode) == 0o600
    assert len(config.keys["customer"].material("customer")) == 32


def test_the_policys_keys_are_there(tmp_path):
    """Every key that the demo's policy names is in the configuration."""
    config = load_config(write_hub(tmp_path, "127.0.0.1:9999", EDGES), {})
    assert load_policy(config.topics[0].policy).keys() <= set(config.keys)


def test_the_registry_holds_the_demos_schemas(tmp_path):
    """The edges' registry is a copy beside hub.yaml, with both subjects, so that a producer may add its own."""
    config = load_config(write_hub(tmp_path, "127.0.0.1:9999", EDGES), {})
    registry = open_registry(config.edges["ewr"].schemas)
    assert registry.subjects() == ["bookings-value", "flights-value"]


def test_an_edited_file_is_not_written_again(tmp_path):
    """What a person edited stays, and so does the key."""
    hub = write_hub(tmp_path, "127.0.0.1:9999", EDGES)
    key = (tmp_path / KEY_FILE).read_text()
    hub.write_text("# mine\n")
    write_hub(tmp_path, "127.0.0.1:9999", EDGES)
    assert hub.read_text() == "# mine\n"
    assert (tmp_path / KEY_FILE).read_text() == key


def test_the_examples_of_configs_load():
    """Every example in configs/ is a configuration without a fault."""
    examples = sorted(CONFIGS.glob("*.yaml"))
    assert len(examples) == 2
    for example in examples:
        load_config(example, {})
