"""Taking over from MirrorMaker 2 and handing back to it, on real brokers; its records are written by the test.

`tests/chaos/test_takeover.py` does it with MirrorMaker 2 itself.
"""

import json
import uuid

import pytest
from confluent_kafka import KafkaException, Producer

from tests.left_by_mirrormaker import CONNECTOR, MirrorMaker2

pytestmark = pytest.mark.brokers


def plan(trial) -> tuple[int, dict]:
    """Exit code and answer."""
    done = trial.typed("plan", "-o", "json")
    assert done.exit_code in (0, 4), done.output
    return done.exit_code, json.loads(done.stdout)


@pytest.mark.whole
def test_a_hub_goes_on_where_mirrormaker_2_stopped(trial):
    """Behind the last copied offset; a partition without one from its start; held while a worker lives; and back.

    A task that was killed within a transaction is fenced, its offset is never seen, and the ledger wins afterwards.
    """
    mm2 = MirrorMaker2(trial, tasks=1)
    trial.produce("eu", 30)
    mm2.copied(0, 2)
    mm2.copied(0, 4)
    mm2.copied(1, 9)
    mm2.copied(2, 6)
    mm2.copied(2, None)
    killed = Producer(
        {
            "bootstrap.servers": mm2.bootstrap,
            "transactional.id": f"{mm2.group}-{CONNECTOR}-0",
            "transaction.timeout.ms": 120_000,
            "partitioner": "murmur2_random",
            "log_level": 2,
        }
    )
    killed.init_transactions(20)
    killed.begin_transaction()
    killed.produce(mm2.offsets, '{"offset":8}', mm2.key(0))
    killed.flush(20)
    with mm2.alive():
        code, seen = plan(trial)
        (flow,) = [one for one in seen["flows"] if one["topic"] == trial.topic]
        assert code == 4
        assert len(flow["held"]) == 3
        assert f"MirrorMaker 2 lives: its group {mm2.group}" in flow["held"][0]
        done = trial.drain_here(expect=4)
        assert f"its group {mm2.group} at central has 1 member" in done.output
        assert trial.central_count("eu") == 0
    code, seen = plan(trial)
    assert code == 0
    assert [(one["partition"], one["position"], one["copied"]) for one in seen["takeovers"]] == [
        (0, 5, True),
        (1, 10, True),
        (2, 0, False),
    ]
    shown = trial.typed("plan").stdout
    assert "edge eu: MirrorMaker 2 ran exactly once: nothing of what it copied comes again" in shown
    assert "MirrorMaker 2 has no offset: from the start, as there" in shown
    trial.drain_here()
    assert sorted(trial.origins("eu")) == [
        *((0, 0, offset) for offset in range(5, 10)),
        *((2, 0, offset) for offset in range(10)),
    ]
    with pytest.raises(KafkaException):
        killed.commit_transaction(10)
    assert {at: kept[-1][1] for at, kept in mm2.kept().items()} == {0: 4, 1: 9, 2: None}
    mm2.copied(0, 0)
    trial.produce("eu", 30)
    trial.drain_here()
    assert len(trial.origins("eu")) == 45
    assert plan(trial)[1]["takeovers"] == []
    _hands_back(trial, mm2)


def _hands_back(trial, mm2) -> None:
    shown = trial.typed("offsets", "export", "--mirrormaker2", "--edge", "eu")
    assert shown.exit_code == 0, shown.output
    lines = [json.loads(line) for line in shown.stdout.splitlines()]
    assert [(one["topic"], one["key"][1]["partition"], one["value"]) for one in lines] == [
        (mm2.offsets, partition, {"offset": 19}) for partition in range(3)
    ]
    with mm2.alive():
        refused = trial.typed("offsets", "export", "--mirrormaker2", "--write", "--yes")
        assert (refused.exit_code, "MirrorMaker 2 lives" in refused.output) == (4, True)
    before = mm2.kept()
    done = trial.typed("offsets", "export", "--mirrormaker2", "--write", "--yes")
    assert done.exit_code == 0, done.output
    assert {at: kept[-1] for at, kept in mm2.kept().items()} == {
        at: (kept[-1][0], 19) for at, kept in before.items()
    }, "in the partition where it looks for it"


def test_positions_that_the_edge_lost_are_gaps(trial):
    """Below the log's start what expired is named; beyond its end the log was cut. Its topic has to be there."""
    mm2 = MirrorMaker2(trial)
    trial.produce("eu", 30)
    held = "holds no offset of MirrorSourceConnector"
    assert held in trial.drain_here(expect=4).output
    mm2.copied(0, 1)
    mm2.copied(1, 99)
    mm2.copied(2, 9)
    trial.cut("eu", 0, 6)
    code, seen = plan(trial)
    notes = {one["partition"]: one["note"] for one in seen["takeovers"]}
    assert (code, notes[1]) == (4, "the edge's log ends at 10: a run holds it as a truncated log")
    trial.drain_here(expect=5)
    gaps = {at: entry["gap"] for (_, at), entry in trial.ledger().items() if entry.get("gap")}
    assert {at: (gap["kind"], gap["start"], gap.get("end")) for at, gap in gaps.items()} == {
        0: ("expired", 2, 6),
        1: ("truncated", 10, None),
    }
    trial.settings["topics"][0]["start"] = {"mirrormaker2": {"source": uuid.uuid4().hex[:8]}}
    trial.settings["hub"] += "-2"
    trial.write()
    assert "central has no topic mm2-offsets." in trial.drain_here(expect=4).output
