"""Collects tags that a schema's text does not contain: those of its registry, and those of earlier versions.

Invariants: later versions of a subject keep a tag that a field once had, even if the field moved or has a new name. The
field is recognised by its place, by its name, or by an alias of either. A field is tagged in case of doubt. Pure. Data
from a registry is matched in linear time and within a budget.
Source: https://docs.confluent.io/platform/current/schema-registry/fundamentals/data-contracts.html
"""

import hashlib
import itertools
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from aggregator.budgets import HISTORY_STEPS, REFERENCED_VERSIONS, SCHEMA_LABELS, SCHEMA_STEPS, SUBJECT_VERSIONS
from aggregator.config.patterns import MatchTargets
from aggregator.errors import DeadLetterError, HoldError, Reason
from aggregator.schema.avro import Kind, Schema, TagCount, parse, printable_tags
from aggregator.schema.former_fields import Lineage
from aggregator.schema.registry import SchemaVersion, TagPaths
from aggregator.schema.version_order import DELETE_VERSIONS

_WILD = re.compile(r"\\.|\*\*(?:\.\*)?|\*|\?|[^*?\\]+|\\", re.DOTALL)
_STANDS_FOR = {"**": ".*", "**.*": ".*", "*": "[^.]*", "?": "[^.]"}


def with_inherited_tags(text: str, beside: TagPaths, versions: Sequence[SchemaVersion]) -> Schema:
    """A writer's schema with all tags that its fields have had.

    Args:
        text: The schema.
        beside: Tags that the registry keeps beside it; they count as its own.
        versions: The subject's, up to this one, oldest first, and those of subjects that they refer to; what these give
            it is `inherited`. The last of them may be this one itself.

    Raises:
        DeadLetterError: SCHEMA_REFUSED, the text is no Avro schema that is supported, or tags and places are too many.
        HoldError: a version cannot be read, there are too many, or they have too many tags.
    """
    try:
        return _with_inherited_tags(text, beside, versions)
    except RecursionError:
        raise _refusal("it nests too deep") from None


def _with_inherited_tags(text: str, beside: TagPaths, versions: Sequence[SchemaVersion]) -> Schema:
    for is_referenced, budget in ((False, SUBJECT_VERSIONS), (True, REFERENCED_VERSIONS)):
        if sum(version.is_referenced is is_referenced for version in versions) > budget.limit:
            raise HoldError(
                f"subject {versions[-1].subject}: more than {budget.limit:,} {budget.unit}",
                hint=DELETE_VERSIONS,
            )
    while versions and not versions[-1].is_referenced and (versions[-1].text, versions[-1].tags) == (text, beside):
        versions = versions[:-1]
    every = [_Said(one.text, one.tags, one.subject if one.is_referenced else "") for one in versions]
    history = _RECENT.take(every)
    _require_bounded(history, versions)
    for version, said in [*zip(versions, every, strict=True)][len(history.said) :]:
        try:
            earlier = history.read(said)
        except DeadLetterError as error:
            raise HoldError(
                f"subject {version.subject} version {version.version}: its tags cannot be read: {error.message}",
                hint="delete that version for good, if no record needs it",
            ) from None
        _require_bounded(history, versions)
        history.add(said, earlier)
    said = _Said(text, beside)
    schema = history.add(said, history.read(said))
    _RECENT.put(history)
    return schema


def _require_bounded(history: "_History", versions: Sequence[SchemaVersion]) -> None:
    if history.steps > HISTORY_STEPS.limit:
        raise HoldError(
            f"subject {versions[-1].subject}: more than {HISTORY_STEPS.limit:,} {HISTORY_STEPS.unit}",
            hint="keep fewer tags beside these versions, or delete those that no record needs, for good",
        )


