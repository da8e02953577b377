"""A registry that answers over a network: asked once about each thing, bounded in time, and remembered.

Invariants: only a registry's own word makes an id unknown; whatever else goes wrong is `Unreachable`, which holds the
flow and loses nothing; what it said counts until it says something else, so that known ids flow on. Who subclasses
says how a question is put. For one thread; questions run in another one.
"""

import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping
from contextlib import AbstractContextManager
from typing import NamedTuple, TypeVar
from uuid import UUID

from aggregator.coordinates import SchemaName
from aggregator.errors import DeadLetterError, Reason, Unreachable
from aggregator.schema.asking_budget import AskingBudget
from aggregator.schema.guids import FIRST, Guids
from aggregator.schema.histories import history, with_lenders
from aggregator.schema.patience import Patience, StillWaiting
from aggregator.schema.registry import Flooded, GoneSchema, Listing, Origin, Registered, TagPaths, UnknownSchema
from aggregator.schema.wire import Framing

# A slot serves other edges in the same thread: it waits this long, and the question goes on behind its back.
WAIT_S = 2.0
# So much of that for a listing, which goes on beside other questions.
_LISTING_SHARE = 0.25
# Commands read many versions and have no one else to serve.
_COMMAND_WAIT_S = 30.0
AVRO = "AVRO"
T = TypeVar("T")


class FetchedSchema(NamedTuple):
    """What a registry says of a schema.

    Attributes:
        kind: `AVRO`, or another type.
        text: Self-contained; empty where it is not Avro.
        tags: Those that it keeps beside it.
    """

    kind: str
    text: str = ""
    tags: TagPaths = ()


class Named(NamedTuple):
    """What records call a schema.

    Attributes:
        schema_id: 0 where they call it by its GUID only.
        guid: None where the registry tells none.
    """

    schema_id: int
    guid: UUID | None = None


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
        self._budget = AskingBudget()
        self._named: dict[str, dict[int, Named]] = {}
        self._listings: dict[str, Patience] = {}
        self._listed_ids: set[int] = set()
        self._guids = Guids()

    def schema(self, schema_id: int, *, topic: str = "") -> str:
        """The text of an id, self-contained; asked for once, and once more after each `refresh`."""
        if schema_id in self._stale:
            with contextlib.suppress(Unreachable):  # what is known counts on
                self._look_anew(schema_id)
        if schema_id not in self._texts and schema_id not in self._foreign:
            self._look(schema_id, topic)
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

    def _look(self, schema_id: int, topic: str) -> None:
        asked = time.monotonic()
        if schema_id not in self._listed_ids and self._budget.is_spent(asked, topic):
            raise Flooded(self._where)

        def question() -> tuple[float, bool]:
            return time.monotonic(), self._fetch(schema_id)

        began, is_there = self._ask(("schema", schema_id), question)
        if not is_there and began < asked:  # the late answer to an earlier question says nothing of now
            _, is_there = self._ask(("schema", schema_id), question)
        if not is_there:
            self._spend(asked, topic)

    def _spend(self, since_s: float, topic: str) -> None:
        now = time.monotonic()
        self._budget.spend(now, now - since_s, topic)

    def listing(self, topic: str, is_own: Callable[[str], bool], *, prefix: str = "") -> Listing:
        """Asked anew each time; a version that was seen once is not asked about again until the next `refresh`.

        It also has what this client knows, which a registry that has lost it is asked about.
        """
        began = time.monotonic()
        patience = self._listings.setdefault(topic, Patience(self._patience.wait_s * _LISTING_SHARE))
        if self._budget.is_spent(began, topic) and not patience.has_answer:
            raise Flooded(self._where)
        try:
            asked_s, entries = self._ask("listing", lambda: self._list(is_own, prefix), patience=patience)
        finally:
            self._spend(began, topic)
        numbers = (self._guids.known(one.guid) for one in entries if one.guid is not None)
        ids = frozenset(one for one in (*(one.schema_id for one in entries), *numbers) if one)
        self._listed_ids |= ids
        has_guids = all(one.guid is not None for one in entries)
        return Listing(self._where, ids and ids | self._texts.keys() | self._foreign.keys(), has_guids, asked_s)

    def _list(self, is_own: Callable[[str], bool], prefix: str) -> tuple[float, list[Named]]:
        """When it began, and every version of some subjects."""
        began, named, found = time.monotonic(), self._named, list[Named]()
        for subject in filter(is_own, self._listed(prefix, deleted=True)):
            found += self._names(subject, named.setdefault(subject, {}))
        return began, found

    def _names(self, subject: str, known: dict[int, Named]) -> list[Named]:
        """A subject's versions; all anew where the newest known is another one, as of a subject that was made anew."""
        numbers = self._numbers(subject)
        newest = max(known, default=None)
        if newest is not None and (not known.keys() <= set(numbers) or self._called(subject, newest) != known[newest]):
            known.clear()
        for number in numbers:
            if number not in known:
                known[number] = self._called(subject, number)
        return list(known.values())

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
        self._named = {}
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

    def name(self, schema_id: int) -> SchemaName | None:
        """The id itself, or the GUID whose number it is."""
        if schema_id < self.ids_end:
            return schema_id
        guid = self._guids.guid(schema_id)
        return str(guid) if guid and (schema_id in self._texts or schema_id in self._foreign) else None

    def subjects(self) -> list[str]:
        """Every subject's name, sorted."""
        return self._ask("subjects", self._listed, wait_s=_COMMAND_WAIT_S)

    def versions(self, subject: str) -> list[Registered]:
        """Every version of a subject, oldest first; those that are not Avro are left out."""
        return self._ask(("versions", subject), lambda: self._versions(subject), wait_s=_COMMAND_WAIT_S)

    def _fetch(self, schema_id: int) -> bool:
        """Whether the registry has the id; what it says is kept."""
        found = self._fetched_schema(schema_id, self._guids.guid(schema_id))
        if found is None:
            return False
        if found.kind == AVRO:
            self._texts[schema_id], self._tags[schema_id] = found.text, found.tags
            self._foreign.pop(schema_id, None)
        else:
            self._foreign[schema_id] = found.kind
            self._texts.pop(schema_id, None)
        return True

    def _ask(
        self,
        about: Hashable,
        question: Callable[[], T],
        *,
        wait_s: float | None = None,
        patience: Patience | None = None,
    ) -> T:
        def translated() -> T:
            with self._boundary():
                return question()

        self._prepare()
        try:
            return (patience or self._patience).ask(about, translated, wait_s=wait_s)
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
    def _fetched_schema(self, schema_id: int, guid: UUID | None) -> FetchedSchema | None:
        """A schema by its id, or by the GUID whose number the id is; None: the registry has none."""

    @abstractmethod
    def _origin(self, schema_id: int) -> Origin:
        """Every subject and version that has the schema."""

    @abstractmethod
    def _history(self, subject: str) -> Mapping[int, Registered]:
        """The versions of a subject that are Avro."""

    @abstractmethod
    def _listed(self, prefix: str = "", *, deleted: bool = False) -> list[str]:
        """The name of every subject, or of those that begin so at least, sorted; of deleted ones too, if asked for."""

    @abstractmethod
    def _numbers(self, subject: str) -> list[int]:
        """The numbers of a subject's versions, deleted ones among them."""

    @abstractmethod
    def _called(self, subject: str, number: int) -> Named:
        """What records call a version that is listed.

        Raises:
            Unreachable: it is not there.
        """

    @abstractmethod
    def _versions(self, subject: str) -> list[Registered]:
        """Every version of a subject that is there, oldest first."""
