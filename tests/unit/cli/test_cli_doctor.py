"""`aggregator doctor` without any cluster: exit codes, formats, and what is told all the same."""

import json

import pytest
from ruamel.yaml import YAML

HUB = """
hub: h
central: {bootstrap_servers: "127.0.0.1:1"}
edges:
  eu: {bootstrap_servers: "127.0.0.1:1", schemas: "directory:schemas"}
schemas: "directory:central"
topics: [{match: orders, policy: p.yaml}]
keys: {customer: "env:NOT_SET_ANYWHERE"}
"""


@pytest.fixture
def hub(tmp_path):
    (tmp_path / "p.yaml").write_text("policy: p\nversion: 1\ntopics: {orders: {key: keep}}\n")
    (tmp_path / "schemas").mkdir()
    (tmp_path / "hub.yaml").write_text(HUB)
    return tmp_path / "hub.yaml"


def test_a_central_that_is_away_ends_with_one(aggregator, hub):
    """Its port, the edge's, and a key that is not set; what can be looked at here is."""
    done = aggregator("doctor", "--config", hub, "-o", "json")
    assert done.exit_code == 1
    found = {(one["cluster"], one["check"]): one for one in json.loads(done.stdout)["findings"]}
    assert {at for at, one in found.items() if one["state"] == "failed"} == {
        ("central", "port"),
        ("eu", "port"),
        ("this machine", "keys"),
    }
    assert "export NOT_SET_ANYWHERE" in found["this machine", "keys"]["next"]
    assert found["eu", "registry"]["state"] == "ok"
    assert ("eu", "size") not in found


def test_yaml_and_words_hold_the_same_answer(aggregator, hub):
    """States are words; in the text each fault has its next step below it."""
    done = aggregator("doctor", "--config", hub, "-o", "yaml")
    states = [one["state"] for one in YAML(typ="safe").load(done.stdout)["findings"]]
    assert set(states) == {"ok", "failed"}
    lines = aggregator("doctor", "--config", hub).stdout.splitlines()
    assert lines[-1] == f"{states.count('ok')} ok, {states.count('failed')} failed"
    assert sum(line.strip().startswith("next: ") for line in lines) == states.count("failed")


def test_a_configuration_that_cannot_be_used_ends_with_78(aggregator, hub):
    """Before anything is asked."""
    hub.write_text("hub: [")
    assert aggregator("doctor", "--config", hub).exit_code == 78
