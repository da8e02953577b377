"""The common form of MirrorMaker's settings: each piece is one setting for a cluster, a flow and a kind of client.

Invariant: MirrorMaker 1 and the three forms of MirrorMaker 2 are all converted to pieces. Later steps depend on no
form.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from aggregator.mirrormaker.references import FilePlace
from aggregator.mirrormaker.result import FileKey, PropertyMappings

ROLES = ("consumer", "producer", "admin")


class ScopedSetting(NamedTuple):
    """Describes which setting one key speaks of, and for which cluster, client and flow.

    Attributes:
        entry: The entry that it was read from.
        name: The setting, without prefixes.
        value: The value of the setting.
        cluster: The cluster that it is for; empty for all.
        role: The kind of client that it is for; empty for all.
        source: The flow that it is for, by its source; empty for all.
        target: The flow that it is for, by its target; empty for all.
        of_records: Whether it stands where records are copied; not with the connectors of checkpoints and heartbeats.
    """

    entry: FileKey
    name: str
    value: str
    cluster: str = ""
    role: str = ""
    source: str = ""
    target: str = ""
    of_records: bool = True

    @property
    def weight(self) -> int:
        """The precedence: pieces of records first, then a flow's, then a cluster's, then a role's."""
        return 4 * bool(self.source or self.target) + 2 * bool(self.cluster) + bool(self.role) + 8 * self.of_records

    @property
    def place(self) -> FilePlace:
        """Where it was read."""
        return FilePlace(self.entry.file, self.entry.line, self.name)


@dataclass(slots=True)
class Mirror:
    """The content of one set of files, as clusters, flows and pieces.

    Attributes:
        form: The kind of the files, in words.
        clusters: MirrorMaker's names, in order.
        flows: Source and target of what is copied, in order.
        scoped_settings: Pieces that are left to be translated.
        fates: Fates that are already decided.
        keys_are_places: Whether keys are places of a document, which no line of a secret can become.
        keeps_names: Whether topics have the same names at the target where nothing else is said.
        remarks: Remarks for a person.
    """

    form: str
    clusters: list[str] = field(default_factory=list)
    flows: list[tuple[str, str]] = field(default_factory=list)
    scoped_settings: list[ScopedSetting] = field(default_factory=list)
    fates: PropertyMappings = field(default_factory=PropertyMappings)
    keys_are_places: bool = False
    keeps_names: bool = False
    remarks: list[str] = field(default_factory=list)


def by_weight(scoped_settings: Sequence[ScopedSetting]) -> list[ScopedSetting]:
    """The winner first; of equals the one that was written last."""
    return sorted(scoped_settings, key=lambda setting: (-setting.weight, -setting.entry.number))


def role_of(name: str) -> tuple[str, str]:
    """`consumer.auto.offset.reset` as the role and the rest; no role where none is named."""
    role, _, rest = name.partition(".")
    if role in ROLES and rest and name not in _NO_ROLES:
        return role, rest.removeprefix("override.")
    return "", name


# These names begin with a role but are settings of MirrorMaker itself.
_NO_ROLES = frozenset({"consumer.poll.timeout.ms", "consumer.timeout.ms", "admin.timeout.ms", "producer.type"})
