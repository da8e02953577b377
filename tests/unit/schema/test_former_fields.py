"""Fields of records that were renamed without an alias, over several versions."""

import json
import random

import pytest

from aggregator.schema.avro import Kind
from aggregator.schema.inherited_tags import with_inherited_tags
from aggregator.schema.registry import SchemaVersion
from tests.effort import turns

pytestmark = pytest.mark.slow


def record(name, *fields, aliases=()):
    """A record's schema; a field is a name, or a name and a type, or the whole of it."""
    made = [
        {"name": one, "type": "string"} if isinstance(one, str) else one if isinstance(one, dict) else named(*one)
        for one in fields
    ]
    return {"type": "record", "name": name, "fields": made, **({"aliases": [*aliases]} if aliases else {})}


def named(name, kind="string", *aliases, tags=()):
    """A field."""
    return {
        "name": name,
        "type": kind,
        **({"aliases": [*aliases]} if aliases else {}),
        **({"confluent:tags": [*tags]} if tags else {}),
    }


def array(items):
    """An array's schema."""
    return {"type": "array", "items": items}


def map_of(values):
    """A map's schema."""
    return {"type": "map", "values": values}


def closed(versions):
    """The ways of the last version's leaves that are tagged, on themselves or above, and of all."""
    earlier = [SchemaVersion("s-value", at, at, json.dumps(text)) for at, text in enumerate(versions[:-1], 1)]
    schema = with_inherited_tags(json.dumps(versions[-1]), (), earlier)
    found, every = set(), set()

    def walk(number, way, is_tagged, above):
        node = schema.nodes[number]
        is_tagged = is_tagged or bool(node.tags or node.inherited)
        if node.kind is Kind.RECORD:
            if number not in above:
                for item in node.fields:
                    inside = is_tagged or bool(item.tags or item.inherited)
                    walk(item.node, (*way, item.name), inside, above | {number})
        elif node.children:
            if node.kind is Kind.MAP and (is_tagged or node.inherited_keys):
                found.add((*way, "{key}"))
            for child in node.children:
                walk(child, way, is_tagged, above)
        elif node.kind is not Kind.NULL:
            every.add(way)
            if is_tagged:
                found.add(way)

    walk(schema.root, (), False, frozenset())
    return {".".join(way) for way in found}, {".".join(way) for way in every}


