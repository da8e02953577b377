"""The transactional writer produces, commits and aborts, and turns every librdkafka error into one of three answers.

Invariant (protocol, rules E and F): a definite refusal is TransactionAborted, and a newer producer is Fenced. Every
result without a definite answer is OutcomeUnknown. After that, this writer is discarded and never used again.
"""

import logging
import time
from itertools import count
from typing import NoReturn

from confluent_kafka import KafkaError, KafkaException

from aggregator.backoff import Backoff
from aggregator.config.model import ClusterConfig
from aggregator.config.secrets import SecretRef
from aggregator.coordinates import Partition
from aggregator.errors import AggregatorError, ConfigError, Fenced, OutcomeUnknown, TransactionAborted, Unreachable
from aggregator.kafka.client import clients
from aggregator.kafka.client.credentials import Credentials
from aggregator.kafka.client.statistics import ClientStatistics
from aggregator.kafka.native.producer import OutgoingRecords
from aggregator.kafka.native.reports import Failure
from aggregator.kafka.readers.codes import RefusalKind, when_writing
from aggregator.kafka.writers.refusals import Refusal, refusals

# Longer than the transaction time-out plus the broker's sweep: after a kill, `init_transactions` waits for an abort.
INIT_TIMEOUT_S = 45.0
COMMIT_TIMEOUT_S = 30.0
FLUSH_TIMEOUT_S = 2.0
# librdkafka looks for a coordinator when it is called, and then every half second, connected or not. Short repeated
# calls take 20 ms, and one long call takes 20 or 510 ms by chance.
_INIT_STEPS = Backoff(first_s=0.01, most_s=1.0, growth=1.5)
# Credentials that a living producer can renew. For all others a new handle is needed.
_TAKEN = ("sasl.username", "sasl.password")
_WITHOUT_CAUSE = frozenset({KafkaError._FATAL, KafkaError._STATE})  # noqa: SLF001 - librdkafka's public codes
_FENCED = frozenset(
    {
        KafkaError._FENCED,  # noqa: SLF001 - librdkafka's public code has this name
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_ID_MAPPING,
    }
)

# The hints of errors: what happens next.
_REWINDS = "nothing is lost: the hub rewinds and tries again"
_DECIDED = "start it again, if it does not by itself: a new producer decides what became of it"

log = logging.getLogger(__name__)


