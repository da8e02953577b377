"""Finds the Java that runs the clusters, checks its version, and runs Java programs to their end.

Invariant: every refusal says which Java was examined. A machine without Java is refused, and so is a Java older than
Kafka 4 needs.
"""

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from select import select
from typing import IO, cast

from aggregator.errors import FatalError

OLDEST_JAVA = 17
_VERSION = re.compile(rb'version "(\d{1,4})[^\d]')
_VERSION_BYTES = 4096
_INSTALL = "install Java 17 or newer (Debian: apt-get install openjdk-17-jre-headless), or point JAVA_HOME at it"


def find_java(environ: Mapping[str, str] = os.environ) -> Path:
    """Path of a `java` that Kafka 4 runs on: of JAVA_HOME if that is set, else of PATH.

    Raises:
        FatalError: there is none, or it is older than Java 17.
    """
    return usable_java(environ)[0]


def usable_java(environ: Mapping[str, str] = os.environ) -> tuple[Path, int]:
    """A usable Java and its feature version."""
    home = environ.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        if not os.access(java, os.X_OK):
            raise FatalError(f"JAVA_HOME is {home}, but there is no bin/java in it", hint=_INSTALL)
    else:
        found = shutil.which("java", path=environ.get("PATH"))
        if found is None:
            raise FatalError("no Java: `java` is not on the PATH and JAVA_HOME is not set", hint=_INSTALL)
        java = Path(found)
    version = java_version(java)
    if version < OLDEST_JAVA:
        raise FatalError(f"{java} is Java {version}; Kafka 4 needs Java {OLDEST_JAVA}", hint=_INSTALL)
    return java, version


def java_version(java: Path, *, timeout_s: float = 20.0) -> int:
    """Feature version (17, 21, …) that `java -version` reports.

    Args:
        java: The program.
        timeout_s: So long it may take.

    Raises:
        FatalError: it does not run, or reports nothing readable.
    """
    try:
        text = _beginning([java, "-version"], timeout_s)
    except OSError as error:
        raise FatalError(f"{java} does not run: {error.strerror}", hint=_INSTALL) from None
    match = _VERSION.search(text)
    if match is None:
        raise FatalError(f"{java} -version reports no version", hint=_INSTALL)
    return int(match[1])


def _beginning(command: Sequence[str | Path], timeout_s: float) -> bytes:
    """What a program says first, on whatever stream; it is ended then, and where it says nothing for long.

    Raises:
        OSError: it does not run.
    """
    text, until_s = b"", time.monotonic() + timeout_s
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    ) as process:
        stream = cast("IO[bytes]", process.stdout)
        try:
            while (
                not _VERSION.search(text)
                and len(text) < _VERSION_BYTES
                and select([stream], [], [], max(0.0, until_s - time.monotonic()))[0]
            ):
                piece = os.read(stream.fileno(), _VERSION_BYTES)
                if not piece:
                    break
                text += piece
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    return text


def run_java(java: Path, arguments: Sequence[str | Path], *, log: Path, timeout_s: float) -> int:
    """Run a Java program to its end, its output appended to `log`.

    Returns:
        Its exit code.

    Raises:
        FatalError: it did not end in time.
    """
    with log.open("ab") as output:
        try:
            return subprocess.run(
                [java, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                check=False,
                timeout=timeout_s,
            ).returncode
        except subprocess.TimeoutExpired:
            raise FatalError(f"Java did not end within {timeout_s:.0f} s", hint=f"see {log}") from None
