"""Fetches Kafka's own jars, by release. pyspark's own Ivy fetches them once from Maven Central into a cache outside the
checkout.

Invariant: a classpath is given only for a folder that holds exactly the pinned jars, each with its pinned SHA-512. The
folder appears by rename, so another process never sees half of it, even if the first one is killed. Any other jar is
refused.
"""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from aggregator.errors import FatalError
from aggregator.sandbox.java import find_java, run_java
from aggregator.sandbox.lock import exclusive
from aggregator.sandbox.releases import KAFKA_VERSION, KafkaRelease

SCALA_LINE = "2.13"
# Ivy needs 30 s on a good connection. After this time the fetch is taken to hang.
FETCH_TIMEOUT_S = 600.0

Say = Callable[[str], None]


def silent(_line: str) -> None:
    """Drop a line of progress."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """A program at Maven Central: one module and everything that it needs. By default it is a part of Kafka's release.

    Attributes:
        name: What it is called on disk and on the terminal.
        module: Its name at Maven Central.
        size: The size of the download, in words.
        pins: Jar name to SHA-512.
        group: The group of the module.
        version: The release of the distribution.
    """

    name: str
    module: str
    size: str
    pins: Mapping[str, str]
    group: str = "org.apache.kafka"
    version: str = KAFKA_VERSION


def pins_of(text: str) -> dict[str, str]:
    """Jar name to SHA-512, from the lines of `sha512sum`."""
    return {name: digest for digest, name in (line.split() for line in text.splitlines())}


def kafka(release: KafkaRelease) -> Distribution:
    """The broker; its pins are committed beside this module."""
    pins = pins_of(release.pins())
    return Distribution("kafka", f"kafka_{SCALA_LINE}", "about 44 MB", pins, version=release.version)


def cache_dir(environ: Mapping[str, str] = os.environ, name: str = "kafka", version: str = KAFKA_VERSION) -> Path:
    """The folder of the jars: `$XDG_CACHE_HOME/aggregator/kafka-<version>`, by default below `~/.cache`."""
    root = environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "aggregator" / f"{name}-{version}"


def faults(folder: Path, pins: Mapping[str, str]) -> list[str]:
    """The jars that keep `folder` from being used: missing, changed, or not on the list."""
    present = {path.name: path for path in folder.glob("*.jar")} if folder.is_dir() else {}
    found = [f"{name} is missing" for name in pins if name not in present]
    found += [f"{name} is not on the list" for name in sorted(present) if name not in pins]
    return found + [
        f"{name} has another SHA-512" for name in pins if name in present and _sha512(present[name]) != pins[name]
    ]


def ensure_jars(wanted: Distribution, say: Say = silent, environ: Mapping[str, str] = os.environ) -> Path:
    """Folder of the verified jars, fetched now if need be. Two processes at once are safe.

    Raises:
        FatalError: no Java, no network, or jars that are not the pinned ones.
    """
    folder = cache_dir(environ, wanted.name, wanted.version)
    if not faults(folder, wanted.pins):
        return folder
    try:
        with exclusive(
            folder.with_name(f".{folder.name}.lock"), lambda: say("waiting for another process that fetches it …")
        ):
            wrong = faults(folder, wanted.pins)
            if wrong:
                _replace(folder, wanted, wrong, say, environ)
    except OSError as error:
        raise FatalError(
            f"the jar cache {folder} cannot be written: {error.strerror}",
            hint="free some disk, or set XDG_CACHE_HOME to a folder that is yours",
        ) from None
    return folder


def _replace(folder: Path, wanted: Distribution, wrong: list[str], say: Say, environ: Mapping[str, str]) -> None:
    if folder.exists():
        say(f"the jars in {folder} are not usable ({wrong[0]}); fetching them again")
    what = f"{wanted.name} {wanted.version} ({len(wanted.pins)} jars, {wanted.size})"
    say(f"fetching {what} into {folder}; about half a minute, once …")
    with tempfile.TemporaryDirectory(prefix=".kafka-", dir=folder.parent) as temporary:
        fresh = Path(temporary) / "jars"
        fresh.mkdir()
        _fetch(wanted, fresh, Path(temporary) / "ivy", folder.with_name("fetch.log"), environ)
        wrong = faults(fresh, wanted.pins)
        if wrong:
            raise FatalError(
                f"the fetched {wanted.name} is not the pinned one: {'; '.join(wrong[:3])}",
                hint="check what stands between this machine and Maven Central; nothing was kept",
            )
        if folder.exists():
            shutil.rmtree(folder)
        fresh.rename(folder)


def _fetch(wanted: Distribution, into: Path, ivy_cache: Path, log: Path, environ: Mapping[str, str]) -> None:
    code = run_java(
        find_java(environ),
        [
            *(
                "-cp",
                next(iter(pyspark_jars("ivy-*.jar"))),
                f"-Divy.default.ivy.user.dir={ivy_cache}",
                "org.apache.ivy.Main",
            ),
            *("-m2compatible", "-confs", "default", "-cache", ivy_cache),
            *("-dependency", wanted.group, wanted.module, wanted.version),
            *("-retrieve", f"{into}/[artifact]-[revision](-[classifier]).[ext]"),
        ],
        log=log,
        timeout_s=FETCH_TIMEOUT_S,
    )
    if code != 0:
        raise FatalError(
            f"{wanted.name} {wanted.version} could not be fetched from Maven Central",
            hint=f"check the network (a proxy is set with JAVA_TOOL_OPTIONS); the whole story is in {log}",
        )


def classpath(folder: Path, release: KafkaRelease) -> str:
    """Class path of a broker: Kafka's jars, and in front of them pyspark's logging back end, which Kafka's lack."""
    patterns = ["slf4j-api-*.jar", "log4j-slf4j2-impl-*.jar"]
    if release.logs_by_log4j_1:
        patterns += ["log4j-1.2-api-*.jar", "log4j-api-*.jar", "log4j-core-*.jar"]
    logging = [path for pattern in patterns for path in pyspark_jars(pattern)]
    return os.pathsep.join([*map(str, logging), f"{folder}/*"])


def pyspark_jars(pattern: str) -> list[Path]:
    """Jars that ship with pyspark, by glob pattern, found without importing it."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise FatalError("pyspark is not installed", hint="make setup")
    found = sorted((Path(spec.origin).parent / "jars").glob(pattern))
    if not found:
        raise FatalError(f"pyspark has no {pattern} among its jars", hint="install the pyspark of requirements.lock")
    return found


def _sha512(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha512").hexdigest()
