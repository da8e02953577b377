"""This module finds the folder for generated code: compiled hot loops, and class archives of Java programs.

Invariant: a folder is used only if it belongs to this user and no other user can write to it or replace it, because the
code in it is executed.
"""

import os
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path

_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def own_folder(name: str, environ: Mapping[str, str] = os.environ) -> Path | None:
    """A folder of this name in the user's cache, or in a folder of the user's in the temporary one.

    Returns:
        A folder that exists and can be written, by nobody else; None if there is none.
    """
    roots = [Path(environ.get("XDG_CACHE_HOME") or "~/.cache"), Path(tempfile.gettempdir())]
    for place, own in zip(roots, ("aggregator", f"aggregator-{os.getuid()}"), strict=True):
        try:
            root = place.expanduser().resolve() / own
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder = root / name
            folder.mkdir(mode=0o700, exist_ok=True)
            if _is_ours(root) and _is_ours(folder) and _stays(root) and os.access(folder, os.W_OK):
                return folder
        except (OSError, RuntimeError):  # RuntimeError: no home directory
            continue
    return None


def given_folder(folder: Path) -> Path | None:
    """A folder that somebody names, with links resolved; None if others may write to it or replace it."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        end = folder.resolve()
        return end if _is_ours(end) and _stays(end) and os.access(end, os.W_OK) else None
    except (OSError, RuntimeError):
        return None


def _is_ours(folder: Path) -> bool:
    """Whether only this user can have written here; a link may lead somewhere else tomorrow."""
    found = folder.lstat()
    is_closed = stat.S_ISDIR(found.st_mode) and not found.st_mode & _OTHERS
    return is_closed and found.st_uid == os.getuid()


def _stays(folder: Path) -> bool:
    """Whether no other user can replace the folder, or one of the folders that it lies in.

    A folder in which all may write, such as /tmp, has the sticky bit, which protects each user's entries from others.
    """
    return all(
        one.st_uid in (0, os.getuid()) and (not one.st_mode & _OTHERS or bool(one.st_mode & stat.S_ISVTX))
        for one in (above.lstat() for above in folder.parents)
    )
