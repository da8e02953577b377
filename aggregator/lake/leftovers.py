"""Staged files that no commit ever named: which ones are removed, and when.

Invariant: a file is removed only if it is older than any cycle can last, carries the hub's own name, and the table's
log never named it; what a commit added and another removed stays for the table's own vacuum.
"""

import json
import logging
from collections.abc import Iterable, Mapping
from datetime import timedelta
from pathlib import Path

from aggregator.lake.files import PREFIX, SUFFIX

KEEP = timedelta(days=1)
log = logging.getLogger(__name__)


def leftovers(ages: Mapping[str, timedelta], named: Iterable[str], *, keep: timedelta = KEEP) -> list[str]:
    """Names to remove.

    Args:
        ages: Files in the table's folder.
        named: Files that the table's log names, added or removed.
        keep: Age below which a file may still be waiting for its commit.
    """
    known = set(named)
    return sorted(
        name
        for name, age in ages.items()
        if age > keep and name.startswith(PREFIX) and name.endswith(SUFFIX) and name not in known
    )


def sweep(folder: Path, live: Iterable[str], *, now_s: float, keep: timedelta = KEEP) -> list[str]:
    """Remove the leftovers of one table and tell their names.

    Args:
        folder: The table's folder.
        live: Files of the newest version: checkpoints may have replaced the log's older part.
        now_s: Time, seconds since 1970.
        keep: See `leftovers`.
    """
    ages = {path.name: timedelta(seconds=now_s - path.stat().st_mtime) for path in folder.glob(f"{PREFIX}*{SUFFIX}")}
    named = set(live)
    if leftovers(ages, named, keep=keep):  # the log is read only when there is something to look for
        named |= _named_in_log(folder / "_delta_log")
    removed = leftovers(ages, named, keep=keep)
    for name in removed:
        (folder / name).unlink(missing_ok=True)
    if removed:
        log.info("removed %d staged files without a commit from %s", len(removed), folder)
    return removed


def _named_in_log(folder: Path) -> set[str]:
    names: set[str] = set()
    for path in folder.glob("*.json"):
        for line in path.read_text(encoding="utf-8").splitlines():
            action = json.loads(line)
            names |= {action[kind]["path"] for kind in ("add", "remove") if kind in action}
    return names