class TransactionalWriter:
    """One transactional id at central. Not thread-safe: a slot or a driver owns it."""

    def __init__(self, cluster: ClusterConfig, transactional_id: str, *, batch_bytes: int = 1_000_000) -> None:
        self._cluster = cluster
        self._id = transactional_id
        self._batch_bytes = batch_bytes
        # Made before the client reads the files.
        self._password = Credentials({name: cluster.client[name] for name in _TAKEN if name in cluster.client})
        self._kept = Credentials({name: value for name, value in cluster.client.items() if name not in _TAKEN})
        self.touched: set[Partition] = set()  # partitions of the newest transaction; -1: by the partitioner
        self.statistics = ClientStatistics()
        self._producer = clients.transactional_producer(
            cluster, transactional_id, batch_bytes=batch_bytes, **self.statistics.options
        )
        self._why = 0  # the code of the last error
        self._not_queued: list[Failure] = []

    def open(self, *, timeout_s: float = INIT_TIMEOUT_S) -> None:
        """Take the id and fence whoever had it; waits until an open transaction of the predecessor is aborted.

        Raises:
            Fenced: a newer producer took the id at the same moment.
            Unreachable: no answer within the bound.
        """
        deadline = time.monotonic() + timeout_s
        for calls in count(1):
            step_s = _INIT_STEPS.pause_s(calls)
            try:
                self._producer.init_transactions(step_s)
            except KafkaException as failure:
                error = failure.args[0]
                if self._is_fenced(error):
                    raise Fenced(f"{self._id}: {error.str()}") from None
                if not error.retriable() or time.monotonic() > deadline:
                    why = self.authentication_error() or _why(error)
                    raise Unreachable(
                        f"{self._id} cannot start transactions at {self._cluster.bootstrap_servers}: {why}",
                        hint=_hint(error) or "check central's brokers",
                    ) from None
                if error.code() != KafkaError._TIMED_OUT:  # noqa: SLF001 - librdkafka's public code has this name
                    time.sleep(step_s)
            else:
                return

    def begin(self) -> None:
        """Begin a transaction, with a new producer if the password has changed.

        Raises:
            Fenced: the id was taken.
            OutcomeUnknown: the producer is in no state to go on.
        """
        if self._password.changed():
            self._sign_in_anew()
        try:
            self._producer.poll(0)  # takes the client's statistics if they are due
            self._producer.begin_transaction()
            self.touched = set()
        except KafkaException as failure:
            self._refuse(failure)
        self._not_queued.clear()

    def _sign_in_anew(self) -> None:
        """Take a password that was renewed."""
        given = self._cluster.client
        try:
            values = (given.get(name, "") for name in ("sasl.username", "sasl.password"))
            user, password = (one.resolve() if isinstance(one, SecretRef) else one for one in values)
            if user and password:
                self._producer.sign_in_as(user, password)
        except (ConfigError, KafkaException) as error:
            log.warning("%s: what was renewed cannot be used: %s", self._id, error)
        else:
            self._password.mark_applied()

    def check_credentials_changed(self) -> bool:
        """Whether a certificate, key or secret was renewed, which this writer cannot take and another one could."""
        if not self._kept.changed():
            return False
        try:
            clients.transactional_producer(self._cluster, self._id, batch_bytes=self._batch_bytes).close()
        except (ConfigError, KafkaException) as error:  # half renewed: this writer stays in use
            log.warning("%s: what was renewed cannot be used: %s", self._id, error)
            return False
        return True

    def authentication_error(self) -> str:
        """The last refusal to sign in since the last commit; empty if there was none."""
        self._producer.poll(0)
        return self._producer.authentication_error

    def produce(self, topic: str, key: bytes | str | None, value: bytes | None, *, partition: int = -1) -> None:
        """Queue one record of the open transaction.

        Args:
            topic: Central topic.
            key: Record key.
            value: Record value; None is a tombstone.
            partition: -1 lets the murmur2 partitioner choose by key.

        Raises:
            Fenced: the id was taken.
            TransactionAborted: the transaction can only be aborted.
            OutcomeUnknown: the producer is in no state to go on.
        """
        self.touched.add((topic, partition))
        try:
            self._producer.produce(topic, partition, key.encode() if isinstance(key, str) else key, value)
        except KafkaException as failure:
            self._raise_not_queued(topic, partition, failure)

    def produce_all(self, topic: str, partition: int, records: OutgoingRecords) -> None:
        """Queue many records of one topic; waits while the queue is full.

        Args:
            topic: Central topic.
            partition: -1 lets the murmur2 partitioner choose by key.
            records: In the order to be written.

        Raises:
            Fenced, TransactionAborted, OutcomeUnknown: as `produce`.
        """
        self.touched.add((topic, partition))
        try:
            self._producer.produce_all(topic, partition, records)
        except KafkaException as failure:
            self._raise_not_queued(topic, partition, failure)

    def flush(self) -> None:
        """Give what is queued a moment to reach its partitions."""
        self._producer.flush(FLUSH_TIMEOUT_S)

    def commit(self) -> None:
        """Flush the queued records and commit the transaction.

        Raises:
            TransactionAborted: refused definitely; call `abort`, then rewind.
            Fenced: the id was taken.
            OutcomeUnknown: no definite answer; discard this writer.
        """
        try:
            self._producer.commit_transaction(COMMIT_TIMEOUT_S)
        except KafkaException as failure:
            self._refuse(failure)
        self._producer.authentication_error = ""

    def abort(self) -> None:
        """Abort the open transaction.

        Raises:
            Fenced: the id was taken.
            OutcomeUnknown: no definite answer; discard this writer.
        """
        try:
            self._producer.abort_transaction(COMMIT_TIMEOUT_S)
        except KafkaException as failure:
            self._refuse(failure)

    def refusals(self) -> tuple[Refusal, ...]:
        """The permanent refusals in the last failed transaction; empty if another try may succeed.

        To be asked after `TransactionAborted`, before `abort`.
        """
        return refusals(self._cluster, [*self._not_queued, *self._producer.failures()], self._why)

    def acknowledged(self, tp: Partition) -> int | None:
        """The latest offset in a partition that a broker acknowledged to this producer; None if unknown."""
        return self._producer.acknowledged.get(tp)

    def close(self) -> None:
        """Discard the producer without another word to the brokers; the next owner of the id aborts what is open.

        An abort would raise where the id was taken, wait without end for a silent broker, and send a request after one
        whose outcome is unknown.
        """
        self._producer.close()

    @staticmethod
    def _is_fenced(error: KafkaError) -> bool:
        return error.code() in _FENCED

    def _raise_not_queued(self, topic: str, partition: int, failure: KafkaException) -> NoReturn:
        """A record that the client itself does not take, because it knows what central says of the topic."""
        error = failure.args[0]
        if isinstance(when_writing(error.code()), RefusalKind):
            self._not_queued.append(Failure(topic, partition, error.code()))
            raise TransactionAborted(f"{self._id}: {topic}: {error.str()}", hint=_REWINDS) from None
        self._refuse(failure)

    def _refuse(self, failure: KafkaException) -> NoReturn:
        error = self._cause(failure.args[0])
        self._why = error.code()
        raise self._translated(error) from None

    def _cause(self, error: KafkaError) -> KafkaError:
        """`produce` only says that it takes nothing; a transactional call says why, without asking a broker."""
        if error.code() not in _WITHOUT_CAUSE:
            return error
        try:
            self._producer.begin_transaction()
        except KafkaException as failure:
            return failure.args[0]
        return error

    def _translated(self, error: KafkaError) -> AggregatorError:
        if self._is_fenced(error):
            return Fenced(f"{self._id}: {error.str()}")
        if error.txn_requires_abort():
            return TransactionAborted(f"{self._id}: {_why(error)}", hint=_hint(error) or _REWINDS)
        return OutcomeUnknown(f"{self._id}: {_why(error)}", hint=_hint(error) or _DECIDED)


def _why(error: KafkaError) -> str:
    lacks = "the hub's principal lacks Write on this transactional id; " if _hint(error) else ""
    return f"{lacks}{error.str()}"


def _hint(error: KafkaError) -> str:
    """What gives a right that is missing; empty: another thing is wrong."""
    denied = error.code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return "aggregator acls print --for central" if denied else ""
