"""Runs real Kafka clusters on loopback, one for each edge and one as central, in one folder that a `hub.yaml`
describes.

Invariant: `down` ends every process that `up` started, whichever process calls it. Addresses and data stay over down
and up. Three things are refused: a second `up` on a running folder, edges other than those of the folder, and a machine
that is too small.
"""

import re
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self, TypeVar

from aggregator.coordinates import CENTRAL
from aggregator.errors import FatalError
from aggregator.sandbox.broker import Broker
from aggregator.sandbox.classes import kafka_of
from aggregator.sandbox.cluster import SIZES, Cluster, stop_clusters
from aggregator.sandbox.hubfile import HUB_FILE, RESERVED, WRITTEN, write_hub
from aggregator.sandbox.jars import Distribution, Say, cache_dir, ensure_jars, kafka, silent
from aggregator.sandbox.java import find_java
from aggregator.sandbox.lock import exclusive
from aggregator.sandbox.machine import available_memory, check_disk, check_memory
from aggregator.sandbox.program import Kafka
from aggregator.sandbox.releases import KAFKA_VERSION, release
from aggregator.sandbox.state import SandboxState
from aggregator.threads import map_concurrently

DEFAULT_EDGES = ("ewr", "jfk", "lga")
STATE_FILE = "sandbox.json"
_LOCK_FILE = ".lock"
_EDGE = re.compile(r"[a-z0-9-]{1,32}")
_Value = TypeVar("_Value", int, str)


@dataclass(frozen=True, slots=True)
class Sandbox:
    """The clusters of one folder.

    Attributes:
        dir: The folder, absolute and without `..` or links: a broker's process is known by the path that it was given.
        central: The cluster that receives everything.
        edges: Regional clusters by name.
    """

    dir: Path
    central: Cluster
    edges: dict[str, Cluster]

    @property
    def config(self) -> Path:
        """`hub.yaml` that points at the clusters."""
        return self.dir / HUB_FILE

    @property
    def clusters(self) -> list[Cluster]:
        """Central and all edges."""
        return [self.central, *self.edges.values()]

    @property
    def brokers(self) -> list[Broker]:
        """Every broker of every cluster."""
        return [broker for cluster in self.clusters for broker in cluster.brokers]

    @classmethod
    def up(
        cls,
        folder: Path,
        edges: Sequence[str] | None = None,
        *,
        brokers: int | Mapping[str, int] | None = None,
        versions: str | Mapping[str, str] | None = None,
        say: Say = silent,
        settings: Mapping[str, Mapping[str, str]] | None = None,
    ) -> Self:
        """Start the clusters of `folder` that do not run, together, and wait until they are ready.

        Args:
            folder: Made if it is not there.
            edges: Edge names; None for those of the folder, or EWR, JFK and LGA in a new one.
            brokers: How many each cluster has, or by name, the others one; None for those of the folder, or one.
            versions: Kafka's release of each cluster, or by name, the others the usual one; None as with `brokers`.
            say: Takes progress lines.
            settings: Name of a cluster or of a broker to further broker settings, as long as this object is used.

        Raises:
            FatalError: it runs already, no Java, jars, memory or disk, a port in use, a broker that does not start.
        """
        folder = folder.resolve()
        _check_names(folder, edges)
        _check_sizes(brokers)
        for version in _values(versions):
            release(version)
        java = find_java()
        with exclusive(folder / _LOCK_FILE):
            state = _state(folder, edges, brokers, versions)
            sandbox = cls._of(folder, state, _programs(java, state, lambda one: ensure_jars(one, say)), settings or {})
            absent = _absent(sandbox)
            for cluster in absent:
                cluster.check_ports()
            check_disk(folder)
            check_memory(sum(len(cluster.brokers) for cluster in absent), available_memory())
            state.write(folder / STATE_FILE)
            write_hub(folder, sandbox.central.bootstrap, {name: edge.bootstrap for name, edge in sandbox.edges.items()})
            say(f"starting {len(absent)} Kafka {'cluster' if len(absent) == 1 else 'clusters'} in {folder} …")
            try:
                _start(absent, say)
            except BaseException:
                stop_clusters(absent)
                raise
        return sandbox

    @classmethod
    def load(cls, folder: Path) -> Self:
        """The clusters of a folder, running or not.

        Raises:
            FatalError: no sandbox was ever started there.
        """
        folder = folder.resolve()
        state = SandboxState.read(folder / STATE_FILE)
        if state is None:
            raise FatalError(f"there is no sandbox in {folder}", hint=f"aggregator sandbox up --dir {folder}")
        programs = _programs(find_java(), state, lambda one: cache_dir(name=one.name, version=one.version))
        return cls._of(folder, state, programs, {})

    def down(self, *, delete: bool = False) -> None:
        """End every process; `delete` also removes all that the sandbox wrote: clusters, lake, schemas, hub.yaml."""
        stop_clusters(self.clusters)
        if delete:
            for name in (*(cluster.name for cluster in self.clusters), *WRITTEN, STATE_FILE, _LOCK_FILE):
                path = self.dir / name
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
            if not any(self.dir.iterdir()):
                self.dir.rmdir()

    def running(self) -> list[Cluster]:
        """Clusters of which a broker's process lives."""
        return [cluster for cluster in self.clusters if cluster.pid is not None]

    @classmethod
    def _of(
        cls,
        folder: Path,
        state: SandboxState,
        programs: Mapping[str, Kafka],
        settings: Mapping[str, Mapping[str, str]],
    ) -> Self:
        clusters = {
            name: Cluster.of(name, folder / name, found, programs[found.version], settings)
            for name, found in state.clusters.items()
        }
        return cls(folder, clusters.pop(CENTRAL), clusters)


