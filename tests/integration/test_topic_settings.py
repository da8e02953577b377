"""Settings of edge topics follow to central: told by plan, and carried over by `--apply`."""

import pytest

from aggregator.config.load import load_config
from aggregator.kafka.cluster.topic_settings import change_settings
from tests.drifts import await_setting, drifts, setting

pytestmark = [pytest.mark.brokers, pytest.mark.timeout(400)]


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
    refused = trial.typed("plan", "--apply")
    assert (refused.exit_code, "--yes" in refused.stderr) == (2, True)
    assert setting(trial, "central", central, "max.message.bytes") != "3000000"
    done = trial.typed("plan", "--apply", "--yes")
    assert done.exit_code == 0, done.stderr
    await_setting(trial, "central", central, "max.message.bytes", "3000000")
    await_setting(trial, "central", central, "retention.ms", "86400000")
    assert drifts(trial) == {}
    trial.configure("eu", trial.topic, "retention.ms", "-1")
    done = trial.typed("plan", "--apply", "--yes")
    assert "--confirm unbounded" in done.stderr
    await_setting(trial, "central", central, "retention.ms", "86400000")
    done = trial.typed("plan", "--apply", "--yes", "--confirm", "unbounded")
    assert done.exit_code == 0, done.stderr
    await_setting(trial, "central", central, "retention.ms", "-1")


def test_a_setting_that_is_refused_keeps_no_other_one_back(trial):
    """A cluster takes all that is said of a topic or nothing; what it does not take is named by its setting."""
    config = load_config(trial.config, {})
    central = f"eu.{trial.topic}"
    trial.create("central", 3, topic=central)
    wanted = {"retention.ms": "86400000", "compression.type": "nothing-known", "max.message.bytes": "3000000"}
    (refused,) = change_settings(config.central, {central: wanted})
    assert refused[:2] == (central, "compression.type")
    assert not refused.is_right
    await_setting(trial, "central", central, "max.message.bytes", "3000000")
    await_setting(trial, "central", central, "retention.ms", "86400000")
