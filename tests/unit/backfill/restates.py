"""Replacements of rows in real tables, as tests make them."""

import itertools

import pyarrow as pa

from aggregator.backfill.affected_rows import Affected
from aggregator.backfill.plan import PartitionPlan
from aggregator.backfill.replacement import AdmitAll, NewRows, Replacement
from aggregator.coordinates import CentralPartition, EdgePartition, IncarnationRange, OffsetRange
from aggregator.lake.columns.columns import FIXED_COLUMNS
from aggregator.lake.cycle.ranges import Span, SpanProgress, StagingOutcome
from aggregator.lake.storage.files import StagingWriter
from tests.unit.lake.tabling import NAME, rows

FLOW = EdgePartition("eu", "orders", 0)


MARK = CentralPartition("restate-x", "id", 0)


OWN = CentralPartition("eu.orders.restate-x", "BBB", 0)


NEW = 1000


_AT_CENTRAL = itertools.count()


def origins(*offsets: int, plus: int = 0) -> pa.Table:
    """Rows of the flow, one per offset, under its first incarnation; `id` is the offset and `plus`."""
    said = {"_edge": FLOW.edge, "_topic": FLOW.topic, "_partition": 0, "_incarnation": 0, "_deleted": False}
    kinds = {"_edge": pa.string(), "_topic": pa.string(), "_partition": pa.int32(), "_incarnation": pa.int32(),
             "_deleted": pa.bool_()}  # fmt: skip
    fixed = {name: pa.array([value] * len(offsets), kinds[name]) for name, value in said.items()}
    keys = pa.array([b"k%d" % (offset % 3) for offset in offsets], pa.binary())
    numbers = pa.array([offset + plus for offset in offsets], pa.int64())
    places = pa.array([next(_AT_CENTRAL) for _ in offsets], pa.int64())
    return rows(
        len(offsets), **fixed, _offset=pa.array(offsets, pa.int64()), _key=keys, id=numbers, _central_offset=places
    )


def keyed(*drawn: tuple) -> pa.Table:
    """Rows of (offset, key, deleted, what `id` says)."""
    offsets, keys, deleted, said = zip(*drawn, strict=True) if drawn else ((), (), (), ())
    table = origins(*offsets)
    columns = {"_key": pa.array(keys, pa.binary()), "_deleted": pa.array(deleted, pa.bool_()),
               "id": pa.array(said, pa.int64())}  # fmt: skip
    for name, column in columns.items():
        table = table.set_column(table.column_names.index(name), name, column)
    return table


class Restate:
    """A replacement of the offsets [start, end) by new rows of some of them.

    What came are offsets, or rows. What else was read, all in the window or `read` alone, is told to be left out.
    """

    def __init__(self, tables, start: int, end: int, came, *, admission=None, read=None, mark=MARK):
        self.tables, self.told = tables, []
        plan = PartitionPlan(
            FLOW, "id", "c", (), OffsetRange(0, 0), segments=(IncarnationRange(0, OffsetRange(start, end)),)
        )
        self.admission = admission or AdmitAll()
        self.replacement = Replacement(tables, NAME, Affected([plan]), mark=mark, admission=self.admission)
        self.scratch = tables.folder / ".restate-x"
        stage = StagingWriter(self.scratch, None, promotes=tables.promotes)
        new = came if isinstance(came, pa.Table) else origins(*came, plus=NEW)
        stage.add(new.cast(tables.narrowed(origins().schema)))
        left_out = StagingWriter(self.scratch, None)
        read = set(range(start, end)) if read is None else read
        if without := sorted(read - set(new["_offset"].to_pylist())):
            left_out.add(origins(*without).select(FIXED_COLUMNS.names))
        own = OWN if mark == MARK else OWN._replace(topic_id=mark.topic_id)
        reached = (SpanProgress(Span(own, OffsetRange(0, len(new))), len(new)),)
        outcome = StagingOutcome(reached, stage.close(), left_out.close())
        self.come = NewRows([outcome], self.scratch, {own: len(new)} if len(new) else {}, {"hub.restate": "x"})

    def run(self):
        return self.replacement.commit(self.come, self.told.append)