def _programs(java: Path, state: SandboxState, jars: Callable[[Distribution], Path]) -> dict[str, Kafka]:
    """Every release that the clusters are, by version."""
    wanted = map(release, sorted(set(state.versions.values())))
    return {one.version: kafka_of(one, java, jars(kafka(one))) for one in wanted}


def _absent(sandbox: Sandbox) -> list[Cluster]:
    """Clusters that do not run: all of them, or those that somebody killed.

    Raises:
        FatalError: none is.
    """
    running = [cluster.name for cluster in sandbox.running()]
    absent = [cluster for cluster in sandbox.clusters if cluster.name not in running]
    if not absent:
        raise FatalError(
            f"the sandbox in {sandbox.dir} is already running ({', '.join(running)})",
            hint=f"use it, or stop it first: aggregator sandbox down --dir {sandbox.dir}",
        )
    return absent


def _start(clusters: Sequence[Cluster], say: Say) -> None:
    def start(at: int) -> None:
        cluster = clusters[at]
        cluster.start()
        say(f"  {cluster.name} is ready on {cluster.bootstrap}")

    map_concurrently(start, range(len(clusters)))


def _check_names(folder: Path, edges: Sequence[str] | None) -> None:
    if "," in str(folder):
        raise FatalError(
            f"the folder {folder} has a comma in its path, which Kafka takes for two", hint="choose another --dir"
        )
    for name in edges or ():
        if not _EDGE.fullmatch(name) or name in RESERVED:
            raise FatalError(
                f"an edge cannot be named {name!r}",
                hint=f"lower-case letters, digits and dashes, at most 32, and none of {', '.join(sorted(RESERVED))}",
            )
    if edges is not None and (not edges or len(set(edges)) != len(edges)):
        raise FatalError("edges are named once each, and there is at least one", hint="--edges ewr,jfk,lga")


def _check_sizes(brokers: int | Mapping[str, int] | None) -> None:
    for size in _values(brokers):
        if size not in SIZES:
            raise FatalError(f"a cluster cannot have {size} brokers", hint=f"it has {' or '.join(map(str, SIZES))}")


def _state(
    folder: Path,
    edges: Sequence[str] | None,
    brokers: int | Mapping[str, int] | None,
    versions: str | Mapping[str, str] | None,
) -> SandboxState:
    state = SandboxState.read(folder / STATE_FILE)
    clusters = [CENTRAL, *(edges or (state.edges if state else DEFAULT_EDGES))]
    sizes = _each(clusters, brokers, 1, "brokers")
    releases = _each(clusters, versions, KAFKA_VERSION, "a version of Kafka")
    if state is None:
        return SandboxState.fresh(edges or DEFAULT_EDGES, sizes, releases)
    other = f"take another --dir, or remove it first: aggregator sandbox down --delete --dir {folder}"
    if edges is not None and set(edges) != set(state.edges):
        raise FatalError(f"the sandbox in {folder} was made for the edges {','.join(state.edges)}", hint=other)
    if brokers is not None and sizes != state.sizes:
        there = ",".join(f"{name}={size}" for name, size in state.sizes.items())
        raise FatalError(f"the sandbox in {folder} was made for the brokers {there}", hint=other)
    if versions is not None and releases != state.versions:
        there = ",".join(f"{name}={version}" for name, version in state.versions.items())
        raise FatalError(f"the sandbox in {folder} was made for the versions {there}", hint=other)
    return state


def _each(
    clusters: Sequence[str], given: _Value | Mapping[str, _Value] | None, default: _Value, what: str
) -> dict[str, _Value]:
    """What each of these clusters is to have; `given` says it for all, or by name."""
    if not isinstance(given, Mapping):
        return dict.fromkeys(clusters, given or default)
    unknown = sorted(set(given) - set(clusters))
    if unknown:
        raise FatalError(
            f"there is no cluster {', '.join(unknown)} to give {what} to", hint=f"there are {', '.join(clusters)}"
        )
    return {name: given.get(name, default) for name in clusters}


def _values(given: _Value | Mapping[str, _Value] | None) -> Collection[_Value]:
    """What is said for all clusters, or for those named."""
    return given.values() if isinstance(given, Mapping) else () if given is None else (given,)
