"""An acceptance says that an edge's name stands for another cluster from now on; it is a record in the requests topic.

Invariant: each name has one record, and the newest counts. A person decides it. An acceptance names the cluster by its
id, so it does not accept later clusters. It says who, when and why. A damaged record is named and accepts no cluster:
the edge stays held.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass

from msgspec import Struct

from aggregator.kafka.readers.log_record import LogRecord, latest_by_key
from aggregator.kafka.readers.typed_decoder import CorruptRecord, Moment, TypedDecoder

VERSION = 1
_PREFIX = "cluster/"


@dataclass(frozen=True, slots=True)
class ClusterAcceptance:
    """A person's decision for which cluster a name stands.

    Attributes:
        edge: The name; empty for central.
        cluster_id: Cluster id, as the cluster tells it; empty if it tells none.
        by: Name of the person who decided.
        at_ms: Time of the decision, by the clock of whoever decided.
        reason: Reason for the decision.
    """

    edge: str
    cluster_id: str
    by: str
    at_ms: int
    reason: str

    @property
    def key(self) -> str:
        """The key of the acceptance's record."""
        return f"{_PREFIX}{self.edge}"

    @property
    def about(self) -> str:
        """What the acceptance's decision is about."""
        return f"{self.key}/{self.cluster_id}"

    def encode(self) -> tuple[str, bytes]:
        """Encode the acceptance as key and value of its record."""
        return self.key, json.dumps(asdict(self) | {"v": VERSION}, sort_keys=True).encode()


class _ClusterAcceptance(Struct, tag_field="v", tag=VERSION):
    edge: str
    cluster_id: str
    by: str
    at_ms: Moment
    reason: str


_DECODER = TypedDecoder(_ClusterAcceptance)


def fold_acceptances(records: Iterable[LogRecord]) -> dict[str, ClusterAcceptance]:
    """The newest readable acceptance of each name."""
    return {one.edge: one for one in map(_decoded, latest_by_key(records, _PREFIX)) if one is not None}


def damaged_acceptances(records: Iterable[LogRecord], topic: str) -> Iterator[str]:
    """A sentence for each damaged acceptance."""
    for record in latest_by_key(records, _PREFIX):
        if _decoded(record) is None:
            yield (
                f"{topic} offset {record.offset}: the request {record.key} is damaged: the edge stays held until"
                " `aggregator edge accept` is said again"
            )


def _decoded(record: LogRecord) -> ClusterAcceptance | None:
    """An acceptance, if it is one and of the name that its key names."""
    try:
        body = _DECODER.decode(record.value)
    except CorruptRecord:
        return None
    made = ClusterAcceptance(body.edge, body.cluster_id, body.by, body.at_ms, body.reason)
    return made if made.key == record.key else None
