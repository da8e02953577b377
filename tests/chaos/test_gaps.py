"""Gaps on real brokers: found, recorded, shown to another process, accepted by a person or by a rule, gone on from."""

import json

import pytest
from click.testing import CliRunner

from aggregator.cli.main import main
from aggregator.cli.run_ending import exit_code
from aggregator.replicate.driver import RunReport
from tests.epochs import Epochs
from tests.trial import wait_for

pytestmark = [pytest.mark.ci, pytest.mark.brokers]


def gaps(trial, *arguments: str, expect: int = 0) -> list[dict]:
    """What `gaps …` says about the trial's topic."""
    done = CliRunner().invoke(main, ["gaps", *arguments, "-o", "json", "--config", str(trial.config)])
    assert done.exit_code == expect, done.stderr
    return [gap for gap in json.loads(done.stdout or "[]") if gap["topic"] == trial.topic]


def accept(trial, *arguments: str, expect: int = 0) -> list[dict]:
    at = ("--edge", "eu", "--topic", trial.topic, "--reason", "a known outage", "--by", "ada@desk")
    return gaps(trial, "accept", *at, *arguments, expect=expect)


def deliver(epochs, **options):
    """One epoch on one slot, here, to its end."""
    (plan,) = epochs.plans(**options)
    return epochs.run(plan)


def seen(gap: dict) -> tuple:
    return gap["partition"], gap["incarnation"], gap["from"], gap["to"], gap["kind"], gap["state"]


def test_an_expired_position_is_held_until_exactly_its_gap_is_accepted(epochs):
    """Fault 16: the exact range in the ledger, only that flow held, exit 5; an acceptance covers no wider gap."""
    trial = epochs.trial
    trial.produce("eu", 30)
    deliver(epochs)
    trial.produce("eu", 30)
    trial.produce("us", 30)
    trial.cut("eu", 0, 15)
    for _ in range(2):
        outcome = deliver(epochs)
        assert outcome.result == "drained"
        assert [(hold.source.partition, hold.reason) for hold in outcome.holds] == [(0, "gap")]
        assert exit_code(RunReport(outcome.holds), lake_held=False) == 5
    assert sorted(trial.numbers("eu")) == sorted([*range(0, 30, 3), *(n for n in range(60) if n % 3)])
    trial.check_exactly_once("us", 30, lake=False)
    recorded = trial.ledger()["eu", 0]
    assert (recorded["next_offset"], recorded["gap"]["start"], recorded["gap"]["end"]) == (10, 10, 15)
    status = trial.status()
    (flow,) = [flow for flow in status["flows"] if flow["gap"]]
    assert flow["gap"] == {"start": 10, "end": 15}
    assert [seen(gap) for gap in status["gaps"]] == [(0, 0, 10, 15, "expired", "open")]
    assert [seen(gap) for gap in gaps(trial, "list")] == [(0, 0, 10, 15, "expired", "open")]

    accept(trial, expect=2)
    accept(trial, "--partition", "1", "--yes", expect=1)
    assert [seen(gap) for gap in accept(trial, "--yes")] == [(0, 0, 10, 15, "expired", "requested")]
    assert [seen(gap) for gap in accept(trial, "--yes")] == [(0, 0, 10, 15, "expired", "requested")]
    trial.cut("eu", 0, 17)
    (hold,) = deliver(epochs).holds
    assert (hold.gap.start, hold.gap.end) == (15, 17), "the acceptance named nothing past 15"
    accept(trial, "--yes")
    outcome = deliver(epochs)
    assert (outcome.result, outcome.holds) == ("drained", ())
    listed = gaps(trial, "list")
    assert [seen(gap) for gap in listed] == [
        (0, 0, 10, 15, "expired", "accepted"),
        (0, 0, 15, 17, "expired", "accepted"),
    ]
    assert {(gap["by"], gap["reason"]) for gap in listed} == {("ada@desk", "a known outage")}
    assert all(gap["at"] >= gap["since"] for gap in listed)
    assert "gap" not in trial.ledger()["eu", 0]
    assert [offset for partition, _, offset in trial.origins("eu") if partition == 0] == [*range(10), *range(17, 20)]


def test_a_deleted_topic_is_a_gap_and_a_recreated_one_goes_on(epochs):
    """Fault 14: an unknown tail is said to be unknown; it can be accepted; a new life goes on, on record."""
    trial = epochs.trial
    trial.produce("eu", 30)
    deliver(epochs)
    trial.delete("eu")
    wait_for(lambda: trial.topic not in trial.admin("eu").list_topics(timeout=10).topics, timeout=20, what="its end")
    outcome = deliver(epochs)
    assert {hold.reason for hold in outcome.holds} == {"gap"}
    assert [seen(gap) for gap in gaps(trial, "list")] == [(p, 0, 10, None, "deleted", "open") for p in range(3)]
    accept(trial, "--yes")
    assert deliver(epochs).holds == ()
    trial.create("eu")
    trial.produce("eu", 60)
    assert deliver(epochs).holds == ()
    trial.check_exactly_once("eu", 90, lake=False)
    assert {seen(gap) for gap in gaps(trial, "list")} == {
        (p, 0, 10, None, kind, state)
        for p in range(3)
        for kind, state in (("deleted", "accepted"), ("recreated", "skipped"))
    }


def test_a_rule_may_skip_gaps(new_trial):
    """`on_gap: skip`: the flow goes on at once, and the gap is on record as skipped, not as accepted by anybody."""
    trial = new_trial(on_gap="skip")
    epochs = Epochs(trial)
    trial.produce("eu", 30)
    deliver(epochs)
    trial.produce("eu", 30)
    trial.cut("eu", 0, 15)
    trial.cut("eu", 2, 12)
    outcome = deliver(epochs)
    assert (outcome.result, outcome.holds) == ("drained", ())
    assert [seen(gap) for gap in gaps(trial, "list")] == [
        (0, 0, 10, 15, "expired", "skipped"),
        (2, 0, 10, 12, "expired", "skipped"),
    ]
    assert [offset for partition, _, offset in trial.origins("eu") if partition == 0] == [*range(10), *range(15, 20)]
    trial.configure("eu", trial.topic, "retention.ms", "7200000")
    trial.produce("eu", 3)
    status = trial.status()
    assert status["gaps"] == []
    margins = {flow["partition"]: flow["retention_margin_ms"] for flow in status["flows"] if flow["edge"] == "eu"}
    assert all(7_000_000 < margin <= 7_200_000 for margin in margins.values()), "what waits lasts two hours from now"
    epochs.close()
