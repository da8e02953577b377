"""The interface (port) of schema registries: look up a schema by its id, and register a schema.

Invariant: one id means one text for ever. Registering the same text again gives the same id, in every subject.
"""

from collections.abc import Callable, Collection, Hashable, Mapping
from typing import NamedTuple, Protocol
from uuid import UUID

from aggregator.coordinates import SchemaName
from aggregator.errors import DeadLetterError, HoldError, Reason, Unreachable
from aggregator.schema.wire import Framing

# A registry numbers its schemas one by one. A number beyond this bound is four bytes of a record without a frame.
_TOLD_IDS = 1 << 24


def reportable_id(name: SchemaName | None) -> SchemaName | None:
    """What may be told of a name that no registry knows: nothing of a number that can be no schema's."""
    return None if isinstance(name, int) and name >= _TOLD_IDS else name


def describe_id(name: SchemaName | None) -> str:
    """The name of a schema for errors. A name that no registry knows is not quoted: it may be any bytes."""
    return "what a record names its schema by" if name is None else f"schema id {name}"


class UnknownSchema(DeadLetterError):
    """The registry answers, and has no schema of this id.

    Args:
        name: The name from a record; None: a GUID, or a number that can be no id.
        where: The registry, as errors name it.
        asked_s: When it was asked, on the clock of `time.monotonic`; None: just now.
    """

    def __init__(self, name: SchemaName | None, where: str, asked_s: float | None = None) -> None:
        shown = reportable_id(name)
        super().__init__(
            Reason.UNKNOWN_SCHEMA,
            f"{describe_id(shown)} is not in {where}",
            schema_id=shown if isinstance(shown, int) else None,
            hint="register the writer's schema at this edge's registry, then replay the dead letter",
        )
        self.where, self.asked_s = where, asked_s

    def __reduce__(self) -> tuple[object, ...]:
        """Rebuilt like every other error of the tree."""
        return super().__reduce__()


class AnswerPending(Unreachable):
    """A registry was asked, or will be, and the caller no longer waits. The next call may find the answer."""

    def __init__(self, where: str) -> None:
        super().__init__(f"registry {where} is slow: no answer yet", hint="see how it does; the flow goes on by itself")

    def __reduce__(self) -> tuple[object, ...]:
        """Rebuilt like every other error of the tree."""
        return super().__reduce__()


# Tags that a registry keeps beside a schema, by the path that they are kept under.
TagPaths = tuple[tuple[str, frozenset[str]], ...]


class IncompatibleSchema(HoldError):
    """Readers of a derived schema cannot read records that are in the central topic."""


class GoneSchema(HoldError):
    """The registry had a schema of this id, and has none any more."""

    def __init__(self, name: SchemaName | None, where: str) -> None:
        super().__init__(
            f"{describe_id(name)} was in {where}, and is not there any more",
            hint="restore the registry as it was; what the flow holds is tried again every few minutes",
        )

    def __reduce__(self) -> tuple[object, ...]:
        """Rebuilt like every other error of the tree."""
        return super().__reduce__()


class SchemaVersion(NamedTuple):
    """Describes one version of a subject.

    Attributes:
        subject: The subject's name.
        version: The version's number in the subject.
        schema_id: The registry's id of the schema.
        text: The schema's text, with every type that it refers to written into it.
        tags: Those that its registry keeps beside it.
        refers: Subject and version of the schemas that it names.
        is_referenced: It stands among the versions of another subject, because one of them refers to it or a later one.
    """

    subject: str
    version: int
    schema_id: int
    text: str
    tags: TagPaths = ()
    refers: tuple[tuple[str, int], ...] = ()
    is_referenced: bool = False


class SchemaOrigin(NamedTuple):
    """The place of a schema in a registry.

    Attributes:
        versions: Subject to the newest version of it that has this id, deleted ones among them.
        tags: What the registry keeps beside the schema.
        name: What the schema is known by for ever: its id, or its GUID.
    """

    versions: Mapping[str, int]
    tags: TagPaths
    name: str


