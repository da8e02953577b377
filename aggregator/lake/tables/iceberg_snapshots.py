"""Reads the snapshots of an Iceberg table: what each did, which files it added, and which of them a commit forgets.

Invariant: nothing is changed here.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import pairwise

from pyiceberg.manifest import DataFile, ManifestEntryStatus
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot

STAY, SNAPSHOTS = "history.expire.min-snapshots-to-keep", 100
REWRITES = "hub.rewrites"  # key in the summary of a snapshot that changes no rows
_AT_ONCE = 2  # each snapshot costs two copies of the metadata; a commit adds one snapshot
_QUERIES_MS, _STEP_MS = 3_600_000, 600_000


def surplus(
    snapshots: Sequence[Snapshot], protected: AbstractSet[int], properties: Mapping[str, str], *, now_ms: int
) -> list[int]:
    """Ids of snapshots that a commit forgets, a few at a time: it costs more with each that the metadata name.

    Their manifests are left to the sweep. What was current at every tenth minute of the last hour stays: queries that
    began since then read files that were replaced meanwhile. It names all of those that are old enough to be swept,
    because a file is not swept on the day on which it was written.

    Args:
        snapshots: Snapshots of the table.
        protected: Ids of the snapshots that a branch or a tag names.
        properties: Of the table; `history.expire.min-snapshots-to-keep` says how many stay, 100 by default.
        now_ms: Time, milliseconds since 1970.
    """
    stay = max(1, int(properties.get(STAY, SNAPSHOTS)))
    ordered = _in_order(snapshots)
    old = ordered[:-stay]
    if not old:
        return []
    began_ms = (now_ms - _QUERIES_MS) // _STEP_MS * _STEP_MS
    read = {_current_at(ordered, at_ms) for at_ms in range(began_ms, now_ms + 1, _STEP_MS)}
    return [one.snapshot_id for one in old if one.snapshot_id not in protected | read][:_AT_ONCE]


def replaced_before(snapshots: Sequence[Snapshot], before_ms: int) -> list[int]:
    """Ids of the snapshots that were no more the newest at a time, in milliseconds since 1970."""
    ordered = _in_order(snapshots)
    return [one.snapshot_id for one, after in pairwise(ordered) if after.timestamp_ms < before_ms]


def _in_order(snapshots: Sequence[Snapshot]) -> list[Snapshot]:
    return sorted(snapshots, key=sequence_number)


def _current_at(ordered: Sequence[Snapshot], at_ms: int) -> int | None:
    return next((one.snapshot_id for one in reversed(ordered) if one.timestamp_ms <= at_ms), None)


def appends(snapshot: Snapshot) -> bool:
    """Whether it added rows and did nothing else."""
    return snapshot.summary is not None and snapshot.summary.operation is Operation.APPEND


def rewrites(snapshot: Snapshot) -> bool:
    """Whether it puts the same rows into other files, by the hub's word or the format's."""
    operation = snapshot.summary.operation if snapshot.summary is not None else None
    return REWRITES in summary(snapshot) or operation is Operation.REPLACE


def sequence_number(snapshot: Snapshot | None) -> int:
    """Its place in the table's history; 0 where there is none."""
    return 0 if snapshot is None else snapshot.sequence_number or 0


def added_files(snapshot: Snapshot, table: Table) -> list[DataFile] | None:
    """The data files that a snapshot added; None where they are divided as the table is no more."""
    found: list[DataFile] = []
    for manifest in snapshot.manifests(table.io):
        if manifest.added_snapshot_id == snapshot.snapshot_id:
            if manifest.partition_spec_id != table.spec().spec_id:
                return None
            entries = manifest.fetch_manifest_entry(table.io)
            found += [entry.data_file for entry in entries if entry.status is ManifestEntryStatus.ADDED]
    return found


def summary(snapshot: Snapshot) -> Mapping[str, str]:
    """What its writer says of it."""
    return {} if snapshot.summary is None else snapshot.summary.additional_properties


def named_paths(table: Table) -> set[str]:
    """Every data file, manifest and manifest list that a snapshot which is still kept names."""
    names: set[str] = set()
    for snapshot in table.metadata.snapshots:
        names.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            if manifest.manifest_path not in names:
                names.add(manifest.manifest_path)
                names |= {entry.data_file.file_path for entry in manifest.fetch_manifest_entry(table.io)}
    return names
