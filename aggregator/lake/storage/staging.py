"""Stages files in a table's folder: their names, a job's lease, and which of them may be removed at once.

Invariant: no process removes a file that it sent a commit with, even if the commit was refused: a store may apply a
commit and still refuse it.
"""

import contextlib
import itertools
import threading
import time
import uuid
from collections.abc import Iterable, Iterator
from datetime import timedelta

from aggregator.lake.storage.folder import Folder, FolderEntry

STAGED_PREFIX = "hub-"
STAGED_SUFFIX = ".parquet"
_LEASE, _LEASE_SUFFIX = f"{STAGED_PREFIX}since-", ".lease"
_RENEW_S = 3_600.0
_REMEMBERED = 100_000  # files sent; a process that still holds one got it within the last few commits
_SENT: dict[tuple[str, str], None] = {}
_NOTING = threading.Lock()  # several tables are committed at the same time


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


def working_since(files: Iterable[FolderEntry], *, now_s: float, keep: timedelta) -> float | None:
    """The start of the longest job that still works on a table, in seconds since 1970; None if no job does.

    Args:
        files: Files in the table's folder.
        now_s: Time, seconds since 1970.
        keep: Age beyond which a lease that was not renewed is a dead job's.
    """
    return min((_begun(one) for one in files if _is_lease(one) and _is_current(one, now_s, keep)), default=None)


def expired_leases(files: Iterable[FolderEntry], *, now_s: float, keep: timedelta) -> list[str]:
    """The names of dead jobs' leases; arguments as of `working_since`."""
    return [one.name for one in files if _is_lease(one) and not _is_current(one, now_s, keep)]


def _is_lease(file: FolderEntry) -> bool:
    return file.name.startswith(_LEASE) and file.name.endswith(_LEASE_SUFFIX)


def _is_current(lease: FolderEntry, now_s: float, keep: timedelta) -> bool:
    return now_s - lease.written_s <= keep.total_seconds()


def _begun(lease: FolderEntry) -> float:
    digits = lease.name.removeprefix(_LEASE).partition("-")[0]
    return float(digits) if digits.isdecimal() else 0.0
