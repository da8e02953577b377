"""Places of schemas: every way to a leaf once, and never more of them than a schema may mean."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.budgets import SCHEMA_NODES
from aggregator.cli import leaves as module
from aggregator.cli.leaves import leaves, value_leaves
from aggregator.errors import DeadLetterError
from aggregator.privacy.fields import paths
from aggregator.privacy.review.places import places
from aggregator.privacy.review.suggest import _Reading, suggestions
from aggregator.schema.avro import Kind, parse
from aggregator.schema.memory import MemoryRegistry

LEAF = {"type": "record", "name": "A0", "fields": [{"name": "mail", "type": "string"}]}


def record(name: str, **fields) -> dict:
    return {"type": "record", "name": name, "fields": [{"name": key, "type": kind} for key, kind in fields.items()]}


def doubling(count: int) -> str:
    """Each record names the one before it twice: some kilobytes mean 2 ** count places."""
    made = {"f0": LEAF} | {f"f{n}": record(f"A{n}", l=f"A{n - 1}", r=f"A{n - 1}") for n in range(1, count)}
    return json.dumps(record("R", **made))


def chain(count: int) -> str:
    """Each record holds the one before it, so that the last one is as deep as there are records."""
    return json.dumps(record("R", f0=LEAF, **{f"f{n}": record(f"A{n}", l=f"A{n - 1}") for n in range(1, count)}))


def complete(count: int) -> str:
    """A record with so many fields of itself, each with a tag of its own."""
    own = [{"name": f"c{n}", "type": ["null", {"type": "Q", "confluent:tags": [f"T{n}"]}]} for n in range(count)]
    return json.dumps({"type": "record", "name": "Q", "fields": [*own, {"name": "s", "type": "string"}]})


def tagged(tags: int, fields: int) -> str:
    """Each of the fields inherits all tags of the record."""
    text = json.loads(json.dumps(record("R", **{f"f{n}": "int" for n in range(fields)})))
    return json.dumps(text | {"confluent:tags": [f"T{n}" for n in range(tags)]})


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [doubling(40), complete(40), chain(6000), tagged(4000, 4000)],
    ids=["doubling", "complete", "chain", "tagged"],
)
def test_a_small_schema_that_means_more_than_memory_holds_is_refused(text, caplog):
    """By whatever looks for its places, and by name where there are others."""
    for look in (lambda: suggestions(text, []), lambda: leaves(parse(text))):
        with pytest.raises(DeadLetterError, match="it means more places than 50,000, or more than"):
            look()
    registry = MemoryRegistry()
    registry.register("orders-value", json.dumps(LEAF))
    registry.register("orders-value", text)
    found = value_leaves(registry, "orders")
    assert "mail" in {one.path for one in found}
    assert "orders-value version 2: " in caplog.text


def test_versions_share_one_budget(monkeypatch, caplog):
    """A subject of a thousand versions is looked at for as long as a few of them may take; the newest come first."""
    monkeypatch.setattr(module, "SCHEMA_NODES", SCHEMA_NODES._replace(limit=100))
    registry, wide = MemoryRegistry(), {f"w{n}": "null" for n in range(90)}
    for version in range(8):
        registry.register("orders-value", json.dumps(record("R", **wide, **{f"v{version}": "string"})))
    found = {one.path for one in value_leaves(registry, "orders")}
    assert "v7" in found
    assert "v0" not in found
    assert "orders-value: versions up to 3 mean too many places with the others" in caplog.text


def defined(schema, number: int, path: str, tags: frozenset[str], above: tuple[int, ...]):
    """The places of a schema, by their definition: (path, tags, whether they are keys)."""
    node = schema.nodes[number]
    if number in above:
        return
    tags, above = tags | node.tags, (*above, number)
    if node.kind is Kind.MAP:
        yield paths.join(path, paths.KEYS), tags, True
    for one in node.fields:
        yield from defined(schema, one.node, paths.join(path, one.name), tags | one.tags, above)
    for child in node.children:
        step = {Kind.ARRAY: paths.ITEMS, Kind.MAP: paths.VALUES}.get(node.kind)
        yield from defined(schema, child, path if step is None else paths.join(path, step), tags, above)
    if node.kind not in (Kind.RECORD, Kind.UNION, Kind.ARRAY, Kind.MAP):
        yield path, tags, False


TYPES = st.recursive(
    st.sampled_from(["string", "long", "null", "Top"]),
    lambda inner: st.one_of(
        inner.map(lambda one: {"type": "array", "items": one, "confluent:tags": ["A"]}),
        inner.map(lambda one: {"type": "map", "values": one}),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda some: [one for n, one in enumerate(some) if isinstance(one, str) and one not in some[:n]] or ["long"]
        ),
    ),
    max_leaves=6,
)


@given(st.lists(TYPES, min_size=1, max_size=5))
def test_places_are_those_of_their_definition(types):
    """Over nested, shared and recursive types: the same places, in the same order."""
    fields = [{"name": f"f{n}", "type": one, "confluent:tags": [f"T{n}"]} for n, one in enumerate(types)]
    schema = parse(json.dumps({"type": "record", "name": "Top", "fields": fields}))
    expected = list(defined(schema, schema.root, "", frozenset(), ()))
    assert [(one.path, one.tags, one.is_key) for one in places(schema)] == expected


def test_a_record_in_many_unions_has_its_names_once():
    """A thousand fields that may each hold the record itself: names are not kept for each of them."""
    fields = [{"name": f"c{n}", "type": ["null", "Q"]} for n in range(1000)]
    schema = parse(json.dumps({"type": "record", "name": "Q", "fields": [*fields, {"name": "mail", "type": "string"}]}))
    reading = _Reading(schema)
    value = dict.fromkeys(f"c{n}" for n in range(1000)) | {"mail": "a"}
    told = list(reading.values(schema.root, value | {"c5": value}, ""))
    assert told == [("c5.mail", "a"), ("mail", "a")]
    assert len({id(names) for one in reading._branches.values() for names in one._records}) == 1


def test_values_of_a_wide_union_are_told_by_their_branch():
    """Records are told apart by the names of their fields, and a map takes what no record before it is."""
    records = [record(f"R{n}", **{f"mail{n}": "string"}) for n in range(300)]
    union = [*records, {"type": "map", "values": "string"}, record("Late", email="string"), "long", "string"]
    text = json.dumps(record("Top", items={"type": "array", "items": union}))
    mails = [{f"mail{n}": "jane@x.example"} for n in (0, 150, 299)]
    found = {
        one.path: one for one in suggestions(text, [{"items": [*mails, {"email": "a@x.example"}, 5, "b@x.example"]}])
    }
    assert [found[f"items[].mail{n}"].values for n in (0, 150, 299)] == [1, 1, 1]
    assert found["items[].{}"].values == 1, "it is a map's, which stands before the record"
    assert found["items[]"].values == 2
