"""Which rows a restate replaces: by their origins, against a naive model."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from aggregator.backfill.affected_rows import Affected
from aggregator.backfill.plan import PartitionPlan
from aggregator.backfill.ranges import split
from aggregator.coordinates import EdgePartition, IncarnationRange, OffsetRange

HERE, THERE = EdgePartition("eu", "orders", 0), EdgePartition("eu", "orders", 1)
LIVES = [IncarnationRange(0, OffsetRange(0, 15)), IncarnationRange(1, OffsetRange(15, 40))]
ranges = st.lists(
    st.builds(lambda start, length: OffsetRange(start, start + length), st.integers(0, 30), st.integers(1, 5)),
    max_size=4,
)
segments = ranges.map(lambda some: split(LIVES, some))
origins = st.lists(
    st.tuples(st.sampled_from(["eu", "us"]), st.sampled_from(["orders", "other"]), st.integers(0, 2), st.integers(0, 2),
              st.integers(0, 30)), max_size=30,
)  # fmt: skip


def table(rows) -> pa.Table:
    names = ("_edge", "_topic", "_partition", "_incarnation", "_offset")
    types = (pa.string(), pa.string(), pa.int32(), pa.int32(), pa.int64())
    columns = list(zip(*rows, strict=True)) or [()] * 5
    return pa.table({name: pa.array(column, kind) for name, column, kind in zip(names, columns, types, strict=True)})


def plan(source: EdgePartition, parts) -> PartitionPlan:
    return PartitionPlan(source, "id", "central", (), OffsetRange(0, 0), segments=tuple(parts))


@given(segments, segments, origins)
def test_a_row_is_affected_if_its_origin_lies_in_the_plan(here, there, rows):
    """Edge, topic, partition, incarnation and offset, all of them; nothing of the contents counts."""
    found = Affected([plan(HERE, here), plan(THERE, there)])
    spoken = {
        (source, at, offset)
        for source, parts in ((HERE, here), (THERE, there))
        for at, part in parts
        for offset in range(*part)
    }
    inside = [(EdgePartition(e, t, p), at, offset) in spoken for e, t, p, at, offset in rows]
    assert found.marks(table(rows)).tolist() == inside


@given(segments, origins, origins)
def test_only_origins_that_the_table_had_are_replaced(here, rows, fresh):
    """A record that the table never had is not brought in by a restate: it is missing, and comes another way."""
    found = Affected([plan(HERE, here)])
    had = found.origins(table(rows))
    known = {row for row, hit in zip(rows, found.marks(table(rows)).tolist(), strict=True) if hit}
    assert found.of(table(fresh), had).tolist() == [row in known for row in fresh]
