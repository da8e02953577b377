"""A key that is replaced while people are deleted: no version's record stays, and every account agrees."""

import base64
import json

import pytest
from click.testing import CliRunner

from aggregator.cli.main import main
from tests.trial import POLICY

pytestmark = pytest.mark.brokers

OTHER = base64.b64encode(bytes(range(100, 132))).decode()


def rotate(trial) -> None:
    """Version 2 makes tokens from now on, version 1 stays listed."""
    (trial.folder / "key2").write_text(OTHER)
    trial.settings["keys"] = {"customer": {"current": 2, "versions": {1: "file:key", 2: "file:key2"}}}
    trial.write()


def audited(trial) -> dict:
    done = CliRunner().invoke(main, ["audit", "-o", "json", "--config", str(trial.config), "--topic", trial.topic])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.mark.whole
def test_a_tombstone_reaches_the_records_of_every_version(trial):
    """At central and in the table's current state; the audit calls none of them doubled or invented."""
    policy = POLICY.replace("    key: keep\n", "    key: {pseudonymize: {key: customer, domain: customer}}\n")
    (trial.folder / "policy.yaml").write_text(policy)
    trial.settings["lake"]["tables"] = {trial.topic: {"current_state": True}}
    trial.write()
    people = [b"anna", b"bert", b"cleo"]
    trial.produce_raw("eu", [(who, trial.value(n), 0) for n, who in enumerate(people)])
    trial.drain_here()
    rotate(trial)
    trial.produce_raw("eu", [(b"bert", trial.value(7), 0), (b"anna", None, 0), (b"bert", None, 0)])
    trial.drain_here()
    left = {}
    for message in trial.central_records("eu"):
        left[message.key()] = message.value()
    alive = [key for key, value in left.items() if value is not None]
    assert len(alive) == 1, "cleo, under version 1"
    assert alive[0].startswith(b"v1_")
    origins = [dict(message.headers())["hub.origin"] for message in trial.central_records("eu")]
    assert len(set(origins)) == len(origins) == 8
    answer = audited(trial)
    (flow,) = [one for one in answer["flows"] if (one["edge"], one["partition"]) == ("eu", 0)]
    assert flow["verdict"] == "ok"
    assert flow["at_edge"]["hash"] == flow["at_central"]["hash"] == flow["in_lake"]["hash"]
    assert trial.ledger()["eu", 0]["delivered"] == 6
    assert current(trial) == alive
    done = trial.typed("backfill", "run", "--rekey", "customer", "--yes")
    assert done.exit_code == 0, done.output
    (key,) = current(trial)
    assert key.startswith(b"v2_"), "cleo, under the present version"
    assert audited(trial)


def current(trial) -> list[bytes]:
    """Keys of the table's current state."""
    topic, trial.topic = trial.topic, f"{trial.topic}__current"
    try:
        return [row[0] for row in trial.lake("_key")]
    finally:
        trial.topic = topic
