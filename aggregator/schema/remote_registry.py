"""A registry that answers over a network: asked once about each thing, bounded in time, and remembered.

Invariants: only a registry's own word makes an id unknown; whatever else goes wrong is `Unreachable`, which holds the
flow and loses nothing; what it said counts until it says something else, so that known ids flow on. Who subclasses
says how a question is put. For one thread; questions run in another one.
"""

import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import NamedTuple, TypeVar
from uuid import UUID

from aggregator.errors import DeadLetterError, Reason, Unreachable
from aggregator.schema.guids import FIRST, Guids
from aggregator.schema.histories import history, with_lenders
from aggregator.schema.negative_cache import NegativeCache
from aggregator.schema.patience import Patience, StillWaiting
from aggregator.schema.registry import Flooded, GoneSchema, Origin, Registered, TagPaths, UnknownSchema
from aggregator.schema.wire import Framing

# A slot serves other edges in the same thread: it waits this long, and the question goes on behind its back.
WAIT_S = 2.0
# Command-line listings read many versions and have no one else to serve.
_LISTING_S = 30.0
AVRO = "AVRO"
T = TypeVar("T")


class Told(NamedTuple):
    """What a registry says of a schema.

    Attributes:
        kind: `AVRO`, or another type.
        text: Self-contained; empty where it is not Avro.
        tags: Those that it keeps beside it.
    """

    kind: str
    text: str = ""
    tags: TagPaths = ()


class RemoteRegistry(ABC):
    """What was asked, and what was answered.

    Args:
        where: What errors call it.
        wait_s: Longest that a question holds up who asks.
    """

    framing = Framing.CONFLUENT
    ids_end = FIRST

    def __init__(self, where: str, wait_s: float) -> None:
        self._where = where
        self._patience = Patience(wait_s)
        self._texts: dict[int, str] = {}
        self._tags: dict[int, TagPaths] = {}
        self._stale: set[int] = set()
        self._origins: dict[int, Origin] = {}
        self._former: dict[int, Origin] = {}
        self._histories: dict[str, Mapping[int, Registered]] = {}
        self._foreign: dict[int, str] = {}
        self._misses = NegativeCache()
        self._guids = Guids()

    def schema(self, schema_id: int, *, look_again: bool = True) -> str:
        """The text of an id, self-contained; asked for once, and once more after each `refresh`."""
        if schema_id in self._stale:
            with contextlib.suppress(Unreachable):  # what is known counts on
                self._look_anew(schema_id)
        if schema_id not in self._texts and schema_id not in self._foreign:
            self._look(schema_id, look_again=look_again)
        if schema_id in self._foreign:
            kind = self._foreign[schema_id]
            raise DeadLetterError(
                Reason.SCHEMA_REFUSED,
                f"schema id {schema_id} in {self._where} is of type {kind}; only Avro is read",
                schema_id=schema_id,
                hint="leave the topic out of `topics`, or produce Avro",
            )
        if schema_id not in self._texts:
            raise UnknownSchema(schema_id, self._where)
        return self._texts[schema_id]

    def _look(self, schema_id: int, *, look_again: bool) -> None:
        asked = time.monotonic()
        if not look_again and self._misses.remembers(schema_id, asked):
            return
        if self._misses.flooded(asked):
            raise Flooded(self._where)
        if not self._ask(("schema", schema_id), lambda: self._fetch(schema_id)):
            now = time.monotonic()
            self._misses.add(schema_id, now, now - asked)

    def _look_anew(self, schema_id: int) -> None:
        """Ask again about an id that is known; of a registry in which it means another schema, nothing is known."""
        before = self._texts.get(schema_id), self._tags.get(schema_id), self._foreign.get(schema_id)
        if not self._ask(("schema", schema_id), lambda: self._fetch(schema_id)):
            raise GoneSchema(schema_id, self._where)
        self._stale.discard(schema_id)
        if before != (self._texts.get(schema_id), self._tags.get(schema_id), self._foreign.get(schema_id)):
            self._origins, self._former, self._histories = {}, {}, {}

    def refresh(self) -> None:
        """Ids are asked for again, and where they come from; versions do not change while their ids do not."""
        self._stale = {*self._texts, *self._foreign}
        self._former |= self._origins
        self._origins = {}

    def origin(self, schema_id: int) -> Origin:
        """The registry's word, kept until the next `refresh`."""
        if schema_id not in self._origins:
            try:
                self._origins[schema_id] = self._ask(("origin", schema_id), lambda: self._origin(schema_id))
            except Unreachable:
                if schema_id in self._former:
                    return self._former[schema_id]
                raise
        return self._origins[schema_id]

    def history(self, subject: str, version: int) -> list[Registered]:
        """Asked for once, version by version."""
        if version not in self._histories.get(subject, {}):
            found = self._ask(("history", subject), lambda: with_lenders(subject, self._history))
            if version not in found.get(subject, {}):  # tags of earlier versions would be lost in silence
                raise Unreachable(
                    f"registry {self._where}: version {version} of subject {subject} is not in its list of versions",
                    hint="see what answers at this address, and whether a proxy keeps old answers",
                )
            self._histories |= found
        return history(self._histories, subject, version)

    def number(self, guid: UUID) -> int | None:
        """A number of this process's own."""
        return self._guids.number(guid, self._texts)

    def subjects(self) -> list[str]:
        """Every subject's name, sorted."""
        return self._ask("subjects", self._listed, wait_s=_LISTING_S)

    def versions(self, subject: str) -> list[Registered]:
        """Every version of a subject, oldest first; those that are not Avro are left out."""
        return self._ask(("versions", subject), lambda: self._versions(subject), wait_s=_LISTING_S)

    def _fetch(self, schema_id: int) -> bool:
        """Whether the registry has the id; what it says is kept."""
        told = self._told(schema_id, self._guids.guid(schema_id))
        if told is None:
            return False
        if told.kind == AVRO:
            self._texts[schema_id], self._tags[schema_id] = told.text, told.tags
            self._foreign.pop(schema_id, None)
        else:
            self._foreign[schema_id] = told.kind
            self._texts.pop(schema_id, None)
        return True

    def _ask(self, about: object, question: Callable[[], T], *, wait_s: float | None = None) -> T:
        def translated() -> T:
            with self._boundary():
                return question()

        self._prepare()
        try:
            return self._patience.ask(about, translated, wait_s=wait_s)
        except StillWaiting:
            self._give_up()
            raise Unreachable(f"registry {self._where} is slow: no answer yet", hint="see how it does") from None

    def _prepare(self) -> None:  # noqa: B027 - most have nothing to prepare
        """Before a question."""

    def _give_up(self) -> None:  # noqa: B027 - as above
        """A question takes long; it may be ended."""

    @abstractmethod
    def _boundary(self) -> AbstractContextManager[None]:
        """No foreign error gets past, and no foreign text."""

    # All of these run as a question, in another thread.

    @abstractmethod
    def _told(self, schema_id: int, guid: UUID | None) -> Told | None:
        """A schema by its id, or by the GUID whose number the id is; None: the registry has none."""

    @abstractmethod
    def _origin(self, schema_id: int) -> Origin:
        """Every subject and version that has the schema."""

    @abstractmethod
    def _history(self, subject: str) -> Mapping[int, Registered]:
        """The versions of a subject that are Avro."""

    @abstractmethod
    def _listed(self) -> list[str]:
        """Every subject's name, sorted."""

    @abstractmethod
    def _versions(self, subject: str) -> list[Registered]:
        """Every version of a subject that is there, oldest first."""
