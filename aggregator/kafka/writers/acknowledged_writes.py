"""This module writes a few records in order, without a transaction, and waits until the cluster has acknowledged them.

Invariant: no client is kept, and no transaction is used. A record may therefore be written twice, and must mean the
same then.
"""

from collections.abc import Iterable
from typing import NamedTuple

from aggregator.config.model import ClusterConfig
from aggregator.kafka.client import clients

# Not idempotent: an idempotent producer asks for its id only half a second after its start.
_AT_ONCE = {"enable.idempotence": False, "max.in.flight.requests.per.connection": 1}
_FLUSH_S = 15.0


class Record(NamedTuple):
    """A record of partition 0 of a topic."""

    topic: str
    key: bytes | str
    value: bytes | None


def write_acknowledged(cluster: ClusterConfig, records: Iterable[Record]) -> str:
    """Write records in their order and wait for the cluster.

    Args:
        cluster: Where.
        records: All that is to be written.

    Returns:
        Why it did not take all of them; empty: it did.
    """
    refused: list[str] = []
    producer = clients.plain_producer(cluster, **_AT_ONCE)
    for one in records:
        producer.produce(
            one.topic,
            one.value,
            one.key,
            0,
            on_delivery=lambda error, _: refused.append(error.str()) if error is not None else None,
        )
    if producer.flush(_FLUSH_S) or refused:
        return refused[0] if refused else "no answer"
    return ""
