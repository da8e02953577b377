"""What a gate holds, and that a release lets pass exactly that."""

from aggregator.coordinates import CentralPartition, OffsetRange
from aggregator.lake.cycle.commit import Commit
from aggregator.lake.quality.held_ranges import still_held
from aggregator.lake.quality.publication import Published
from aggregator.lake.quality.verdicts import Verdict
from aggregator.state.releases import Release
from tests.gated_lake import PARTITIONS, TABLE, GatedLake
from tests.unit.lake.quality.audits import audit

PARTITION = CentralPartition("eu.t", "AAA", 0)


def test_a_range_is_held_while_the_table_stands_at_its_start():
    """By the newest verdict; what was published since is not; a release of another range is none."""
    first, second = audit(1, Verdict.HOLD), audit(1, Verdict.HOLD, ranges=(("eu.t", 0, 10, 35),))
    (held,) = still_held("t", [first, second], {PARTITION: 10}, [])
    assert (held.offsets, held.rules, held.plain()["state"]) == (OffsetRange(10, 35), (), "held")
    assert still_held("t", [first, second], {PARTITION: 20}, []) == []
    assert still_held("t", [audit(1), audit(1, Verdict.RELEASE)], {PARTITION: 10}, []) == []
    for end, state in ((20, "held"), (35, "released")):
        release = Release("t", PARTITION, OffsetRange(10, end), "ada", 1, "known")
        (held,) = still_held("t", [first, second], {PARTITION: 10}, [release])
        assert held.plain()["state"] == state


class Strict:
    """A gate that publishes what is released, and tells what it was asked."""

    def __init__(self, tables):
        self.tables, self.asked = tables, []

    def repair_verdicts(self, handle, positions):
        """Nothing lived before it."""

    def still_held(self, spans):
        return ()

    def publish(self, handle, outcomes, *, force, release=None):
        spans = {one.span.partition.partition: one.span.offsets for outcome in outcomes for one in outcome.reached}
        self.asked.append((spans, release and release.reason))
        return Published(Commit(self.tables, TABLE, outcomes, force).run(handle))


def test_a_cycle_publishes_what_was_released_and_nothing_beside(tmp_path, monkeypatch):
    """The range alone, also when more has come since; of several words about a table the newest; then all else."""
    lake = GatedLake(tmp_path, monkeypatch)
    lake.write({}, {}, {})
    lake.write({}, partition=1)
    older = Release(TABLE, PARTITIONS[1], OffsetRange(0, 1), "ada", 1, "older")
    newer = Release(TABLE, PARTITIONS[0], OffsetRange(0, 2), "ada", 2, "newer")
    other = Release("other", PARTITIONS[0], OffsetRange(0, 3), "ada", 3, "other")
    lake.releases += [older, newer, other]
    driver = lake.driver()
    gate = driver._gates[TABLE] = Strict(lake.tables)
    for _ in range(3):
        driver.cycle()
    assert gate.asked == [({0: (0, 2)}, "newer"), ({1: (0, 1)}, "older"), ({0: (2, 3)}, None)]
    lake.check()
