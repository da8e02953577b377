"""The result of an import: the hubs to create, and the outcome of each key.

Invariant: every key that was read has exactly one outcome. No result holds a value that may be a secret: a file or a
variable replaces it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

# Shown instead of a key that may not be shown.
NO_KEY = "(no key)"


class FileKey(NamedTuple):
    """Holds one key of a file with its value and place.

    Attributes:
        key: The key as written; in YAML the place, as `spec.clusters[0].alias`.
        value: Without blanks around it.
        file: Name of the file, as it was given.
        line: The number of the line that it begins on.
        number: Number of entries read before; tells apart repeated keys.
    """

    key: str
    value: str
    file: str
    line: int
    number: int


class KeyKind(StrEnum):
    """Names what can become of a key."""

    MAPPED = "mapped"
    NOT_APPLICABLE = "not applicable"
    UNKNOWN = "unknown"


class KeyOutcome(NamedTuple):
    """Describes what became of a key.

    Attributes:
        key: The key, as it may be shown.
        file: The name of the file that it was read from.
        line: The number of the line in that file.
        kind: The kind of outcome.
        to: The key of `hub.yaml`; empty where it is not mapped.
        why: The reason, or what is different at the hub; may be empty where it is mapped.
    """

    key: str
    file: str
    line: int
    kind: KeyKind
    to: str
    why: str


@dataclass(frozen=True, slots=True)
class ClusterDraft:
    """The settings with which `hub.yaml` reaches a cluster; every value as written there, references included."""

    bootstrap_servers: str
    client: Mapping[str, str] = field(default_factory=dict)
    consumer: Mapping[str, str] = field(default_factory=dict)
    producer: Mapping[str, str] = field(default_factory=dict)
    admin: Mapping[str, str] = field(default_factory=dict)
    msk_iam: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RuleDraft:
    """Describes one entry of `topics:`.

    Attributes:
        match: The pattern, as in `hub.yaml`.
        exclude: The pattern of exceptions, as in `hub.yaml`; empty for none.
        central: The pattern of central names.
        start: `earliest` or `latest`.
        edges: Names of the edges.
    """

    match: str
    exclude: str
    central: str
    start: str
    edges: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OffsetsDraft:
    """The block `offsets:`; None or an empty text means the hub's default.

    Attributes:
        checkpoints: Whether positions are told.
        syncs: Whether pairs of offsets are.
        sync_groups: Whether they are committed.
        groups: A pattern.
        exclude: A pattern.
        interval: Time between two looks, as a duration.
    """

    checkpoints: bool | None = None
    syncs: bool | None = None
    sync_groups: bool = False
    groups: str = ""
    exclude: str = ""
    interval: str = ""


@dataclass(frozen=True, slots=True)
class HubDraft:
    """Describes one hub that an import makes.

    Attributes:
        name: The hub's name.
        target: MirrorMaker's name of the cluster that is central.
        central: The settings of central's cluster.
        edges: The edges by name.
        rules: The rules that say which topics flow.
        replication_factor: Replication factor of central topics; empty for the broker's default.
        config_sync: `apply` or `tell`; empty where nothing was said.
        emit: Whether heartbeats are written; None where nothing was said.
        interval: Time between two of them, as a duration; empty if not set.
        offsets: The settings of consumer groups; None if not set.
    """

    name: str
    target: str
    central: ClusterDraft
    edges: Mapping[str, ClusterDraft]
    rules: Sequence[RuleDraft]
    replication_factor: str = ""
    config_sync: str = ""
    emit: bool | None = None
    interval: str = ""
    offsets: OffsetsDraft | None = None

    @property
    def policy_path(self) -> str:
        """The path of the policy, relative to `hub.yaml`."""
        return f"policies/{self.name}.yaml"


@dataclass(frozen=True, slots=True)
class Imported:
    """Holds the complete result of an import.

    Attributes:
        form: The kind of the files, in words.
        hubs: One hub for each cluster that something is copied into.
        outcomes: One outcome for each key that was read, in order.
        variables: Variables to be set before a run, each with a description of its contents.
        stand_ins: A value for each of these, of the form that its place asks for.
        commands: Commands to be run before a run: they convert certificates and keys for the hub's client.
        remarks: Further remarks for a person.
    """

    form: str
    hubs: Sequence[HubDraft]
    outcomes: Sequence[KeyOutcome]
    variables: Mapping[str, str]
    stand_ins: Mapping[str, str]
    commands: Sequence[str]
    remarks: Sequence[str]


class PropertyMappings:
    """Collects what becomes of each key; a key that is mapped anywhere is mapped."""

    def __init__(self) -> None:
        self._to: dict[int, dict[str, None]] = {}
        self._why: dict[int, dict[str, None]] = {}
        self._against: dict[int, tuple[KeyKind, str]] = {}

    def mapped(self, entry: FileKey, to: str, why: str = "") -> None:
        """Note that an entry became a key of `hub.yaml`."""
        self._to.setdefault(entry.number, {})[to] = None
        if why:
            self._why.setdefault(entry.number, {})[why] = None

    def not_applicable(self, entry: FileKey, why: str) -> None:
        """The hub has nothing to do with it, for this reason."""
        self._against.setdefault(entry.number, (KeyKind.NOT_APPLICABLE, why))

    def unknown(self, entry: FileKey, why: str) -> None:
        """Note that MirrorMaker does not know an entry either."""
        self._against.setdefault(entry.number, (KeyKind.UNKNOWN, why))

    def as_other(self, entry: FileKey, other: FileKey, why: str) -> None:
        """Note that an entry fares as another key of the same value; the reason is for where that one is not mapped."""
        for to in self._to.get(other.number, ()):
            self.mapped(entry, to)
        if not self.is_told(entry):
            self.not_applicable(entry, why)

    def is_told(self, entry: FileKey) -> bool:
        """Whether something was said of an entry."""
        return entry.number in self._to or entry.number in self._against

    def outcomes(self, entries: Iterable[FileKey], shown: Mapping[int, str]) -> tuple[KeyOutcome, ...]:
        """The outcome of each entry.

        Args:
            entries: All entries that were read.
            shown: Replacements, by number, for keys that may not be shown unchanged.
        """
        return tuple(self._outcome(entry, shown.get(entry.number, entry.key)) for entry in entries)

    def _outcome(self, entry: FileKey, key: str) -> KeyOutcome:
        if to := self._to.get(entry.number):
            why = "; ".join(self._why.get(entry.number, ()))
            return KeyOutcome(key, entry.file, entry.line, KeyKind.MAPPED, ", ".join(to), why)
        kind, why = self._against[entry.number]
        return KeyOutcome(key, entry.file, entry.line, kind, "", why)
