"""What all versions of a subject may cost together: characters, tags beside them, and fields that were many things."""

import json
import tracemalloc

import pytest

from aggregator.budgets import HISTORY_CHARACTERS
from aggregator.errors import HoldError
from aggregator.schema.avro import parse
from aggregator.schema.inherited_tags import with_inherited_tags
from aggregator.schema.registries import open_registry
from aggregator.schema.registry import SchemaVersion
from aggregator.schema.version_order import with_references
from tests.growth import cpu_s, grows_linearly
from tests.unit.schema.double import RegistryDouble

pytestmark = pytest.mark.slow

PII = frozenset(["PII"])


def record(name, *fields, **more):
    """A record's schema; fields are names, or a name and what more is said of it."""
    made = [{"name": one, "type": "int"} if isinstance(one, str) else one for one in fields]
    return {"type": "record", "name": name, "fields": made, **more}


def subject(texts, beside=()):
    """Versions of one subject."""
    return [SchemaVersion("s-value", at, at, text, tags=tuple(beside)) for at, text in enumerate(texts, 1)]


def diamonds(depth):
    """A small schema with two ways on each level: its fields have as many names as there are ways."""
    shape = record("L0", "a")
    for level in range(1, depth):
        shape = record(
            f"L{level}", {"name": "a", "type": shape}, {"name": "b", "type": f"L{level - 1}"}
        )  # each level names the one below twice
    return json.dumps(shape)


def test_tags_beside_many_versions_have_one_budget():
    """Each version is within the budget of one schema, and a thousand of them would take minutes."""
    texts = [diamonds(12)] * 1000
    beside = [(f"**.x{at}", PII) for at in range(20)]
    with_inherited_tags(texts[0], beside, subject(texts[:2], beside))

    def held():
        with pytest.raises(HoldError, match="s-value: more than 40,000,000 steps to find tags"):
            with_inherited_tags(texts[0], beside, subject(texts, beside))

    assert cpu_s(held, rounds=1) < 20e-6 * sum(map(len, texts))


def test_a_type_with_another_name_each_version_is_read():
    """At many fields: what it was ever called is remembered once."""
    texts = []
    for at in range(300):
        tagged = {"name": "x", "type": "string", **({"confluent:tags": ["PII"]} if at == 0 else {})}
        used = [{"name": f"f{number}", "type": f"A{at}"} for number in range(1, 50)]
        texts.append(json.dumps(record("R", {"name": "f0", "type": record(f"A{at}", tagged)}, *used)))
    schema = with_inherited_tags(texts[-1], (), subject(texts))
    assert [item.inherited for node in schema.nodes for item in node.fields if item.name == "x"] == [PII]


