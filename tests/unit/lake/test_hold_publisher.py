"""What keeps tables from going on is told with its place, and counts only while it is so."""

from dataclasses import replace

import pytest

from aggregator.cli.run_ending import report_end
from aggregator.config.model import HubConfig
from aggregator.coordinates import CentralPartition
from aggregator.errors import ExitCode, RetryError
from aggregator.kafka.readers.typed_decoder import CorruptRecord
from aggregator.lake.cycle.ranges import TableHold
from aggregator.lake.cycle.report import CycleReport, TableReport
from aggregator.lake.hold_publisher import lake_holds
from aggregator.lake.status import TableStatus
from aggregator.observe.lake_poller import Stalls
from aggregator.replicate.driver import RunReport
from aggregator.state.edge_status import EdgeStatuses
from aggregator.state.lake_holds import decode_holds, holds_record

CONFIG = HubConfig(hub="h", central={"bootstrap_servers": "127.0.0.1:9"}, edges={})
HERE, THERE = CentralPartition("eu.orders", "id", 0), CentralPartition("eu.orders", "id", 1)
HELD = TableReport(
    "orders", 300, next_offsets={HERE: 17, THERE: 90}, held=(TableHold(HERE, "does not decode\n  next: x"),)
)


def test_a_hold_keeps_its_beginning_and_comes_back_from_the_topic():
    """A table that commits on in another partition is held in this one all the same."""
    first = lake_holds(CycleReport((HELD,)), (), 1000)
    again = lake_holds(CycleReport((replace(HELD, next_offsets={HERE: 17, THERE: 400}),)), first, 9000)
    assert again == first
    (hold,) = first
    assert (hold.place, hold.since_ms) == ("orders: central eu.orders-0 at offset 17", 1000)
    told = EdgeStatuses().with_records([(*holds_record(first), 5)])
    assert (told.lake, told.damaged) == (first, 0)
    assert hold.stands({HERE: 17, THERE: 400}, {HERE: 30, THERE: 400})
    assert not hold.stands({HERE: 18, THERE: 400}, {HERE: 30, THERE: 400})


def test_partitions_with_one_reason_are_told_as_one(capsys):
    """In the log, at the end of a run and by a command: six lines alike hide the seventh."""
    whys = ["cents is text\n  next: mend it"] * 6 + ["does not decode"]
    held = tuple(TableHold(CentralPartition("t", "id", n), why) for n, why in enumerate(whys))
    report = CycleReport(
        (TableReport("orders", held=held), TableReport("sales", failed=RetryError("full", hint="free")))
    )
    assert [*report.troubles.values()] == [
        "table orders is held at central t-0 and 5 more: cents is text; next: mend it",
        "table orders is held at central t-6: does not decode",
        "table sales waits: full; next: free",
    ]
    found = lake_holds(report, (), 0)
    assert report_end(CONFIG, RunReport(), found, drained=False, judged=True) == ExitCode.HELD
    assert capsys.readouterr().err.splitlines() == [
        "held: the lake: orders: central t-0 at offset 0 and 5 more: cents is text",
        "  next: mend it",
        "held: the lake: orders: central t-6 at offset 0: does not decode",
        "held: the lake: sales: waits: full",
        "  next: free",
    ]


def test_a_table_that_waits_is_told_while_it_is_behind():
    """Storage that is away stops the whole table."""
    (hold,) = lake_holds(
        CycleReport((TableReport("orders", failed=RetryError("the disk is full", hint="free it")),)), (), 5
    )
    assert (hold.place, hold.reason) == ("orders", "waits: the disk is full\n  next: free it")
    assert hold.stands({HERE: 1}, {HERE: 2})
    assert not hold.stands({HERE: 2}, {HERE: 2})


def test_many_holds_and_long_reasons_make_a_small_record():
    """Thousands of partitions are not all named."""
    report = TableReport(
        "orders", held=tuple(TableHold(CentralPartition("t", "id", n), "x" * 9999) for n in range(3000))
    )
    _, value = holds_record(lake_holds(CycleReport((report,)), (), 0))
    assert len(decode_holds(value)) == 500
    assert len(value) < 400_000
    with pytest.raises(CorruptRecord):
        decode_holds(value.replace(b'"partition":7,', b'"partition":-7,'))


def test_a_held_table_is_told_in_one_line_and_is_not_fresh():
    """The youngest commit is another partition's."""
    held = lake_holds(CycleReport((HELD,)), (), 1000)
    table = TableStatus("orders", 4, 300, {HERE: 17, THERE: 90}, {HERE: 30, THERE: 90}, 60_000, held=held)
    assert table.hold_reason == "eu.orders-0 stands at 17: does not decode"
    assert table.freshness_ms(61_000) == 60_000
    assert replace(table, held=()).freshness_ms(61_000) == 1000


def test_a_partition_that_stands_is_found_without_any_word():
    """Whatever the reason: records wait and it has not moved, while another partition commits."""
    stalls = Stalls()
    at = TableStatus("orders", 4, 0, {HERE: 17, THERE: 90}, {HERE: 30, THERE: 95})
    later = replace(at, next_offsets={HERE: 17, THERE: 95}, end_offsets={HERE: 30, THERE: 99})
    assert [stalls.timed([one], now_s, 0)[0].stood_ms for one, now_s in ((at, 0.0), (later, 60.0))] == [0, 60_000]
    unreadable = replace(later, problem="gone", next_offsets={HERE: 0, THERE: 0})
    assert stalls.timed([unreadable], 90.0, 0)[0].stood_ms == 90_000
    assert stalls.timed([replace(later, next_offsets=later.end_offsets)], 120.0, 0)[0].stood_ms == 0


def test_a_quiet_table_is_as_old_as_what_it_lacks():
    """A record that comes after five quiet minutes is seconds old, and so is the view that lacks it."""
    stalls = Stalls()
    quiet = TableStatus("orders", 4, 300, {HERE: 30}, {HERE: 30}, 60_000)
    (seen,) = stalls.timed([quiet], 0.0, 350_000)
    assert seen.freshness_ms(359_000) == 0
    behind = replace(quiet, end_offsets={HERE: 31})
    (seen,) = stalls.timed([behind], 10.0, 360_000)
    assert seen.freshness_ms(360_000) == 10_000, "it was complete ten seconds before"
    (seen,) = stalls.timed([replace(behind, problem="away", next_offsets={HERE: 31})], 20.0, 370_000)
    assert seen.complete_ms == 350_000, "a table that cannot be read was not seen complete"
    (seen,) = stalls.timed([behind], 60.0, 410_000)
    assert seen.freshness_ms(410_000) == 60_000, "nothing was complete since"
    (never,) = Stalls().timed([behind], 0.0, 360_000)
    assert never.freshness_ms(360_000) == 300_000, "who just began to look knows the last commit only"
