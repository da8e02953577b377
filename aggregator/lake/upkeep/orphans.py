"""Removes by age what nobody wants in the lake's folders: files without a commit, leases and scratch of dead jobs.

Invariant: a file is removed if no kept version of the table names it, it is older than any cycle can last, and older
than every job that still renews its lease. What a job removes at once, `storage/staging.py` decides.
"""

import logging
from collections.abc import Iterable
from datetime import timedelta

from aggregator.lake.storage.folder import Folder, FolderEntry
from aggregator.lake.storage.staging import STAGED_PREFIX, STAGED_SUFFIX, expired_leases, working_since
from aggregator.lake.tables.port import Tables

SCRATCH = ".restate-"  # prefix of a folder beside the tables
ORPHAN_AGE = timedelta(days=1)
_CLOCKS = timedelta(hours=1)  # the clocks of a job's machine and of the storage may differ so much
_METADATA, _MANIFEST = "metadata", ".avro"  # the folder of Iceberg's manifests, which a refused commit leaves behind
log = logging.getLogger(__name__)


def leftovers(
    files: Iterable[FolderEntry],
    named: Iterable[str],
    *,
    now_s: float,
    keep: timedelta = ORPHAN_AGE,
    since_s: float | None = None,
) -> list[str]:
    """The names of staged files that no version names and that are old enough to be removed.

    Args:
        files: Files in the table's folder.
        named: Files that the table's versions name.
        now_s: The present, in seconds since 1970.
        keep: Age below which a file may still be waiting for its commit.
        since_s: When the longest job that still works began, seconds since 1970.
    """
    known, before_s = set(named), _before(now_s, keep, since_s)
    return sorted(
        one.name
        for one in files
        if one.written_s < before_s and one.name.startswith(STAGED_PREFIX) and one.name.endswith(STAGED_SUFFIX)
        if one.name not in known
    )


def sweep(tables: Tables, name: str, *, now_s: float, keep: timedelta = ORPHAN_AGE) -> list[str]:
    """Remove the leftovers of one table and tell their names.

    Args:
        tables: The format.
        name: The table's.
        now_s: Time, seconds since 1970.
        keep: See `leftovers`.

    Raises:
        HoldError: the table was altered by hand.
        RetryError: the storage or the catalogue does not answer.
        OSError: the storage refuses.
    """
    folder = tables.folder / name
    files = folder.entries()
    since_s = working_since(files, now_s=now_s, keep=keep)
    manifests = [one._replace(name=f"{_METADATA}/{one.name}") for one in _manifests(folder)]
    # Opened only here: a job that ended before the search for its lease has committed, and this version names its
    # files.
    handle = tables.open(name)
    manifests = manifests if handle else []

    def found(named: set[str]) -> list[str]:
        old = [one.name for one in manifests if one.written_s < _before(now_s, keep, since_s)]
        ended = expired_leases(files, now_s=now_s, keep=keep)
        gone = leftovers(files, named, now_s=now_s, keep=keep, since_s=since_s)
        return [*gone, *ended, *(name for name in old if name not in named)]

    named: set[str] = set()
    if handle is not None and found(named):  # the history is read only if old files were found
        named = handle.referenced_paths()
    removed = found(named)
    for one in removed:
        folder.remove(one)
    if removed:
        log.info("removed %d files without a commit from %s", len(removed), folder)
    return removed


def sweep_scratch(lake: Folder, *, now_s: float, keep: timedelta = ORPHAN_AGE) -> list[str]:
    """Remove the folders in which a restate that died kept its new rows, and tell their names.

    Args:
        lake: The folder that the tables lie in.
        now_s: Time, seconds since 1970.
        keep: Age below which a restate may still work there.
    """
    removed = []
    for name in lake.folders():
        files = (lake / name).entries() if name.startswith(SCRATCH) else []
        if files and all(now_s - one.written_s > keep.total_seconds() for one in files):
            (lake / name).clear()
            removed.append(name)
    return removed


def _manifests(folder: Folder) -> list[FolderEntry]:
    return [one for one in (folder / _METADATA).entries() if one.name.endswith(_MANIFEST)]


def _before(now_s: float, keep: timedelta, since_s: float | None) -> float:
    """Files that were written before this time belong to no job any more."""
    aged_s = now_s - keep.total_seconds()
    return aged_s if since_s is None else min(aged_s, since_s - _CLOCKS.total_seconds())
