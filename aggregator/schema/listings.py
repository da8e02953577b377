"""Remembers the ids and GUIDs of all schema versions of a topic's subjects, from one listing to the next.

Invariants: a version that was found is not asked about again, unless its subject was made anew. To notice that, each
listing compares the newest known version and one of the others in turn. Found versions are kept when the rest of a
listing fails. Only one listing of a topic runs at a time.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple
from uuid import UUID


class Named(NamedTuple):
    """The id and the GUID by which records name a schema.

    Attributes:
        schema_id: None where they call it by its GUID only.
        guid: None where the registry tells none.
    """

    schema_id: int | None
    guid: UUID | None = None


class Listed(NamedTuple):
    """A listing that came to its end.

    Attributes:
        asked_s: When it began.
        names: Of every version that records may name.
    """

    asked_s: float
    names: tuple[Named, ...]


class SubjectVersions:
    """The versions of one topic's subjects.

    Attributes:
        listed: The newest listing.
    """

    def __init__(self) -> None:
        self.listed: Listed | None = None
        self._known: dict[str, dict[int, Named]] = {}
        self._turn = 0

    def forget(self) -> None:
        """Ask for every version once more; the newest listing counts on."""
        self._known = {}

    def find(
        self,
        asked_s: float,
        subjects: Sequence[str],
        numbers: Callable[[str], Sequence[int]],
        called: Callable[[str, int], Named | None],
    ) -> Listed:
        """List them; how long that takes depends on how many are new.

        Args:
            asked_s: The time before the subjects were asked for.
            subjects: All that there are.
            numbers: Asks for the numbers of a subject's versions.
            called: Asks what records call a version; None: nothing any more.
        """
        known, found = self._known, list[Named]()
        self._turn += 1
        for subject in subjects:
            found += self._names(subject, known.setdefault(subject, {}), numbers, called)
        self.listed = Listed(asked_s, tuple(found))
        return self.listed

    def _names(
        self,
        subject: str,
        known: dict[int, Named],
        numbers: Callable[[str], Sequence[int]],
        called: Callable[[str, int], Named | None],
    ) -> Iterator[Named]:
        there = numbers(subject)
        told = {number: called(subject, number) for number in self._compared(known)}
        if not known.keys() <= set(there) or any(known[number] != one for number, one in told.items()):
            known.clear()
        for number in there:
            one = known.get(number) or called(subject, number)
            if one is not None:
                known[number] = one
                yield one

    def _compared(self, known: dict[int, Named]) -> list[int]:
        """Which of the known versions are asked about again."""
        older = sorted(known)
        newest = [older.pop()] if older else []
        return newest + ([older[self._turn % len(older)]] if older else [])
