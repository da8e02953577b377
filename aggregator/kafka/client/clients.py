"""This module makes all librdkafka clients, and sets their options for each role.

Invariant: the properties that exactly-once delivery depends on are set here, last. A user's `client:` block cannot
override them.
"""

import functools
import logging
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from aggregator.config.librdkafka import ALIASES
from aggregator.config.model import ClusterConfig
from aggregator.config.secrets import SecretRef
from aggregator.config.transport import properties
from aggregator.errors import ConfigError
from aggregator.kafka.client.capabilities import require
from aggregator.kafka.client.credentials import Credentials
from aggregator.kafka.client.msk_iam import token_options
from aggregator.kafka.client.record_size import MAX_RECORD_BYTES
from aggregator.kafka.client.trust import token_server_trust
from aggregator.kafka.native.sign_in import AUTHENTICATION_CODES
from aggregator.kafka.native.topic_ids import TopicIdClient

if TYPE_CHECKING:
    from aggregator.kafka.native.consumer import Consumer as BulkConsumer
    from aggregator.kafka.native.producer import Producer as TransactionalProducer

# These options keep the fetch pipeline full. With librdkafka's defaults, a Python reader reaches a third of the rate.
# A queued message costs some 400 bytes beside its payload, which no limit in bytes counts. 300,000 messages per
# partition were no faster than 20,000, and took a worker with six partitions from 450 to 800 MB.
FETCH_OPTIONS = {
    "fetch.message.max.bytes": 2 * 1024 * 1024,
    "queued.min.messages": 20_000,
    "fetch.queue.backoff.ms": 10,
}
# How long a broker without new records waits before it answers, unless the configuration sets another time. An idle
# edge costs bytes, and a partition whose queue was full waits for the next request. `python -m tests.bench.idle`.
_FETCH_WAIT_MS = 50
# The compression of records to central, measured by `python -m tests.bench.compression`: docs/where-to-run.md.
COMPRESSION = {"compression.type": "zstd", "compression.level": 1}
TRANSACTION_TIMEOUT_MS = 15_000
# The default bound of a prefetch queue.
_BUFFER_BYTES = 16 * 1024 * 1024
_LEAST_BUFFER_KB = 1  # librdkafka's minimum: a slot's share of a rate may be smaller
# One partition's part of a request, as a share of the bytes that a client with a rate may receive in a second.
_PIECE = 0.25
# librdkafka accepts no limit below 1,000 bytes for the largest message.
_LEAST_PIECE = 1_000
_MAX_PIECE = 8 * 1024 * 1024

# How long an admin client keeps the leaders of partitions; `readers.leaders` depends on it.
_LEADERS_LAST_MS = 900_000

# librdkafka's log lines contain only broker names, and go to the process's log instead of stderr.
log = logging.getLogger("librdkafka")


class Role(StrEnum):
    """The role of a client; the configuration has a block of that name for each role."""

    CONSUMER = "consumer"
    PRODUCER = "producer"
    ADMIN = "admin"


def _given(cluster: ClusterConfig, role: Role) -> dict[str, str | SecretRef]:
    """What the configuration says for such clients: their own block wins over `client:`."""
    given: dict[str, str | SecretRef] = {}
    for block in (properties(cluster.client), getattr(cluster, role)):
        given |= {ALIASES.get(name, name): value for name, value in block.items()}
    return given


def slow_fetch(rate: float) -> dict[str, Any]:
    """Requests of a client that is read at `rate` bytes a second: each for half a second's worth at most.

    A broker hands out a batch whole, and sends one that is larger all the same. While anything lies in the client's
    queue it asks for nothing more, so one request to each broker is all that comes after it is held.
    """
    piece = min(_MAX_PIECE, max(_LEAST_PIECE, int(rate * _PIECE)))
    whole = {"fetch.max.bytes": 2 * piece, "message.max.bytes": 2 * piece}  # the former may not be below the latter
    return {"fetch.message.max.bytes": piece, "queued.min.messages": 1} | whole


