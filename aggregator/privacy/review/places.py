"""Lists the places of a schema that a policy can name, each with its tags.

Invariant: pure. Every way to a place is a place of its own, and a type inside itself is followed once. A schema of a
few kilobytes can therefore have more places than memory holds. The listing has the same budget as the compilation of a
strip.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from aggregator.budgets import LETTERS_OF_A_TAG, SCHEMA_LABELS, SCHEMA_NODES
from aggregator.errors import DeadLetterError, Reason
from aggregator.privacy.fields import paths
from aggregator.schema.avro import Kind, Node, Schema


class FieldPlace(NamedTuple):
    """A leaf, or the keys of a map.

    Attributes:
        path: In a policy's words.
        node: Its type; of keys the map's.
        tags: Its own and those that it inherits.
        is_key: Whether it is a map's keys.
    """

    path: str
    node: Node
    tags: frozenset[str]
    is_key: bool = False


@dataclass(slots=True)
class Allowance:
    """Counts down what may still be visited of a schema.

    Attributes:
        nodes: How many types may still be visited.
        letters: How many characters their paths and tags may still have.
    """

    nodes: int = SCHEMA_NODES.limit
    letters: int = SCHEMA_LABELS.limit

    def spend(self, path: str, tags: frozenset[str]) -> None:
        """Count one more type against the budget.

        Raises:
            DeadLetterError: it is one too many.
        """
        self.nodes -= 1
        self.letters -= len(path) + LETTERS_OF_A_TAG * len(tags)
        if min(self.nodes, self.letters) < 0:
            raise DeadLetterError(
                Reason.SCHEMA_REFUSED,
                f"it means more places than {SCHEMA_NODES.limit:,}, or more than {SCHEMA_LABELS.limit:,} characters of"
                " paths and tags over all of them",
                hint="flatten it, or name fewer of its types again and again",
            )


class _Way(NamedTuple):
    """The way from a type to a type below it; the texts of a place are made when the place is visited."""

    number: int
    path: str
    step: str | None
    tags: frozenset[str]
    own: frozenset[str] = frozenset()


def places(schema: Schema, allowance: Allowance | None = None) -> Iterator[FieldPlace]:
    """Every place of a schema, in its order.

    Args:
        schema: The writers'.
        allowance: Is spent; by default that of one schema.

    Raises:
        DeadLetterError: the schema means more than that.
    """
    left, above = allowance or Allowance(), set[int]()
    waiting: list[_Way | int] = [_Way(schema.root, "", None, frozenset())]
    while waiting:
        way = waiting.pop()
        if isinstance(way, int):  # everything below this type was visited
            above.discard(way)
            continue
        if way.number in above:
            continue
        node = schema.nodes[way.number]
        path = way.path if way.step is None else paths.join(way.path, way.step)
        more = way.own | node.tags
        tags = way.tags if more <= way.tags else way.tags | more
        left.spend(path, tags)
        if node.kind is Kind.MAP:
            yield FieldPlace(paths.join(path, paths.KEYS), node, tags, is_key=True)
        elif not (node.fields or node.children or node.kind is Kind.RECORD):
            yield FieldPlace(path, node, tags)
        above.add(way.number)
        waiting += [way.number, *reversed(_further(node, path, tags))]


def _further(node: Node, path: str, tags: frozenset[str]) -> list[_Way]:
    if node.kind is Kind.RECORD:
        return [_Way(one.node, path, one.name, tags, one.tags) for one in node.fields]
    step = {Kind.ARRAY: paths.ITEMS, Kind.MAP: paths.VALUES}.get(node.kind)
    return [_Way(child, path, step, tags) for child in node.children]
