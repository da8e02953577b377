"""Maps properties of Java's Kafka clients to librdkafka's, and says why some of them have no equivalent in a hub.

Invariant: every mapped property passes the allow-list of `config/librdkafka.py`. A number that librdkafka would refuse
is not mapped. Properties for authentication are in `sign_in.py`.
"""

from collections.abc import Mapping
from typing import NamedTuple

from aggregator.config.librdkafka import ALLOWED, IDENTITY, REFUSED, ROLES

_LONGEST_MS = 900_000
_MAX_BYTES = 100_000_000
# The longest pause that the hub itself allows. Each of the two properties is compatible with the other one's default.
_BACKOFF_MS = 2_000


class ClientProperty(NamedTuple):
    """The property of librdkafka that replaces one of Java's.

    Attributes:
        name: librdkafka's.
        least: The smallest number that it takes; None where it is no number.
        most: The largest.
    """

    name: str
    least: int | None = None
    most: int = 0


RENAMED: Mapping[str, ClientProperty] = {
    "fetch.max.wait.ms": ClientProperty("fetch.wait.max.ms", 0, 300_000),
    "receive.buffer.bytes": ClientProperty("socket.receive.buffer.bytes", 0, _MAX_BYTES),
    "send.buffer.bytes": ClientProperty("socket.send.buffer.bytes", 0, _MAX_BYTES),
    "socket.connection.setup.timeout.ms": ClientProperty("socket.connection.setup.timeout.ms", 1000, 2**31 - 1),
    "client.id": ClientProperty("client.id"),
    "client.dns.lookup": ClientProperty("client.dns.lookup"),
    "client.rack": ClientProperty("client.rack"),
    "metadata.max.age.ms": ClientProperty("metadata.max.age.ms", 1, 86_400_000),
    "connections.max.idle.ms": ClientProperty("connections.max.idle.ms", 0, 2**31 - 1),
    "reconnect.backoff.ms": ClientProperty("reconnect.backoff.ms", 0, _BACKOFF_MS),
    "reconnect.backoff.max.ms": ClientProperty("reconnect.backoff.max.ms", _BACKOFF_MS, 3_600_000),
    "retry.backoff.ms": ClientProperty("retry.backoff.ms", 1, 300_000),
    "retry.backoff.max.ms": ClientProperty("retry.backoff.max.ms", 1, 300_000),
    "request.timeout.ms": ClientProperty("request.timeout.ms", 1, _LONGEST_MS),
    "fetch.max.bytes": ClientProperty("fetch.max.bytes", 1_000_000, 99_000_000),
    "fetch.min.bytes": ClientProperty("fetch.min.bytes", 1, _MAX_BYTES),
    "check.crcs": ClientProperty("check.crcs"),
    "compression.type": ClientProperty("compression.type"),
}
_WORDS: Mapping[str, frozenset[str]] = {
    "client.dns.lookup": frozenset({"use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"}),
    "check.crcs": frozenset({"true"}),
    "compression.type": frozenset({"none", "gzip", "snappy", "lz4", "zstd"}),
}
_SIZES = REFUSED["batch.size"]
_RETRIES = REFUSED["retries"]
_GROUP = REFUSED["group.id"]
_METRICS = "`metrics: {listen: …}` serves Prometheus metrics (docs/metrics.md)"
_CODE = "foreign code is not loaded"
# Both clients have these properties, and the hub sets them itself.
_ALIKE = (
    "transactional.id transaction.timeout.ms delivery.timeout.ms retries enable.idempotence acks linger.ms batch.size"
    " max.in.flight.requests.per.connection isolation.level enable.auto.commit auto.commit.interval.ms group.id"
    " group.instance.id group.protocol group.remote.assignor partition.assignment.strategy session.timeout.ms"
    " heartbeat.interval.ms max.poll.interval.ms max.poll.records allow.auto.create.topics max.partition.fetch.bytes"
    " message.max.bytes"
)
# Properties of Java's clients for which librdkafka has no equivalent.
_OWN: Mapping[str, str] = {
    "buffer.memory max.request.size": _SIZES,
    "max.block.ms default.api.timeout.ms": _RETRIES,
    "key.serializer value.serializer key.deserializer value.deserializer": "records pass as bytes, and the policy says"
    " what becomes of them",
    "interceptor.classes partitioner.class security.providers send.async"
    " ssl.engine.factory.class sasl.client.callback.handler.class"
    " sasl.login.callback.handler.class sasl.login.class ssl.keymanager.algorithm ssl.trustmanager.algorithm"
    " ssl.provider ssl.secure.random.implementation": _CODE,
    "partitioner.ignore.keys partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms": REFUSED[
        "partitioner"
    ],
    "ssl.enabled.protocols ssl.protocol ssl.cipher.suites": "the machine's own policy rules",
    "sasl.kerberos.kinit.cmd sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor"
    " sasl.login.refresh.buffer.seconds sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor"
    " sasl.login.refresh.window.jitter sasl.login.connect.timeout.ms sasl.login.read.timeout.ms"
    " sasl.login.retry.backoff.ms sasl.login.retry.backoff.max.ms": "the hub renews tokens and tickets in time",
    "metadata.max.idle.ms socket.connection.setup.timeout.max.ms metadata.recovery.strategy"
    " metadata.recovery.rebootstrap.trigger.ms enable.metrics.push": "librdkafka's own way holds",
    "metrics.num.samples metrics.sample.window.ms metrics.recording.level": _METRICS,
    "leave.group.on.close group.initial.rebalance.delay.ms share.acknowledgement.mode share.acquire.mode"
    " internal.throw.on.fetch.stable.offset.unsupported": _GROUP,
    "transaction.two.phase.commit.enable": "the hub ends its transactions itself",
    "bootstrap.controllers": "the hub asks brokers",
    "compression.gzip.level compression.lz4.level compression.zstd.level": "write `compression.level` in `producer:`",
}
REASONS: Mapping[str, str] = {
    **{name: REFUSED[name] for name in _ALIKE.split()},
    **{name: why for names, why in _OWN.items() for name in names.split()},
}
# Properties that `sign_in.py` handles.
SIGNS_IN = ("security.protocol", "sasl.", "ssl.")
NAMES = frozenset(
    {*RENAMED, *REASONS, *IDENTITY, "sasl.jaas.config", "ssl.truststore.location", "ssl.keystore.location"}
)


