"""Finds the places of a sample's JSON values, and names them as a policy would.

Invariant: a name is shown only under three conditions. It looks like a word, without the digits of a number; more than
half of the objects at its place have it; and below the top there are at least a few objects. Any other name is data: it
is shown as `{key}`, and its content as `{}`.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from aggregator.privacy.batch.tally import NULL
from aggregator.privacy.fields import paths
from aggregator.privacy.json.text import Json

# A word is at most as long as the names that people give to fields.
_WORD = re.compile(r"(?=[^0-9]*(?:[0-9][^0-9]*){0,4}$)[A-Za-z_][A-Za-z0-9_-]{0,63}", re.ASCII)
# With one or two objects at a place, every name would be a name that most of them have.
_FEW_OBJECTS = 3
_KINDS = {str: "string", bool: "boolean", int: "integer", float: "number"}


class Part(NamedTuple):
    """Describes one place in a sample.

    Attributes:
        path: The path of the place, as a policy writes it.
        values: What stood there, without nulls; of `{key}` the names.
        types: JSON types of these, or `null` alone.
    """

    path: str
    values: tuple[str | int | float | bool, ...]
    types: tuple[str, ...]


def parts(records: Sequence[Json]) -> Iterator[Part]:
    """Every place of these values that has no parts of its own, in the order in which they are met."""
    yield from _below(records, "")


def _below(values: Sequence[Json], path: str) -> Iterator[Part]:
    objects = [value for value in values if isinstance(value, dict)]
    lists = [value for value in values if isinstance(value, list)]
    plain = [value for value in values if not isinstance(value, dict | list)]
    told = tuple(value for value in plain if value is not None)
    if plain:
        types = sorted({_KINDS[type(value)] for value in told}) or [NULL]
        yield Part(path, told, tuple(types))
    if objects:
        yield from _members(objects, path)
    if items := [item for one in lists for item in one]:
        yield from _below(items, paths.join(path, paths.ITEMS))


def _members(objects: Sequence[dict[str, Json]], path: str) -> Iterator[Part]:
    counts = Counter(name for one in objects for name in one)
    is_enough = not path or len(objects) >= _FEW_OBJECTS
    common = [name for name, count in counts.items() if is_enough and 2 * count > len(objects)]
    words = {name: None for name in common if _WORD.fullmatch(name)}
    for name in words:
        yield from _below([one[name] for one in objects if name in one], paths.join(path, name))
    data = [(name, value) for one in objects for name, value in one.items() if name not in words]
    if data:
        yield Part(paths.join(path, paths.KEYS), tuple(name for name, _ in data), ("string",))
        yield from _below([value for _, value in data], paths.join(path, paths.VALUES))
