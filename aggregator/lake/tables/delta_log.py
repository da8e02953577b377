"""Reads the commits of a Delta table's log, as the format's protocol describes their actions.

Invariant: pure. What an action means that is not known here is never guessed.
"""

import json
import string
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, unquote

from aggregator.lake.tables.port import LiveFile

_UNDERSTOOD = frozenset({"add", "remove", "commitInfo", "txn"})
# Characters of a path in the log: those that delta-rs 1.6 leaves as they are, and others that it is known to encode.
_PLAIN = "/=()',;!~@&$:+"
_KNOWN = frozenset(string.ascii_letters + string.digits + "-._ %" + _PLAIN)


def commit_name(version: int) -> str:
    """The name of a version's file in the log."""
    return f"{version:020}.json"


def path_as_written(path: str) -> str | None:
    """A path as delta-rs writes it into the log; None where that is not known."""
    known = all(one in _KNOWN or (not one.isascii() and one.isprintable()) for one in path)
    return quote(path, safe=_PLAIN) if known else None


def named_paths(commits: Iterable[bytes]) -> set[str]:
    """Paths of the files that commits add or remove."""
    return {
        unquote(action[kind]["path"]) for action in _actions(commits) for kind in ("add", "remove") if kind in action
    }


def says(commit: bytes, key: str, value: str) -> bool:
    """Whether a commit's information has a value under a key."""
    return any(action.get("commitInfo", {}).get(key) == value for action in _actions([commit]))


def appended(commits: Iterable[bytes]) -> list[LiveFile] | None:
    """The files with rows that commits brought; None where they did anything else to the rows or columns.

    An action with `dataChange` false puts rows into other files, as a compaction does.
    """
    found = []
    for action in _actions(commits):
        if not action.keys() <= _UNDERSTOOD:
            return None
        if action.get("remove", {"dataChange": False}).get("dataChange", True):
            return None
        added = action.get("add", {"dataChange": False})
        if not added["dataChange"]:
            continue
        if added.get("deletionVector"):
            return None
        rows = json.loads(added.get("stats") or "{}").get("numRecords", 0)
        partition = tuple(added.get("partitionValues", {}).items())
        found.append(LiveFile(unquote(added["path"]), added["size"], rows, partition))
    return found


def _actions(commits: Iterable[bytes]) -> Iterator[Mapping[str, Any]]:
    return (json.loads(line) for commit in commits for line in commit.splitlines())
