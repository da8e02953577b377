"""This module is the driver's access to central: ids and producer, control topic, ledgers, undecided transactions.

Invariant: thin. The module decides nothing. Each driver has one object, which is never shared between processes. The
threads of the driver share one producer, which has one transaction at a time.
"""

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from aggregator.config.model import HubConfig
from aggregator.coordinates import EdgePartition, OffsetRange, Partition, Position
from aggregator.errors import Fenced, OutcomeUnknown, TransactionAborted, Unreachable
from aggregator.kafka.cluster import topics
from aggregator.kafka.readers import ends, leaders
from aggregator.kafka.readers.log import read_visible
from aggregator.kafka.readers.open_range import CentralRecord, newest_position, read_range, rows
from aggregator.kafka.writers.fencing import fence
from aggregator.kafka.writers.writer import TransactionalWriter
from aggregator.replicate.discovery.central_topics import target
from aggregator.replicate.leadership.settlement import await_decided
from aggregator.state.control import ControlEntry, ControlState, Epoch, Lease, UndecidedRange, encode
from aggregator.state.control_log import read_control
from aggregator.state.ledger import LedgerRecord, winners
from aggregator.state.ledger_log import read_ledger
from aggregator.state.names import HubNames
from aggregator.state.request_log import RequestWatch, read_requests
from aggregator.state.requests import Requests

# Writing and aborting this record ends what an earlier driver left undecided in the control topic. That loses nothing:
# epochs and notes are read back before they are used, and a note that was not removed is settled again.
_LEFTOVER = CentralRecord(b"leftover", b"{}", 0, ())
# The abort's own marker may be lost, too, so it is tried several times.
_LEFTOVER_TRIES = 5
# The first is less than the time after which another driver takes a lease (`lease.py`). The second is the retry's.
_RENEW_S, _RENEW_AGAIN_S = 4.0, 30.0
log = logging.getLogger(__name__)


def _write_and_abort(writer: TransactionalWriter, records: Mapping[Partition, CentralRecord]) -> None:
    """Write one record to each partition and abort, so that the partition gets an abort marker. No record becomes
    visible.

    One that is refused may keep the client from sending the others: those that did not arrive are sent alone.
    """
    known = {at: writer.acknowledged(at) for at in records}
    try:
        writer.begin()
        for at, record in records.items():
            writer.produce_all(*at, rows([record]))
        writer.flush()
    except TransactionAborted:
        pass  # a partition that refuses the record stays undecided, and is named
    writer.abort()
    if len(records) > 1:
        for at, record in records.items():
            if writer.acknowledged(at) == known[at]:
                _write_and_abort(writer, {at: record})


