"""Delivery strips a chunk of records and adds copies, dead letters and counts to the open transaction.

Invariant (protocol, rule A): a record's central copy or its dead letter is produced in the transaction whose ledger
record moves past it. A record that yields neither is counted as suppressed. In a restate, the same transaction also
carries a notice for every record that yields no copy. This module never decides when to commit.
"""

import hashlib
import hmac
import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from aggregator.bytes_column import BytesColumn
from aggregator.coordinates import BACKFILL_HEADER, CHAIN_HEADER, LEFT_OUT_HEADER, ORIGIN_HEADER, EdgePartition
from aggregator.errors import HoldError, Reason
from aggregator.header_columns import HeaderTable
from aggregator.kafka.native.chunk import Chunk
from aggregator.kafka.native.producer import OutgoingRecords
from aggregator.privacy.batch.strip import Batch, Rejection, Strip, Stripped
from aggregator.replicate.discovery.compacted_keys import require_keys
from aggregator.replicate.flow.field_counts import FieldReports
from aggregator.replicate.flow.flow import Flow, FlowPlan
from aggregator.replicate.flow.limits import TopicLimits
from aggregator.replicate.flow.schema_fingerprints import checked_fingerprints
from aggregator.replicate.identity.chains import BatchJudgement, Chains
from aggregator.replicate.identity.cycles import Cycles
from aggregator.replicate.slot.ports import Writer
from aggregator.state.dead_letters import DELIVERED, SUPPRESSED, Letter, encode_letter, encode_resolution

# Batch overhead of Kafka's record format v2 (61 bytes) plus a record's own varints, rounded up.
RECORD_OVERHEAD_BYTES = 100
_HEADER_OVERHEAD_BYTES = 10


@dataclass(frozen=True, slots=True)
class DeliveryPlan:
    """Holds what delivery needs to know about the hub.

    Attributes:
        hub: Name in `hub.origin`.
        dead_letters: Topic of the dead letters.
        cycles: How records of ours are known that come back through an edge.
        digest_key: Key of the dead letters' hash; None leaves the hash out.
        backfill: Id of the backfill that delivers, which its records carry; empty for the live flows.
        chains: How records are known that other hubs bring back.
        writes_notices: Whether a notice is written for each record that was read and yields no copy.
    """

    hub: str
    dead_letters: str
    cycles: Cycles
    digest_key: bytes | None = field(repr=False)
    backfill: str = ""
    chains: Chains = field(default_factory=Chains)
    writes_notices: bool = False


