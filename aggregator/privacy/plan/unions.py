"""Maps the branches of a union to the output union: branches may be removed or merged, and a null may have to be added.

Invariant: every branch of the input has a place in the output. The value of a removed branch becomes null, so that a
record never vanishes because of one field.
"""

from collections.abc import Sequence
from typing import NamedTuple

NULL = "null"


class Branch(NamedTuple):
    """Describes a branch of the source union.

    Attributes:
        type: What Avro lets a union hold once: a kind, or the full name of a named type; None if the branch leaves.
        to_null: Values of this branch become null.
    """

    type: str | None
    to_null: bool = False


def merged(branches: Sequence[Branch]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The branches of the output union.

    Returns:
        For each source branch the output branch that its values go to, and for each output branch the source branch
        that gives its type (-1: a null that was added, in front).
    """
    types: dict[str, int] = {}
    if any(branch.to_null for branch in branches) and NULL not in {branch.type for branch in branches}:
        types[NULL] = -1
    for position, branch in enumerate(branches):
        if branch.type is None:
            continue
        first = types.setdefault(branch.type, position)
        if first >= 0 and branches[first].to_null and not branch.to_null:
            types[branch.type] = position  # the first branch becomes null, so this one defines the type
    places = {name: place for place, name in enumerate(types)}
    routes = tuple(places[NULL if branch.to_null or branch.type is None else branch.type] for branch in branches)
    return routes, tuple(types.values())
