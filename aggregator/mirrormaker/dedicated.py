"""Reads the file of `connect-mirror-maker.sh`: cluster names, and settings for all clusters, for one, or for one flow.

Invariant: a cluster name in a key counts only if `clusters` lists it, as in MirrorMaker.
"""

from collections.abc import Iterable, Sequence

from aggregator.errors import ConfigError
from aggregator.mirrormaker.result import FileKey
from aggregator.mirrormaker.scoped_settings import Mirror, ScopedSetting, role_of

MAX_CLUSTERS = 500
_ARROW = "->"
_OF_CONNECTORS = ("source.cluster.alias", "target.cluster.alias")
_ENDS = (("source.", 0), ("target.", 1))


def take_apart(entries: Sequence[FileKey]) -> Mirror:
    """Sort every key by the cluster, the flow and the client that it speaks of.

    Args:
        entries: Entries of the file; of several files one after another.

    Raises:
        ConfigError: more clusters than anybody has.
    """
    mirror = Mirror("dedicated MirrorMaker 2")
    for entry in entries:
        if entry.key == "clusters":
            mirror.clusters += [name for one in entry.value.split(",") if (name := one.strip())]
            if len(mirror.clusters) > MAX_CLUSTERS:
                what = f"{entry.file}:{entry.line}: lists more than {MAX_CLUSTERS} clusters"
                raise ConfigError(what, hint="give a file of MirrorMaker 2")
            mirror.fates.mapped(entry, "edges, central")
    for entry in entries:
        if entry.key != "clusters":
            _sort(mirror, entry)
    return mirror


def _sort(mirror: Mirror, entry: FileKey) -> None:
    if _ARROW in entry.key:
        _of_flow(mirror, entry)
        return
    alias = "" if entry.key in _OF_CONNECTORS else _beginning(entry.key, mirror.clusters)
    role, name = role_of(entry.key[len(alias) + 1 :] if alias else entry.key)
    mirror.scoped_settings.append(ScopedSetting(entry, name, entry.value, cluster=alias, role=role))


def _of_flow(mirror: Mirror, entry: FileKey) -> None:
    source, _, rest = entry.key.partition(_ARROW)
    target = _beginning(rest, mirror.clusters)
    if source not in mirror.clusters or not target:
        mirror.fates.unknown(
            entry, "`clusters` does not list both clusters of this flow, so that MirrorMaker passes over it"
        )
        return
    name = rest[len(target) + 1 :]
    if name == "enabled":
        if source == target:
            mirror.fates.not_applicable(entry, "a cluster is not copied into itself")
            return
        tell_enabled(mirror, entry)
        if is_enabled(entry.value) and (source, target) not in mirror.flows:
            mirror.flows.append((source, target))
        return
    mirror.scoped_settings.append(setting_of_flow(entry, name, source, target))


def is_enabled(value: str) -> bool:
    """Whether Java reads the text as true."""
    return value.lower() == "true"


def tell_enabled(mirror: Mirror, entry: FileKey, *, copies: bool = True) -> None:
    """Tell what becomes of `enabled` of a flow.

    Args:
        mirror: Takes what becomes of the entry.
        entry: The entry of the key `enabled`.
        copies: Whether it stands where records are copied.
    """
    if not copies:
        mirror.fates.not_applicable(entry, "the connector that copies records decides this")
    elif is_enabled(entry.value):
        mirror.fates.mapped(entry, "edges, central")
    else:
        mirror.fates.not_applicable(entry, "the flow is not enabled")


def setting_of_flow(entry: FileKey, name: str, source: str, target: str, *, of_records: bool = True) -> ScopedSetting:
    """A setting of one flow, or of the clients on one side of it.

    Args:
        entry: The entry with its place.
        name: Without the flow.
        source: MirrorMaker's name.
        target: MirrorMaker's name.
        of_records: The same flag as in `ScopedSetting`.
    """
    cluster = ""
    for prefix, side in _ENDS:
        if name.startswith(prefix) and name not in _OF_CONNECTORS:
            cluster = (source, target)[side]
            name = name.removeprefix(prefix).removeprefix("cluster.")
            break
    role, rest = role_of(name)
    if role and not cluster:
        cluster = target if role == "producer" else source
    return ScopedSetting(entry, rest, entry.value, cluster, role, source, target, of_records)


def _beginning(key: str, aliases: Iterable[str]) -> str:
    """The longest name of a cluster that the key begins with; a name may hold dots."""
    return max((alias for alias in aliases if key.startswith(f"{alias}.")), key=len, default="")