def test_ordinary_tags_beside_a_thousand_versions_are_read():
    """A subject that grew by a field each week."""
    names = [f"field_{at}" for at in range(60)]
    texts = [json.dumps(record("R", *names[: 10 + at // 20])) for at in range(1000)]
    beside = [(f"R.{name}", PII) for name in names[:20]]
    schema = with_inherited_tags(texts[-1], (), subject(texts, beside))
    assert sum(item.inherited == PII for item in schema.nodes[schema.root].fields) == 20


@pytest.mark.parametrize("named", ["Order{}", "com.acme.v{}.Order"])
def test_a_subject_whose_records_have_a_name_for_each_version_is_read(named):
    """Nothing says that these are one record but their place; what one of them had tagged stays tagged."""
    fields = [f"f{at}" for at in range(30)]
    tagged = {"name": "f7", "type": "int", "confluent:tags": ["PII"]}
    first = json.dumps(record(named.format(0), *fields[:7], tagged, *fields[8:]))
    texts = [first, *(json.dumps(record(named.format(at), *fields)) for at in range(1, 150))]
    schema = with_inherited_tags(texts[-1], (), subject(texts))
    assert [item.name for item in schema.nodes[schema.root].fields if item.inherited] == ["f7"]


@pytest.mark.parametrize("named", ["Order{}", "v{}.Order"])
def test_records_of_a_union_may_have_a_name_for_each_version(named):
    """Whatever took the place of another holds all that was remembered of it, so that only the last ones count."""

    def version(at):
        fields = [f"f{number}" for number in range(7)]
        tagged = {"name": "t", "type": "int", **({} if at else {"confluent:tags": ["PII"]})}
        return json.dumps([record(named.format(at) + letter, *fields, tagged) for letter in "ABC"])

    texts = [version(at) for at in range(300)]
    schema = with_inherited_tags(texts[-1], (), subject(texts[:-1]))
    assert [[item.name for item in node.fields if item.inherited] for node in schema.nodes if node.fields] == [
        ["t"]
    ] * 3


@pytest.mark.parametrize("kind", ["int", ["null", "int", "string"], {"type": "array", "items": "int"}], ids=str)
def test_what_is_remembered_takes_little_more_than_the_versions_themselves(kind):
    """Two versions that have no field in common, beside the memory that reading them takes."""

    def version(at):
        tagged = {"name": "t", "type": "int", "confluent:tags": ["PII"]}
        return json.dumps(record("R", tagged, *({"name": f"v{at}_{one}", "type": kind} for one in range(8000))))

    texts = [version(0), version(1)]
    alone = _peak_bytes(lambda: [parse(text) for text in texts])
    assert _peak_bytes(lambda: with_inherited_tags(texts[1], (), subject(texts[:1]))) < 3 * alone


def _peak_bytes(work):
    tracemalloc.start()
    try:
        kept = work()
        peak = tracemalloc.get_traced_memory()[1]
        del kept
        return peak
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("up_to", [0, 1], ids=["before it", "up to it"])
@pytest.mark.parametrize("tags", [[], ["PII"]], ids=["untagged", "tagged"])
def test_each_version_of_a_subject_costs_its_own_text(tags, up_to):
    """Who meets the ids one after the other does not begin with the first version each time."""

    def read(count):
        head = {"name": "t", "type": "int", **({"confluent:tags": tags} if tags else {})}
        texts = [json.dumps(record("R", head, *(f"f{one}" for one in range(40)), f"x{at}")) for at in range(count)]
        versions = subject(texts)
        for at, text in enumerate(texts):
            with_inherited_tags(text, (), versions[: at + up_to])

    assert grows_linearly(read, 60)


HISTORIES = {
    "a namespace and an alias for each version": lambda at: [
        record(f"v{at}.R{one}", *(f"f{n}" for n in range(10)), aliases=[f"v{at - 1}.R{one}"] if at else [])
        for one in range(10)
    ],
    "records deep in one another, with a name for each version": lambda at: nested(f"v{at}", 10),
    "fields that are all renamed": lambda at: record(
        f"v{at}.R", *({"name": f"f{n}_{at}", "type": "int", "aliases": [f"f{n}_{max(0, at - 1)}"]} for n in range(50))
    ),
    "one record in many fields, with a name for each version": lambda at: record(
        f"R{at}", {"name": "f0", "type": record(f"A{at}", "a", "b")},
        *({"name": f"f{n}", "type": f"A{at}"} for n in range(1, 100))),
    "fields of many types, and then none": lambda at: record(
        "R", {"name": "f", "type": record(f"B{at}", *(
            {"name": f"f{n}", "type": [{"type": "fixed", "name": f"F{n}_{k}", "size": 1} for k in range(300)]}
            for n in range(0 if at else 10)))}),
}  # fmt: skip


def nested(space, depth):
    """Records in one another."""
    made = record(f"{space}.R0", *(f"f{n}" for n in range(10)))
    for level in range(1, depth):
        made = record(f"{space}.R{level}", *(f"f{n}" for n in range(9)), {"name": "in", "type": made})
    return made


@pytest.mark.parametrize("shape", HISTORIES)
def test_ordinary_histories_are_read(shape):
    """A hundred and fifty versions: whatever was renamed how often, the cost is that of the texts."""
    tag = {"name": "tagged", "type": "int", "confluent:tags": ["PII"]}
    texts = [json.dumps(HISTORIES[shape](at)) for at in range(150)]
    first = json.dumps(record("First", tag))
    letters = sum(map(len, texts))
    versions = subject([first, *texts[:-1]])
    assert _peak_bytes(lambda: with_inherited_tags(texts[-1], (), versions)) < 10 * letters + 20 * 2**20
    assert cpu_s(lambda: with_inherited_tags(texts[-1], (), versions), enough_s=0.2) < 20e-6 * letters


def test_long_versions_are_not_all_asked_for():
    """The text of a subject is bounded, and not only the number of its versions."""
    double = RegistryDouble()
    try:
        text = json.dumps(record("R", "a", doc="x" * (HISTORY_CHARACTERS.limit // 50)))
        ids = [double.add("s-value", text.replace('"a"', f'"a{at}"')) for at in range(60)]
        with pytest.raises(HoldError, match="s-value: more than 67,108,864 characters of all these versions"):
            open_registry(double.address).history("s-value", len(ids))
        assert sum("/subjects/s-value/versions/" in path for path in double.asked) < 55
    finally:
        double.close()


def test_what_versions_refer_to_counts_with_them():
    """A subject of short versions may refer to long ones."""
    long = "x" * (HISTORY_CHARACTERS.limit // 3)
    other = {at: SchemaVersion("other", at, at, long) for at in (1, 2, 3, 4)}
    own = {1: SchemaVersion("s-value", 1, 9, "short", refers=(("other", 4),))}
    with pytest.raises(HoldError, match="s-value: more than 67,108,864 characters"):
        with_references("s-value", {"s-value": own, "other": other}.__getitem__)
