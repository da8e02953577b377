"""A number that its column cannot hold costs its own value, never a table: null there, told beside it, and counted."""

import io
import itertools
import json
import time
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import duckdb
import fastavro
import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from aggregator.kafka.readers.committed_reader import CommittedRecords
from aggregator.lake.columns.decode import BatchDecoder, Decoder, Undecodable
from aggregator.lake.columns.out_of_range import OUT_OF_RANGE_COLUMN
from aggregator.lake.current_state import CurrentState
from aggregator.lake.storage.files import out_of_range
from aggregator.lake.storage.folder import Folder
from aggregator.lake.tables.delta import DeltaTables
from aggregator.lake.tables.iceberg import IcebergTables
from aggregator.lake.upkeep.compaction import compact
from tests.effort import examples
from tests.unit.lake.tabling import FIRST, NAME, commit, read, staged

FORMATS = pytest.mark.parametrize("kind", [DeltaTables, IcebergTables], ids=["delta", "iceberg"])
FIRST_MS, LAST_MS = -62_135_596_800_000, 253_402_300_799_999
BEYOND = (LAST_MS + 1, FIRST_MS - 1, 9_300_000_000_000_000, -9_300_000_000_000_000, 2**63 - 1, -(2**63))
EXTREMES = st.sampled_from([0, 1, -1, *BEYOND, *(sign * 2**bits for bits in (31, 46, 53, 62) for sign in (1, -1))])


def logical(base: str, name: str, **more) -> dict:
    return {"type": base, "logicalType": name, **more}


TIMES = {
    "millis": logical("long", "timestamp-millis"),
    "micros": logical("long", "timestamp-micros"),
    "local_millis": logical("long", "local-timestamp-millis"),
    "local_micros": logical("long", "local-timestamp-micros"),
    "time": logical("long", "time-micros"),
}
DAYS = {"day": logical("int", "date"), "wait": logical("int", "time-millis")}
MONEY = logical("bytes", "decimal", precision=5, scale=2)


def without_logical(kind):
    """The same wire types, under which any number can be written."""
    if isinstance(kind, list):
        return [without_logical(one) for one in kind]
    if not isinstance(kind, dict):
        return kind
    if "logicalType" in kind:
        return kind["type"]
    return {name: without_logical(one) for name, one in kind.items()}


def decoded(fields: dict, rows: list[dict], times: list[int] | None = None) -> pa.Table:
    """Rows as a task decodes them; numbers are written as they are."""
    schema = {"type": "record", "name": "R", "fields": [{"name": one, "type": kind} for one, kind in fields.items()]}
    bare = fastavro.parse_schema(json.loads(json.dumps(without_logical(schema))))
    values = []
    for row in rows:
        out = io.BytesIO(b"")
        fastavro.schemaless_writer(out, bare, row)
        values.append(b"\x00\x00\x00\x00\x07" + out.getvalue())
    count = len(rows)
    offsets = [row.get("id", at) for at, row in enumerate(rows)]
    keys, origins = [b"k%d" % at for at in offsets], [b"h/eu/orders/0/%d/0" % at for at in offsets]
    batch = CommittedRecords("eu.orders", 0, list(range(count)), times or [1_000] * count, keys, values, origins)
    table = BatchDecoder({7: json.dumps(schema)}.__getitem__).table(batch)
    table.validate(full=True)
    return table


def big(number: int) -> bytes:
    return number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)


@pytest.mark.parametrize("at", BEYOND)
def test_a_record_time_beyond_the_years_is_null_and_told(at):
    """The first and the last millisecond of the years 1 to 9999 are times; what lies beyond is a number."""
    table = decoded({"id": "long"}, [{"id": number} for number in range(3)], [FIRST_MS, LAST_MS, at])
    times = table["_timestamp"].to_pylist()
    assert times[0] == datetime(1, 1, 1, tzinfo=UTC)
    assert times[1] == datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)
    assert times[2] is None
    assert table[OUT_OF_RANGE_COLUMN].to_pylist() == [None, None, json.dumps({"_timestamp": at})]


@settings(max_examples=examples(40))
@given(st.lists(st.fixed_dictionaries(dict.fromkeys(TIMES, EXTREMES)), min_size=1, max_size=4), EXTREMES)
@pytest.mark.slow
def test_no_time_in_a_value_stops_a_batch(rows, at):
    """Every row stays; a field is its number or null, and the null's number is told under its name."""
    table = decoded(TIMES, rows, [at] * len(rows))
    told = [
        json.loads(one or "{}")
        for one in (
            table[OUT_OF_RANGE_COLUMN].to_pylist() if OUT_OF_RANGE_COLUMN in table.column_names else [""] * len(rows)
        )
    ]
    for name in TIMES:
        raw = table[name].cast(pa.int64()).to_pylist()
        for row, number, noted in zip(rows, raw, told, strict=True):
            assert noted.get(name) == (row[name] if number is None else None)
            assert number in (None, row[name], row[name] * 1000)