class PropertyMapping(NamedTuple):
    """The result for one property: its new name and block, or the reason why it is not set.

    Attributes:
        name: librdkafka's; empty where the hub does not set it.
        block: `client`, `consumer` or `producer`.
        why: The reason where it is not set.
    """

    name: str
    block: str
    why: str


def is_sign_in(name: str) -> bool:
    """Whether it says how to connect: TLS, SASL."""
    return name.startswith(SIGNS_IN) and name not in REASONS


def fate(name: str, value: str, role: str) -> PropertyMapping | None:
    """The fate of a property that does not sign in; None where Java's clients do not know it.

    Args:
        name: Java's.
        value: The value as written.
        role: `consumer`, `producer`, `admin`, or empty: of all clients.
    """
    if name in RENAMED:
        return _mapped(RENAMED[name], value, role)
    if name in REASONS:
        return PropertyMapping("", "", REASONS[name])
    return None


def _mapped(known: ClientProperty, value: str, role: str) -> PropertyMapping:
    if known.name not in ALLOWED:
        return PropertyMapping("", "", REFUSED.get(known.name, "librdkafka has no such property"))
    if known.least is not None and not _within(value, known):
        return PropertyMapping(
            "", "", f"is no number from {known.least:,} to {known.most:,}, which is what librdkafka takes"
        )
    if known.name in _WORDS and value not in _WORDS[known.name]:
        return PropertyMapping(
            "", "", f"is none of {', '.join(sorted(_WORDS[known.name]))}, which is what the hub takes"
        )
    owner = next((block for block, names in ROLES.items() if known.name in names), "")
    if owner and role not in ("", owner):
        return PropertyMapping("", "", f"only a {owner} obeys it")
    return PropertyMapping(known.name, owner or (role if role in ROLES else "client"), "")


def _within(value: str, known: ClientProperty) -> bool:
    digits = value.isascii() and value.isdecimal() and len(value) <= len(str(known.most))
    return digits and known.least is not None and known.least <= int(value) <= known.most
