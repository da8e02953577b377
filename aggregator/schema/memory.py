"""A schema registry in memory for commands that look ahead; its content ends with the process.

Invariant: one id means one text, and the same text has one id in every subject, as in every registry. Every schema is
admitted. Whether a derived schema is compatible is decided by the registry that it would be registered in.
"""

from collections import defaultdict
from collections.abc import Callable
from uuid import UUID

from aggregator.coordinates import SchemaName
from aggregator.schema.registry import NO_REQUESTER, Listing, Requester, SchemaOrigin, SchemaVersion, UnknownSchema
from aggregator.schema.wire import MAXIMUM_ID, Framing


class MemoryRegistry:
    """A registry whose subjects and texts are in dictionaries."""

    framing = Framing.CONFLUENT
    ids_end = MAXIMUM_ID + 1

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._subjects: dict[str, list[str]] = defaultdict(list)

    def schema(self, schema_id: int, *, requester: Requester = NO_REQUESTER, since_s: float | None = None) -> str:
        """The text that has an id.

        Raises:
            UnknownSchema: no text has it.
        """
        del requester, since_s
        if not 0 < schema_id <= len(self._texts):
            raise UnknownSchema(schema_id, "memory")
        return self._texts[schema_id - 1]

    def listing(self, requester: Requester, is_own: Callable[[str], bool], *, since_s: float | None = None) -> Listing:
        """The ids of all versions of these subjects."""
        del requester, since_s
        ids = (one.schema_id for subject in self.subjects() if is_own(subject) for one in self.versions(subject))
        return Listing("memory", frozenset(ids))

    def origin(self, schema_id: int) -> SchemaOrigin:
        """The subjects that have the text of an id."""
        text = self._texts[schema_id - 1]
        having = {subject: texts.index(text) + 1 for subject, texts in self._subjects.items() if text in texts}
        return SchemaOrigin(having, (), str(schema_id))

    def history(self, subject: str, version: int) -> list[SchemaVersion]:
        """The versions of a subject up to this one."""
        return self.versions(subject)[:version]

    def refresh(self) -> None:
        """Do nothing, because nothing here becomes out of date."""

    def number(self, _guid: UUID) -> int | None:
        """None: no text has a GUID."""
        return None

    def name(self, schema_id: int) -> SchemaName | None:
        """The id itself."""
        return schema_id

    def register(self, subject: str, text: str) -> int:
        """Give the text an id, counted from 1."""
        if text not in self._texts:
            self._texts.append(text)
        if text not in self._subjects[subject]:
            self._subjects[subject].append(text)
        return self._texts.index(text) + 1

    def register_compatible(self, subject: str, text: str) -> int:
        """Register a text, as `register` does."""
        return self.register(subject, text)

    def subjects(self) -> list[str]:
        """The names of all subjects, sorted."""
        return sorted(self._subjects)

    def versions(self, subject: str) -> list[SchemaVersion]:
        """Every version of a subject, oldest first."""
        texts = self._subjects.get(subject, [])
        return [SchemaVersion(subject, at, self._texts.index(text) + 1, text) for at, text in enumerate(texts, 1)]
