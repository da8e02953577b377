"""A class archive holds the classes that a Java program loaded last time, so the program starts in half the time.

Invariant: an archive only shortens the start. A JVM loads its classes as usual if there is no archive, or if the
archive belongs to another JVM or to other jars. An archive lies in a folder that no other user can write to, and
appears as a whole, by rename. Each program and each Java has its own archive. Source: JEP 350,
https://openjdk.org/jeps/350
"""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aggregator.code_cache import own_folder

# A JVM's messages about an unsuitable archive are dropped. Its other warnings go to stderr, away from the output.
_QUIET = ("-Xlog:disable", "-Xlog:all=warning,cds*=off:stderr")


def archive_of(program: str, java: Path) -> Path | None:
    """The path of a program's archive, which need not exist; None if no folder belongs to this user alone.

    Args:
        program: Name and version of the program, and the folder of its jars.
        java: Executable of the Java that runs the program.
    """
    folder = own_folder("classes")
    if folder is None:
        return None
    real = java.resolve()
    found = real.stat()
    text = f"{program}\n{real}\n{found.st_size}\n{found.st_mtime_ns}"
    return folder / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.jsa"


def reading(program: str, java: Path) -> tuple[str, ...]:
    """The options with which a JVM uses the archive; none if there is no archive."""
    archive = archive_of(program, java)
    return (f"-XX:SharedArchiveFile={archive}", *_QUIET) if archive is not None and archive.exists() else ()


@contextmanager
def writing(archive: Path) -> Iterator[tuple[str, ...]]:
    """Options of a JVM that writes the archive when it ends, which is before this block does; an error leaves none."""
    fresh = archive.with_name(f".{archive.stem}-{os.getpid()}.jsa")
    try:
        yield (f"-XX:ArchiveClassesAtExit={fresh}", *_QUIET)
        if fresh.exists():
            fresh.replace(archive)
    finally:
        fresh.unlink(missing_ok=True)
