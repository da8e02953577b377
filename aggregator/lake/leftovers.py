"""Staged files that no commit ever named: which ones are removed, and when.

Invariant: a file is removed only if it is older than any cycle can last, carries the hub's own name, and no version
that the table keeps names it; what a commit added and another removed stays for the table's own vacuum.
"""

import logging
from collections.abc import Iterable, Mapping
from datetime import timedelta

from aggregator.lake.files import PREFIX, SUFFIX
from aggregator.lake.folder import Folder
from aggregator.lake.tables.port import TableHandle

KEEP = timedelta(days=1)
log = logging.getLogger(__name__)


def leftovers(ages: Mapping[str, timedelta], named: Iterable[str], *, keep: timedelta = KEEP) -> list[str]:
    """Names to remove.

    Args:
        ages: Files in the table's folder.
        named: Files that the table's versions name.
        keep: Age below which a file may still be waiting for its commit.
    """
    known = set(named)
    return sorted(
        name
        for name, age in ages.items()
        if age > keep and name.startswith(PREFIX) and name.endswith(SUFFIX) and name not in known
    )


def sweep(folder: Folder, handle: TableHandle | None, *, now_s: float, keep: timedelta = KEEP) -> list[str]:
    """Remove the leftovers of one table and tell their names.

    Args:
        folder: The table's folder.
        handle: Its newest version, None where there is none yet.
        now_s: Time, seconds since 1970.
        keep: See `leftovers`.
    """
    ages = {file.name: timedelta(seconds=now_s - file.written_s) for file in folder.entries()}
    named: set[str] = set()
    if handle is not None and leftovers(ages, named, keep=keep):  # history is read only if there is something old
        named = handle.named()
    removed = leftovers(ages, named, keep=keep)
    for name in removed:
        folder.remove(name)
    if removed:
        log.info("removed %d staged files without a commit from %s", len(removed), folder)
    return removed
