"""Fields of records that were renamed without an alias, over several versions."""

import json
import random

import pytest

from aggregator.schema.inherited_tags import with_inherited_tags
from aggregator.schema.registry import SchemaVersion
from tests.effort import turns
from tests.unit.schema.former_fields import APART, SSN, STAYS, array, closed, map_of, named, record

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("shape", STAYS)
def test_a_type_that_took_anothers_place_is_that_type_for_good(shape):
    """Whichever version first has the field again."""
    versions, leaf = STAYS[shape]
    assert leaf in closed(versions)[0]


@pytest.mark.parametrize(("former", "later"), [("n1.A", "n2.A"), ("A", "B")])
def test_a_record_that_was_renamed_where_others_refer_to_it_is_that_record(former, later):
    """The place of a referenced type is its own subject."""
    versions = [
        SchemaVersion("a-value", 1, 1, json.dumps(record(former, SSN)), is_referenced=True),
        SchemaVersion("a-value", 2, 2, json.dumps(record(later, "ssn")), is_referenced=True),
    ]
    schema = with_inherited_tags(json.dumps(record("R", ("f", record(later, "ssn")))), (), versions)
    assert [item.inherited for node in schema.nodes for item in node.fields if item.name == "ssn"] == [{"PII"}]


def test_a_schema_that_is_no_more_than_a_reference_is_the_type_that_it_refers_to():
    """Its text is that of the other subject's version, letter for letter, once it is expanded."""
    former, later = record("m.A", SSN), record("n.A", "ssn")
    versions = [
        SchemaVersion("a-value", 1, 1, json.dumps(former), is_referenced=True),
        SchemaVersion("a-value", 2, 2, json.dumps(later), is_referenced=True),
        SchemaVersion("s-value", 1, 3, json.dumps(later)),
    ]
    schema = with_inherited_tags(json.dumps(later), (), versions)
    assert [item.inherited for node in schema.nodes for item in node.fields] == [{"PII"}]


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

    def records(self, outer=None):
        """All that stand in this version."""
        outer = outer or self.root
        yield outer
        for one in outer.fields:
            if one.is_there:
                for inner in one.records:
                    yield from self.records(inner)

    def change(self):
        """What the next version does to the one before."""
        chance = self._draw.random
        for each in list(self.records()):
            each.aliases = []
            if chance() < 0.25:
                former, each.name = each.name, self._name("R")
                if chance() < 0.3:
                    each.aliases = [former]
                elif chance() < 0.3:
                    each.name = f"ns{self._count}.{former.rpartition('.')[2]}"
            for one in each.fields:
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

    def _text(self, outer):
        fields = []
        for one in outer.fields:
            if one.is_there:
                kind = (
                    [self._text(inner) for inner in one.records]
                    if one.records
                    else self._draw.choice(["string", "long"])
                )
                kind = {0: lambda k: k, 1: array, 2: map_of}[one.wrapped](kind)
                fields.append(named(one.name, kind, *sorted(one.said), tags=["PII"] if one.tags_now else ()))
        return {"type": "record", "name": outer.name, "fields": fields, "aliases": outer.aliases}

    def tagged(self, outer=None, way=()):
        """The ways of leaves that some version tagged, and whose names of all versions are said to be one."""
        for one in (outer or self.root).fields:
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
