"""Settings of edge topics follow to central: told by plan and status, carried over by `--apply` and by the hub."""

import json

import pytest
from confluent_kafka.admin import ConfigResource, ResourceType

from tests.trial import wait_for

pytestmark = [pytest.mark.brokers, pytest.mark.spark, pytest.mark.timeout(400)]


def setting(trial, cluster, topic, name):
    (future,) = trial.admin(cluster).describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
    return future.result(15)[name].value


def drifts(trial, command="plan", code=0):
    done = trial.run(command, "-o", "json")
    assert done.returncode == code, done.stderr
    return {(one["topic"], one["setting"]): one for one in json.loads(done.stdout)["drifts"]}


def test_plan_tells_what_differs_and_carries_it_over(trial):
    """A larger record and a shorter retention: told before anything is lost, applied when a person says so."""
    central = f"eu.{trial.topic}"
    trial.create("central", 3, topic=central)
    trial.create("central", 3, topic=f"us.{trial.topic}")
    assert drifts(trial) == {}
    trial.configure("eu", trial.topic, "max.message.bytes", "3000000")
    trial.configure("eu", trial.topic, "retention.ms", "86400000")
    told = drifts(trial)
    assert told[central, "max.message.bytes"]["action"] == "change"
    assert told[central, "retention.ms"]["action"] == "confirm"
    assert len(told) == 2
    refused = trial.run("plan", "--apply")
    assert (refused.returncode, "--yes" in refused.stderr) == (2, True)
    assert setting(trial, "central", central, "max.message.bytes") != "3000000"
    done = trial.run("plan", "--apply", "--yes")
    assert done.returncode == 0, done.stderr
    assert setting(trial, "central", central, "max.message.bytes") == "3000000"
    assert setting(trial, "central", central, "retention.ms") == "86400000"
    assert drifts(trial) == {}


def test_a_hub_that_is_told_to_applies_what_follows_by_itself(trial):
    """At the begin, and what is changed while it runs; what makes central forget waits for a person."""
    trial.settings["config_sync"] = "apply"
    trial.settings["heartbeats"] = {"emit": False}
    trial.write()
    central = f"eu.{trial.topic}"
    trial.create("central", 3, topic=central)
    trial.configure("eu", trial.topic, "compression.type", "zstd")
    with trial.running("--only", "replicate") as hub:
        wait_for(
            lambda: setting(trial, "central", central, "compression.type") == "zstd", timeout=120, what="the first"
        )
        trial.configure("eu", trial.topic, "max.message.bytes", "3000000")
        trial.configure("eu", trial.topic, "retention.ms", "86400000")
        wait_for(
            lambda: setting(trial, "central", central, "max.message.bytes") == "3000000", timeout=120, what="the second"
        )
        trial.produce("eu", 30)
        wait_for(lambda: trial.central_count("eu") == 30, timeout=60, what="the delivery")
        assert hub.poll() is None
    assert setting(trial, "central", central, "retention.ms") != "86400000"
    told = drifts(trial, "status")
    assert {name for _, name in told} == {"retention.ms"}