class KafkaDriverCentral:
    """Implements DriverCentral on a real cluster. The driver's threads share its producer, one transaction at a time.

    Args:
        config: The hub.
        names: Of the protocol's instance.
        backfill: Whose driver this is; empty for that of the live flows.
        written: Central topics that a backfill's flow was written to; live flows have theirs in the control topic.
    """

    def __init__(
        self,
        config: HubConfig,
        names: HubNames,
        *,
        backfill: str = "",
        written: Callable[[EdgePartition, str], Collection[str]] | None = None,
    ) -> None:
        self._config = config
        self._names = names
        self._backfill = backfill
        self._written = written or self._written_at
        self._writer = TransactionalWriter(config.central, names.driver_id)
        self._renew_from_s = 0.0
        self._driver = ""  # this driver's name in its published leases
        self._lock = threading.Lock()
        self._ids = 0
        self._lost = ""
        self._requests: RequestWatch | None = None

    def take_id(self) -> None:
        """`init_transactions`, once per process (protocol, rule B).

        Raises:
            Fenced: another driver took it.
            Unreachable: central does not answer.
        """
        self._writer.open()
        self._settle_control()

    def _settle_control(self) -> None:
        """End what a producer before this one left undecided in the control topic, and read it to its end."""
        at = (self._names.control, 0)
        # The call waits for the partition's leader, because the next commit would decide what is undecided there.
        ends.stable_end_offsets(self._config.central, [at])
        for _ in range(_LEFTOVER_TRIES):
            found = self.read_undecided([at])
            if at in found and not await_decided(self, found):
                return
            _write_and_abort(self._writer, {at: _LEFTOVER})
        self.read_control()  # raises an error if it cannot be read to its end

    def _renew(self) -> None:
        """Replace the producer if its credentials were renewed and it cannot adopt them. No transaction may be open.

        Rule B has a process take its id once, so that two drivers do not take it from each other without end. So this
        one takes it only where no other has led since, as the lease says before; and goes on only if it says so after.

        Raises:
            Fenced: another driver leads.
            RetryError: central does not answer.
        """
        if time.monotonic() < self._renew_from_s or not self._writer.check_credentials_changed():
            return
        self._renew_from_s = time.monotonic() + _RENEW_AGAIN_S
        self._require_lead()
        fresh = TransactionalWriter(self._config.central, self._names.driver_id)
        try:
            fresh.open(timeout_s=_RENEW_S)
        except Unreachable as error:
            fresh.close()
            log.warning(
                "what was renewed lets nobody in, and is tried again in %.0f s: %s", _RENEW_AGAIN_S, error.message
            )
            return
        former, self._writer, self._renew_from_s = self._writer, fresh, 0.0
        former.close()
        self._settle_control()
        self._require_lead()
        log.info("%s: signing in with what was renewed", self._names.driver_id)

    def _require_lead(self) -> None:
        lease = self.read_control().lease
        if lease is not None and self._driver and lease.driver != self._driver:
            raise Fenced(f"{self._names.driver_id}: {lease.driver} leads")

    def authentication_error(self) -> str:
        """Why no broker lets the driver's producer in; empty if no broker said so."""
        with self._lock:
            return self._writer.authentication_error()

    def read_control(self) -> ControlState:
        """Read the control topic to its end."""
        return read_control(self._config.central, self._names)

    def publish(self, *entries: ControlEntry) -> None:
        """Commit control records, all of them or none.

        Raises:
            Fenced: another driver took the id.
            TransactionAborted: refused definitely, and aborted here.
            OutcomeUnknown: no definite answer; the process must end.
        """
        self._ids = max([self._ids, *(entry.ids for entry in entries if isinstance(entry, Epoch))])
        self._driver = next((entry.driver for entry in entries if isinstance(entry, Lease)), self._driver)
        with self._transaction() as writer:
            for entry in entries:
                writer.produce(self._names.control, *encode(entry), partition=0)

    @contextlib.contextmanager
    def _transaction(self, noted: UndecidedRange | None = None) -> Iterator[TransactionalWriter]:
        """Run one transaction. If central refuses it, publish the note that it would have removed again, before any
        other commit.

        The tombstone may be left undecided, and the next commit to the control topic would decide it.
        """
        with self._lock:
            if self._lost:
                raise OutcomeUnknown(self._lost, hint="start it again: a new producer decides it")
            self._renew()
            try:
                self._writer.begin()
                yield self._writer
                self._writer.commit()
            except TransactionAborted:
                self._writer.abort()
                if noted is not None:
                    self._note_again(noted)
                raise

    def _note_again(self, noted: UndecidedRange) -> None:
        """Keep the note in a transaction of its own, whose marker decides what was left undecided before.

        Raises:
            OutcomeUnknown: the note was refused, too: nothing may be committed under this producer any more.
        """
        try:
            self._writer.begin()
            self._writer.produce(self._names.control, *encode(noted), partition=0)
            self._writer.commit()
        except TransactionAborted as error:
            self._lost = f"what is undecided in {noted.topic}-{noted.partition} could not be noted: {error.message}"
            raise OutcomeUnknown(self._lost, hint="start it again: a new producer decides it") from None

    def fence(self, slots: Iterable[int]) -> None:
        """Take and give back the transactional ids of these slots."""
        fence(self._config.central, [self._names.slot_id(slot) for slot in slots])

    def read_undecided(self, partitions: Collection[Partition]) -> Mapping[Partition, OffsetRange]:
        """By partition the range from the last stable offset to the high watermark; ask the present leaders."""
        leaders.refresh(self._config.central)
        return ends.undecided_ranges(self._config.central, partitions)

    def read_records(self, tp: Partition, offsets: OffsetRange, *, committed: bool) -> list[CentralRecord]:
        """The records in a range, or the visible ones."""
        return read_range(self._config.central, tp, offsets, committed=committed)

    def end_undecided(
        self,
        records: Mapping[Partition, CentralRecord],
        slots: Iterable[int],
        *,
        allowed: Callable[[ControlState], None],
    ) -> None:
        """Write one record to each partition and abort, under the ids of these slots and the driver's own.

        Raises:
            Fenced: it is not allowed, or another driver took an id.
            RetryError: an id could not be taken.
        """
        with contextlib.ExitStack() as opened:
            writers = []
            for slot in slots:
                writer = TransactionalWriter(self._config.central, self._names.slot_id(slot))
                opened.callback(writer.close)
                writer.open()
                writers.append(writer)
            allowed(self.read_control())
            for writer in writers:
                _write_and_abort(writer, records)
            with self._lock:
                self._renew()
                _write_and_abort(self._writer, records)

    def rewrite_records(self, noted: UndecidedRange, records: Collection[CentralRecord]) -> None:
        """Write records and take the note of their partition back, in one transaction; errors as of `publish`."""
        at = (noted.topic, noted.partition)
        with self._transaction(noted) as writer:
            if records:
                writer.produce_all(*at, rows(records))
            writer.produce(self._names.control, noted.key, None, partition=0)

    def now(self) -> float:
        """The seconds of a monotonic clock."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait for a number of seconds."""
        time.sleep(seconds)

    def read_ledger(self) -> Mapping[EdgePartition, LedgerRecord]:
        """Every ledger partition, read to its end."""
        return self.read_backfill_ledger(self._backfill)

    def read_backfill_ledger(self, backfill: str) -> Mapping[EdgePartition, LedgerRecord]:
        """Read the ledger of one backfill."""
        return read_ledger(self._config.central, self._names, partitions=self._ids, backfill=backfill)

    def visible_ledger(self, backfill: str) -> Mapping[EdgePartition, LedgerRecord]:
        """Winning records of one backfill, or of the live flows, as far as they are visible; waits for nothing."""
        records = read_visible(self._config.central, self._names.ledger, range(self._ids))
        return winners(records, self._names.ledger, backfill=backfill)

    def destinations(self, source: EdgePartition, backfill: str) -> Collection[Partition]:
        """Partitions of central that records of this flow may be in, its letters apart."""
        return self.partitions(self._written(source, backfill))

    def partitions(self, names: Collection[str]) -> list[Partition]:
        """Partitions of topics, of those that exist."""
        counts = topics.topic_names(self._config.central) if names else {}
        return topics.partitions({name: counts[name] for name in sorted(names) if name in counts})

    def find_newest_position(
        self, partitions: Collection[Partition], position_of: Callable[[Partition, CentralRecord], Position | None]
    ) -> Position | None:
        """The highest position of a visible record in these partitions."""
        return newest_position(self._config.central, partitions, position_of)

    def _written_at(self, source: EdgePartition, _: str) -> set[str]:
        """The central topics that slots were ever told to write a live flow to."""
        known = {one.central for one in self.read_control().targets if (one.edge, one.topic) == source[:2]}
        with contextlib.suppress(KeyError):  # no present rule wants the topic
            known.add(target(self._config, source.edge, source.topic))
        return known

    def read_requests(self) -> Requests:
        """The decisions about gaps and the paused edges, from the requests topic read to its end."""
        return read_requests(self._config.central, self._names)

    def poll_requests(self) -> Requests:
        """Requests that have arrived since the last look, all of them at the first; never waits."""
        if self._requests is None:
            self._requests = RequestWatch(self._config.central, self._names)
        return self._requests.poll()

    def close(self) -> None:
        """Close the producer and the tails at central."""
        with self._lock:
            self._writer.close()
        if self._requests is not None:
            self._requests.close()
