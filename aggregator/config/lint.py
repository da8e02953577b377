"""What a start would stumble over in a configuration that is valid in itself: missing files, one cluster twice.

Invariant: nothing is connected to; a file is looked for and not opened, but one of a key, which is read as by a run.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from aggregator.config.document import Fault, Place
from aggregator.config.model import ClusterConfig, HubConfig
from aggregator.config.secrets import KeyRing, SecretRef
from aggregator.errors import ConfigError

_LOCATION = ".location"


def one_cluster_twice(config: HubConfig) -> Iterator[Fault]:
    """Edges that have an address in common with central, or with an edge before them."""
    taken = dict.fromkeys(_addresses(config.central), "central")
    for name, edge in config.edges.items():
        shared = next((address for address in _addresses(edge) if address in taken), None)
        if shared is not None:
            yield Fault(
                ("edges", name, "bootstrap_servers"),
                f"names {shared}, as {taken[shared]} does: each name stands for a cluster of its own",
            )
        taken |= dict.fromkeys(_addresses(edge), f"edge {name}")


def missing_files(config: HubConfig) -> Iterator[Fault]:
    """Files of keys, passwords and certificates that are named and not there; files of which a run takes no key."""
    for name, ring in config.keys.items():
        for version, reference in ring.versions:
            place = ("keys", name) if len(ring.versions) == 1 else ("keys", name, "versions", str(version))
            yield from _missing(place, reference) or _refused_key(place, name, ring, version)
    yield from _of_cluster(config.central, ("central",))
    yield from _of_options(config.schemas_client, ("schemas_client",))
    for name, edge in config.edges.items():
        yield from _of_cluster(edge, ("edges", name))
        yield from _of_options(edge.schemas_client, ("edges", name, "schemas_client"))


def _addresses(cluster: ClusterConfig) -> list[str]:
    return [one.strip().lower() for one in cluster.bootstrap_servers.split(",")]


def _of_cluster(cluster: ClusterConfig, place: Place) -> Iterator[Fault]:
    for block in ("client", "consumer", "producer", "admin"):
        yield from _of_options(getattr(cluster, block), (*place, block))


def _of_options(options: Mapping[str, str | SecretRef], place: Place) -> Iterator[Fault]:
    for name, value in options.items():
        if isinstance(value, SecretRef):
            yield from _missing((*place, name), value)
        elif name.endswith(_LOCATION) and not Path(value).exists():
            yield Fault((*place, name), f"there is no file {value}")


def _missing(place: Place, reference: SecretRef) -> list[Fault]:
    if reference.scheme == "env" or Path(reference.target).exists():
        return []
    return [Fault(place, f"there is no file {reference.target}: create it, readable by the hub alone (chmod 600)")]


def _refused_key(place: Place, name: str, ring: KeyRing, version: int) -> list[Fault]:
    """What a run says of a key in a file; nothing of one that only the hub can read, as variables may be."""
    reference = dict(ring.versions)[version]
    if reference.scheme == "env" or not os.access(reference.target, os.R_OK):
        return []
    try:
        ring.material(name, version)
    except ConfigError as error:
        return [Fault(place, f"{error.message}: {error.hint}")]
    return []