class Requester(NamedTuple):
    """Who asks; requesters get equal shares of a registry's time, and none waits for another.

    Attributes:
        topic: Edge topic.
        opened: Patterns of the subjects that its policy opens beside its own; one of each group must match.
        source_partition: The partition that its records come from.
    """

    topic: str = ""
    opened: tuple[tuple[str, ...], ...] = ()
    source_partition: Hashable = None

    @property
    def prefix(self) -> str:
        """What the names of all subjects of the topic begin with; empty where they have nothing in common."""
        return "" if self.opened else f"{self.topic}-"


NO_REQUESTER = Requester()


class Listing(NamedTuple):
    """The schemas of some subjects, as a registry listed them.

    Attributes:
        where: The registry, as errors name it.
        ids: The id of every version, deleted ones and those that are not Avro among them; also numbers of GUIDs.
        has_guids: Whether a number of a GUID that is not among the ids is no schema of these subjects.
        asked_s: When the registry was asked, on the clock of `time.monotonic`; None: just now.
        versions: The number of versions that it listed, those without a known id included; 0: the number of `ids`.
        known: Ids that the registry told otherwise, of these subjects or others; the listing judges none of them.
    """

    where: str
    ids: frozenset[int]
    has_guids: bool = True
    asked_s: float | None = None
    versions: int = 0
    known: Collection[int] = frozenset()


class Registry(Protocol):
    """The operations of every registry.

    Attributes:
        framing: The way in which records name its schemas.
        ids_end: Ids that records name are below it; what `number` gives is not.
    """

    framing: Framing
    ids_end: int

    def schema(self, schema_id: int, *, requester: Requester = NO_REQUESTER, since_s: float | None = None) -> str:
        """The schema's text; a registry is asked again about an id that it did not know before.

        Args:
            schema_id: The id from a record.
            requester: Who needs it.
            since_s: What the registry said before that time, on the clock of `time.monotonic`, does not count against
                the id; None: nothing that it said.

        Raises:
            UnknownSchema: the registry was asked since then and has no such id.
            AnswerPending: no answer yet; it is there the next time.
            Unreachable: the registry does not answer.
            HoldError: the id has two meanings, or the registry had it and has it no more.
        """

    def listing(self, requester: Requester, is_own: Callable[[str], bool], *, since_s: float | None = None) -> Listing:
        """The schemas of a topic's subjects: one answer about any number of ids that the registry may not know.

        Args:
            requester: Whose subjects they are; equal topics that open equal subjects share a listing.
            is_own: Whether a subject is one of them.
            since_s: Only a listing that was asked for since then will do; None: a new one is asked for.

        Raises:
            AnswerPending: no answer yet; it is there the next time.
            Unreachable: the registry does not answer.
            HoldError: a subject that belongs to the topic alone has too many versions.
        """

    def origin(self, schema_id: int) -> SchemaOrigin:
        """The place of an id that `schema` has given, as it is since the topic that asked for that asks for this.

        What was said to another topic before does not count: a subject of this one may have got the id since.

        Raises:
            Unreachable: the registry does not answer.
        """

    def history(self, subject: str, version: int) -> list[SchemaVersion]:
        """Versions of a subject up to this one, oldest first; deleted ones too, others than Avro not.

        Before a version that refers to another subject stand that one's versions, up to the one that it names.

        Raises:
            Unreachable: the registry does not answer.
        """

    def refresh(self) -> None:
        """Mark cached answers as stale: they are fetched again, and stay valid while the registry does not answer."""

    def number(self, guid: UUID) -> int | None:
        """The id under which `schema` knows the schema of a GUID, without asking; None: this registry has no GUIDs."""

    def name(self, schema_id: int) -> SchemaName | None:
        """What everybody calls a schema that `schema` knows by this id; None: a GUID that whoever wrote it made up."""

    def register(self, subject: str, text: str) -> int:
        """Make `text` the newest version of `subject` unless it is a version already; returns its id.

        Raises:
            Unreachable: the registry does not answer.
            HoldError: the registry refuses.
        """

    def register_compatible(self, subject: str, text: str) -> int:
        """Register a derived schema, unless readers of it could not read what the newest version wrote.

        Raises:
            Unreachable: the registry does not answer.
            HoldError: it breaks compatibility, told with what differs; or the registry refuses.
        """

    def subjects(self) -> list[str]:
        """The names of all subjects, sorted."""

    def versions(self, subject: str) -> list[SchemaVersion]:
        """Every version of a subject, oldest first; none for an unknown subject."""