class Delivery:
    """Strips the records of one slot and produces the results."""

    def __init__(
        self,
        plan: DeliveryPlan,
        strip_for: Callable[[EdgePartition], Strip],
        require_planned: Callable[[str, TopicLimits], None],
    ) -> None:
        self._plan = plan
        self._strip_for = strip_for
        self._require_planned = require_planned
        self._strips: dict[tuple[str, str], Strip] = {}
        self._reports = FieldReports()

    def deliver(self, writer: Writer, flow: Flow, chunk: Chunk, begin: Callable[[], None], *, now_ms: int) -> int:
        """Produce a chunk and move the flow's cursor past it.

        Args:
            writer: The slot's producer.
            flow: Whose records these are.
            chunk: Records in log order.
            begin: Opens the transaction when none is open; called after the strip, which may refuse.
            now_ms: The present, for a topic that bounds timestamps.

        Returns:
            Bytes produced.

        Raises:
            RetryError: the registry is away, or central, before a record would die by a limit; nothing was produced.
            LimitsChanged: the topic takes something else than was planned for; nothing was produced.
            HoldError: this flow cannot go on; nothing was produced.
        """
        source = flow.plan.source
        cycles, forged = self._plan.cycles.find_cycles(source.topic, chunk.headers)
        judged = self._judged(flow, chunk)
        cycles |= judged.cycles
        dead_already = {at: Rejection(why) for at, why in judged.rejected.items() if at not in cycles}
        unread = cycles | dead_already.keys()
        # A recreated topic has its own offsets, and another edge may use the same registry.
        log = source.edge, source.partition, flow.cursor.entry.incarnation
        batch = Batch(chunk.keys, chunk.values, chunk.headers, log, chunk.offsets)
        stripped = self._strip(source).strip(_without(unread, batch))
        stripped.suppressed = (stripped.suppressed - dead_already.keys()) | cycles
        stripped.rejected |= dead_already
        forged = (forged | judged.claimed) - unread
        schemas = checked_fingerprints(flow.cursor.entry.schemas, stripped.schemas, source, flow.plan.fingerprints)
        origins = BytesColumn.numbered(f"{self._plan.hub}/{source}/", chunk.offsets, f"/{flow.position.incarnation}")
        stamps = self._stamps(flow, origins, judged.chains)
        sizes = stripped.keys.sizes + stripped.values.sizes + stripped.headers.sizes(_HEADER_OVERHEAD_BYTES)
        self._reject_beyond_limits(flow.plan, chunk, stripped, sizes + _stamp_bytes(stamps), now_ms)
        begin()
        produced = int(sizes.sum()) + self._produce(writer, flow, chunk, stripped, stamps, chains=judged.chains)
        resolved = self._resolve(writer, flow, chunk, stripped) if flow.plan.unresolved_offsets else 0
        dead, suppressed = len(stripped.rejected), len(stripped.suppressed)
        changed = stripped.counts.total()
        flow.cursor = flow.cursor.with_chunk(chunk, dead=dead, suppressed=suppressed, stripped=changed, schemas=schemas)
        flow.cursor = flow.cursor.with_cycles(cycles=len(cycles), forged=len(forged)).with_sealed(stripped.sealed)
        flow.cursor = flow.cursor.with_resolved(resolved)
        return produced

    def field_reports(self, now_s: float, *, last: bool = False) -> Iterator[dict[str, object]]:
        """What telemetry is to say of the fields that were stripped; see `field_counts.FieldReports.bodies`."""
        return self._reports.bodies(self._strips, now_s, last=last)

    def _judged(self, flow: Flow, chunk: Chunk) -> BatchJudgement:
        """Judge a chunk by its chain headers.

        A record that a person replays by its dead letter is delivered, whatever its chain says.
        """
        source, wanted = flow.plan.source, flow.plan.replayed_offsets
        asked = frozenset(index for index, offset in enumerate(chunk.offsets) if offset in wanted) if wanted else wanted
        return self._plan.chains.judge_batch(source.edge, source.topic, flow.plan.central_topic, chunk.headers, asked)

    def _strip(self, source: EdgePartition) -> Strip:
        topic = (source.edge, source.topic)
        if topic not in self._strips:
            self._strips[topic] = self._strip_for(source)
        return self._strips[topic]

    def _reject_beyond_limits(
        self, plan: FlowPlan, chunk: Chunk, stripped: Stripped, sizes: NDArray[np.int64], now_ms: int
    ) -> None:
        """Reject what the topic does not take, if it still does not.

        Raises:
            HoldError: a record would lose its key, and the topic is compacted.
            LimitsChanged: it takes something else than was planned for.
            Unreachable: it does not say what it takes.
        """
        limits, before = plan.limits, len(stripped.rejected)
        try:
            if limits.requires_key:
                require_keys(plan.central_topic, chunk.keys, stripped)
        except HoldError:
            self._require_planned(plan.central_topic, limits)
            raise
        if limits.bounds_timestamps:
            far = limits.refused_timestamps(np.asarray(chunk.timestamps_ms, np.int64), now_ms)
            _reject(stripped, far, Reason.REFUSED_TIMESTAMP)
        _reject(stripped, sizes > limits.record_bytes, Reason.TOO_LARGE)
        if len(stripped.rejected) > before:
            self._require_planned(plan.central_topic, limits)

    def _produce(
        self,
        writer: Writer,
        flow: Flow,
        chunk: Chunk,
        stripped: Stripped,
        stamps: list[tuple[str, BytesColumn]],
        *,
        chains: BytesColumn | None,
    ) -> int:
        """Produce copies, notices and letters; return the bytes of all but the copies."""
        plan = flow.plan
        left_out = frozenset(stripped.rejected.keys() | stripped.suppressed)
        records = OutgoingRecords(
            stripped.keys, stripped.values, chunk.timestamps_ms, stripped.headers, stamps, left_out
        )
        writer.produce_all(plan.central_topic, plan.central_partition, records)
        for further in self._further_tombstones(flow, chunk, stripped, chains):
            writer.produce_all(plan.central_topic, plan.central_partition, further)
        noticed = sorted(left_out) if self._plan.writes_notices else []
        if noticed:
            writer.produce_all(
                plan.central_topic, plan.central_partition, self._notices(flow, chunk, stripped, noticed)
            )
        letters = 0
        for index, rejection in sorted(stripped.rejected.items()):
            key, letter = self._dead_letter(flow, chunk, index, rejection)
            writer.produce(self._plan.dead_letters, key, letter)
            letters += len(letter)
        return letters + len(noticed) * RECORD_OVERHEAD_BYTES

    def _stamps(self, flow: Flow, origins: BytesColumn, chains: BytesColumn | None) -> list[tuple[str, BytesColumn]]:
        """Headers that tell of records where they came from."""
        stamps = [(ORIGIN_HEADER, origins), *self._plan.cycles.seals(flow.plan.central_topic, origins)]
        if chains is not None:
            stamps.append((CHAIN_HEADER, chains))
        if self._plan.backfill:
            stamps.append((BACKFILL_HEADER, BytesColumn.of([self._plan.backfill.encode()] * len(origins))))
        return stamps

    def _further_tombstones(
        self, flow: Flow, chunk: Chunk, stripped: Stripped, chains: BytesColumn | None
    ) -> Iterator[OutgoingRecords]:
        """Tombstones for the keys of a record under other key versions: in the same transaction, behind its own."""
        source, alive = flow.plan.source, {at for at in stripped.further if at not in stripped.rejected}
        for number in itertools.count(1):
            indexes = sorted(at for at in alive if len(stripped.further[at]) >= number)
            if not indexes:
                return
            ends = f"/{flow.position.incarnation}/{number}"
            origins = BytesColumn.numbered(f"{self._plan.hub}/{source}/", [chunk.offsets[at] for at in indexes], ends)
            yield OutgoingRecords(
                BytesColumn.of([stripped.further[at][number - 1] for at in indexes]),
                BytesColumn.empty(len(indexes)),
                [chunk.timestamps_ms[at] for at in indexes],
                HeaderTable.of([stripped.headers[at] for at in indexes]),
                self._stamps(flow, origins, None if chains is None else BytesColumn.of([chains[at] for at in indexes])),
            )

    def _notices(self, flow: Flow, chunk: Chunk, stripped: Stripped, indexes: Sequence[int]) -> OutgoingRecords:
        """Make a notice for each record that was read and yields no copy; a notice has no content of its record."""
        ends, offsets, count = f"/{flow.position.incarnation}", [chunk.offsets[at] for at in indexes], len(indexes)
        origins = BytesColumn.numbered(f"{self._plan.hub}/{flow.plan.source}/", offsets, ends)
        dead = stripped.rejected
        why = BytesColumn.of([(dead[at].reason if at in dead else SUPPRESSED).encode() for at in indexes])
        stamps = [*self._stamps(flow, origins, None), (LEFT_OUT_HEADER, why)]
        # A notice has the present time, because a topic may have refused the record for the record's own time.
        return OutgoingRecords(
            BytesColumn.empty(count), BytesColumn.empty(count), [0] * count, HeaderTable.empty(count), stamps
        )

    def _resolve(self, writer: Writer, flow: Flow, chunk: Chunk, stripped: Stripped) -> int:
        """Resolve former dead letters, in the transaction that delivers or suppresses their records, and count them."""
        resolved = [
            index
            for index, offset in enumerate(chunk.offsets)
            if offset in flow.plan.unresolved_offsets and index not in stripped.rejected
        ]
        source, incarnation, id_ = flow.plan.source, flow.position.incarnation, self._plan.backfill
        for index in resolved:
            outcome = SUPPRESSED if index in stripped.suppressed else DELIVERED
            offset, central = chunk.offsets[index], flow.plan.central_topic
            said = encode_resolution(source, offset, incarnation, id_, outcome, central=central)
            writer.produce(self._plan.dead_letters, *said)
        return len(resolved)

    def _dead_letter(self, flow: Flow, chunk: Chunk, index: int, rejection: Rejection) -> tuple[str, bytes]:
        """Key and value of a letter: coordinates, reason, schema id, sizes, a keyed hash, and no payload."""
        value, key = chunk.values[index] or b"", chunk.keys[index] or b""
        digest = hmac.new(self._plan.digest_key, value, hashlib.sha256).hexdigest() if self._plan.digest_key else None
        letter = Letter(
            flow.plan.source,
            chunk.offsets[index],
            flow.position.incarnation,
            rejection.reason,
            chunk.timestamps_ms[index],
            rejection.schema_id,
            len(value),
            central=flow.plan.central_topic,
        )
        return encode_letter(letter, key_bytes=len(key), value_hmac=digest, backfill=self._plan.backfill)


def _without(cycles: Collection[int], batch: Batch) -> Batch:
    """The batch without keys, values and headers at these indices.

    Their schema ids belong to central's registry, and their tombstones must not be delivered.
    """
    if not cycles:
        return batch
    headers = HeaderTable.of(batch.headers)
    keys, values = (BytesColumn.of(column).without(cycles) for column in (batch.keys, batch.values))
    return replace(batch, keys=keys, values=values, headers=headers.only(headers.names, cycles))


def _stamp_bytes(stamps: Sequence[tuple[str, BytesColumn]]) -> NDArray[np.int64]:
    """The bytes that each record takes besides its own key, value and headers."""
    found = np.full(len(stamps[0][1]), RECORD_OVERHEAD_BYTES, np.int64)
    for name, cells in stamps:
        found += len(name) + cells.sizes + _HEADER_OVERHEAD_BYTES
    return found


def _reject(stripped: Stripped, which: NDArray[np.bool_], reason: Reason) -> None:
    fresh = set(np.flatnonzero(which).tolist()) - stripped.rejected.keys() - stripped.suppressed
    stripped.rejected.update(dict.fromkeys(fresh, Rejection(reason)))
