"""Pauses: edges whose flows stand still because somebody asked for it, as records in the requests topic.

Invariant: one record per edge, the newest holds; it says who, when and why, and a resumption does so, too. The driver
carries it out with its next epoch. A damaged one is refused by name.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from aggregator.errors import Failed
from aggregator.kafka.log import LogRecord

VERSION = 1
_PAUSES = "pause/"


@dataclass(frozen=True, slots=True)
class Pause:
    """Whether an edge is paused, and whose word that is.

    Attributes:
        edge: Which one.
        paused: False: it was resumed.
        by: Who asked for it.
        at_ms: When, by the clock of whoever asked.
        reason: Why.
    """

    edge: str
    paused: bool
    by: str
    at_ms: int
    reason: str

    @property
    def key(self) -> str:
        """Its record's key."""
        return f"{_PAUSES}{self.edge}"

    @property
    def sentence(self) -> str:
        """Who paused the edge, since when and why; nothing where it is not paused."""
        since = datetime.fromtimestamp(self.at_ms / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        return f"by {self.by} since {since}: {self.reason}" if self.paused else ""

    def encode(self) -> tuple[str, bytes]:
        """Key and value of its record."""
        return self.key, json.dumps(asdict(self) | {"v": VERSION}, sort_keys=True).encode()


def fold_pauses(records: Iterable[LogRecord], topic: str) -> dict[str, Pause]:
    """The newest word about each edge.

    Raises:
        Failed: a damaged request that no later one replaces.
    """
    last = {record.key: record for record in records if record.key.startswith(_PAUSES)}
    found = [_decode(record, topic) for record in last.values() if record.value is not None]
    return {pause.edge: pause for pause in found}


def paused_edges(pauses: Iterable[Pause]) -> frozenset[str]:
    """Edges that are paused now."""
    return frozenset(pause.edge for pause in pauses if pause.paused)


def _decode(record: LogRecord, topic: str) -> Pause:
    try:
        body = json.loads(record.value or b"")
        if body.pop("v") == VERSION:
            return Pause(**body)
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    raise Failed(
        f"{topic} offset {record.offset}: the request {record.key} is damaged",
        hint="say `aggregator edge pause` or `aggregator edge resume` again",
    )
