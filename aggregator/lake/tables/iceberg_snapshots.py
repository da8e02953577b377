"""Reads the snapshots of an Iceberg table: what each did, which files it added, and which of them a commit forgets.

Invariant: nothing is changed here.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from pyiceberg.manifest import DataFile, ManifestEntryStatus
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation, Snapshot

STAY, SNAPSHOTS = "history.expire.min-snapshots-to-keep", 100
REWRITES = "hub.rewrites"  # key in the summary of a snapshot that changes no rows
_AT_ONCE = 2  # each snapshot costs two copies of the metadata; a commit adds one snapshot
_QUERIES_MS, _STEP_MS = 3_600_000, 600_000


def surplus(metadata: TableMetadata, *, now_ms: int) -> list[int]:
    """Ids of snapshots that a commit forgets, a few at a time: it costs more with each that the metadata name.

    Their manifests are left to the sweep. What was current at every tenth minute of the last hour stays: queries that
    began since then read files that were replaced meanwhile. It names all of those that are old enough to be swept,
    because a file is not swept on the day on which it was written. What a branch or a tag names stays.

    Args:
        metadata: The table's; its property `history.expire.min-snapshots-to-keep` says how many stay, 100 by default.
        now_ms: Time, milliseconds since 1970.
    """
    stay = max(1, int(metadata.properties.get(STAY, SNAPSHOTS)))
    old = sorted(metadata.snapshots, key=sequence_number)[:-stay]
    if not old:
        return []
    history, named = _history(metadata), _named(metadata)
    began_ms = (now_ms - _QUERIES_MS) // _STEP_MS * _STEP_MS
    read = {_current_at(history, at_ms) for at_ms in range(began_ms, now_ms + 1, _STEP_MS)}
    return [one.snapshot_id for one in old if one.snapshot_id not in named | read][:_AT_ONCE]


def replaced_before(metadata: TableMetadata, before_ms: int) -> list[int]:
    """Ids of snapshots that readers saw no more at a time, in milliseconds since 1970, and that no branch or tag names.

    One of a branch was replaced by the newest that was made upon it, or at once, if there is none.
    """
    history = _history(metadata)
    replaced_ms = {one.snapshot_id: one.timestamp_ms for one in metadata.snapshots}
    upon = ((one.parent_snapshot_id, one.timestamp_ms) for one in metadata.snapshots)
    for replaced, at_ms in (*upon, *((former, at_ms) for (_, former), (at_ms, _) in pairwise(history))):
        if replaced in replaced_ms:
            replaced_ms[replaced] = max(at_ms, replaced_ms[replaced])
    kept = _named(metadata) | {newest for _, newest in history[-1:]}
    return [one for one, at_ms in replaced_ms.items() if one not in kept and at_ms < before_ms]


def _named(metadata: TableMetadata) -> set[int]:
    """Ids of the snapshots that a branch or a tag names."""
    return {one.snapshot_id for one in metadata.refs.values()}


def _history(metadata: TableMetadata) -> list[tuple[int, int]]:
    """When which snapshot became what readers see, oldest first.

    It is the table's own log, which tells of branches and of a table that was rolled back. A catalogue may cut the log
    when it forgets a snapshot; what is older than the rest counts from when it was made.
    """
    kept = {one.snapshot_id for one in metadata.snapshots}
    told = [(one.timestamp_ms, one.snapshot_id) for one in metadata.snapshot_log if one.snapshot_id in kept]
    begins_ms = min((at_ms for at_ms, _ in told), default=math.inf)
    before = [(one.timestamp_ms, one.snapshot_id) for one in metadata.snapshots if one.timestamp_ms < begins_ms]
    return sorted(before) + told


def _current_at(history: Sequence[tuple[int, int]], at_ms: int) -> int | None:
    return next((snapshot_id for since_ms, snapshot_id in reversed(history) if since_ms <= at_ms), None)


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