def connection_options(cluster: ClusterConfig, role: Role) -> dict[str, Any]:
    """Bootstrap servers and what the configuration says for clients of this role, secrets resolved, here and now.

    Raises:
        ConfigError: a secret's reference cannot be read, or this librdkafka cannot do what is asked for.
    """
    given = _given(cluster, role)
    require(given, cluster.bootstrap_servers)
    options: dict[str, Any] = {
        name: value.resolve() if isinstance(value, SecretRef) else value for name, value in given.items()
    }
    options |= token_server_trust(given) | token_options(cluster)
    options["bootstrap.servers"] = cluster.bootstrap_servers
    # Otherwise a producer would create a deleted topic again, with the broker's defaults.
    options["allow.auto.create.topics"] = False
    options.setdefault("client.id", "aggregator")
    options.setdefault("reconnect.backoff.max.ms", 2000)
    # librdkafka opens a second connection after half of this time at the earliest, and a client's first request needs
    # two connections. With the default of 100, `init_transactions` takes 60 ms; with 20 it takes 20 ms.
    options.setdefault("reconnect.backoff.ms", 20)
    # Level 3 logs every failed connection attempt, many a second while a cluster is away. The hub logs that once.
    options.setdefault("log_level", 2)
    return options


def reading_options(cluster: ClusterConfig, buffer_bytes: int, options: dict[str, Any]) -> dict[str, Any]:
    """Librdkafka's options for a consumer of committed records."""
    return (
        {"fetch.wait.max.ms": _FETCH_WAIT_MS}
        | connection_options(cluster, Role.CONSUMER)
        | FETCH_OPTIONS
        | options
        | {
            "group.id": "aggregator-unused",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "check.crcs": True,
            "isolation.level": "read_committed",
            "queued.max.messages.kbytes": max(_LEAST_BUFFER_KB, buffer_bytes // 1024),
        }
    )


def consumer(cluster: ClusterConfig, *, buffer_bytes: int = _BUFFER_BYTES, **options: Any) -> Consumer:
    """A read_committed consumer for `assign()`: no group, no commits, no reset, end-of-partition events.

    Args:
        cluster: Where to read.
        buffer_bytes: Bound of the prefetch queue over all its partitions.
        options: Further librdkafka properties.
    """
    with named_failure(cluster, Role.CONSUMER):
        return Consumer(_of_leaders(reading_options(cluster, buffer_bytes, options)), logger=log)


def _of_leaders(options: dict[str, Any]) -> dict[str, Any]:
    """Leave out `client.rack`, so that these clients read from leaders: a follower may lag, or not be truncated yet."""
    return {name: value for name, value in options.items() if name != "client.rack"}


def uncommitted_consumer(cluster: ClusterConfig, **options: Any) -> Consumer:
    """A consumer that reads uncommitted records, to look at open transactions; none of them is delivered."""
    reading = _of_leaders(reading_options(cluster, _BUFFER_BYTES, options))
    with named_failure(cluster, Role.CONSUMER):
        return Consumer(reading | {"isolation.level": "read_uncommitted"}, logger=log)


def bulk_consumer(cluster: ClusterConfig, *, buffer_bytes: int, **options: Any) -> "BulkConsumer":
    """The same for whoever reads millions of committed records: with `client.rack` from followers, too."""
    from aggregator.kafka.native.consumer import Consumer as BulkConsumer  # noqa: PLC0415 - loads numba, which takes a second

    with named_failure(cluster, Role.CONSUMER):
        return BulkConsumer(reading_options(cluster, buffer_bytes, options), log)


def transactional_producer(
    cluster: ClusterConfig, transactional_id: str, *, batch_bytes: int, **options: Any
) -> "TransactionalProducer":
    """A producer with a fencing identity; the caller runs `init_transactions`."""
    from aggregator.kafka.native.producer import Producer as TransactionalProducer  # noqa: PLC0415 - loads pyarrow

    made = writing_options(cluster, transactional_id, batch_bytes, options)
    with named_failure(cluster, Role.PRODUCER):
        return TransactionalProducer(made, log)


def writing_options(
    cluster: ClusterConfig, transactional_id: str, batch_bytes: int, options: dict[str, Any]
) -> dict[str, Any]:
    """Librdkafka's options for a transactional producer that delivers records."""
    return (
        compressing(connection_options(cluster, Role.PRODUCER))
        | options
        | {
            "transactional.id": transactional_id,
            "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": 5,
            "batch.size": batch_bytes,
            "message.max.bytes": MAX_RECORD_BYTES,
            "partitioner": "murmur2_random",
            "batch.num.messages": 100_000,
            "queue.buffering.max.messages": 500_000,
            "queue.buffering.max.kbytes": 64 * 1024,
            # A topic that no broker knows for this long is gone. With the default of 30 seconds, the commit would time
            # out before the client says so.
            "topic.metadata.propagation.max.ms": 10_000,
        }
    )


@contextmanager
def named_failure(cluster: ClusterConfig, role: Role) -> Iterator[None]:
    """Say of which role and cluster no client can be made, and which of its settings is why.

    Raises:
        ConfigError: the library refuses to make one; its words name the setting.
    """
    try:
        yield
    except KafkaException as refused:
        raise ConfigError(
            f"{role} of {cluster.bootstrap_servers}: {refused.args[0].str()}",
            hint="aggregator config lint names file and line",
        ) from None


def compressing(options: dict[str, Any]) -> dict[str, Any]:
    """The options with a codec for records to central, unless the configuration names one."""
    return options if "compression.type" in options else COMPRESSION | options


def plain_producer(cluster: ClusterConfig, **options: Any) -> Producer:
    """An idempotent producer without transactions, for telemetry and heartbeats."""
    own = {"enable.idempotence": True, "acks": "all", "linger.ms": 5, "message.timeout.ms": 10_000}
    with named_failure(cluster, Role.PRODUCER):
        return Producer(connection_options(cluster, Role.PRODUCER) | own | options, logger=log)


def topic_ids(cluster: ClusterConfig) -> TopicIdClient:
    """Asks single brokers for topic ids, on connections of its own."""
    return TopicIdClient(connection_options(cluster, Role.ADMIN), log)


class _Admin(NamedTuple):
    client: AdminClient
    made: float
    credentials: Credentials
    shut: deque[str]


@functools.cache
def _admins() -> dict[str, _Admin]:
    return {}


@functools.cache
def _retired() -> dict[str, AdminClient]:
    return {}


@functools.cache
def _inherited() -> list[AdminClient]:
    return []


def leave_inherited() -> None:
    """In a process that was forked: the clients of its parent have no threads here. They are neither used nor ended."""
    _inherited().extend([*_retired().values(), *(one.client for one in _admins().values())])
    _retired().clear()
    _admins().clear()


def admin(cluster: ClusterConfig) -> AdminClient:
    """The process's admin client of this cluster; kept, because a collected one cancels its pending futures."""
    kept, key = _admins(), cluster.model_dump_json()
    if key not in kept:
        kept[key] = _new_admin(cluster)
    elif kept[key].credentials.changed():
        with suppress(KafkaException, ConfigError):  # half renewed: the former client stays in use until all files fit
            fresh = _new_admin(cluster)
            _retired()[key], kept[key] = kept[key].client, fresh
    return kept[key].client


def authentication_error(cluster: ClusterConfig) -> str:
    """Why no broker let the admin client in, as it was told last; empty where nobody said so."""
    known = _admins().get(cluster.model_dump_json())
    if known is None:
        return ""
    known.client.poll(0)
    return known.shut.pop() if known.shut else ""


def _new_admin(cluster: ClusterConfig) -> _Admin:
    credentials, shut = Credentials(cluster.client), deque[str](maxlen=1)  # looked at before a client reads them

    def hear(error: KafkaError) -> None:
        if error.code() in AUTHENTICATION_CODES:
            shut.append(error.str())

    with named_failure(cluster, Role.ADMIN):
        own = {"error_cb": hear, "metadata.max.age.ms": _LEADERS_LAST_MS}
        client = AdminClient(connection_options(cluster, Role.ADMIN) | own, logger=log)
    return _Admin(client, time.monotonic(), credentials, shut)


def renew_admin(cluster: ClusterConfig, *, older_than_s: float = 30.0) -> None:
    """After a question that no broker answered: ask the next one with another client, if this one is not young.

    A client that once hears of no brokers at all, as from a cluster that just starts, never connects again (librdkafka
    issue 5301). The old one stays until the next renewal, for those who still wait for its answers.
    """
    kept, key = _admins(), cluster.model_dump_json()
    known = kept.get(key)
    if known is not None and time.monotonic() - known.made > older_than_s:
        _retired()[key] = known.client
        kept.pop(key, None)
