"""How values are written, as a sample tells: the narrowest format in which all of them can be read."""

import json
import time
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.privacy.batch.strip import Batch
from aggregator.privacy.fields.paths import steps
from aggregator.privacy.fields.value_format import ValueFormat
from aggregator.privacy.json.sampled import parts
from aggregator.privacy.kernel.strip import KernelStrip
from aggregator.privacy.policy.file import parse_policy
from aggregator.privacy.review.sniff import schema_of, sniffed
from aggregator.schema.memory import MemoryRegistry
from aggregator.schema.wire import VALUE_ID_HEADER, Framing, frame
from tests.unit.privacy.conftest import TODAY

SCHEMA = '{"type":"record","name":"R","fields":[{"name":"a","type":"long"}]}'
AVRO, JSON, TEXT, BYTES = ValueFormat


def _registry():
    registry = MemoryRegistry()
    return registry, registry.register("orders-value", SCHEMA)


def _sniffed(*values, has_schema=False, headers=()):
    registry, known = _registry()
    made = [value.replace(b"<id>", b"\0" + known.to_bytes(4, "big")) for value in values]
    return sniffed([(one, list(headers)) for one in made], registry, has_schema=has_schema)


CASES = [
    ([b"<id>\2", b"<id>\4"], AVRO),
    ([b'{"a": 1}', b"[]", b' {"b": {}}\n'], JSON),
    ([b'{"a": 1}', b"[1"], TEXT),
    ([b'{"a": 1, "a": 2}'], TEXT),
    ([b"17", b"18"], TEXT),
    ([b'"jane"'], TEXT),
    ([b"null"], TEXT),
    ([b""], TEXT),
    (["Żółć\r\n\tx".encode(), b"\x1b[31mred"], TEXT),
    ([b"line", b"\xff"], BYTES),
    ([b"\x0a\x04jane"], BYTES),
    ([b"\x0ajane"], TEXT),
    ([b"\x0a\x04jane\x10\x01"], BYTES),
    ([b"\0\0\0\0\x63x"], BYTES),
    ([b"\0\0\0\x18ftypmp42"], BYTES),
    ([b"\x89PNG\r\n\x1a\n\0"], BYTES),
]


@pytest.mark.parametrize(("values", "form"), CASES)
def test_what_values_are(values, form):
    """By all of a sample; a file that begins like a frame names no schema that the registry has."""
    assert _sniffed(*values).value_format is form


@given(st.lists(st.binary(max_size=12) | st.sampled_from([b"<id>\2", b"{}", b"[1]", b"x"]), min_size=1, max_size=5))
def test_nothing_of_a_sample_is_a_dead_letter_under_its_format(values):
    """Under the format that is told the strip reads every value of the sample, but Avro beside anything else."""
    registry, known = _registry()
    values = [value.replace(b"<id>", b"\0" + known.to_bytes(4, "big")) for value in values]
    found = sniffed([(value, []) for value in values], registry, has_schema=False)
    policy = f"policy: p\nversion: 1\ntopics: {{orders: {{value_format: {found.value_format}}}}}\n"
    strip = KernelStrip(policy=parse_policy(policy), edge_topic="orders", central_topic="eu.orders",
                        edge_registry=registry, central_registry=MemoryRegistry(), key_rings={},
                        today=lambda: TODAY, now_s=time.monotonic)  # fmt: skip
    out = strip.strip(Batch([None] * len(values), values, [None] * len(values)))
    if found.value_format is AVRO:
        assert len(out.rejected) < len(values) or not found.note
    else:
        assert out.rejected == {}


def test_what_somebody_should_know():
    """Values beside Avro, a schema that no value names, one under another subject, and nothing at all."""
    assert _sniffed(b"<id>\2", b"text", has_schema=True).note == "1 of 2 sampled values name no schema: dead letters"
    assert _sniffed(b"text", has_schema=True) == (TEXT, "the registry has a schema, but no sampled value names it")
    assert _sniffed(b"<id>\2") == (AVRO, "their schema is under another subject")
    assert _sniffed(b"<id>\2", has_schema=True) == (AVRO, "")
    assert _sniffed(has_schema=True) == (AVRO, "")
    assert _sniffed() == (None, "")


