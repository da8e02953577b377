"""The base class of network registries: each question is asked once, its time is bounded, its answer is remembered.

Invariants: an id is unknown only if the registry itself says so, and the answer has the time of its question. Any other
fault is `Unreachable`, which holds the flow and loses nothing. An answer counts until the registry gives another one,
so that records with known ids flow on. Every answer is kept, however late it comes. A subclass says how a question is
sent. For one thread; questions run in others.
"""

import contextlib
import math
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, TypeVar
from uuid import UUID

from aggregator.coordinates import SchemaName
from aggregator.errors import AggregatorError, DeadLetterError, Reason, Unreachable
from aggregator.schema.asking_budget import AskingBudget
from aggregator.schema.guids import FIRST, Guids
from aggregator.schema.listings import Listed, Named, SubjectVersions
from aggregator.schema.questions import LookupQueue, StillWaiting
from aggregator.schema.registry import (
    NO_REQUESTER,
    AnswerPending,
    GoneSchema,
    Listing,
    Requester,
    SchemaOrigin,
    SchemaVersion,
    TagPaths,
    UnknownSchema,
    describe_id,
)
from aggregator.schema.version_order import history, require_bounded, with_references
from aggregator.schema.wire import Framing

# A slot serves other edges in the same thread, so it waits for this long; then the question goes on in the background.
WAIT_S = 1.0
# The share of that time for a listing; single ids are asked about in the rest.
LISTING_SHARE = 0.5
# The numbers of questions and of listings that run at once; a listing is a series of questions.
_RUNNERS, _LISTERS = 16, 8
# Far more ids than the flows of a slot ask about when each reads a batch.
_MAX_MISSING = 65_536
# Commands read many versions and have no one else to serve.
_COMMAND_WAIT_S = 30.0
AVRO = "AVRO"
T = TypeVar("T")


class FetchedSchema(NamedTuple):
    """A registry's answer about a schema.

    Attributes:
        kind: `AVRO`, or another type.
        text: Self-contained; empty where it is not Avro.
        tags: Those that it keeps beside it.
    """

    kind: str
    text: str = ""
    tags: TagPaths = ()


