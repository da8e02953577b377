"""A pause stops the flows of an edge because a person asked for it; it is a record in the requests topic.

Invariant: each edge has one record, and the newest counts. A pause says who, when and why, and so does a resumption.
The driver applies it with its next epoch. A damaged record is named and pauses its edge, because it may have been a
pause. The next readable record of the edge replaces it.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass

from msgspec import Struct

from aggregator.kafka.readers.log_record import LogRecord, latest_by_key
from aggregator.kafka.readers.typed_decoder import CorruptRecord, Moment, TypedDecoder
from aggregator.moments import iso

VERSION = 1
_PREFIX = "pause/"


@dataclass(frozen=True, slots=True)
class Pause:
    """Whether an edge is paused, and who decided that.

    Attributes:
        edge: Name of the edge.
        paused: Whether the edge is paused; False: it was resumed.
        by: Name of the person who asked.
        at_ms: Time of the request, by the clock of whoever asked.
        reason: Reason for the request.
    """

    edge: str
    paused: bool
    by: str
    at_ms: int
    reason: str

    @property
    def key(self) -> str:
        """The key of the pause's record."""
        return f"{_PREFIX}{self.edge}"

    @property
    def sentence(self) -> str:
        """Who paused the edge, since when and why; nothing where it is not paused."""
        since = iso(self.at_ms)
        return f"by {self.by} (claimed) since {since}: {self.reason}" if self.paused else ""

    def encode(self) -> tuple[str, bytes]:
        """Encode the pause as key and value of its record."""
        return self.key, json.dumps(asdict(self) | {"v": VERSION}, sort_keys=True).encode()


class _Pause(Struct, tag_field="v", tag=VERSION):
    edge: str
    paused: bool
    by: str
    at_ms: Moment
    reason: str


_DECODER = TypedDecoder(_Pause)


def fold_pauses(records: Iterable[LogRecord]) -> dict[str, Pause]:
    """The newest pause or resumption of each edge; a damaged record pauses it."""
    found = [_decoded(record) or _pause_of_damaged(record) for record in latest_by_key(records, _PREFIX)]
    return {pause.edge: pause for pause in found}


def damaged_pauses(records: Iterable[LogRecord], topic: str) -> Iterator[str]:
    """A sentence for each edge whose newest record is damaged."""
    for record in latest_by_key(records, _PREFIX):
        if _decoded(record) is None:
            edge = record.key.removeprefix(_PREFIX)
            yield (
                f"{topic} offset {record.offset}: the request {record.key} is damaged: edge {edge} is paused until"
                " `aggregator edge pause` or `aggregator edge resume` is said again"
            )


def _decoded(record: LogRecord) -> Pause | None:
    """A pause, if it is one and of the edge that its key names."""
    try:
        body = _DECODER.decode(record.value)
    except CorruptRecord:
        return None
    made = Pause(body.edge, body.paused, body.by, body.at_ms, body.reason)
    return made if made.key == record.key else None


def _pause_of_damaged(record: LogRecord) -> Pause:
    said = "the request is damaged; say `aggregator edge pause` or `aggregator edge resume` again"
    return Pause(record.key.removeprefix(_PREFIX), paused=True, by="a damaged request", at_ms=0, reason=said)


def paused_edges(pauses: Iterable[Pause]) -> frozenset[str]:
    """The edges that are paused now."""
    return frozenset(pause.edge for pause in pauses if pause.paused)
