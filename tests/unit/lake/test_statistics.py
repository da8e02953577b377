"""Statistics of a Delta table's files: readers skip what they may, and never a row that is there."""

import datetime as dt
import io
import json
from decimal import Decimal

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder
from hypothesis import given
from hypothesis import strategies as st

from aggregator.lake.parquet.statistics import statistics, with_nan
from tests.unit.lake.half_broken import NESTED, NEW_YEAR, half_broken
from tests.unit.lake.tabling import NAME

LAST = "\U0010ffff"


def footer(*groups: pa.Table):
    """The footer of a file with these row groups."""
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, groups[0].schema) as writer:
        for group in groups:
            writer.write_table(group)
    return pq.read_metadata(sink)


def told(column: pa.Array) -> tuple:
    """Lower bound, upper bound and nulls of one column."""
    table = pa.table({"x": column})
    stats = json.loads(statistics(footer(table), with_nan(table)))
    return stats["minValues"].get("x"), stats["maxValues"].get("x"), stats["nullCount"].get("x")


@pytest.mark.parametrize(
    ("column", "lower", "upper"),
    [
        (pa.array(["a" * 40]), "a" * 32, "a" * 31 + "b"),
        (pa.array(["a" * 31 + LAST + "b"]), "a" * 31 + LAST, "a" * 30 + "b"),
        (pa.array(["\ud7ff" * 40]), "\ud7ff" * 32, "\ud7ff" * 31 + "\ue000"),
        (pa.array([LAST * 40]), None, None),
        (pa.array(["b", "x" * 32]), "b", "x" * 32),
        (pa.array([NEW_YEAR + dt.timedelta(microseconds=5)], pa.timestamp("us", "UTC")),
         "2026-01-01T00:00:00.000Z", "2026-01-01T00:00:00.001Z"),
        (pa.array([dt.datetime.fromisoformat("1969-12-31T23:59:59.999999")], pa.timestamp("us")),
         "1969-12-31T23:59:59.999", "1970-01-01T00:00:00.000"),
        (pa.array([dt.datetime.fromisoformat("9999-12-31T23:59:59.999999")], pa.timestamp("us")), None, None),
        (pa.array([1.5, -2.0]), -2.0, 1.5),
        (pa.array([1.5, float("nan")]), None, None),
        (pa.array([1.5, float("inf")]), None, None),
        (pa.array([Decimal("12.30"), Decimal("-0.05")], pa.decimal128(10, 2)), -0.05, 12.3),
        (pa.array([Decimal("12345678901234567.89")], pa.decimal128(20, 2)), None, None),
        (pa.array([Decimal("0.0000001")], pa.decimal128(10, 7)), None, None),
        (pa.array([True]), None, None),
        (pa.array([b"x"]), None, None),
    ],
)  # fmt: skip
def test_bounds_are_rounded_outward_or_absent(column, lower, upper):
    """Text after 32 characters, times to Delta's milliseconds; what JSON or Parquet's footer cannot say has none."""
    assert told(column) == (lower, upper, 0)


def test_fields_of_records_have_statistics_and_items_of_lists_have_none():
    """As Delta nests them; a record that is not there counts as a null of each of its fields."""
    nested = pa.array([{"a": 1, "b": {"c": "x"}}, None, {"a": 3, "b": None}], NESTED)
    table = pa.table({"x": nested, "y": pa.array([[1], None, []], pa.list_(pa.int64()))})
    assert json.loads(statistics(footer(table))) == {
        "numRecords": 3,
        "minValues": {"x": {"a": 1, "b": {"c": "x"}}},
        "maxValues": {"x": {"a": 3, "b": {"c": "x"}}},
        "nullCount": {"x": {"a": 1, "b": {"c": 2}}},
    }


def test_what_is_no_number_is_found_in_fields_of_records():
    """Also in the second row group alone."""
    one, other = (pa.table({"x": pa.array([{"a": value}])}) for value in (1.0, float("nan")))
    stats = json.loads(statistics(footer(one, other), with_nan(one) | with_nan(other)))
    assert (stats["minValues"], stats["nullCount"]) == ({}, {"x": {"a": 0}})


TEXTS = st.text(st.sampled_from(["a", "é", "\ud7ff", "\ue000", LAST]), min_size=30, max_size=36)
MOMENTS = st.datetimes(*map(dt.datetime.fromisoformat, ("0001-01-02", "9999-12-30")))


@given(st.lists(st.one_of(st.none(), TEXTS), min_size=1, max_size=6))
def test_no_text_lies_outside_its_bounds(values):
    """In the order of UTF-8, in which readers compare them."""
    lower, upper, nulls = told(pa.array(values, pa.string()))
    assert nulls == values.count(None)
    for value in filter(None, values):
        assert lower is None or lower.encode() <= value.encode() <= upper.encode()


@given(st.lists(MOMENTS, min_size=1, max_size=6))
def test_no_time_lies_outside_its_bounds(values):
    """Within a millisecond of the least and of the greatest."""
    lower, upper, _ = told(pa.array(values, pa.timestamp("us")))
    least, greatest = dt.datetime.fromisoformat(lower), dt.datetime.fromisoformat(upper)
    assert least <= min(values) < least + dt.timedelta(milliseconds=1)
    assert greatest - dt.timedelta(milliseconds=1) < max(values) <= greatest


@given(st.lists(st.decimals(-(10**16), 10**16, places=2, allow_nan=False), min_size=1, max_size=6))
def test_no_decimal_lies_outside_its_bounds(values):
    """Where they have any, they are exact."""
    column = pa.array(values, pa.decimal128(20, 2))
    table = pa.table({"x": column})
    stats = json.loads(statistics(footer(table)), parse_float=Decimal)
    if "x" in stats["minValues"]:
        assert (stats["minValues"]["x"], stats["maxValues"]["x"]) == (min(values), max(values))


@pytest.fixture
def folder(tmp_path):
    """A table of two files, of which the first cannot be read: whoever does not skip it fails."""
    half_broken(tmp_path)
    return str(tmp_path / NAME)


@pytest.mark.parametrize(
    "predicate",
    ["text > '4'", "real > 4", "dec > 4.0", "rec['a'] > 4", "at > timestamp '2026-01-04'"],
)
def test_delta_rs_skips_files_by_every_bound(folder, predicate):
    """With a predicate on any type the broken file is not opened."""
    query = f"select text from t where {predicate}"
    found = QueryBuilder().register("t", DeltaTable(folder)).execute(query).read_all()
    assert pa.table(found).to_pydict() == {"text": ["5" * 40]}


@pytest.mark.parametrize(
    "predicate",
    [
        pl.col("text") > "4",
        pl.col("dec") > 4,
        pl.col("rec").struct.field("a") > 4,
        pl.col("rec").struct.field("b").struct.field("c") > "v4",
        pl.col("at") > NEW_YEAR.replace(day=4),
    ],
    ids=["text", "decimal", "nested", "deeper", "time"],
)
def test_polars_skips_files(folder, predicate):
    """The same in another reader."""
    assert pl.scan_delta(folder).filter(predicate).select("text").collect().to_dicts() == [{"text": "5" * 40}]