SSN = named("ssn", tags=["PII"])
# Versions, and the leaf of the last one that an earlier one tagged.
STAYS = {
    "renamed by a version that lacked the field": (
        [record("Order", "id", SSN), record("OrderV2", "id"), record("OrderV2", "id", "ssn")], "ssn"),
    "renamed twice by versions that lacked it": (
        [record("A", "id", SSN), record("B", "id"), record("C", "id"), record("C", "id", "ssn")], "ssn"),
    "renamed without it, and the field is renamed by an alias": (
        [record("A", "id", SSN), record("B", "id"), record("B", "id", ("no", "string", "ssn"))], "no"),
    "renamed without it, by a name that an alias of before said": (
        [record("A", "id", named("no", "string", "ssn", tags=["PII"])), record("B", "id"), record("B", "id", "ssn")],
        "ssn"),
    "renamed inside a list by a version that lacked it": (
        [record("R", ("a", array(record("A", "id", SSN)))), record("R", ("a", array(record("B", "id")))),
         record("R", ("a", array(record("B", "id", "ssn"))))], "a.ssn"),
    "a list of what was one, without it": (
        [record("R", ("a", record("A", "id", SSN))), record("R", ("a", array(record("B", "id")))),
         record("R", ("a", record("B", "id", "ssn")))], "a.ssn"),
    "renamed where it also moved": (
        [record("R", ("a", record("A", "id", SSN))), record("R", ("a", record("B", "id"))),
         record("R", ("z", record("B", "id", "ssn")))], "z.ssn"),
    "below what was renamed without it": (
        [record("R", ("a", record("A", "id", ("in", record("I", SSN))))), record("R", ("a", record("B", "id"))),
         record("R", ("a", record("B", "id", ("in", record("J", "ssn")))))], "a.in.ssn"),
    "in a list below what was renamed without it": (
        [record("R", ("a", record("A", ("in", array(record("I", SSN)))))), record("R", ("a", record("B"))),
         record("R", ("a", record("B", ("in", record("J", "ssn")))))], "a.in.ssn"),
    "one that took the place of two": (
        [record("R", ("a", record("A", SSN)), ("b", record("B", "ssn"))),
         record("R", ("c", record("B", "ssn"), "a", "b"))], "c.ssn"),
    "a list that took the place of two": (
        [record("R", ("a", array(record("A", SSN))), ("b", array(record("B", "ssn")))),
         record("R", ("c", array(record("B", "ssn")), "a", "b"))], "c.ssn"),
    "two that exchanged their names": (
        [record("R", ("a", record("A", SSN)), ("b", record("B", "ssn"))),
         record("R", ("a", record("B", "ssn"), "b"), ("b", "int", "a"))], "a.ssn"),
    "an alias that came a version later": (
        [record("R", ("x", record("T", SSN))), record("R", ("y", record("U", "ssn"))),
         record("R", ("y", record("U", "ssn"), "x"))], "y.ssn"),
    "of a list, an alias that came a version later": (
        [record("R", ("x", array(record("T", SSN)))), record("R", ("y", array(record("U", "ssn")))),
         record("R", ("y", array(record("U", "ssn")), "x"))], "y.ssn"),
    "of one that is a list now, an alias that came a version later": (
        [record("R", ("x", record("T", SSN))), record("R", ("y", array(record("U", "ssn")))),
         record("R", ("y", array(record("U", "ssn")), "x"))], "y.ssn"),
    "of tagged texts, an alias that came a version later": (
        [record("R", ("x", array({"type": "string", "confluent:tags": ["PII"]}))), record("R", "y"),
         record("R", ("y", "string", "x"))], "y"),
    "an alias of an alias that came a version later": (
        [record("R", ("x", record("T", SSN))), record("R", ("y", record("U", "ssn"))),
         record("R", ("z", record("U", "ssn"), "y")), record("R", ("z", record("U", "ssn"), "x"))], "z.ssn"),
    "a namespace that was there beside the former one": (
        [[record("m.A", SSN)], [record("m.A", SSN), record("n.A")], [record("n.A", "ssn")]], "ssn"),
    "a namespace that follows the former one": (
        [[record("m.A", SSN), record("m.B", "ssn")], [record("n.A", "ssn"), record("n.B", "ssn")]], "ssn"),
    "back under its first name, and what came between had the tag": (
        [record("R", ("x", record("A", "ssn"))), record("R", ("x", record("B", SSN))),
         record("R", ("x", record("A", "ssn")))], "x.ssn"),
    "by a name that an alias said before any tag, of a record that was renamed": (
        [record("A", ("no", "string", "ssn")), record("B", SSN), record("B", "no")], "no"),
    "keys of a map that are items now": (
        [record("R", ("x", array(record("C", SSN, "n")))), record("R", ("x", map_of(record("C", "n")))),
         record("R", ("x", array(record("E", "key", ("value", record("C", "n"))))))], "x.key"),
    "a record, a map, a list of pairs": (
        [record("R", ("x", record("A", SSN))), record("R", ("x", map_of("string"))),
         record("R", ("x", array(record("E", "key", "value"))))], "x.key"),
}  # fmt: skip


@pytest.mark.parametrize("shape", STAYS)
def test_a_type_that_took_anothers_place_is_that_type_for_good(shape):
    """Whichever version first has the field again."""
    versions, leaf = STAYS[shape]
    assert leaf in closed(versions)[0]


# Versions, and the leaf of the last one that stays open.
APART = {
    "a branch that stood beside the tagged one": (
        [record("R", ("c", [record("A", SSN), record("B", "ssn")])), record("R", ("c", [record("B", "ssn"), "int"]))],
        "c.ssn"),
    "such a branch, renamed field": (
        [record("R", ("c", [record("A", SSN), record("B", "ssn")])),
         record("R", ("d", [record("B", "ssn"), "int"], "c"))], "d.ssn"),
    "such a branch, renamed field, later": (
        [record("R", ("c", [record("A", SSN), record("B", "ssn")])),
         record("R", ("d", [record("A", SSN), record("B", "ssn")], "c")),
         record("R", ("d", [record("B", "ssn"), "int"], "c"))], "d.ssn"),
    "such a branch in a list": (
        [record("R", ("c", array([record("A", SSN), record("B", "ssn")]))),
         record("R", ("c", array([record("B", "ssn"), "int"])))], "c.ssn"),
    "another branch of the same name elsewhere": (
        [record("R", ("c", [record("m.A", SSN), record("n.A", "ssn")])),
         record("R", ("c", [record("n.A", "ssn"), "int"]))], "c.ssn"),
    "a new branch beside the tagged one": (
        [record("R", ("c", [record("A", SSN)])), record("R", ("c", [record("A", SSN), record("B", "no")]))], "c.no"),
    "another field of what was renamed": (
        [record("A", "id", SSN), record("B", "id"), record("B", "id", "ssn")], "id"),
    "a type that replaces one without tags": (
        [record("R", ("a", record("A", "id")), SSN), record("R", ("a", record("B", "id")), SSN),
         record("R", ("a", record("B", "id", "no")), SSN)], "a.no"),
    "what its type was tagged with after it was replaced": (
        [record("R", SSN, ("a", record("A", "no")), ("b", "A")),
         record("R", SSN, ("a", record("B")), ("b", record("A", "no"))),
         record("R", SSN, ("a", record("B")), ("b", record("A", named("no", tags=["PII"])))),
         record("R", SSN, ("a", record("B", "no")))], "a.no"),
}  # fmt: skip


