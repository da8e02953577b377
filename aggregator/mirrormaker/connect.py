"""Reads connectors of MirrorMaker 2 on Connect: its REST interface's JSON, and a standalone worker's `.properties`.

Invariant: only `MirrorSourceConnector` copies records. The other two connectors of a flow add connection settings, but
no flow.
"""

from collections.abc import Sequence

from aggregator.mirrormaker.dedicated import is_enabled, setting_of_flow, tell_enabled
from aggregator.mirrormaker.result import FileKey
from aggregator.mirrormaker.scoped_settings import Mirror

_PACKAGE = "org.apache.kafka.connect.mirror."
_COPIES = "MirrorSourceConnector"
CONNECTORS = frozenset({_COPIES, "MirrorCheckpointConnector", "MirrorHeartbeatConnector"})
_UNUSED = "Connect obeys `consumer.override` for sinks only"
_SIDES = ("source.cluster.alias", "target.cluster.alias")


def is_connector(name: str) -> bool:
    """Whether a class is one of MirrorMaker 2's connectors; Connect takes it with and without its package."""
    return name.strip().removeprefix(_PACKAGE) in CONNECTORS


def take_apart(connectors: Sequence[Sequence[FileKey]]) -> Mirror:
    """Every key of every connector, as what it speaks of."""
    mirror = Mirror("connectors of MirrorMaker 2")
    for entries in connectors:
        _connector(mirror, entries)
    if not mirror.flows and not any(map(_copies, connectors)):
        mirror.remarks.append("none of these connectors copies records: give the file of MirrorSourceConnector, too")
    return mirror


def _copies(entries: Sequence[FileKey]) -> bool:
    classes = [entry.value for entry in entries if entry.key == "connector.class"]
    return any(name.strip().removeprefix(_PACKAGE) == _COPIES for name in classes)


def _connector(mirror: Mirror, entries: Sequence[FileKey]) -> None:
    named = {entry.key: entry.value for entry in entries}
    copies = _copies(entries)
    source, target = (named.get(side, "") or side.partition(".")[0] for side in _SIDES)
    mirror.clusters += [one for one in (source, target) if one not in mirror.clusters]
    if copies and is_enabled(named.get("enabled", "true")) and (source, target) not in mirror.flows:
        mirror.flows.append((source, target))
    for entry in entries:
        if entry.key == _SIDES[1]:
            mirror.fates.mapped(entry, "central")
        elif entry.key == "enabled":
            tell_enabled(mirror, entry, copies=copies)
        elif entry.key == "clusters":
            mirror.fates.not_applicable(entry, "the two aliases of a connector name its clusters")
        elif entry.key.startswith("consumer.override."):
            mirror.fates.not_applicable(entry, _UNUSED)
        else:
            mirror.scoped_settings.append(setting_of_flow(entry, entry.key, source, target, of_records=copies))
