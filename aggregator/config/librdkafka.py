"""Every property of librdkafka 2.16: which blocks of a cluster may set it, or why it cannot be set.

Invariant: the tables are an allow-list. A property that is in no table is refused, also a hidden property or one of a
later version. Source: librdkafka's CONFIGURATION.md, which the library prints itself (`rd_kafka_conf_properties_show`).
"""

from collections.abc import Mapping

_BY_SUBJECT: Mapping[str, str] = {
    "who asks": "client.id enable.metrics.push",
    "how the brokers are found and kept": "broker.address.family broker.address.ttl client.dns.lookup"
    " metadata.max.age.ms metadata.recovery.strategy metadata.recovery.rebootstrap.trigger.ms"
    " topic.metadata.refresh.interval.ms topic.metadata.refresh.fast.interval.ms topic.metadata.refresh.sparse"
    " api.version.request.timeout.ms connections.max.idle.ms reconnect.backoff.ms reconnect.backoff.max.ms"
    " retry.backoff.ms retry.backoff.max.ms request.timeout.ms socket.connection.setup.timeout.ms"
    " socket.keepalive.enable socket.max.fails socket.nagle.disable socket.receive.buffer.bytes"
    " socket.send.buffer.bytes socket.timeout.ms",
    "how much": "receive.message.max.bytes message.copy.max.bytes",
    "what its log says": "log_level log.connection.close log.thread.name",
}
# Properties that only one kind of client obeys.
_BY_ROLE: Mapping[str, str] = {
    "consumer": "client.rack fetch.error.backoff.ms fetch.max.bytes fetch.min.bytes fetch.wait.max.ms check.crcs",
    "producer": "compression.codec compression.type compression.level queue.buffering.backpressure.threshold",
    "admin": "",
}
# Properties of authentication: all clients of a cluster are one principal.
_OF_IDENTITY: Mapping[str, str] = {
    "TLS": "security.protocol ssl.key.location ssl.key.password ssl.key.pem ssl.certificate.location"
    " ssl.certificate.pem ssl.ca.location ssl.ca.pem ssl.ca.certificate.stores ssl.crl.location ssl.keystore.location"
    " ssl.keystore.password ssl.curves.list ssl.sigalgs.list https.ca.location https.ca.pem"
    " enable.ssl.certificate.verification ssl.endpoint.identification.algorithm",
    "SASL": "sasl.mechanism sasl.mechanisms sasl.username sasl.password sasl.kerberos.service.name"
    " sasl.kerberos.principal sasl.kerberos.keytab sasl.kerberos.min.time.before.relogin sasl.oauthbearer.method"
    " sasl.oauthbearer.client.id sasl.oauthbearer.client.credentials.client.id sasl.oauthbearer.client.secret"
    " sasl.oauthbearer.client.credentials.client.secret sasl.oauthbearer.scope sasl.oauthbearer.extensions"
    " sasl.oauthbearer.token.endpoint.url sasl.oauthbearer.sub.claim.name sasl.oauthbearer.grant.type"
    " sasl.oauthbearer.metadata.authentication.type sasl.oauthbearer.assertion.algorithm"
    " sasl.oauthbearer.assertion.private.key.file sasl.oauthbearer.assertion.private.key.passphrase"
    " sasl.oauthbearer.assertion.private.key.pem sasl.oauthbearer.assertion.file"
    " sasl.oauthbearer.assertion.jwt.template.file sasl.oauthbearer.assertion.claim.aud"
    " sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss"
    " sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds"
    " sasl.oauthbearer.assertion.claim.sub",
}


def _names(table: Mapping[str, str]) -> frozenset[str]:
    return frozenset(name for names in table.values() for name in names.split())


IDENTITY = _names(_OF_IDENTITY)
ROLES: Mapping[str, frozenset[str]] = {role: frozenset(names.split()) for role, names in _BY_ROLE.items()}
ALLOWED = _names(_BY_SUBJECT) | _names(_BY_ROLE) | IDENTITY
# Two names of one property.
ALIASES: Mapping[str, str] = {"compression.codec": "compression.type"}

