"""The port of schema registries: ids to schema texts, and registration.

Invariant: one id means one text for ever; registering the same text again gives the same id, in every subject.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol
from uuid import UUID

from aggregator.coordinates import SchemaName
from aggregator.errors import DeadLetterError, HoldError, Reason, Unreachable
from aggregator.schema.wire import Framing


class UnknownSchema(DeadLetterError):
    """The registry answers, and has no schema of this id."""

    def __init__(self, schema_id: int, where: str) -> None:
        super().__init__(
            Reason.UNKNOWN_SCHEMA,
            f"schema id {schema_id} is not in {where}",
            schema_id=schema_id,
            hint="register the writer's schema at this edge's registry, then replay the dead letter",
        )

    def __reduce__(self) -> tuple[object, ...]:
        """Rebuilt like every other error of the tree."""
        return super().__reduce__()


class Flooded(Unreachable):
    """The registry was asked about too many ids that it does not have; those that are known flow on."""

    def __init__(self, where: str) -> None:
        super().__init__(
            f"registry {where}: too many unknown schema ids to ask about",
            hint="see whether this topic's keys and values are Avro in Confluent's wire format",
        )

    def __reduce__(self) -> tuple[object, ...]:
        """Rebuilt like every other error of the tree."""
        return super().__reduce__()


# Tags that a registry keeps beside a schema, by the path that they are kept under.
TagPaths = tuple[tuple[str, frozenset[str]], ...]


class GoneSchema(HoldError):
    """The registry had a schema of this id, and has none any more."""

    def __init__(self, schema_id: int, where: str) -> None:
        super().__init__(
            f"schema id {schema_id} was in {where}, and is not there any more",
            hint="restore the registry as it was; what the flow holds is tried again every few minutes",
        )

    def __reduce__(self) -> tuple[object, ...]:
        """Rebuilt like every other error of the tree."""
        return super().__reduce__()


class Registered(NamedTuple):
    """One version of a subject.

    Attributes:
        subject: Its name.
        version: Number in the subject.
        schema_id: The registry's.
        text: With every type that it refers to written into it.
        tags: Those that its registry keeps beside it.
        refers: Subject and version of the schemas that it names.
        is_lent: It stands among the versions of another subject, because one of them refers to it or a later one.
    """

    subject: str
    version: int
    schema_id: int
    text: str
    tags: TagPaths = ()
    refers: tuple[tuple[str, int], ...] = ()
    is_lent: bool = False


class Origin(NamedTuple):
    """Where a registry has a schema.

    Attributes:
        versions: Subject to the newest version of it that has this id, deleted ones among them.
        tags: What the registry keeps beside the schema.
        name: What the schema is known by for ever: its id, or its GUID.
    """

    versions: Mapping[str, int]
    tags: TagPaths
    name: str


class Listing(NamedTuple):
    """The schemas of some subjects, as a registry listed them.

    Attributes:
        where: The registry, as errors name it.
        ids: The id of every version, deleted ones and those that are not Avro among them; also numbers of GUIDs.
        has_guids: Whether a number of a GUID that is not among the ids is no schema of these subjects.
        asked_s: When the registry was asked, on the clock of `time.monotonic`; None: just now.
    """

    where: str
    ids: frozenset[int]
    has_guids: bool = True
    asked_s: float | None = None


class Registry(Protocol):
    """What every registry can do.

    Attributes:
        framing: How records name its schemas.
        ids_end: Ids that records name are below it; what `number` gives is not.
    """

    framing: Framing
    ids_end: int

    def schema(self, schema_id: int, *, topic: str = "") -> str:
        """The schema's text; a registry is asked again about an id that it did not know before.

        Args:
            schema_id: From a record.
            topic: Of the record; topics share the time that goes into ids which a registry does not have.

        Raises:
            UnknownSchema: the registry answers and has no such id.
            Unreachable: the registry does not answer.
            Flooded: it is not asked about this id now.
            HoldError: the id has two meanings, or the registry had it and has it no more.
        """

    def listing(self, topic: str, is_own: Callable[[str], bool], *, prefix: str = "") -> Listing:
        """The schemas of a topic's subjects: one answer about any number of ids that the registry may not know.

        Args:
            topic: Whose subjects they are; equal topics have equal subjects.
            is_own: Whether a subject is one of them.
            prefix: What the names of all of them begin with.

        Raises:
            Unreachable: the registry does not answer, or not yet.
            Flooded: it is not asked now.
            HoldError: a subject has too many versions.
        """

    def origin(self, schema_id: int) -> Origin:
        """Where an id that `schema` has given comes from.

        Raises:
            Unreachable: the registry does not answer.
        """

    def history(self, subject: str, version: int) -> list[Registered]:
        """Versions of a subject up to this one, oldest first; deleted ones too, others than Avro not.

        Before a version that refers to another subject stand that one's versions, up to the one that it names.

        Raises:
            Unreachable: the registry does not answer.
        """

    def refresh(self) -> None:
        """What is known may have changed: it is asked for again, and counts on while the registry does not answer."""

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

    def admit(self, subject: str, text: str) -> int:
        """Register a derived schema, unless readers of it could not read what the newest version wrote.

        Raises:
            Unreachable: the registry does not answer.
            HoldError: it breaks compatibility, told with what differs; or the registry refuses.
        """

    def subjects(self) -> list[str]:
        """Every subject's name, sorted."""

    def versions(self, subject: str) -> list[Registered]:
        """Every version of a subject, oldest first; none for an unknown subject."""