def fingerprint(text: str, schema: Schema) -> str:
    """The identity of a schema with all its tags: 16 digits in hex."""
    tags = [
        [
            sorted(node.tags | node.inherited),
            [sorted(item.tags | item.inherited) for item in node.fields],
            *([sorted(node.inherited_keys)] if node.inherited_keys else []),
        ]
        for node in schema.nodes
    ]
    meaning = json.dumps([json.loads(text), tags], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(meaning.encode(errors="surrogatepass")).hexdigest()[:16]


# Histories that were read, so that a subject's next version does not begin with its first.

_RECENT_KILOBYTES = 20_000


class _Said(NamedTuple):
    """A version, as far as what comes after it inherits from it."""

    text: str
    beside: TagPaths
    other_subject: str = ""


class _History:
    """Versions of one subject, read one after the other.

    Attributes:
        said: The versions that were added.
        lineage: What they said of tags, from the first one on; none before there is a tag.
        steps: What the tags beside them took.
    """

    def __init__(self) -> None:
        self.said: list[_Said] = []
        self.lineage: Lineage | None = None
        self.steps = 0

    @property
    def kilobytes(self) -> int:
        """About what it takes: its texts, one kilobyte for each field, and something for itself."""
        letters = sum(len(one.text) for one in self.said)
        return 100 + letters // 1000 + (self.lineage.size if self.lineage else 0)

    def read(self, said: _Said) -> Schema:
        """A version with its own tags.

        Raises:
            DeadLetterError: SCHEMA_REFUSED.
        """
        schema, taken = _tagged(parse(said.text), said.beside)
        self.steps += taken
        return schema

    def add(self, said: _Said, schema: Schema) -> Schema:
        """The next version with what it inherits.

        Raises:
            DeadLetterError: SCHEMA_REFUSED.
        """
        if self.lineage is None and _is_tagged(schema):
            self.lineage = Lineage()
            for before in self.said:
                earlier, _ = _tagged(parse(before.text), before.beside)
                self.lineage.add(earlier, subject=before.other_subject)
        self.said.append(said)
        return self.lineage.add(schema, subject=said.other_subject) if self.lineage else schema


class _RecentHistories:
    """The histories that were read last, up to a size.

    A history changes with each version that is added, so whoever uses one takes it out. Threads need no lock: each step
    on the dictionary is one that Python does not interrupt.
    """

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._kept: dict[int, tuple[int, _History]] = {}

    def take(self, said: Sequence[_Said]) -> _History:
        """The longest one that is the beginning of these versions, or an empty one."""
        fit = [
            (len(history.said), number)
            for number, (_, history) in [*self._kept.items()]
            if history.said == said[: len(history.said)]
        ]
        if not fit:
            return _History()
        _, history = self._kept.pop(max(fit)[1], (0, _History()))
        return history

    def put(self, history: _History) -> None:
        """Keep a history, as the newest."""
        self._kept[next(self._numbers)] = (history.kilobytes, history)
        sizes = {number: size for number, (size, _) in [*self._kept.items()]}
        excess = sum(sizes.values()) - _RECENT_KILOBYTES
        for number, size in sizes.items():
            if excess > 0:
                self._kept.pop(number, None)
                excess -= size


_RECENT = _RecentHistories()


def _is_tagged(schema: Schema) -> bool:
    return any(node.tags or any(item.tags for item in node.fields) for node in schema.nodes)


# Tags that the registry keeps beside the schema.

# The bound on a path's length is the same as in a policy.
_PATH_LONGEST = 1000
# With more wildcards than these RE2 may look at each letter of a name once for each letter of the path.
_MAX_WILDCARDS = 8
# RE2 takes as long for so many letters of a name as for beginning with it.
_LETTERS_PER_STEP = 100


class _Name(NamedTuple):
    """One way to call a record (`field` is -1) or a field of it."""

    text: str
    record: int
    field: int


def _tagged(schema: Schema, beside: TagPaths) -> tuple[Schema, int]:
    """The schema with the tags that the registry keeps beside it, and the steps that this took."""
    if not beside:
        return schema, 0
    names = _bounded_names(schema)
    texts = [name.text for name in names]
    steps = (1 + len(beside)) * (len(names) + sum(map(len, texts)) // _LETTERS_PER_STEP)
    if steps > SCHEMA_STEPS.limit:
        raise _refusal("the tags beside it, times its fields, are too many")
    if any(len(path) > _PATH_LONGEST for path, _ in beside):
        raise _refusal(f"a path of tags beside it is longer than {_PATH_LONGEST:,} characters")
    if any(sum(part in _STANDS_FOR for part in _WILD.findall(path)) > _MAX_WILDCARDS for path, _ in beside):
        raise _refusal(f"a path of tags beside it has more than {_MAX_WILDCARDS} wildcards")
    found: defaultdict[tuple[int, int], frozenset[str]] = defaultdict(frozenset)
    targets, count = MatchTargets(texts), TagCount()
    for path, tags in beside:
        printable = printable_tags(tags)
        try:
            matched = targets.matched_by(_expression(path))
        except ValueError:
            raise _refusal("a path of tags beside it cannot be read") from None
        for position in matched:
            _, record, field = names[position]
            found[record, field] = count.joined(found[record, field], printable)
    nodes = [
        replace(
            node,
            tags=node.tags | found[number, -1],
            fields=tuple(item._replace(tags=item.tags | found[number, at]) for at, item in enumerate(node.fields)),
        )
        for number, node in enumerate(schema.nodes)
    ]
    return Schema(tuple(nodes), schema.root), steps


def _expression(path: str) -> str:
    r"""A path of `metadata.tags` in RE2: `*` within a name, `**` across names, `?` one character, `\` quotes one."""
    parts = (found[0] for found in _WILD.finditer(path))
    return "".join(
        _STANDS_FOR.get(part) or re.escape(part[1:] if len(part) > 1 and part[0] == "\\" else part) for part in parts
    )


def _bounded_names(schema: Schema) -> list[_Name]:
    """All names, while they fit into memory: a field's name stands in those of all fields below it.

    Raises:
        DeadLetterError: SCHEMA_REFUSED, too many places, or letters.
    """
    names, letters = list[_Name](), 0
    for name in _names(schema):
        letters += len(name.text)
        if letters > SCHEMA_LABELS.limit:
            raise _refusal("tags are kept beside it, and the names of its fields are too long")
        names.append(name)
    return names


def _names(schema: Schema) -> Iterator[_Name]:
    """Whatever a path may mean: `record.field` as Confluent has it, with and without namespace, and ways from the root.

    Raises:
        DeadLetterError: SCHEMA_REFUSED, too many places.
    """
    for number, node in enumerate(schema.nodes):
        if node.kind is Kind.RECORD:
            for record in {node.name, node.name.rpartition(".")[2]}:
                yield _Name(record, number, -1)
                yield from (_Name(f"{record}.{item.name}", number, at) for at, item in enumerate(node.fields))
    root = schema.nodes[schema.root].name
    heads = {"", root, root.rpartition(".")[2]}
    for steps, (way, number, at) in enumerate(_ways(schema, schema.root, "", frozenset())):
        if steps > SCHEMA_STEPS.limit // 100:
            raise _refusal("tags are kept beside it, and it means too many places")
        yield from (_Name(f"{head}.{way}" if head else way, number, at) for head in heads)


def _ways(schema: Schema, number: int, way: str, above: frozenset[int]) -> Iterator[tuple[str, int, int]]:
    node = schema.nodes[number]
    if number in above:
        return
    above |= {number}
    for at, item in enumerate(node.fields):
        inside = f"{way}.{item.name}" if way else item.name
        yield inside, number, at
        yield from _ways(schema, item.node, inside, above)
    for child in node.children:
        yield from _ways(schema, child, way, above)


def _refusal(message: str) -> DeadLetterError:
    return DeadLetterError(
        Reason.SCHEMA_REFUSED,
        f"writer schema refused: {message}",
        hint="use fewer aliases, or fewer tags beside the schema",
    )
