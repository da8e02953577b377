"""Numbers the schemas that are known by a GUID, so that all code behind the wire format uses integer ids.

Invariant: a GUID keeps its number while it is remembered, and a number is never given twice. No number is an id of a
Confluent registry, because those end at 2**31 - 1. A flood of meaningless GUIDs is forgotten, the oldest first.
"""

import threading
from collections.abc import Container
from uuid import UUID

FIRST = 2**31
# Far more than the records of a batch, so that a GUID of the batch is still remembered when it is looked up.
_MOST = 200_000


class Guids:
    """Schema GUIDs by their numbers in this process, and numbers by their GUIDs."""

    def __init__(self) -> None:
        self._numbers: dict[UUID, int] = {}
        self._guids: dict[int, UUID] = {}
        self._next = FIRST
        self._lock = threading.Lock()

    def number(self, guid: UUID, keep: Container[int] = ()) -> int:
        """The number of a GUID, and give it one if it has none.

        Args:
            guid: The GUID from a record's header.
            keep: Numbers that are never forgotten.
        """
        with self._lock:  # questions number what they find, too
            if guid not in self._numbers:
                if len(self._numbers) >= _MOST:
                    self._forget(keep)
                self._numbers[guid] = self._next
                self._guids[self._next] = guid
                self._next += 1
            return self._numbers[guid]

    def known(self, guid: UUID) -> int | None:
        """The number of a GUID, or None if it has none."""
        return self._numbers.get(guid)

    def guid(self, number: int) -> UUID | None:
        """The GUID of a number."""
        return self._guids.get(number)

    def _forget(self, keep: Container[int]) -> None:
        for number, guid in list(self._guids.items())[: _MOST // 2]:
            if number not in keep:
                del self._guids[number], self._numbers[guid]
