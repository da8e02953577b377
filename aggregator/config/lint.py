"""Finds problems of a valid configuration that would stop a start, such as missing secrets or one cluster named twice.

Invariant: no connection is made. Files and variables must exist but are not read. Only a key is read, as a run would
read it.
"""

import os
from collections.abc import Iterator, Mapping

from aggregator.config.document import ConfigFault, Place
from aggregator.config.model import ClusterConfig, HubConfig
from aggregator.config.secrets import KeyRing, SecretRef
from aggregator.errors import ConfigError
from aggregator.regular_files import is_special

# Endings of the settings whose values are files.
FILE_SETTINGS = (".location", ".keytab", ".file")
# With this value, librdkafka looks for the machine's own certificates.
_ANY_STORE = "probe"
_BLOCKS = ("client", "consumer", "producer", "admin")


def one_cluster_twice(config: HubConfig) -> Iterator[ConfigFault]:
    """Edges that have an address in common with central, or with an edge before them."""
    taken = dict.fromkeys(_addresses(config.central), "central")
    for name, edge in config.edges.items():
        shared = next((address for address in _addresses(edge) if address in taken), None)
        if shared is not None:
            yield ConfigFault(
                ("edges", name, "bootstrap_servers"),
                f"names {shared}, as {taken[shared]} does: each name stands for a cluster of its own",
            )
        taken |= dict.fromkeys(_addresses(edge), f"edge {name}")


def unset_variables(config: HubConfig, environ: Mapping[str, str]) -> Iterator[str]:
    """Variables of secrets that nobody has set here; a service's manager may set them where the hub runs."""
    found = [reference for ring in config.keys.values() for _, reference in ring.versions]
    found += [value for _, some in _settings(config) for value in some.values() if isinstance(value, SecretRef)]
    yield from dict.fromkeys(one.target for one in found if one.scheme == "env" and not environ.get(one.target))


def missing_files(config: HubConfig) -> Iterator[ConfigFault]:
    """Files of keys, passwords and certificates that are named and not there; files of which a run takes no key."""
    for name, ring in config.keys.items():
        for version, reference in ring.versions:
            place: Place = ("keys", name) if len(ring.versions) == 1 else ("keys", name, "versions", str(version))
            yield from _missing(place, reference) or _refused_key(place, name, ring, version)
    for block, settings in _settings(config):
        for name, value in settings.items():
            if isinstance(value, SecretRef):
                yield from _missing((*block, name), value)
            elif value and name.endswith(FILE_SETTINGS) and block[0] != "lake":
                yield from _absent((*block, name), value)


def endless_files(config: HubConfig) -> Iterator[ConfigFault]:
    """Keys, passwords and certificates that are to be read from a pipe or a device, which may come to no end."""
    named: list[tuple[Place, str | SecretRef | None]] = [
        (("keys", name), ref) for name, ring in config.keys.items() for _, ref in ring.versions
    ]
    named += [((*block, name), value) for block, some in _settings(config) for name, value in some.items()]
    for place, value in named:
        path = value.target if isinstance(value, SecretRef) and value.scheme == "file" else value
        is_place = path is not value or str(place[-1]).endswith(FILE_SETTINGS)
        if isinstance(path, str) and is_place and is_special(path):
            yield ConfigFault(place, f"{path} is a pipe, a socket or a device: name a file")


def _settings(config: HubConfig) -> Iterator[tuple[Place, Mapping[str, str | SecretRef | None]]]:
    """The settings, block by block, beside `keys` that may name a secret or a file."""
    clusters: list[tuple[Place, ClusterConfig]] = [(("central",), config.central)]
    clusters += [(("edges", name), edge) for name, edge in config.edges.items()]
    for place, cluster in clusters:
        yield from (((*place, block), getattr(cluster, block)) for block in _BLOCKS)
    yield ("schemas_client",), config.schemas_client
    yield from ((("edges", name, "schemas_client"), edge.schemas_client) for name, edge in config.edges.items())
    if config.lake:
        yield ("lake", "storage"), config.lake.storage
        yield ("lake", "catalog", "options"), config.lake.catalog.options
    yield ("ui",), {"token": config.ui.token}
    yield ("metrics",), {"token": config.metrics.token}
    if config.lineage:
        yield ("lineage",), {"api_key": config.lineage.api_key}
    if config.otlp:
        yield ("otlp", "headers"), config.otlp.headers
    yield ("spark",), {"secret": config.spark.secret}


def _addresses(cluster: ClusterConfig) -> list[str]:
    return [one.strip().lower() for one in cluster.bootstrap_servers.split(",")]


def _absent(place: Place, value: str) -> list[ConfigFault]:
    """The faults in the location of a certificate."""
    if "-----BEGIN" in value:
        return [ConfigFault(place, "holds a certificate or a key itself: write it into a file, and name that")]
    is_there = value == _ANY_STORE or os.path.exists(value)  # noqa: PTH110 - as below
    return [] if is_there else [ConfigFault(place, f"there is no file {value}")]


def _missing(place: Place, reference: SecretRef) -> list[ConfigFault]:
    if reference.scheme == "env" or os.path.exists(reference.target):  # noqa: PTH110 - a path may be too long for Path
        return []
    return [
        ConfigFault(place, f"there is no file {reference.target}: create it, readable by the hub alone (chmod 600)")
    ]


def _refused_key(place: Place, name: str, ring: KeyRing, version: int) -> list[ConfigFault]:
    """What a run says of a key; nothing of one that only the hub has, or can read."""
    reference = dict(ring.versions)[version]
    is_here = os.environ.get(reference.target) if reference.scheme == "env" else os.access(reference.target, os.R_OK)
    if not is_here:
        return []
    try:
        ring.material(name, version)
    except ConfigError as error:
        return [ConfigFault(place, f"{error.message}: {error.hint}")]
    return []
