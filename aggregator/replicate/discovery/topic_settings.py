"""This module carries topic settings from an edge to its central topic, and finds where the two differ (drift).

Invariant: pure, and by an allow-list. A setting in a rule's `central_config` belongs to the rule. A setting that would
make central delete sooner is carried over only by a person who has seen it. A setting that would make central keep
records for ever needs a person's explicit word, because anyone who may set it at an edge could fill central's disks.
The largest record size never shrinks, and never exceeds what the hub can send.

Access rights are never carried over, because an edge does not know who may read stripped records.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import partial
from typing import Any

from aggregator.config.match import rule_for
from aggregator.config.model import HubConfig
from aggregator.kafka.client.record_size import MAX_RECORD_BYTES
from aggregator.replicate.discovery.central_topics import target

_SIZE = "max.message.bytes"
# Settings of which central gets the largest value of its edges; in some of them, -1 means no bound.
_GROWING = (
    _SIZE,
    "retention.ms",
    "retention.bytes",
    "delete.retention.ms",
    "min.compaction.lag.ms",
    "max.compaction.lag.ms",
)
_WORDS = ("cleanup.policy", "compression.type")
FOLLOWING = (*_GROWING, *_WORDS)
_UNBOUNDED = ("retention.ms", "retention.bytes")
# A hundred years, or a petabyte, counts as for ever.
_FOR_EVER_MS = 100 * 365 * 86_400_000
_FOR_EVER = {
    "retention.ms": _FOR_EVER_MS,
    "retention.bytes": 2**50,
    "delete.retention.ms": _FOR_EVER_MS,
    "min.compaction.lag.ms": _FOR_EVER_MS,
}
_NO_BOUND = 2**63
_DISAGREE = "its edges do not agree"
_LARGER = "the edge takes larger records: they would become dead letters"
_GROWS = "central keeps for ever then, and its disks fill"
_LEFT = "no edge has it any more; write it into `central_config` to keep it"

# The settings that follow to central, by edge and topic.
Shown = Mapping[str, Mapping[str, Mapping[str, str]]]


class DriftAction(StrEnum):
    """The action for a difference.

    `config_sync: apply` and `plan --apply` carry a `change` over. Only `plan --apply` carries a `confirm` over, because
    central would then delete sooner; for `unbounded` it needs `--confirm unbounded`. A `keep` is never carried over.
    """

    CHANGE = "change"
    CONFIRM = "confirm"
    UNBOUNDED = "unbounded"
    KEEP = "keep"


@dataclass(frozen=True, slots=True)
class Drift:
    """A setting of a central topic that differs from its edges.

    Attributes:
        topic: Central topic.
        setting: Name of the setting in Kafka.
        central: Value at central; None if central does not tell it.
        edge: Value at the edges, as far as central may have it; None if no edge sets it.
        edges: Names of the edges.
        action: Action for the difference.
        why: Reason in words.
    """

    topic: str
    setting: str
    central: str | None
    edge: str | None
    edges: tuple[str, ...]
    action: DriftAction
    why: str

    def plain(self) -> dict[str, Any]:
        """The JSON object that `-o json` promises for a drift."""
        return asdict(self) | {"action": self.action.value, "edges": list(self.edges)}


def following(values: Mapping[str, str], own: Collection[str]) -> dict[str, str]:
    """The settings of an edge topic that follow to central.

    Args:
        values: All settings that are in effect.
        own: Names of the settings that were made on the topic itself. Settings that a topic inherits from its brokers
            concern the edge alone. The largest record size follows from either source, because it decides which records
            central refuses.
    """
    return {name: values[name] for name in FOLLOWING if values.get(name) and (name in own or name == _SIZE)}


def drifts(
    config: HubConfig,
    shown: Shown,
    central: Mapping[str, Mapping[str, str]],
    own: Mapping[str, Collection[str]] | None = None,
) -> list[Drift]:
    """The differences between central topics and their edges.

    Args:
        config: Settings of replicated topics that follow to central.
        shown: What follows of the settings of replicated topics.
        central: Settings in effect of the central topics, by name; a topic that is missing here is not compared.
        own: Settings made on the central topic itself, by topic. Those that no edge has are reported once every edge
            has answered. None: nobody asked.
    """
    wanted = defaultdict[tuple[str, str], dict[str, str]](dict)
    feeding, ruled = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    for edge, topics in sorted(shown.items()):
        for topic, settings in sorted(topics.items()):
            rule = rule_for(config, edge, topic)
            if rule is None:
                continue
            goal = target(config, edge, topic)
            feeding[goal].add(edge)
            ruled[goal] |= rule.central_config.keys()
            for name in settings.keys() - rule.central_config.keys():
                wanted[goal, name][edge] = settings[name]
    found = (
        _drift(topic, name, by_edge, central[topic], all_say=by_edge.keys() == feeding[topic])
        for (topic, name), by_edge in sorted(wanted.items())
        if topic in central
    )
    drifted = [one for one in found if one is not None]
    known = shown.keys() >= config.edges.keys()
    for topic in sorted(feeding.keys() & central.keys() & (own or {}).keys()) if known else ():
        left = set((own or {})[topic]).intersection(_GROWING) - ruled[topic]
        drifted += [
            one for name in sorted(left) if (one := _left(topic, name, wanted[topic, name], central[topic])) is not None
        ]
    return drifted


def _left(topic: str, name: str, by_edge: Mapping[str, str], central: Mapping[str, str]) -> Drift | None:
    """A number that central has of its own and no edge any more; larger records than any edge takes are one, too."""
    now = central.get(name)
    if now is None or (by_edge and name != _SIZE):
        return None
    value = max(by_edge.values(), key=lambda text: _size(name, text), default=None)
    if value is not None and _size(name, now) <= _size(name, value):
        return None
    return Drift(topic, name, now, value, tuple(by_edge), DriftAction.KEEP, _LEFT)


def _drift(
    topic: str, name: str, by_edge: Mapping[str, str], central: Mapping[str, str], *, all_say: bool
) -> Drift | None:
    now, edges = central.get(name), tuple(by_edge)
    if name in _GROWING:
        value = max(map(_sendable, by_edge.values()) if name == _SIZE else by_edge.values(), key=partial(_size, name))
        action = _number_action(name, now, value, all_say=all_say)
        return None if action is None else Drift(topic, name, now, value, edges, *action)
    if len({_words(text) for text in by_edge.values()}) > 1 or not all_say:
        value = ", ".join(f"{edge}: {text}" for edge, text in by_edge.items())
        return None if _same(now, by_edge) else Drift(topic, name, now, value, edges, DriftAction.KEEP, _DISAGREE)
    value = next(iter(by_edge.values()))
    if _same(now, by_edge):
        return None
    if name == "cleanup.policy" and _words(value) - _words(now or ""):
        return Drift(topic, name, now, value, edges, DriftAction.CONFIRM, "central forgets what it keeps now")
    return Drift(topic, name, now, value, edges, DriftAction.CHANGE, "as at the edge")


def _number_action(name: str, now: str | None, value: str, *, all_say: bool) -> tuple[DriftAction, str] | None:
    if now == value:
        return None
    if now is None or _size(name, now) < _size(name, value):
        if name in _FOR_EVER and _size(name, value) >= _FOR_EVER[name]:
            return DriftAction.UNBOUNDED, _GROWS
        return DriftAction.CHANGE, _LARGER if name == _SIZE else "the edge keeps longer"
    if name == _SIZE:
        return None  # central already accepts larger records than the edge
    return (DriftAction.CONFIRM, "central deletes sooner then") if all_say else (DriftAction.KEEP, _DISAGREE)


def _sendable(size: str) -> str:
    return str(min(MAX_RECORD_BYTES, _size(_SIZE, size)))


def _same(now: str | None, by_edge: Mapping[str, str]) -> bool:
    return now is not None and {_words(now)} == {_words(text) for text in by_edge.values()}


def _words(text: str) -> frozenset[str]:
    """The words of a setting, whose order has no meaning."""
    return frozenset(text.replace(" ", "").split(",")) - {""}


def _size(name: str, text: str) -> int:
    number = int(text) if text.lstrip("-").isdecimal() else 0
    return _NO_BOUND if number < 0 and name in _UNBOUNDED else number


def changes(found: Collection[Drift], *, confirmed: bool, unbounded: bool = False) -> dict[str, dict[str, str]]:
    """The settings to change, by central topic.

    Args:
        found: The differences that were found.
        confirmed: Whether a person has seen the differences.
        unbounded: Whether a person has also allowed central to keep records for ever.
    """
    carried = {DriftAction.CHANGE}
    carried |= {DriftAction.CONFIRM} if confirmed else set()
    carried |= {DriftAction.UNBOUNDED} if unbounded else set()
    wanted = defaultdict[str, dict[str, str]](dict)
    for one in found:
        if one.action in carried and one.edge is not None:
            wanted[one.topic][one.setting] = one.edge
    return dict(wanted)
