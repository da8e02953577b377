"""BytesColumn and header tables are what the lists are that they stand in for."""

import bisect
import json

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from aggregator.bytes_column import BytesColumn, Numbers
from aggregator.header_columns import HeaderTable

VALUES = st.lists(st.one_of(st.none(), st.binary(max_size=5)))
RECORDS = st.lists(
    st.lists(st.tuples(st.sampled_from(["a", "trace", "é"]), st.one_of(st.none(), st.binary(max_size=3))))
)


def part(draw, size):
    """Two places, in any order."""
    return tuple(draw(st.integers(0, size)) for _ in range(2))


@given(VALUES, st.data())
def test_cells_are_their_list(values, data):
    """Length, cells, slices of slices, and how many are None."""
    cells, (start, end) = BytesColumn.of(values), part(data.draw, len(values))
    assert (cells, len(cells), cells.count(None)) == (values, len(values), values.count(None))
    assert [cells[place] for place in range(len(values))] == values
    assert cells[start:end] == values[start:end]
    assert cells[start:end].sizes.tolist() == [len(value or b"") for value in values[start:end]]
    assert BytesColumn.of(cells) is cells


@given(VALUES, st.data())
def test_a_cell_that_becomes_none_leaves_no_byte_behind(values, data):
    """What was taken out is not in memory that goes on; the others stay."""
    start, end = part(data.draw, len(values))
    cells, whole = BytesColumn.of(values)[start:end], values[start:end]
    gone = data.draw(st.sets(st.sampled_from(range(len(whole))))) if whole else set()
    left = cells.without(gone)
    assert left == [None if place in gone else value for place, value in enumerate(whole)]
    if gone:
        assert left.data.tobytes() == b"".join(value or b"" for place, value in enumerate(whole) if place not in gone)


@given(st.lists(st.lists(st.binary(max_size=3))))
def test_cells_one_behind_the_other(parts):
    """None of them has None; there may be nothing at all."""
    assert BytesColumn.concat([BytesColumn.of(part) for part in parts]) == [value for part in parts for value in part]


@given(st.lists(st.integers(0, 2**63 - 1), min_size=1), st.text(max_size=3))
def test_numbered_cells(numbers, text):
    """As formatting each of them would make them."""
    made = [f"{text}{number}/7".encode() for number in numbers]
    assert BytesColumn.numbered(text, numbers, "/7") == made
    assert BytesColumn.numbered(text, Numbers(np.array(numbers)), "/7") == made


@given(st.lists(st.integers(0, 2**63 - 1)), st.data())
def test_numbers_are_their_list(listed, data):
    """Length, single ones as Python's own, slices, search, and the array that they are."""
    listed.sort()
    numbers, (start, end) = Numbers(np.array(listed, np.int64)), part(data.draw, len(listed))
    assert (numbers, len(numbers), json.dumps([*numbers])) == (listed, len(listed), json.dumps(listed))
    assert json.dumps([numbers[place] for place in range(-len(listed), 0)]) == json.dumps(listed)
    assert numbers[start:end] == listed[start:end]
    assert bisect.bisect_left(numbers, start) == bisect.bisect_left(listed, start)
    assert np.asarray(numbers, np.int64).tolist() == listed


@given(RECORDS, st.data())
def test_a_header_table_is_its_lists(records, data):
    """Records, slices, names that occur, and sizes."""
    table, (start, end) = HeaderTable.of(records), part(data.draw, len(records))
    assert (table, len(table), table.total) == (records, len(records), sum(map(len, records)))
    assert table[start:end] == records[start:end]
    assert table[start:end].used == {name for record in records[start:end] for name, _ in record}
    assert table[start:end].sizes(10).tolist() == [
        sum(len(name.encode()) + len(value or b"") + 10 for name, value in record) for record in records[start:end]
    ]


@given(RECORDS, st.sets(st.sampled_from(["a", "trace", "é", "other"])), st.data())
def test_only_allowed_headers_of_records_that_are_left(records, names, data):
    """Both at once; the order stays."""
    lost = data.draw(st.sets(st.sampled_from(range(len(records))))) if records else set()
    assert HeaderTable.of(records).only(names, lost) == [
        [] if place in lost else [pair for pair in record if pair[0] in names] for place, record in enumerate(records)
    ]