def test_nested_numbers_are_told_by_their_path():
    """In arrays, maps, records and unions; several at one path are a list, and a null list shifts nothing."""
    item = {"type": "record", "name": "Item", "fields": [{"name": "at", "type": TIMES["millis"]}]}
    fields = {
        "items": ["null", {"type": "array", "items": item}],
        "days": {"type": "map", "values": ["null", DAYS["day"]]},
        "price": ["null", "string", MONEY],
    }
    rows = [
        {"items": None, "days": {"x": 2**31 - 1}, "price": None},
        {"items": [{"at": 5}, {"at": 2**62}, {"at": -(2**62)}], "days": {}, "price": big(12_345)},
        {"items": [], "days": {"x": None, "y": -1, "z": -(2**31)}, "price": big(123_456)},
    ]
    for chosen in ([0, 1, 2], [2, 0, 1], [1], [2]):
        table = decoded(fields, [rows[at] for at in chosen])
        told = dict(zip(chosen, map(json.loads, table[OUT_OF_RANGE_COLUMN].to_pylist()), strict=True))
        expected = [
            {"days{}": 2**31 - 1},
            {"items[].at": [2**62, -(2**62)]},
            {"days{}": -(2**31), "price.bytes": 123_456},
        ]
        assert told == {at: expected[at] for at in chosen}
    prices = decoded(fields, rows)["price"].to_pylist()
    assert prices == [None, {"string": None, "bytes": Decimal("123.45")}, {"string": None, "bytes": None}]


def test_a_record_of_nothing_else_costs_no_more_than_it_tells():
    """A hundred numbers of one path are told, row by row; all are null."""
    fields = {"at": {"type": "array", "items": TIMES["millis"]}}
    table = decoded(fields, [{"at": [2**62] * 3}, {"at": [0] + [2**62 + n for n in range(250)]}, {"at": [2**62 + 7]}])
    told = [json.loads(one)["at[]"] for one in table[OUT_OF_RANGE_COLUMN].to_pylist()]
    assert told == [[2**62] * 3, [2**62 + n for n in range(100)], 2**62 + 7]
    assert [table["at"][row].values.null_count for row in range(3)] == [3, 250, 1]


@pytest.mark.parametrize("number", [99_999, -99_999, 100_000, -100_000, 10**37, 10**60, -(10**60), 10**200])
@pytest.mark.parametrize("kind", [MONEY, ["null", MONEY, "string"]], ids=["plain", "union"])
def test_a_decimal_of_more_digits_than_it_says_is_null_and_told(number, kind):
    """Exactly, whatever decoder reads it; one that is longer than anybody can use is told as null."""
    table = decoded({"price": kind}, [{"price": big(1)}, {"price": big(number)}])
    values = [one["bytes"] if isinstance(one, dict) else one for one in table["price"].to_pylist()]
    fits = abs(number) < 10**5
    assert values == [Decimal("0.01"), Decimal(number).scaleb(-2) if fits else None]
    path = "price.bytes" if isinstance(kind, list) else "price"
    told = table[OUT_OF_RANGE_COLUMN].to_pylist() if OUT_OF_RANGE_COLUMN in table.column_names else [None, None]
    assert told == [None, None if fits else json.dumps({path: number if abs(number) < 10**100 else None})]


def amounts(*numbers: int) -> list[bytes]:
    """Framed values of a record with one decimal of five digits, and of any more."""
    schema = fastavro.parse_schema({"type": "record", "name": "R", "fields": [{"name": "amount", "type": "bytes"}]})
    framed = []
    for number in numbers:
        body = io.BytesIO()
        fastavro.schemaless_writer(body, schema, {"amount": number.to_bytes(20, "big", signed=True).lstrip(b"\0")})
        framed.append(bytes([0, 0, 0, 0, 1]) + body.getvalue())
    return framed


@pytest.mark.parametrize("place", [0, 1_000, 1_999])
def test_a_number_out_of_range_costs_few_neighbours_the_fast_decoder(place, monkeypatch):
    """One decimal too long for the fast decoder: of thousands beside it a few are decoded slowly, and all are right."""
    slowly, by_fastavro = [], Decoder._by_fastavro

    def counted(self, data, count, frame, notes):
        slowly.append(count)
        return by_fastavro(self, data, count, frame, notes)

    monkeypatch.setattr(Decoder, "_by_fastavro", counted)
    numbers = [7] * 2_000
    numbers[place] = 10**40
    fields = [{"name": "amount", "type": MONEY}]
    columns = Decoder.of(json.dumps({"type": "record", "name": "R", "fields": fields})).columns(amounts(*numbers))
    assert sum(slowly) < 100
    assert [at for at, one in enumerate(columns["amount"].to_pylist()) if one != Decimal("0.07")] == [place]
    assert [at for at, one in enumerate(columns[OUT_OF_RANGE_COLUMN].to_pylist()) if one] == [place]


def test_a_value_of_another_schema_is_refused_wherever_it_lies():
    """Also as the first of a half that is decoded apart."""
    values = amounts(*[7] * 1_000, 10**40, *[7] * 999)
    fields = [{"name": "amount", "type": MONEY}]
    decoder = Decoder.of(json.dumps({"type": "record", "name": "R", "fields": fields}))
    for place in (1_000, 1_001, 1_500, 1_999):
        with pytest.raises(Undecodable):
            decoder.columns([*values[:place], b"\0\0\0\0\2" + values[place][5:], *values[place + 1 :]])