def test_avro_of_another_registry_is_asked_about():
    """Somebody who named the wrong registry would take all topics for bytes; a file may begin in the same way."""
    asked = "they begin like Avro, but the registry has no schema id 99: is it this edge's registry?"
    assert _sniffed(b"\0\0\0\0\x63x", b"\0\0\0\0\x63y") == (BYTES, asked)
    assert _sniffed(b"\0\0\0\0\x63x", has_schema=True) == (BYTES, asked)
    many = [b"\0\0\0\0" + bytes([number]) for number in range(90, 95)]
    assert "no schema id 90, 91, 92, …:" in _sniffed(*many).note
    assert _sniffed(b"\0\0\0\0\x63x", b"\x89PNG\r\n\x1a\n\0").note == ""


def test_what_can_be_no_id_is_not_told():
    """It is four bytes of a value, and the note goes into a policy file and to a terminal."""
    jane = int.from_bytes(b"jane")
    assert _sniffed(b"\0jane.doe@example.com").note == ""
    both = _sniffed(b"\0\0\0\0\x63x", b"\0jane.doe@example.com").note
    assert "no schema id 99, …:" in both
    assert str(jane) not in both


def test_a_header_names_the_schema_too():
    """Confluent's wire format 1: the value begins with its body."""
    registry, known = _registry()
    headers = [(VALUE_ID_HEADER, frame(known, b""))]
    assert schema_of(b"\2", headers, registry) == (SCHEMA, b"\2")
    assert schema_of(b"\2", [(VALUE_ID_HEADER, b"x")], registry) is None
    unknown = [(VALUE_ID_HEADER, b"\1" + UUID(int=7).bytes)]
    assert schema_of(b"\2", unknown, registry) is None


class _Glue(MemoryRegistry):
    """A registry whose records are framed as AWS's serialisers do."""

    framing = Framing.GLUE

    def number(self, guid):
        return guid.int


def test_records_of_aws_glue_are_avro():
    """By the UUID in their frame."""
    registry = _Glue()
    known = registry.register("orders-value", SCHEMA)
    framed = b"\3\0" + UUID(int=known).bytes + b"\2"
    assert schema_of(framed, [], registry) == (SCHEMA, b"\2")
    assert sniffed([(framed, [])], registry, has_schema=True) == (AVRO, "")
    assert sniffed([(framed[:-10], [])], registry, has_schema=True).value_format is BYTES


def _places(*records):
    return {part.path: (part.values, "|".join(part.types)) for part in parts(list(records))}


def test_parts_of_json_are_named_as_a_policy_names_them():
    """Objects, arrays, several types in one place; a null alone is told as one."""
    one = {"id": 1, "at": {"lat": 1.5}, "tags": ["a", {"n": True}], "no": None, "x": "s"}
    assert _places(one, one | {"x": 7, "no": None}, one) == {
        "id": ((1, 1, 1), "integer"),
        "at.lat": ((1.5, 1.5, 1.5), "number"),
        "tags[]": (("a", "a", "a"), "string"),
        "tags[].n": ((True, True, True), "boolean"),
        "no": ((), "null"),
        "x": (("s", 7, "s"), "integer|string"),
    }
    assert _places(["a"], 3) == {"": ((3,), "integer"), "[]": (("a",), "string")}


def test_names_that_are_data_are_not_told():
    """What does not look like a word, and what most objects do not have."""
    records = [{"id": 1, f"user{n}": n, f"p{n}@x.example": {"n": n}, "": 0, "a.b": 1, "[]": 2} for n in range(4)]
    found = _places(*records)
    assert found.keys() == {"id", "{key}", "{}", "{}.n"}
    assert "user3" in found["{key}"][0]


WORDS = st.sampled_from(["a", "b", "jane@example.com", "x.y", "*", "{}", "{key}", "[]", ""])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=10,
)


@given(st.lists(VALUES, max_size=4))
def test_every_path_is_one_and_every_scalar_is_somewhere(records):
    """Each path can be written into a policy, and no value is lost."""
    found = list(parts(records))
    assert len({part.path for part in found}) == len(found)
    for part in found:
        assert part.path == "" or steps(part.path)

    def scalars(value):
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
        return [value] if inner is None else [one for part in inner for one in scalars(part)]

    told = [value for part in found if not part.path.endswith("{key}") for value in part.values]
    expected = [value for record in records for value in scalars(record) if value is not None]
    assert sorted(map(json.dumps, told)) == sorted(map(json.dumps, expected))
