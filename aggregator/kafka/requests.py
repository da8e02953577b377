"""The requests topic: what people (and rules, in their stead) have decided, which the driver carries out.

Invariant: a decision is never changed or withdrawn, its key is its gap; readers pass over keys that are no gaps, and
refuse a damaged decision by name. What a rule decides is written by the slot, in the transaction that goes on.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict

from aggregator.config.model import ClusterConfig
from aggregator.coordinates import EdgePartition, Position
from aggregator.errors import Failed, Unreachable
from aggregator.kafka import clients, topics
from aggregator.kafka.gap import Decision, Gap
from aggregator.kafka.log import LogRecord, read_to_end
from aggregator.kafka.names import HubNames
from aggregator.kafka.tail import LogTail

VERSION = 1
_GAPS = "gap/"
_FLUSH_S = 15.0


def encode(decision: Decision) -> tuple[str, bytes]:
    """Key and value of a decision's record."""
    body = asdict(decision) | {"v": VERSION, "source": str(decision.source), "position": list(decision.position)}
    return decision.key, json.dumps(body, sort_keys=True).encode()


def decode(record: LogRecord, topic: str) -> Decision:
    """Read one decision.

    Raises:
        Failed: not a decision of this version; names the record.
    """
    try:
        body = json.loads(record.value or b"")
        if body.pop("v") == VERSION:
            source, position = EdgePartition.parse(body.pop("source")), Position(*body.pop("position"))
            return Decision(source, position, Gap.of(body.pop("gap")), **body)
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    raise Failed(
        f"{topic} offset {record.offset}: the request {record.key} is damaged",
        hint="replace it by a correct record, or by a tombstone, of the same key",
    )


def fold(records: Iterable[LogRecord], topic: str) -> dict[str, Decision]:
    """Decisions about gaps by key, the last record of each.

    Raises:
        Failed: a damaged request that no later one replaces.
    """
    last = {record.key: record for record in records if record.key.startswith(_GAPS)}
    return {key: decode(record, topic) for key, record in last.items() if record.value is not None}


def by_flow(decisions: Iterable[Decision]) -> Mapping[EdgePartition, tuple[Decision, ...]]:
    """Decisions of each flow."""
    found: dict[EdgePartition, tuple[Decision, ...]] = {}
    for decision in decisions:
        found[decision.source] = (*found.get(decision.source, ()), decision)
    return found


def read_decisions(cluster: ClusterConfig, names: HubNames) -> tuple[Decision, ...]:
    """Every decision about a gap, the topic read to its end; none before the hub's first run.

    Raises:
        Failed: a damaged request, or an end that stays stuck.
        Unreachable: central does not answer.
    """
    if not topics.partition_count(cluster, names.requests):
        return ()
    return tuple(fold(read_to_end(cluster, names.requests, [0]), names.requests).values())


def submit(cluster: ClusterConfig, names: HubNames, decisions: Collection[Decision]) -> None:
    """Write decisions and wait until central has them.

    Raises:
        Unreachable: central did not take all of them; submitting again does no harm.
    """
    refused: list[str] = []
    producer = clients.plain_producer(cluster)
    for decision in decisions:
        key, value = encode(decision)
        producer.produce(
            names.requests,
            value,
            key,
            0,
            on_delivery=lambda error, _: refused.append(error.str()) if error is not None else None,
        )
    if producer.flush(_FLUSH_S) or refused:
        why = refused[0] if refused else "no answer"
        raise Unreachable(
            f"{names.requests} at {cluster.bootstrap_servers} did not take the request: {why}",
            hint="check the broker and the principal's right to write this topic, then accept again",
        )


class RequestWatch:
    """Follows the requests topic without waiting; a look, not a proof."""

    def __init__(self, cluster: ClusterConfig, names: HubNames) -> None:
        self._topic = names.requests
        self._tail = LogTail(cluster, names.requests)

    def look(self) -> tuple[Decision, ...]:
        """Decisions that arrived since the last look; never blocks.

        Raises:
            Failed: a damaged request.
        """
        return tuple(fold(self._tail.arrived(), self._topic).values())

    def close(self) -> None:
        """Leave the cluster."""
        self._tail.close()
