"""The places of a schema that a policy can name, each with its tags.

Invariant: pure. Every way to a place is a place of its own, and a type inside itself is followed once. So a schema of a
few kilobytes can mean more of them than memory holds: it has the budget of what a strip compiles.
"""

from collections.abc import Iterator
from typing import NamedTuple

from aggregator.budgets import SCHEMA_LABELS, SCHEMA_NODES
from aggregator.errors import DeadLetterError, Reason
from aggregator.privacy.policy import paths
from aggregator.schema.avro import Kind, Node, Schema


class Place(NamedTuple):
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


class _Way(NamedTuple):
    number: int
    path: str
    tags: frozenset[str]
    above: frozenset[int]


def places(schema: Schema, most: int = SCHEMA_NODES.limit) -> Iterator[Place]:
    """Every place of a schema, in its order.

    Args:
        schema: The writers'.
        most: So many types are visited.

    Raises:
        DeadLetterError: it means more, or longer paths, than that.
    """
    visited = letters = 0
    waiting = [_Way(schema.root, "", frozenset(), frozenset())]
    while waiting:
        way = waiting.pop()
        node = schema.nodes[way.number]
        visited, letters = visited + 1, letters + len(way.path)
        if visited > most or letters > SCHEMA_LABELS.limit:
            raise DeadLetterError(
                Reason.SCHEMA_REFUSED,
                f"it means more places than {most:,}, or longer paths than {SCHEMA_LABELS.limit:,} characters in all",
                hint="flatten it, or name fewer of its types again and again",
            )
        if way.number in way.above:
            continue
        tags, inside = way.tags | node.tags, way.above | {way.number}
        match node.kind:
            case Kind.RECORD:
                further = [
                    _Way(one.node, paths.join(way.path, one.name), tags | one.tags, inside) for one in node.fields
                ]
            case Kind.MAP:
                yield Place(paths.join(way.path, paths.KEYS), node, tags, is_key=True)
                further = [_Way(node.children[0], paths.join(way.path, paths.VALUES), tags, inside)]
            case Kind.ARRAY:
                further = [_Way(node.children[0], paths.join(way.path, paths.ITEMS), tags, inside)]
            case Kind.UNION:
                further = [_Way(child, way.path, tags, inside) for child in node.children]
            case _:
                further = []
                yield Place(way.path, node, tags)
        waiting += reversed(further)
