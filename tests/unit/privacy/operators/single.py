"""One operator by itself, as a policy spells it."""

from datetime import date

from pydantic import ConfigDict, TypeAdapter

from aggregator.privacy import operators
from aggregator.privacy.fields.leaf import Leaf
from aggregator.privacy.policy.rules import Rule
from aggregator.schema.avro import Kind, Logical

TEXT = Leaf(Kind.STRING)
ENUM = Leaf(Kind.ENUM, symbols=("JANE", "JOE"))
INT, LONG = Leaf(Kind.INT), Leaf(Kind.LONG)
FLOAT, DOUBLE = Leaf(Kind.FLOAT), Leaf(Kind.DOUBLE)
BYTES, FIXED = Leaf(Kind.BYTES), Leaf(Kind.FIXED, size=4)
DATE = Leaf(Kind.INT, Logical("date"))
DECIMAL = Leaf(Kind.BYTES, Logical("decimal", 6, 2))
FIXED_DECIMAL = Leaf(Kind.FIXED, Logical("decimal", 6, 2), 3)
_RULES = TypeAdapter(Rule, config=ConfigDict(hide_input_in_errors=True))
TODAY = date(2026, 11, 1)


def timestamp(name):
    """A timestamp's leaf."""
    return Leaf(Kind.LONG, Logical(name))


def rule(name, /, **parameters):
    """The rule that `{name: parameters}` in a policy is."""
    return _RULES.validate_python({name: parameters})


def operator(made, leaf=TEXT, keys=None, place: tuple[str, str] = ("orders", "x"), today=TODAY):
    """The operator of a rule, as a function of lists."""
    return operators.build(made, leaf, keys or {}, operators.context(made, *place, today))


def one(made, value, leaf=TEXT, **around):
    """What a rule makes of one value."""
    return operator(made, leaf, **around)([value])[0]
