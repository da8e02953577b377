"""Finds the leaves that a policy can name, in schemas and in sampled JSON, with their types and tags.

Invariant: a leaf is listed once over all versions of a schema, with all types and tags that any version gives it.
"""

import logging
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from aggregator.budgets import SCHEMA_NODES
from aggregator.errors import DeadLetterError, HoldError
from aggregator.privacy.batch.tally import NULL
from aggregator.privacy.fields import paths
from aggregator.privacy.json.sampled import parts
from aggregator.privacy.review.places import Allowance, places
from aggregator.privacy.review.sniff import json_of
from aggregator.schema.avro import Kind, Node, Schema
from aggregator.schema.inherited_tags import with_inherited_tags
from aggregator.schema.registry import Registry

# For one topic so many schemas of the largest size are examined.
_VERSIONS = 4
log = logging.getLogger(__name__)


class PolicyLeaf(NamedTuple):
    """A value that a policy can name: its path, its types, and the tags that it has or inherits."""

    path: str
    kind: str
    tags: frozenset[str]


def json_leaves(values: Sequence[bytes]) -> Iterator[PolicyLeaf]:
    """Leaves of sampled JSON values, in a policy's words."""
    read = [one for value in values if (one := json_of(value)) is not None]
    for part in parts(read):
        if part.types != (NULL,):
            kinds = ["name" if part.path.endswith(paths.KEYS) else kind for kind in part.types]
            yield PolicyLeaf(part.path, " or ".join(kinds), frozenset())


def value_leaves(registry: Registry | None, topic: str) -> tuple[PolicyLeaf, ...] | None:
    """Leaves of the versions of the topic's value schema, merged by path; None without a readable version.

    All of them together have the budget of a few; the newest come first.
    """
    found: list[tuple[PolicyLeaf, ...]] = []
    left = _VERSIONS * SCHEMA_NODES.limit
    try:
        versions = registry.versions(f"{topic}-value") if registry else ()
    except (DeadLetterError, HoldError) as error:
        log.warning("%s-value: %s", topic, error.message)
        return None
    for version in reversed(versions):
        if left <= 0:
            log.warning("%s: versions up to %d mean too many places with the others", version.subject, version.version)
            break
        allowance = Allowance(nodes=min(left, SCHEMA_NODES.limit))
        left -= allowance.nodes
        try:
            found.append(tuple(leaves(with_inherited_tags(version.text, version.tags, ()), allowance)))
        except DeadLetterError as error:
            log.warning("%s version %d: %s", version.subject, version.version, error.message)
        left += max(0, allowance.nodes)
    return merged(found[::-1])


def merged(found: Sequence[tuple[PolicyLeaf, ...]]) -> tuple[PolicyLeaf, ...] | None:
    """Leaves of several schemas as one; None of none."""
    by_path: dict[str, PolicyLeaf] = {}
    for leaf in (leaf for of_one in found for leaf in of_one):
        known = by_path.get(leaf.path, leaf)
        kinds = sorted({*known.kind.split(" or "), *leaf.kind.split(" or ")})
        by_path[leaf.path] = PolicyLeaf(leaf.path, " or ".join(kinds), known.tags | leaf.tags)
    return tuple(by_path.values()) if found else None


def leaves(schema: Schema, allowance: Allowance | None = None) -> list[PolicyLeaf]:
    """Every leaf once per type; a type inside itself is followed once.

    Raises:
        DeadLetterError: the schema means more places than it may.
    """
    return [
        PolicyLeaf(one.path, "map key" if one.is_key else _kind(one.node), one.tags)
        for one in places(schema, allowance)
        if one.node.kind is not Kind.NULL
    ]


def _kind(node: Node) -> str:
    return node.logical.name if node.logical else node.kind.value