_GROUP = "positions live in the ledger, not in a group"
_RETRIES = "how long and how often a record is tried is part of exactly once"
_SIZES = "the hub sizes its queues itself: `replication: {commit_bytes: …, fetch_buffer: …}`"
_PROGRAM = "it is for programs: how they hear and run their client"
_CODE = "it loads foreign code into every process of the hub"
_OLD = "it is a word of the past: without effect, or a danger to what the client and its brokers agree on"
_POSITIONS = "positions live in the ledger"
_UNSIGNED = "a token that nobody signed proves nothing"
_IDENTITY = "it is the fencing identity of a slot"
_ACKS = "anything but all loses records"
_BY_REASON: Mapping[str, str] = {
    "transactional.id": _IDENTITY,
    "enable.idempotence enable.gapless.guarantee": "transactions need it as the hub sets it",
    "max.in.flight max.in.flight.requests.per.connection": "the order of records rests on it",
    "acks request.required.acks": _ACKS,
    "isolation.level": "an uncommitted read delivers aborted records",
    "auto.offset.reset": "a reset skips or repeats records in silence; gaps are reported instead",
    "enable.auto.commit auto.commit.enable auto.commit.interval.ms enable.auto.offset.store offset.store.method"
    " offset.store.path offset.store.sync.interval.ms": _POSITIONS,
    "enable.partition.eof": "positions move past transaction markers by it",
    "group.id group.instance.id group.protocol group.protocol.type group.remote.assignor"
    " partition.assignment.strategy session.timeout.ms heartbeat.interval.ms coordinator.query.interval.ms"
    " max.poll.interval.ms max.poll.records share.acknowledgement.mode": _GROUP,
    "transaction.timeout.ms message.timeout.ms delivery.timeout.ms message.send.max.retries retries": _RETRIES,
    "partitioner sticky.partitioning.linger.ms": "a key keeps its partition by it",
    "plugin.library.paths ssl.engine.location ssl.engine.id ssl.providers": _CODE,
    "sasl.kerberos.kinit.cmd": "it is a command for a shell; kinit is run with `sasl.kerberos.keytab` and `.principal`",
    "ssl.cipher.suites": "it can name suites without encryption or certificate; the machine's own policy rules",
    "enable.sasl.oauthbearer.unsecure.jwt sasl.oauthbearer.config": _UNSIGNED,
    "debug": "it writes payloads into logs",
    "allow.auto.create.topics": "the hub creates topics itself, with their settings",
    "topic.blacklist": "`topics` says what is read",
    "message.max.bytes fetch.message.max.bytes max.partition.fetch.bytes fetch.queue.backoff.ms"
    " queued.min.messages queued.max.messages.kbytes queue.buffering.max.messages queue.buffering.max.kbytes"
    " queue.buffering.max.ms linger.ms batch.num.messages batch.size": _SIZES,
    "statistics.interval.ms topic.metadata.propagation.max.ms enabled_events log.queue internal.termination.signal"
    " enable.random.seed builtin.features delivery.report.only.error consume.callback.max.messages error_cb"
    " throttle_cb stats_cb log_cb background_event_cb socket_cb connect_cb closesocket_cb open_cb resolve_cb opaque"
    " default_topic_conf ssl_key ssl_certificate ssl_ca ssl_engine_callback_data ssl.certificate.verify_cb"
    " oauthbearer_token_refresh_cb interceptors consume_cb rebalance_cb offset_commit_cb dr_cb dr_msg_cb"
    " partitioner_cb msg_order_cmp": _PROGRAM,
    "topic.metadata.refresh.fast.cnt socket.blocking.max.ms reconnect.backoff.jitter.ms api.version.request"
    " api.version.fallback.ms broker.version.fallback produce.offset.report queuing.strategy": _OLD,
}
REFUSED: Mapping[str, str] = {name: reason for names, reason in _BY_REASON.items() for name in names.split()}
# The address belongs only in `bootstrap_servers` of the cluster.
ADDRESSES = frozenset({"bootstrap.servers", "metadata.broker.list"})
