"""Values to columns: both decoders agree, rows keep their order, and nothing undecodable passes or is quoted."""

import datetime as dt
import decimal
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aggregator.errors import HoldError
from aggregator.kafka.readers.committed_reader import CommittedRecords
from aggregator.lake.columns.columns import FIXED_COLUMNS, arrow_schema
from aggregator.lake.columns.decode import BatchDecoder, Decoder, RecordHeld, Undecodable
from aggregator.lake.columns.origin_headers import origin_columns
from aggregator.lake.columns.out_of_range import OUT_OF_RANGE_COLUMN
from tests.effort import examples
from tests.unit.lake.avro_samples import framed, framed_values

LINE = {"type": "record", "name": "Line", "fields": [{"name": "sku", "type": "string"}, {"name": "n", "type": "int"}]}
ORDER = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "_offset", "type": ["null", "string"]},
            {"name": "state", "type": ["null", {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}]},
            {"name": "before", "type": {"type": "array", "items": "State"}},
            {"name": "lines", "type": {"type": "map", "values": LINE}},
            {"name": "gift", "type": ["null", "shop.Line"]},
            {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
            {"name": "day", "type": {"type": "int", "logicalType": "date"}},
            {"name": "wait", "type": {"type": "fixed", "name": "Wait", "size": 12, "logicalType": "duration"}},
        ],
    }
)
ORDER_ROW = {
    "id": 5,
    "_offset": "x",
    "state": "PAID",
    "before": ["NEW", "PAID"],
    "lines": {"a": {"sku": "s", "n": -1}},
    "gift": {"sku": "g", "n": 2},
    "price": decimal.Decimal("-1.25"),
    "day": dt.date(1969, 12, 31),
    "wait": bytes(range(12)),
}
SIMPLE = json.dumps({"type": "record", "name": "S", "fields": [{"name": "text", "type": "string"}]})
UNION = json.dumps(
    {"type": "record", "name": "U", "fields": [{"name": "u", "type": ["null", "int", "long", "double"]}]}
)


def batch(values: list[bytes | None], origins: list[bytes | None] | None = None) -> CommittedRecords:
    count = len(values)
    offsets = [10 + 2 * index for index in range(count)]
    return CommittedRecords("eu.orders", 1, offsets, [1_000] * count, [b"k"] * count, values, origins or [None] * count)


@given(framed_values(unions=False))
@settings(max_examples=examples(60))
@pytest.mark.slow
def test_both_decoders_give_the_same_table(case):
    """Polars and fastavro give equal tables of the declared types for every shape that polars is trusted with."""
    text, values = case
    assert Decoder.of(text).engine == "polars"
    polars, fastavro = (Decoder.of(text, engine).columns(values) for engine in ("polars", "fastavro"))
    polars.validate(full=True)
    fastavro.validate(full=True)
    assert polars.schema == fastavro.schema
    assert polars.equals(fastavro)
    declared = list(arrow_schema(text))[len(FIXED_COLUMNS) :]
    assert list(polars.schema) == declared


@given(framed_values(unions=True))
@settings(max_examples=examples(40))
@pytest.mark.slow
def test_unions_of_several_branches_decode(case):
    """Whatever holds such a union decodes to valid columns of the declared types."""
    text, values = case
    table = Decoder.of(text).columns(values)
    table.validate(full=True)
    assert table.num_rows == len(values)
    assert list(table.schema) == list(arrow_schema(text))[len(FIXED_COLUMNS) :]


@pytest.mark.parametrize("engine", ["polars", "fastavro"])
def test_values_arrive_as_written(engine):
    """Native values equal what the writer wrote; a field named like a fixed column gets a prefix."""
    (row,) = Decoder.of(ORDER, engine).columns([framed(ORDER, ORDER_ROW)]).to_pylist()
    expected = ORDER_ROW | {"f__offset": "x", "lines": [("a", {"sku": "s", "n": -1})]}
    del expected["_offset"]
    assert row == expected


def test_a_union_becomes_a_struct_of_its_branches():
    """The branch comes from the wire: an int and a long of one value stay apart."""
    values = [framed(UNION, {"u": one}) for one in (None, 7, 2**40, 1.5)]
    assert Decoder.of(UNION).engine == "fastavro"
    assert Decoder.of(UNION).columns(values).column("u").to_pylist() == [
        None,
        {"int": 7, "long": None, "double": None},
        {"int": None, "long": 2**40, "double": None},
        {"int": None, "long": None, "double": 1.5},
    ]


@pytest.mark.parametrize("engine", ["polars", "fastavro"])
@pytest.mark.parametrize("spoil", [lambda body: body + b"\2", lambda body: body[:-1], lambda _: b"\xff" * 11])
def test_a_body_of_another_length_is_refused(engine, spoil):
    """A body too long or too short for its schema never shifts its neighbours' values."""
    good = [framed(SIMPLE, {"text": one}) for one in ("aa", "bb", "cc")]
    for place in range(3):
        values = list(good)
        values[place] = values[place][:5] + spoil(values[place][5:])
        with pytest.raises(Undecodable):
            Decoder.of(SIMPLE, engine).columns(values)


