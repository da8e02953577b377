"""Orders the versions of a subject, together with the versions of other subjects that they refer to.

Invariants: pure. The registry's answers are passed in. A version comes once, and after the versions that it refers to.
A version of another subject is marked as referenced.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

from aggregator.budgets import HISTORY_CHARACTERS, REFERENCED_VERSIONS, SCHEMA_REFERENCES
from aggregator.errors import HoldError, Unreachable
from aggregator.schema.registry import SchemaVersion

DELETE_VERSIONS = "delete versions that no record needs, for good; their tags go with them"
# Subject to its versions by number.
Versions = Mapping[str, Mapping[int, SchemaVersion]]


def with_references(subject: str, asked: Callable[[str], Mapping[int, SchemaVersion]]) -> Versions:
    """The versions of a subject, and of all that some of them refer to, directly or not.

    Args:
        subject: Name of the subject.
        asked: Asks for one subject.

    Raises:
        HoldError: these are too many subjects, versions, or characters.
        Unreachable: a version that another one refers to is not among its subject's, so that its tags are not known.
    """
    found: dict[str, Mapping[int, SchemaVersion]] = {}
    waiting, characters = [subject], 0
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = asked(name)
            waiting += [other for one in found[name].values() for other, _ in one.refers]
            characters = require_bounded(subject, found[name].values(), characters)
        if sum(map(len, found.values())) - len(found[subject]) > REFERENCED_VERSIONS.limit:
            raise HoldError(
                f"subject {subject}: more than {REFERENCED_VERSIONS.limit:,} {REFERENCED_VERSIONS.unit}",
                hint=DELETE_VERSIONS,
            )
        if len(found) > SCHEMA_REFERENCES.limit:
            raise HoldError(
                f"the versions of subject {subject} refer to more than {SCHEMA_REFERENCES.limit} other subjects",
                hint=DELETE_VERSIONS,
            )
    for versions in found.values():
        for one in versions.values():
            _require(found, one)
    return found


def require_bounded(subject: str, versions: Iterable[SchemaVersion], before: int = 0) -> int:
    """Add the characters of versions to those that were counted before.

    Raises:
        HoldError: the sum is beyond HISTORY_CHARACTERS.
    """
    characters = before + sum(len(one.text) + sum(len(path) for path, _ in one.tags) for one in versions)
    if characters > HISTORY_CHARACTERS.limit:
        raise HoldError(
            f"subject {subject}: more than {HISTORY_CHARACTERS.limit:,} {HISTORY_CHARACTERS.unit}",
            hint=DELETE_VERSIONS,
        )
    return characters


def _require(found: Versions, one: SchemaVersion) -> None:
    for subject, version in one.refers:
        if version not in found[subject]:
            raise Unreachable(
                f"version {one.version} of subject {one.subject} refers to version {version} of {subject}, which the "
                "registry does not list",
                hint="restore that version, or see whether a proxy keeps old answers; the flow goes on by itself",
            )


def history(known: Versions, subject: str, version: int) -> list[SchemaVersion]:
    """A subject's versions up to one, oldest first, each behind what it refers to."""
    return [one._replace(is_referenced=one.subject != subject) for one in _lineage(known, subject, version)]


def _lineage(known: Versions, subject: str, version: int) -> Iterator[SchemaVersion]:
    """Walk the references depth first, with a stack of its own, because they may go deeper than Python calls."""
    # The newest first: whoever comes to a subject goes on with the oldest version that nobody has come to.
    left = {name: sorted(some.values(), key=lambda one: -one.version) for name, some in known.items()}
    walks: list[tuple[Iterator[SchemaVersion], SchemaVersion | None]] = [(_taken(left, [(subject, version)]), None)]
    while walks:
        versions, behind = walks[-1]
        one = next(versions, None)
        if one is not None:
            walks.append((_taken(left, one.refers), one))
            continue
        walks.pop()
        if behind:
            yield behind


def _taken(left: Mapping[str, list[SchemaVersion]], wanted: Iterable[tuple[str, int]]) -> Iterator[SchemaVersion]:
    for subject, newest in wanted:
        versions = left.get(subject, [])
        while versions and versions[-1].version <= newest:
            yield versions.pop()