class RemoteRegistry(ABC):
    """A registry in a network, with its open questions and its answers.

    Args:
        where: The registry's name in errors.
        wait_s: Longest that a question holds up who asks.
    """

    framing = Framing.CONFLUENT
    ids_end = FIRST

    def __init__(self, where: str, wait_s: float) -> None:
        self._where = where
        self.wait_at_most(wait_s)
        self._requester = NO_REQUESTER
        self._texts: dict[int, str] = {}
        self._tags: dict[int, TagPaths] = {}
        self._stale: set[int] = set()
        self._refreshed_s = time.monotonic()
        # By the topic that asked and the id: a subject of a topic may have got an id since another one asked.
        self._origins: dict[tuple[str, int], SchemaOrigin] = {}
        self._former: dict[tuple[str, int], SchemaOrigin] = {}
        self._histories: dict[str, Mapping[int, SchemaVersion]] = {}
        self._begun: dict[str, dict[int, SchemaVersion | None]] = {}
        self._foreign: dict[int, str] = {}
        self._missing: dict[int, float] = {}
        self._listings: dict[Hashable, SubjectVersions] = {}
        self._listed_ids: set[int] = set()
        self._awaited: set[int] = set()
        self._guids = Guids()
        self._lock = threading.Lock()

    def wait_at_most(self, wait_s: float) -> None:
        """Bound the waiting for answers: one topic waits this long at most.

        All topics together wait twice as long at most, within any time of five times this. A command serves no topic,
        and waits twice as long for each answer.
        """
        self._alone_s = 2 * wait_s
        budget = AskingBudget(2 * wait_s)
        self._questions, self._lists = LookupQueue(budget, _RUNNERS), LookupQueue(budget, _LISTERS)

    def schema(self, schema_id: int, *, requester: Requester = NO_REQUESTER, since_s: float | None = None) -> str:
        """The text of an id, self-contained; asked for once, and once more after each `refresh`."""
        self._requester = requester
        if schema_id in self._stale:
            with contextlib.suppress(Unreachable):  # known answers stay valid
                self._look(schema_id)
            if self._missed_s(schema_id) >= self._refreshed_s:
                raise GoneSchema(self.name(schema_id), self._where)
        elif schema_id not in self._texts and schema_id not in self._foreign:
            self._learn(schema_id, time.monotonic() if since_s is None else since_s)
        if schema_id in self._foreign:
            kind = self._foreign[schema_id]
            raise DeadLetterError(
                Reason.SCHEMA_REFUSED,
                f"{describe_id(self.name(schema_id))} in {self._where} is of type {kind}; only Avro is read",
                schema_id=schema_id,
                hint="leave the topic out of `topics`, or produce Avro",
            )
        return self._texts[schema_id]

    def _learn(self, schema_id: int, since_s: float) -> None:
        """Ask about an id that is not known, unless the registry has said since a time that it does not have it."""
        for _ in range(2):  # the late answer of an earlier question may be too old
            if self._missed_s(schema_id) < since_s and not self._look(schema_id):
                continue
            break
        missed_s = self._missed_s(schema_id)
        if missed_s >= since_s:
            raise UnknownSchema(self.name(schema_id), self._where, missed_s)
        if schema_id not in self._texts and schema_id not in self._foreign:
            raise AnswerPending(self._where)

    def _missed_s(self, schema_id: int) -> float:
        """When the registry was asked last that said that it does not have an id."""
        return self._missing.get(schema_id, -math.inf)

    def _look(self, schema_id: int) -> bool:
        """Ask the registry about an id; whether it is there. Ids that a listing named are asked about first."""
        kind = "listed" if schema_id in self._listed_ids else "ids"
        lane = kind, self._requester.topic, self._requester.source_partition
        topic = self._requester.topic
        try:
            return self._ask(("schema", schema_id), lambda: self._fetch(schema_id, topic), lane=lane)
        except AnswerPending:
            if len(self._awaited) > _MAX_MISSING:
                self._awaited.clear()
            self._awaited.add(schema_id)
            raise

    def listing(self, requester: Requester, is_own: Callable[[str], bool], *, since_s: float | None = None) -> Listing:
        """List versions. A known version is not asked for again until the next `refresh`, or until its subject changes.

        The listing does not judge ids that this client knows already. The registry is asked about those one by one.
        """
        self._requester = requester
        since_s = time.monotonic() if since_s is None else since_s
        key = requester.topic, requester.opened
        versions = self._listings.setdefault(key, SubjectVersions())
        for _ in range(2):  # as for ids
            if versions.listed is None or versions.listed.asked_s < since_s:
                about = "listing", key
                self._ask(about, lambda: self._list(requester, is_own, versions), listing=True)
        if versions.listed is None or versions.listed.asked_s < since_s:
            raise AnswerPending(self._where)
        return self._listing(versions.listed)

    def _listing(self, found: Listed) -> Listing:
        numbers = (self._guids.known(one.guid) for one in found.names if one.guid is not None)
        named = (*(one.schema_id for one in found.names), *numbers)
        ids = frozenset(one for one in named if one is not None)
        self._listed_ids |= ids
        has_guids = all(one.guid is not None for one in found.names)
        known = self._texts.keys() | self._foreign.keys()
        return Listing(self._where, ids, has_guids, found.asked_s, len(found.names), known)

    def _list(self, requester: Requester, is_own: Callable[[str], bool], versions: SubjectVersions) -> Listed:
        """List the versions of the subjects that belong to a topic.

        Whoever may register a subject that begins like the topic cannot make this fail by its size: of its versions the
        newest are listed. A record that names another one holds its flow when it is asked about alone.
        """
        asked_s, alone = time.monotonic(), {f"{requester.topic}-value", f"{requester.topic}-key"}

        def numbers(subject: str) -> Sequence[int]:
            return self._fetch_version_numbers(
                subject, newest=subject.startswith(f"{requester.topic}-") and subject not in alone
            )

        own = [one for one in self._fetch_subjects(requester.prefix, deleted=True) if is_own(one)]
        return versions.find(asked_s, own, numbers, self._fetch_version_ids)

    def refresh(self) -> None:
        """Ids are asked for again, and where they come from; versions do not change while their ids do not."""
        self._stale, self._refreshed_s = {*self._texts, *self._foreign}, time.monotonic()
        for versions in self._listings.values():
            versions.forget()
        self._former |= self._origins
        self._origins = {}

    def origin(self, schema_id: int) -> SchemaOrigin:
        """The registry's word to this topic, kept until the next `refresh`."""
        at = self._requester.topic, schema_id
        if at not in self._origins:
            try:
                self._origins[at] = self._ask(("origin", *at), lambda: self._fetch_origin(schema_id))
            except Unreachable:
                if at in self._former:
                    return self._former[at]
                raise
        return self._origins[at]

    def history(self, subject: str, version: int) -> list[SchemaVersion]:
        """The versions of a subject up to this one; each is asked for once."""
        if version not in self._histories.get(subject, {}):
            found = self._ask(("history", subject), lambda: with_references(subject, self._fetch_history))
            if version not in found.get(subject, {}):  # tags of earlier versions would be lost silently
                raise Unreachable(
                    f"registry {self._where}: version {version} of subject {subject} is not in its list of versions",
                    hint="see what answers at this address, and whether a proxy keeps old answers",
                )
            self._histories |= found
        return history(self._histories, subject, version)

    def number(self, guid: UUID) -> int | None:
        """A number that stands for a GUID in this process."""
        return self._guids.number(guid, self._texts)

    def name(self, schema_id: int) -> SchemaName | None:
        """The id itself, or the GUID whose number it is."""
        if schema_id < self.ids_end:
            return schema_id
        guid = self._guids.guid(schema_id)
        return str(guid) if guid and (schema_id in self._texts or schema_id in self._foreign) else None

    def subjects(self) -> list[str]:
        """The names of all subjects, sorted."""
        return self._ask("subjects", self._fetch_subjects, wait_s=_COMMAND_WAIT_S)

    def versions(self, subject: str) -> list[SchemaVersion]:
        """Every version of a subject, oldest first; those that are not Avro are left out."""
        return self._ask(("versions", subject), lambda: self._versions(subject), wait_s=_COMMAND_WAIT_S)

    def _fetch(self, schema_id: int, topic: str = "") -> bool:
        """Whether the registry has the id; what it says is kept. Where it means another schema, nothing else is."""
        asked_s = time.monotonic()
        found = self._fetch_schema(schema_id, self._guids.guid(schema_id))
        is_awaited = schema_id in self._awaited
        self._awaited.discard(schema_id)
        with self._lock:
            self._missing.pop(schema_id, None)
            if found is None:
                self._missing[schema_id] = asked_s
                if len(self._missing) > _MAX_MISSING:
                    del self._missing[next(iter(self._missing))]
                return False
            before = self._known(schema_id)
            if found.kind == AVRO:
                self._tags[schema_id], self._texts[schema_id] = found.tags, found.text
                self._foreign.pop(schema_id, None)
            else:
                self._foreign[schema_id] = found.kind
                self._texts.pop(schema_id, None)
            if before != (None, None, None) and before != self._known(schema_id):
                self._origins, self._former, self._histories, self._begun = {}, {}, {}, {}
            self._stale.discard(schema_id)
        if is_awaited:
            with contextlib.suppress(AggregatorError), self._boundary():
                self._read_on(schema_id, topic)
        return True

    def _read_on(self, schema_id: int, topic: str) -> None:
        """Prefetch the origin and history of a schema whose caller gave up waiting: each would cost it a retry."""
        at = topic, schema_id
        origin = self._origins.get(at) or self._fetch_origin(schema_id)
        self._origins.setdefault(at, origin)
        for subject, version in origin.versions.items():
            if topic and subject.startswith(f"{topic}-") and version not in self._histories.get(subject, {}):
                found = with_references(subject, self._fetch_history)
                if version in found.get(subject, {}):
                    with self._lock:
                        self._histories = {**self._histories, **found}

    def _gathered(
        self, subject: str, numbers: Sequence[int], asked: Callable[[int], SchemaVersion | None]
    ) -> Mapping[int, SchemaVersion]:
        """A subject's versions, each asked for once: what was told stays told when the rest fails, at a rate limit say.

        Args:
            subject: Name of the subject.
            numbers: Numbers of its versions.
            asked: Asks for one; None: it is not Avro, or gone.

        Raises:
            HoldError: they are too long together; the rest is not asked for.
        """
        begun = self._begun.setdefault(subject, {})
        known = self._histories.get(subject, {})
        characters = require_bounded(subject, [*known.values(), *filter(None, begun.values())])
        for number in numbers:
            if number not in known and number not in begun:
                begun[number] = one = asked(number)
                characters = require_bounded(subject, [one] if one else [], characters)
        self._begun.pop(subject, None)
        return {**known, **{number: one for number, one in begun.items() if one is not None}}

    def _known(self, schema_id: int) -> tuple[object, object, object]:
        return self._texts.get(schema_id), self._tags.get(schema_id), self._foreign.get(schema_id)

    def _ask(
        self,
        about: Hashable,
        question: Callable[[], T],
        *,
        lane: Hashable = None,
        wait_s: float | None = None,
        listing: bool = False,
    ) -> T:
        """Put a question to the registry, by default in the lane of what the newest requester needs beside ids."""
        topic = self._requester.topic
        if self._requester == NO_REQUESTER and wait_s is None:
            wait_s = self._alone_s

        def translated() -> T:
            with self._boundary():
                return question()

        self._prepare()
        try:
            if listing:
                return self._lists.fetch(about, translated, lane=about, topic=topic, share=LISTING_SHARE, wait_s=wait_s)
            return self._questions.fetch(about, translated, lane=lane or ("more", topic), topic=topic, wait_s=wait_s)
        except StillWaiting:
            self._give_up()
            raise AnswerPending(self._where) from None

    def _prepare(self) -> None:  # noqa: B027 - most have nothing to prepare
        """Prepare what a question needs, before it is asked."""

    def _give_up(self) -> None:  # noqa: B027 - as above
        """A question takes long; it may be ended."""

    @abstractmethod
    def _boundary(self) -> AbstractContextManager[None]:
        """No foreign error gets past, and no foreign text."""

    # All methods below run as a question, in another thread.

    @abstractmethod
    def _fetch_schema(self, schema_id: int, guid: UUID | None) -> FetchedSchema | None:
        """A schema by its id, or by the GUID whose number the id is; None: the registry has none."""

    @abstractmethod
    def _fetch_origin(self, schema_id: int) -> SchemaOrigin:
        """Every subject and version that has the schema."""

    @abstractmethod
    def _fetch_history(self, subject: str) -> Mapping[int, SchemaVersion]:
        """The versions of a subject that are Avro."""

    @abstractmethod
    def _fetch_subjects(self, prefix: str = "", *, deleted: bool = False) -> list[str]:
        """The name of every subject, or of those that begin so at least, sorted; of deleted ones too, if asked for."""

    @abstractmethod
    def _fetch_version_numbers(self, subject: str, *, newest: bool = False) -> list[int]:
        """The numbers of a subject's versions, deleted ones among them.

        Args:
            subject: Name of the subject.
            newest: Of more than the budget the newest ones are told.

        Raises:
            HoldError: they are more, and that was not asked for.
        """

    @abstractmethod
    def _fetch_version_ids(self, subject: str, number: int) -> Named | None:
        """What records call a version that is listed; None: it was deleted for good, and leaves its number behind.

        Raises:
            Unreachable: it is not there.
        """

    @abstractmethod
    def _versions(self, subject: str) -> list[SchemaVersion]:
        """Every version of a subject that is there, oldest first."""
