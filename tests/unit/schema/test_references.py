"""References between schemas become one text."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.errors import DeadLetterError, Unreachable
from aggregator.schema.avro import Kind, parse
from aggregator.schema.references import self_contained
from aggregator.schema.registries import open_registry
from aggregator.schema.registry import SchemaVersion, UnknownSchema
from aggregator.schema.version_order import history

COUNTRY = '{"type":"enum","name":"Country","namespace":"geo","symbols":["DE","PL"]}'
ADDRESS = (
    '{"type":"record","name":"Address","namespace":"geo","fields":['
    '{"name":"street","type":"string","confluent:tags":["PII"]},{"name":"country","type":"Country"}]}'
)
ORDER = (
    '{"type":"record","name":"Order","namespace":"shop","fields":['
    '{"name":"to","type":"geo.Address"},{"name":"from","type":["null","geo.Address"]},'
    '{"name":"via","type":{"type":"array","items":"geo.Country"}}]}'
)


def reference(name, subject, version=1):
    """As the API writes it."""
    return {"name": name, "subject": subject, "version": version}


@pytest.fixture
def chain(double):
    double.add("country", COUNTRY)
    double.add("address", ADDRESS, references=[reference("geo.Country", "country")])
    refers = [reference("geo.Address", "address"), reference("geo.Country", "country")]
    return double.add("orders-value", ORDER, references=refers)


def test_a_chain_of_references_becomes_one_schema(double, chain):
    """Each type is written where it is first named and named afterwards; tags come along; the parser reads it."""
    text = open_registry(double.address).schema(chain)
    order = json.loads(text)
    to, origin, via = (field["type"] for field in order["fields"])
    assert to["name"] == "Address"
    assert to["namespace"] == "geo"
    assert to["fields"][0]["confluent:tags"] == ["PII"]
    assert to["fields"][1]["type"]["symbols"] == ["DE", "PL"]
    assert origin == ["null", "geo.Address"]
    assert via == {"type": "array", "items": "geo.Country"}
    assert [node.name for node in parse(text).nodes if node.kind in (Kind.RECORD, Kind.ENUM)] == [
        "shop.Order",
        "geo.Address",
        "geo.Country",
    ]


def test_versions_of_a_subject_with_references_are_whole(double, chain):
    """Listings show what would be compiled."""
    registry = open_registry(double.address)
    assert registry.versions("orders-value")[0].text == registry.schema(chain)


def test_a_reference_that_is_not_there_holds_the_flow(double):
    """The schema is known and cannot be read: nothing becomes a dead letter, nothing passes."""
    double.add("orders-value", ORDER, references=[reference("geo.Address", "address", 3)])
    with pytest.raises(Unreachable, match="address version 3"):
        open_registry(double.address).schema(1)
    with pytest.raises(UnknownSchema):
        open_registry(double.address).schema(2)


def test_references_in_a_circle_end(double):
    """Each version is fetched once."""
    double.add("a", '"string"', references=[reference("b", "b")])
    double.add("b", '{"type":"fixed","name":"b","size":1}', references=[reference("a", "a")])
    assert open_registry(double.address).schema(1) == '"string"'


CASES = [
    pytest.param('"n.F"', '{"type":"fixed","name":"F","namespace":"n","size":3}', "n.F", id="the whole schema"),
    pytest.param(
        '{"type":"record","name":"a.R","fields":[{"name":"f","type":"F"}]}',
        '{"type":"fixed","name":"F","size":3}',
        "F",
        id="no namespace, named from within one",
    ),
    pytest.param(
        '{"type":"map","values":{"type":"n.F","confluent:tags":["PII"]}}',
        '["null",{"type":"record","name":"n.O","fields":[{"name":"i","type":{"type":"fixed","name":"F","size":3}}]}]',
        "n.F",
        id="a type inside another one, tagged in use",
    ),
]


@pytest.mark.parametrize(("text", "other", "name"), CASES)
def test_names_keep_their_namespaces(text, other, name):
    """A type means the same where it is written into another namespace."""
    nodes = parse(self_contained(text, [other])).nodes
    assert {node.size for node in nodes if node.kind is Kind.FIXED and node.name == name} == {3}


def test_a_recursive_type_is_written_once():
    """A type that names itself does so in the result too."""
    other = '{"type":"record","name":"L","fields":[{"name":"next","type":["null","L"]}]}'
    text = self_contained('{"type":"array","items":"L"}', [other])
    assert text.count('"fields"') == 1
    parse(text)


@pytest.mark.parametrize("other", ["{", "[" * 200 + "]" * 200])
def test_senseless_texts_are_refused(other):
    """Not JSON, or nested beyond reason: a dead letter, no crash."""
    with pytest.raises(DeadLetterError):
        self_contained('"string"', [other])


WORDS = st.sampled_from(["record", "enum", "fixed", "array", "map", "string", "A", "n.B", ""])
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | WORDS
PARTS = st.sampled_from(["type", "name", "namespace", "fields", "items", "values", "symbols", "aliases", "size"])
SHAPES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(PARTS, inner), max_leaves=12)


@given(SHAPES, st.lists(SHAPES, min_size=1, max_size=3))
def test_whatever_a_text_holds_it_is_made_whole_or_refused(shape, others):
    """A registry answers with any JSON; what is no schema is the compiler's to refuse, never our own error."""
    self_contained(json.dumps(shape), [json.dumps(other) for other in others])


def test_a_type_in_a_type_is_read_as_one():
    """Avro allows an object where a type's name stands."""
    text = '{"type":"record","name":"R","fields":[{"name":"a","type":{"type":{"type":"array","items":"geo.Country"}}}]}'
    assert [node.name for node in parse(self_contained(text, [COUNTRY])).nodes if node.kind == Kind.ENUM] == [
        "geo.Country"
    ]


def test_versions_that_refer_to_each_other_in_turn_are_ordered_however_many():
    """Two subjects, each version refers to the one before in the other: deeper than Python calls may go."""
    known: dict[str, dict[int, SchemaVersion]] = {"a": {}, "b": {}}
    for version in range(1, 3_001):
        refers = (("a", version - 1),) if version > 1 else ()
        known["b"][version] = SchemaVersion("b", version, version, "{}", refers=refers)
        known["a"][version] = SchemaVersion("a", version, -version, "{}", refers=(("b", version),))
    found = history(known, "a", 3_000)
    assert [(one.subject, one.version) for one in found] == [(at, n) for n in range(1, 3_001) for at in "ba"]
    assert {(one.subject, one.is_referenced) for one in found} == {("a", False), ("b", True)}
    alone = {
        "a": {n: SchemaVersion("a", n, n, "{}", refers=(("a", n + 1),) if n < 3_000 else ()) for n in range(1, 3_001)}
    }
    assert [one.version for one in history(alone, "a", 3_000)] == list(range(3_000, 0, -1))