@pytest.mark.parametrize("shape", APART)
def test_what_a_version_had_beside_the_tagged_one_stays_open(shape):
    """Types that one version tells apart, fields that were not tagged, and what was tagged too late."""
    versions, leaf = APART[shape]
    tagged, every = closed(versions)
    assert leaf in every - tagged


class _Field:
    """A field for ever: its names, what it holds, and whether its names of all versions are known to be one."""

    def __init__(self, name, records=()):
        self.name, self.records = name, list(records)
        self.said, self.unsaid, self.wrapped = set(), set(), 0
        self.is_there, self.was_tagged, self.tags_now = True, False, False


class _Record:
    """A record for ever."""

    def __init__(self, name, fields):
        self.name, self.fields, self.aliases = name, fields, []


class _History:
    """Draws versions of a subject; every record and field keeps its identity, whatever it is called.

    Args:
        draw: Where chance comes from.
    """

    def __init__(self, draw):
        self._draw, self._count = draw, 0
        self.root = self._record(0)

    def _name(self, letter):
        self._count += 1
        return f"{letter}{self._count}"

    def _record(self, depth):
        fields = []
        for _ in range(self._draw.randint(1, 4 - depth)):
            inner = (
                [self._record(depth + 1) for _ in range(self._draw.randint(1, 2))]
                if self._draw.random() < 0.4 and depth < 3
                else ()
            )
            fields.append(_Field(self._name("f"), inner))
        return _Record(self._name("R"), fields)

    def records(self, record=None):
        """All that stand in this version."""
        record = record or self.root
        yield record
        for one in record.fields:
            if one.is_there:
                for inner in one.records:
                    yield from self.records(inner)

    def change(self):
        """What the next version does to the one before."""
        chance = self._draw.random
        for record in list(self.records()):
            record.aliases = []
            if chance() < 0.25:
                former, record.name = record.name, self._name("R")
                if chance() < 0.3:
                    record.aliases = [former]
                elif chance() < 0.3:
                    record.name = f"ns{self._count}.{former.rpartition('.')[2]}"
            for one in record.fields:
                one.tags_now, one.said = False, set()
                if chance() < 0.15:
                    one.is_there = not one.is_there
                if one.is_there:
                    self._change(one)

    def _change(self, one):
        chance = self._draw.random
        if one.unsaid and chance() < 0.5:
            one.said, one.unsaid = one.unsaid, set()
        if chance() < 0.15:
            former, one.name = one.name, self._name("f")
            (one.unsaid if chance() < 0.3 else one.said).add(former)
        if chance() < 0.1:
            one.wrapped = self._draw.randint(0, 2)
        if not one.records and chance() < 0.15:
            one.tags_now = one.was_tagged = True

    def text(self):
        """The version."""
        return self._text(self.root)

    def _text(self, record):
        fields = []
        for one in record.fields:
            if one.is_there:
                kind = (
                    [self._text(inner) for inner in one.records]
                    if one.records
                    else self._draw.choice(["string", "long"])
                )
                kind = {0: lambda k: k, 1: array, 2: map_of}[one.wrapped](kind)
                fields.append(named(one.name, kind, *sorted(one.said), tags=["PII"] if one.tags_now else ()))
        return {"type": "record", "name": record.name, "fields": fields, "aliases": record.aliases}

    def tagged(self, record=None, way=()):
        """The ways of leaves that some version tagged, and whose names of all versions are said to be one."""
        for one in (record or self.root).fields:
            if one.is_there and not one.unsaid:
                if one.was_tagged:
                    yield ".".join((*way, one.name))
                for inner in one.records:
                    yield from self.tagged(inner, (*way, one.name))


@pytest.mark.parametrize("_turn", turns(2, 20))
def test_whatever_versions_do_to_a_field_it_stays_tagged(_turn):
    """Records are renamed with and without an alias, fields with one, at once or later; they go and come back."""
    seed = random.SystemRandom().randrange(10**9)
    for number in range(40):
        history = _History(random.Random(seed + number))
        versions = [history.text()]
        for _ in range(6):
            history.change()
            versions.append(history.text())
            missing = set(history.tagged()) - closed(versions)[0]
            assert not missing, (seed + number, missing, json.dumps(versions))
