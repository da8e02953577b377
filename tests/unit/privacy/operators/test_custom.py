"""`custom`: functions from entry points, installed for the test as any package would be."""

import struct
import sys

import pytest
from pydantic import ValidationError

from aggregator.errors import ConfigError
from aggregator.privacy import operators
from aggregator.privacy.fields.leaf import Leaf
from aggregator.schema.avro import Kind
from tests.unit.privacy.operators.single import BYTES, DOUBLE, ENUM, LONG, TEXT, one, operator, rule

MODULE = """
def shout(values, *, mark="!"):
    return [str(value).upper() + mark for value in values]

def same(values):
    return values

def length(values):
    return [len(value) for value in values]

def truth(values):
    return [True for _ in values]

def half(values):
    return [value / 2 for value in values]

def short(values):
    return values[:-1]

def picky(values):
    return [1 / (value != "bad") and value.upper() for value in values]

number = 42
"""
NAMES = ["shout", "same", "length", "truth", "half", "short", "picky", "number", "missing"]


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A package with entry points, on the path."""
    (tmp_path / "acme_operators.py").write_text(MODULE)
    info = tmp_path / "acme_operators-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-operators\nVersion: 1.0\n")
    lines = [f"{name} = acme_operators:{name}" for name in NAMES]
    (info / "entry_points.txt").write_text("\n".join(["[aggregator.operators]", *lines, "broken = no_such_module:x"]))
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("acme_operators", None)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("name", "type_", "leaf", "value", "answer"),
    [
        ("shout", "string", TEXT, "Jane", "JANE!"),
        ("shout", "string", ENUM, "JANE", "JANE!"),
        ("same", "long", LONG, 42, 42),
        ("same", "bytes", BYTES, b"\0", b"\0"),
        ("length", "int", TEXT, "Jane", 4),
        ("truth", "boolean", TEXT, "Jane", b"\1"),
        ("half", "double", DOUBLE, struct.pack("<d", 5), struct.pack("<d", 2.5)),
        ("half", "float", LONG, 5, struct.pack("<f", 2.5)),
    ],
)
def test_values_and_answers(name, type_, leaf, value, answer):
    """Values come as what they are; answers are of the declared type."""
    made = rule("custom", name=name, type=type_)
    assert operators.result(made, leaf) == Leaf(Kind(type_))
    assert one(made, value, leaf) == answer


@pytest.mark.usefixtures("installed")
def test_parameters():
    """By name, in any order."""
    assert one(rule("custom", name="shout", type="string", parameters={"mark": "?"}), "Jane") == "JANE?"
    one_way = rule("custom", name="x", type="int", parameters={"b": 1, "a": True})
    assert one_way == rule("custom", name="x", type="int", parameters={"a": True, "b": 1})
    with pytest.raises(ValidationError):
        rule("custom", name="x", type="int", parameters={"a": [1]})


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("name", "type_", "error"),
    [("same", "int", TypeError), ("truth", "int", TypeError), ("length", "string", TypeError),
     ("short", "string", ValueError)],
)  # fmt: skip
def test_answers_of_another_type_fail(name, type_, error):
    """Nothing is converted: a bool is no int, and too few answers are none."""
    with pytest.raises(error):
        one(rule("custom", name=name, type=type_), "Jane")


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("name", "message"),
    [("nobody", "no custom operator is called nobody"), ("missing", "cannot be loaded: AttributeError"),
     ("broken", "cannot be loaded: ModuleNotFoundError"), ("number", "is no function")],
)  # fmt: skip
def test_what_cannot_be_loaded_is_named(name, message):
    """One sentence, before any record is read."""
    with pytest.raises(ConfigError, match=message):
        operator(rule("custom", name=name, type="string"))


@pytest.mark.usefixtures("installed")
def test_a_failing_function_loses_its_record_only(lab):
    """The record whose value it fails for is rejected; its neighbours pass."""
    policy = "policy: p\nversion: 1\ntopics: {orders: {fields: {x: {custom: {name: picky, type: string}}}}}\n"
    schema = {"type": "record", "name": "R", "fields": [{"name": "x", "type": "string"}]}
    out = lab.strip(policy, schema, {"x": "good"}, {"x": "bad"}, {"x": "fine"})
    assert list(out.rejected) == [1]
    assert [lab.decoded(out.values[index])[1]["x"] for index in (0, 2)] == ["GOOD", "FINE"]
