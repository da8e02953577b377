"""Collects the doctor's facts from addresses, clusters, registries and this machine.

Invariant: this module only reads. Every question has a time limit. A question without an answer delays only its own
cluster, and what is known of that cluster is still used.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import TypeVar

from aggregator.config.model import ClusterConfig, HubConfig
from aggregator.config.secrets import KeyRing, SecretRef
from aggregator.doctor.machine import Disk, Machine, Trouble
from aggregator.doctor.reach import Reach, takes
from aggregator.doctor.registries import RegistryView
from aggregator.edges.heartbeats import decode
from aggregator.errors import AggregatorError, ConfigError, DeadLetterError, HoldError, Unreachable
from aggregator.kafka.client.address import Address
from aggregator.kafka.probes import inspection
from aggregator.kafka.probes.cluster_view import SignInResult
from aggregator.kafka.probes.listener import Listener
from aggregator.kafka.probes.listener_probe import probe
from aggregator.kafka.probes.tls import context, is_encrypted, own_certificate
from aggregator.kafka.readers import single_records
from aggregator.machine_clock import utc_now_ms
from aggregator.replicate.slot.key_checks import Checks, require_unreplaced
from aggregator.sandbox.java import usable_java
from aggregator.schema.registry import Registry, UnknownSchema
from aggregator.threads import map_concurrently, run_in_thread

# Seconds for one step of a connection. A connection round the world takes a third of a second.
STEP_S = 5.0
_SIGN_IN_S = 10.0
_REGISTRY_S = 20.0
# In a larger cluster the first brokers stand for all, because each of them may be silent.
_MAX_BROKERS, _MAX_LOOKS = 64, 16
T = TypeVar("T")


def with_timeout(question: Callable[[], T], seconds: float, what: str) -> T:
    """The answer if it comes in time. Otherwise the question keeps running in its own thread.

    Args:
        question: The call to make.
        seconds: The longest wait.
        what: The subject of the question, for the error.

    Raises:
        Unreachable: no answer in time; beside whatever the question itself raises.
    """
    future = run_in_thread(question, what)
    try:
        return future.result(seconds)
    except TimeoutError:
        if future.done():
            return future.result()
        raise Unreachable(
            f"{what}: no answer within {seconds:.0f} s", hint="see the load of the brokers and of the network"
        ) from None


def reach(cluster: ClusterConfig, tell: Callable[[Reach], None] = lambda _: None) -> Reach:
    """Connect to a cluster: to every address by itself, then as the hub signs in, then to the brokers' own addresses.

    Args:
        cluster: The cluster to connect to.
        tell: Gets what is known before the hub signs in.
    """
    client = {name: value for name, value in cluster.client.items() if not isinstance(value, SecretRef)}
    addresses = tuple(dict.fromkeys(map(Address.parse, cluster.bootstrap_servers.split(","))))
    try:
        encryption = context(cluster.client) if is_encrypted(cluster.client) else None
        own = own_certificate(cluster.client) if encryption is not None else None
        inspection.check_settings(cluster)
    except ConfigError as error:
        return Reach(client, settings=error.message, settings_next=error.hint)

    def look(address: Address) -> Listener:
        return probe(address, cluster.client, encryption, timeout_s=STEP_S)

    def sign_in(address: Address) -> SignInResult:
        alone = cluster.model_copy(update={"bootstrap_servers": str(address)})
        return inspection.sign_in(alone, timeout_s=_SIGN_IN_S)

    listeners = tuple(map_concurrently(look, addresses).values())
    greeted = Reach(client, listeners, own=own)
    tell(greeted)
    open_ones = [one.address for one in listeners if one.obstacle is None and takes(greeted, one)]
    sign_ins = map_concurrently(sign_in, open_ones)
    found = Reach(client, listeners, sign_ins, own=own)
    if found.view is None:
        return found
    others = {number: at for number, at in sorted(found.view.brokers.items()) if at not in addresses}
    others = dict(list(others.items())[:_MAX_BROKERS])
    looks = map_concurrently(lambda number: look(others[number]), others, most=_MAX_LOOKS)
    return Reach(client, listeners, sign_ins, looks, own=own)


def skew_ms(cluster: ClusterConfig, topic: str) -> tuple[int | None, int | None]:
    """A cluster's clock less that of its newest heartbeat's writer, and its newest stamp less this machine's present.

    None where there is no such stamp, or none that we may read.
    """
    try:
        found = single_records.newest_stamped(cluster, topic, timeout_s=STEP_S)
        if found is None:
            return None, None
        ahead = found.stamp_ms - utc_now_ms()
        return found.stamp_ms - decode(found.key, found.value).timestamp_ms, ahead
    except (AggregatorError, ValueError):
        return None, None


def registry(
    reference: str, opened: Callable[[], Registry], ids: Mapping[int, tuple[str, ...]], *, written: bool
) -> RegistryView:
    """A registry's answers, and whether it has these ids.

    Args:
        reference: The registry as the configuration names it.
        opened: Opens it.
        ids: Schema ids, each with the topics of the records that name it.
        written: The hub registers schemas there.
    """
    try:
        return with_timeout(lambda: _registry(reference, opened(), ids, written=written), _REGISTRY_S, reference)
    except AggregatorError as error:
        return RegistryView(reference, error.message, error.hint)


def _registry(reference: str, asked: Registry, ids: Mapping[int, tuple[str, ...]], *, written: bool) -> RegistryView:
    subjects = asked.subjects()
    unknown, refused = dict[int, tuple[str, ...]](), dict[int, str]()
    for schema_id, topics in ids.items():
        try:
            asked.schema(schema_id)
        except UnknownSchema:
            unknown[schema_id] = topics
        except (DeadLetterError, HoldError) as error:
            refused[schema_id] = error.message
    folder = Path(reference.removeprefix("directory:"))
    if written and reference.startswith("directory:") and not _is_writable(folder):
        return RegistryView(reference, f"{reference} cannot be written by this user", _given(folder))
    return RegistryView(reference, subjects=len(subjects), unknown=unknown, refused=refused, ids=len(ids))


def machine(config: HubConfig, environ: Mapping[str, str]) -> Machine:
    """Examine this machine: Java, the folders that are written to, the keys."""
    return Machine(_java(environ), dict(_disks(config, environ)), {name: _key(config, name) for name in config.keys})


def compared(found: Machine, config: HubConfig, recorded: Checks) -> Machine:
    """The machine with the faults of keys that are not those which the hub has used.

    Args:
        found: The facts of this machine.
        config: The hub's configuration.
        recorded: Check values of the keys that it has used.
    """
    return replace(
        found, keys={name: one or _other_key(name, config.keys[name], recorded) for name, one in found.keys.items()}
    )


def _other_key(name: str, ring: KeyRing, recorded: Checks) -> Trouble | None:
    try:
        require_unreplaced({name: ring}, recorded)
    except ConfigError as error:
        return Trouble(error.message, error.hint)
    return None


def _java(environ: Mapping[str, str]) -> str | Trouble:
    try:
        java, version = usable_java(environ)
    except AggregatorError as error:
        return Trouble(error.message, error.hint)
    return f"{java} is Java {version}"


def _key(config: HubConfig, name: str) -> Trouble | None:
    ring = config.keys[name]
    try:
        for version, _ in ring.versions:
            ring.material(name, version)
    except ConfigError as error:
        return Trouble(error.message, error.hint)
    return None


def _disks(config: HubConfig, environ: Mapping[str, str]) -> list[tuple[str, Disk]]:
    found = []
    lake = config.lake.path.removeprefix("file://") if config.lake is not None else ""
    if lake and "://" not in lake:
        found.append((lake, _disk(Path(lake), "the lake", "`lake.path`")))
    scratch = environ.get("SPARK_LOCAL_DIRS") or config.spark.conf.get("spark.local.dir") or tempfile.gettempdir()
    setting = "`spark.conf: {spark.local.dir: …}`"
    return [*found, *((place, _disk(Path(place), "Spark's scratch files", setting)) for place in scratch.split(","))]


def _disk(folder: Path, purpose: str, setting: str) -> Disk:
    there = _there(folder)
    return Disk(purpose, setting, shutil.disk_usage(there).free, _is_writable(folder), str(there))


def _there(folder: Path) -> Path:
    """A folder, or the one in which it would be made."""
    return next((one for one in (folder, *folder.parents) if os.path.exists(one)), Path("/"))  # noqa: PTH110 - that one raises


def _given(folder: Path) -> str:
    """The remedy for a folder that this user cannot create or write to."""
    there = _there(folder)
    if there.is_dir():
        return f'sudo chown "$(id -un)" {quote(str(there))}; or correct `schemas`'
    return f"{there} is no folder: correct `schemas`"


def _is_writable(folder: Path) -> bool:
    there = _there(folder)
    return there.is_dir() and os.access(there, os.W_OK | os.X_OK)
