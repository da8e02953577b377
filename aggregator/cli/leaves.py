"""The leaves that a policy can name, of schemas and of sampled JSON, with their types and tags.

Invariant: a leaf is told once over all versions of a schema, with all types and tags that any of them gives it.
"""

import logging
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from aggregator.errors import DeadLetterError
from aggregator.privacy.json.sampled import parts
from aggregator.privacy.policy import paths
from aggregator.privacy.sniff import json_of
from aggregator.privacy.tally import NULL
from aggregator.schema.avro import Kind, Node, Schema
from aggregator.schema.heritage import with_heritage
from aggregator.schema.registry import Registry

log = logging.getLogger(__name__)


class Leaf(NamedTuple):
    """A value that a policy can name: its path, its types, and the tags that it has or inherits."""

    path: str
    kind: str
    tags: frozenset[str]


def json_leaves(values: Sequence[bytes]) -> Iterator[Leaf]:
    """Leaves of sampled JSON values, in a policy's words."""
    read = [one for value in values if (one := json_of(value)) is not None]
    for part in parts(read):
        if part.types != (NULL,):
            kinds = ["name" if part.path.endswith(paths.KEYS) else kind for kind in part.types]
            yield Leaf(part.path, " or ".join(kinds), frozenset())


def value_leaves(registry: Registry | None, topic: str) -> tuple[Leaf, ...] | None:
    """Leaves of every version of the topic's value schema, merged by path; None without a readable version."""
    found = []
    for version in registry.versions(f"{topic}-value") if registry else ():
        try:
            schema = with_heritage(version.text, version.tags, ())
        except DeadLetterError as error:
            log.warning("%s version %d: %s", version.subject, version.version, error.message)
            continue
        found.append(tuple(leaves(schema)))
    return merged(found)


def merged(found: Sequence[tuple[Leaf, ...]]) -> tuple[Leaf, ...] | None:
    """Leaves of several schemas as one; None of none."""
    by_path: dict[str, Leaf] = {}
    for leaf in (leaf for of_one in found for leaf in of_one):
        known = by_path.get(leaf.path, leaf)
        kinds = sorted({*known.kind.split(" or "), *leaf.kind.split(" or ")})
        by_path[leaf.path] = Leaf(leaf.path, " or ".join(kinds), known.tags | leaf.tags)
    return tuple(by_path.values()) if found else None


def leaves(schema: Schema) -> list[Leaf]:
    """Every leaf once per type; a type inside itself is followed once."""
    found: list[Leaf] = []

    def walk(number: int, path: str, tags: frozenset[str], above: frozenset[int]) -> None:
        node = schema.nodes[number]
        tags |= node.tags
        if number in above:
            return
        inner = above | {number}
        if node.kind is Kind.RECORD:
            for field in node.fields:
                walk(field.node, paths.join(path, field.name), tags | field.tags, inner)
        elif node.kind is Kind.MAP:
            found.append(Leaf(paths.join(path, paths.KEYS), "map key", tags))
            walk(node.children[0], paths.join(path, paths.VALUES), tags, inner)
        elif node.kind in (Kind.ARRAY, Kind.UNION):
            step = paths.join(path, paths.ITEMS) if node.kind is Kind.ARRAY else path
            for child in node.children:
                walk(child, step, tags, inner)
        elif node.kind is not Kind.NULL:
            found.append(Leaf(path, _kind(node), tags))

    walk(schema.root, "", frozenset(), frozenset())
    return found


def _kind(node: Node) -> str:
    return node.logical.name if node.logical else node.kind.value
