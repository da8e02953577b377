"""Owns all deletion of files in the lake's folders. It decides what is removed at once, what is removed by age, and
what is never removed.

Invariant: no process removes a file that it sent a commit with, even if the commit was refused: a store may apply a
commit and still refuse it. The sweep removes files that no kept version of the table names. They must be older than any
cycle can last, and older than every job that still renews its lease.
"""

import contextlib
import itertools
import logging
import threading
import time
import uuid
from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

from aggregator.lake.folder import Folder, FolderEntry

if TYPE_CHECKING:
    from aggregator.lake.tables.port import Tables

STAGED_PREFIX = "hub-"
STAGED_SUFFIX = ".parquet"
SCRATCH = ".restate-"  # prefix of a folder beside the tables
ORPHAN_AGE = timedelta(days=1)
_LEASE, _LEASE_SUFFIX = f"{STAGED_PREFIX}since-", ".lease"
_RENEW_S = 3_600.0
_CLOCKS = timedelta(hours=1)  # the clocks of a job's machine and of the storage may differ so much
_METADATA, _MANIFEST = "metadata", ".avro"  # the folder of Iceberg's manifests, which a refused commit leaves behind
_REMEMBERED = 100_000  # files sent; a process that still holds one got it within the last few commits
_SENT: dict[tuple[str, str], None] = {}
_NOTING = threading.Lock()  # several tables are committed at the same time
log = logging.getLogger(__name__)


def mark_sent(folder: Folder, paths: Iterable[str]) -> None:
    """Note, before a commit goes out, that it names these files; from now on only the sweep can remove them.

    Args:
        folder: The table's.
        paths: Relative to it.
    """
    with _NOTING:
        _SENT.update(dict.fromkeys((folder.root, path) for path in paths))
        for oldest in list(itertools.islice(_SENT, max(0, len(_SENT) - _REMEMBERED))):
            del _SENT[oldest]


def discard(folder: Folder, paths: Iterable[str]) -> None:
    """Remove staged files that nobody wants, except those that a commit was sent with.

    What cannot be removed now is left to the sweep.

    Args:
        folder: Where they were staged, by this process or for it.
        paths: Relative to it.
    """
    for path in paths:
        if (folder.root, path) not in _SENT:
            with contextlib.suppress(OSError):
                folder.remove(path)


class StagingLease:
    """A file in each folder that a job stages in. While it is renewed, files that the job staged may still be
    committed.

    Args:
        folders: The table's, and where else.
    """

    def __init__(self, *folders: Folder) -> None:
        self._folders = folders
        self._name = f"{_LEASE}{int(time.time())}-{uuid.uuid4().hex}{_LEASE_SUFFIX}"
        self._renewed_s: float | None = None

    def renew(self) -> None:
        """Write it anew, once in an hour.

        Raises:
            OSError: the storage refuses.
        """
        now_s = time.monotonic()
        if self._renewed_s is None or now_s - self._renewed_s >= _RENEW_S:
            for folder in self._folders:
                with folder.create(self._name) as sink:
                    sink.write(b"a job of the hub that still works on this table\n")
            self._renewed_s = now_s

    def end(self) -> None:
        """Remove it; if that fails, it expires."""
        for folder in self._folders:
            with contextlib.suppress(OSError):
                folder.remove(self._name)


@contextlib.contextmanager
def leased(folder: Folder) -> Iterator[StagingLease]:
    """A lease for as long as the block takes; the block renews it.

    Args:
        folder: The table's.

    Raises:
        OSError: the storage refuses.
    """
    lease = StagingLease(folder)
    lease.renew()
    try:
        yield lease
    finally:
        lease.end()


def leftovers(
    files: Iterable[FolderEntry],
    named: Iterable[str],
    *,
    now_s: float,
    keep: timedelta = ORPHAN_AGE,
    since_s: float | None = None,
) -> list[str]:
    """Return the names of staged files that no version names and that are old enough to be removed.

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


def working_since(files: Iterable[FolderEntry], *, now_s: float, keep: timedelta = ORPHAN_AGE) -> float | None:
    """Return the start of the longest job that still works on a table, in seconds since 1970; None if no job does.

    Args:
        files: Files in the table's folder.
        now_s: Time, seconds since 1970.
        keep: Age beyond which a lease that was not renewed is a dead job's.
    """
    return min((_begun(one) for one in files if _is_lease(one) and _is_current(one, now_s, keep)), default=None)


def sweep(tables: "Tables", name: str, *, now_s: float, keep: timedelta = ORPHAN_AGE) -> list[str]:
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
        ended = [one.name for one in files if _is_lease(one) and not _is_current(one, now_s, keep)]
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


def _is_lease(file: FolderEntry) -> bool:
    return file.name.startswith(_LEASE) and file.name.endswith(_LEASE_SUFFIX)


def _is_current(lease: FolderEntry, now_s: float, keep: timedelta) -> bool:
    return now_s - lease.written_s <= keep.total_seconds()


def _begun(lease: FolderEntry) -> float:
    digits = lease.name.removeprefix(_LEASE).partition("-")[0]
    return float(digits) if digits.isdecimal() else 0.0