def test_a_field_named_as_a_fixed_column_is_told_under_its_own_name():
    """The record's own time and a field of that name stay apart."""
    table = decoded(
        {"_timestamp": TIMES["millis"], OUT_OF_RANGE_COLUMN: "string"},
        [{"_timestamp": 2**60, OUT_OF_RANGE_COLUMN: "x"}],
        [2**61],
    )
    assert json.loads(table[OUT_OF_RANGE_COLUMN].to_pylist()[0]) == {"f__timestamp": 2**60, "_timestamp": 2**61}
    assert table[f"f_{OUT_OF_RANGE_COLUMN}"].to_pylist() == ["x"]


@FORMATS
@pytest.mark.slow
def test_they_are_counted_in_a_wide_table(kind, tmp_path):
    """Delta's own default keeps statistics of 32 columns; the table's are of all, also behind a checkpoint."""
    tables = kind("hub", Folder(str(tmp_path)))
    fields = {"id": "long", **{f"c{number}": "long" for number in range(60)}, "at": TIMES["millis"]}
    ones = dict.fromkeys(fields, 1)
    commit(tables, staged(tables, FIRST, 0, 1, decoded(fields, [ones])))
    commit(tables, staged(tables, FIRST, 1, 3, decoded(fields, [ones, ones | {"at": 2**62}])))
    assert tables.open(NAME).out_of_range() == 1
    compact(tables, tables.folder / NAME, NAME)
    assert tables.open(NAME).vacuum(timedelta(0), now_s=time.time() + 1) > 0
    assert tables.open(NAME).out_of_range() == 1


@pytest.mark.slow
@FORMATS
@pytest.mark.parametrize("division", [(), ("_day",), ("day",)], ids=["whole", "by-day", "by-field"])
def test_a_table_takes_them_and_every_reader_reads_it(kind, division, tmp_path, monkeypatch):
    """Before and after such a row; divided by day it lies in the part without a day. Metadata counts it."""
    tables = kind("hub", Folder(str(tmp_path)), {NAME: division})
    fields = {"id": "long", **TIMES, **DAYS, "price": MONEY}
    offsets = itertools.count()

    def bring(times: list[int], number: int, cents: int) -> None:
        rows = [
            {
                "id": next(offsets),
                **dict.fromkeys(TIMES, number),
                **dict.fromkeys(DAYS, number % 2**31),
                "price": big(cents),
            }
            for _ in times
        ]
        table = decoded(fields, rows, times)
        start = rows[0]["id"]
        outcome = staged(tables, FIRST, start, start + len(rows), table.cast(tables.narrowed(table.schema)))
        assert commit(tables, outcome).version is not None
        assert sum(map(out_of_range, outcome.files)) == (0 if number < 10 else len(times))

    bring([0, 86_400_000], 1, 1)
    assert tables.open(NAME).out_of_range() == 0
    bring([LAST_MS, *BEYOND], 2**62 + 2**30, 10**9)
    bring([0], 2, 2)
    count = 3 + len(BEYOND) + 1
    for _ in range(2):
        handle = tables.open(NAME)
        assert (handle.rows(), handle.out_of_range()) == (count, len(BEYOND) + 1)
        found = read(tables, f"id, _timestamp, millis, day, price, {OUT_OF_RANGE_COLUMN}", "id")
        assert [row[0] for row in found] == list(range(count))
        assert [row[1] is None for row in found] == [False] * 3 + [True] * len(BEYOND) + [False]
        assert all(row[2:5] == (None, None, None) for row in found[2:-1])
        assert json.loads(found[3][5])["_timestamp"] == BEYOND[0]
        assert (found[0][3], found[-1][4]) == (date(1970, 1, 2), Decimal("0.02"))
        compact(tables, tables.folder / NAME, NAME)
    if kind is DeltaTables:
        seen = pl.scan_delta(str(tmp_path / NAME)).sort("id").collect()
        assert DeltaTable(tmp_path / NAME).to_pyarrow_table().num_rows == count
    else:
        monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")
        seen = pl.scan_iceberg(handle.table).sort("id").collect()
        assert handle.table.scan().to_arrow().num_rows == count
    assert seen["_timestamp"].null_count() == len(BEYOND)
    assert seen[OUT_OF_RANGE_COLUMN].null_count() == 3
    if division == ("_day",):
        parts = {dict(one.partition)["_day"]: one.rows for one in handle.live_files()}
        assert (parts[None], sorted(parts.values())) == (len(BEYOND), [1, 1, 2, len(BEYOND)])
    state = CurrentState(tables, tables.folder, NAME)
    assert state.refresh([FIRST]) is not None
    files = [str(Path(tables.folder) / state.table / path) for path in tables.open(state.table).live_paths()]
    with duckdb.connect() as connection:
        (found,) = connection.sql(
            f"select count(*), count({OUT_OF_RANGE_COLUMN}) from read_parquet({files})"
        ).fetchall()
    assert found == (10, 7)
