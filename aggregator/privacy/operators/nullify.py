"""`nullify`: the value becomes null, the type becomes `["null", T]`. An enum's symbols are removed with the values."""

from typing import Literal

from aggregator.privacy.fields.leaf import Leaf
from aggregator.privacy.operators.descriptor import Descriptor, Operator, PrivacyClass
from aggregator.privacy.operators.parameters import Parameters
from aggregator.privacy.operators.redact import closed_symbols


class Nullify(Parameters):
    """The value becomes null, the type `["null", T]`."""

    operator: Literal["nullify"] = "nullify"


def result(_rule: Nullify, leaf: Leaf) -> Leaf:
    """The type of the leaf, with null beside it."""
    return closed_symbols(leaf)._replace(nullable=True)


def build(*_: object) -> Operator:
    """Build the operator that replaces every value by null."""
    return lambda values: [None] * len(values)


NULLIFY = Descriptor(
    parameters=Nullify, strongest=PrivacyClass.IRREVERSIBLE, result=result, build=build, is_constant=True
)