def test_padded_decimals_are_read():
    """A decimal with more leading bytes than polars takes goes through the other decoder instead of being held."""
    text = json.dumps(
        {"type": "record", "name": "D", "fields": [{"name": "d", "type": json.loads(ORDER)["fields"][6]["type"]}]}
    )
    value = b"\0\0\0\0\7" + bytes([40]) + b"\xff" * 20
    assert Decoder.of(text).columns([value]).column("d").to_pylist() == [decimal.Decimal("-0.01")]


def test_rows_keep_central_order_across_schemas_and_tombstones():
    """Several schemas and tombstones of one batch are rows in central order, with nulls where they differ."""
    texts = {7: SIMPLE, 8: ORDER}
    values = [framed(SIMPLE, {"text": "a"}), None, framed(ORDER, ORDER_ROW, 8), framed(SIMPLE, {"text": "b"})]
    origins = [b"hub/eu/orders/3/17/2", None, b"not an origin", b"hub/eu/orders/3/18/2"]
    table = BatchDecoder(texts.__getitem__).table(batch(values, origins))
    assert table.column("text").to_pylist() == ["a", None, None, "b"]
    assert table.column("id").to_pylist() == [None, None, 5, None]
    assert table.column("_deleted").to_pylist() == [False, True, False, False]
    assert table.column("_central_offset").to_pylist() == [10, 12, 14, 16]
    assert table.column("_offset").to_pylist() == [17, None, None, 18]
    assert table.column("_incarnation").to_pylist() == [2, None, None, 2]
    assert table.column("_edge").to_pylist() == ["eu", None, None, "eu"]
    assert table.schema.field("_timestamp").type == FIXED_COLUMNS.field("_timestamp").type


@pytest.mark.parametrize("bad", [b"canary-no-frame", b"\0\0\0\0\7\x60canary", b"", b"\0\0\0\0\x09canary"])
def test_what_does_not_decode_is_named_without_its_content(bad):
    """The error has the offset, which its holder tells with the partition, and nothing of the record."""
    values = [framed(SIMPLE, {"text": "a"}), bad, framed(SIMPLE, {"text": "b"})]

    def schema_text(schema_id: int) -> str:
        if schema_id != 7:
            raise HoldError(f"schema id {schema_id} is not there")
        return SIMPLE

    with pytest.raises(RecordHeld, match=r"its record (does not|is not|has schema)") as caught:
        BatchDecoder(schema_text).table(batch(values))
    assert caught.value.offset == 12
    assert "canary" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert batch(values).before(12).offsets == [10]


def test_a_value_outside_its_native_type_is_null_and_told():
    """A timestamp that microseconds cannot hold stops nothing: its record stays, and so does the number."""
    text = json.dumps(
        {
            "type": "record",
            "name": "T",
            "fields": [{"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}}],
        }
    )
    plain = json.dumps({"type": "record", "name": "T", "fields": [{"name": "at", "type": "long"}]})
    table = BatchDecoder({7: text}.__getitem__).table(batch([framed(plain, {"at": at}) for at in (0, 2**62)]))
    assert table["at"].to_pylist() == [dt.datetime(1970, 1, 1, tzinfo=dt.UTC), None]
    assert table[OUT_OF_RANGE_COLUMN].to_pylist() == [None, json.dumps({"at": 2**62})]


parts = st.sampled_from(["hub", "eu", "orders", "0", "7", "12", "", "x", "-1", "99999999999"])
header = st.one_of(
    st.lists(parts, min_size=4, max_size=7).map("/".join), st.integers(0, 999).map("h/eu/t/0/{}/0".format)
)


@given(
    st.lists(st.one_of(header.map(str.encode), st.sampled_from([None, b"\xff/eu/t/0/1/0", b"h/eu/t/0/0"])), min_size=1)
)
@pytest.mark.slow
def test_origins_are_read_alike_whether_they_are_alike_or_not(headers):
    """A batch whose origins differ in the offset only takes a shorter way to the same columns."""
    together = [column.to_pylist() for column in origin_columns(headers)]
    alone = [[column[0].as_py() for column in origin_columns([one, None])] for one in headers]
    assert together == [list(column) for column in zip(*alone, strict=True)]


def test_origins_of_one_edge_partition():
    """The usual batch."""
    columns = origin_columns([b"h/eu/t/3/%d/1" % offset for offset in range(3)])
    assert [column.to_pylist() for column in columns] == [["eu"] * 3, ["t"] * 3, [3] * 3, [0, 1, 2], [1] * 3]
