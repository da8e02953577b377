"""The Java that runs the clusters: where it is, how old it is, and how a program of it is run to its end.

Invariant: every refusal says which Java was looked at. Refuses: no Java, and one older than Kafka 4 needs.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from aggregator.errors import Failed

OLDEST_JAVA = 17
_VERSION = re.compile(r'version "(\d+)')
_INSTALL = "install Java 17 or newer (Debian: apt-get install openjdk-17-jre-headless), or point JAVA_HOME at it"


def find_java(environ: Mapping[str, str] = os.environ) -> Path:
    """Path of a `java` that Kafka 4 runs on: of JAVA_HOME if that is set, else of PATH.

    Raises:
        Failed: there is none, or it is older than Java 17.
    """
    home = environ.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        if not os.access(java, os.X_OK):
            raise Failed(f"JAVA_HOME is {home}, but there is no bin/java in it", hint=_INSTALL)
    else:
        found = shutil.which("java", path=environ.get("PATH"))
        if found is None:
            raise Failed("no Java: `java` is not on the PATH and JAVA_HOME is not set", hint=_INSTALL)
        java = Path(found)
    version = java_version(java)
    if version < OLDEST_JAVA:
        raise Failed(f"{java} is Java {version}; Kafka 4 needs Java {OLDEST_JAVA}", hint=_INSTALL)
    return java


def java_version(java: Path) -> int:
    """Feature version (17, 21, …) that `java -version` reports.

    Raises:
        Failed: it does not run, or reports nothing readable.
    """
    try:
        ran = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failed(f"{java} does not run: {error}", hint=_INSTALL) from None
    match = _VERSION.search(ran.stderr) or _VERSION.search(ran.stdout)
    if match is None:
        raise Failed(f"{java} -version reports no version", hint=_INSTALL)
    return int(match[1])


def run_java(java: Path, arguments: Sequence[str | Path], *, log: Path, timeout_s: float) -> int:
    """Run a Java program to its end, its output appended to `log`.

    Returns:
        Its exit code.

    Raises:
        Failed: it did not end in time.
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
            raise Failed(f"Java did not end within {timeout_s:.0f} s", hint=f"see {log}") from None
