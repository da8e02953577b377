"""A beat is a small file for each hub process on this machine, written again every two seconds.

Invariant: a beat holds only the process's stage, a time, and the name of a thread that hangs. The file is replaced as a
whole. Its folder belongs to this user alone.
"""

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from aggregator.code_cache import given_folder
from aggregator.regular_files import replace_file

# A process beats every two seconds. A process without a beat for this long stands still or is gone.
_STILL_S = 20.0
# The folders of systemd and of a login session. Without these, beats lie in a temporary folder.
_FOLDERS = ("RUNTIME_DIRECTORY", "XDG_RUNTIME_DIR")


class Stage(StrEnum):
    """The stage that a hub's process has reached."""

    STARTING = "starting"
    STANDBY = "standby"
    LEADING = "leading"
    STOPPING = "stopping"


@dataclass(frozen=True, slots=True)
class Beat:
    """The state of one hub process a moment ago.

    Attributes:
        stage: The stage of the work.
        at_s: Time of the beat on this machine's monotonic clock, which all its processes share.
        hanging: The part that has stood still for longer than its work can take; empty where nothing does.
    """

    stage: Stage
    at_s: float
    hanging: str = ""

    def is_fresh(self, now_s: float) -> bool:
        """Whether its process can be taken for one that moves."""
        return 0 <= now_s - self.at_s <= _STILL_S


_BEAT = TypeAdapter(Beat)


def folder(environ: Mapping[str, str]) -> Path | None:
    """The folder of the beats; None if no folder belongs to this user alone and can be written."""
    named = next((environ[name].partition(":")[0] for name in _FOLDERS if environ.get(name)), None)
    root = Path(named) / "aggregator" if named else Path(tempfile.gettempdir(), f"aggregator-{os.getuid()}")
    return given_folder(root)


def file_of(place: Path, hub: str, process: int) -> Path:
    """The path of the file that a process of a hub writes its beats to."""
    return place / f"{hub}.{process}.beat"


def write(path: Path, beat: Beat) -> None:
    """Replace the process's last beat.

    Raises:
        OSError: it cannot be written.
    """
    replace_file(path, _BEAT.dump_json(beat).decode())


def read(place: Path, hub: str) -> list[Beat]:
    """The last beat of every process of this hub; one that cannot be read is left out."""
    return [beat for path, beat in _all(place) if path.stem.rpartition(".")[0] == hub]


def forget_old(place: Path, now_s: float) -> None:
    """Remove the files of processes that are gone."""
    for path, beat in _all(place):
        if not beat.is_fresh(now_s):
            path.unlink(missing_ok=True)


def _all(place: Path) -> Iterator[tuple[Path, Beat]]:
    for path in sorted(place.glob("*.beat")):
        with suppress(OSError, ValidationError):
            yield path, _BEAT.validate_json(path.read_bytes())
