"""Settings of edge topics follow to central by themselves, where the configuration says so."""

import pytest

from tests.drifts import drifts, setting
from tests.trial import wait_for

pytestmark = [pytest.mark.brokers, pytest.mark.spark]


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
