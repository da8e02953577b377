"""The tables of MirrorMaker's and Connect's own settings: the hub's key for each, or the reason why it has none.

Invariant: a name is in one row only. `docs/from-mirrormaker.md` shows these tables, and a test compares both.
"""

import difflib
import functools
import re
from collections.abc import Iterator
from typing import NamedTuple

from aggregator.config import document


class Setting(NamedTuple):
    """Describes one row of the table of settings.

    Attributes:
        names: Names, separated by blanks, with `*` for what a setting's owner chose.
        to: The key of `hub.yaml`; empty where there is none.
        why: The reason, or what is different at the hub.
    """

    names: str
    to: str
    why: str


MAPPED: tuple[Setting, ...] = (
    Setting("clusters", "edges, central", ""),
    Setting("enabled", "edges, central", "each target has a hub.yaml of its own"),
    Setting("bootstrap.servers metadata.broker.list", "bootstrap_servers", ""),
    Setting("topics topics.whitelist whitelist", "topics[].match", "a list becomes alternatives"),
    Setting("topics.exclude topics.blacklist", "topics[].exclude", "a list becomes alternatives"),
    Setting(
        "replication.policy.class",
        "topics[].central",
        "DefaultReplicationPolicy or IdentityReplicationPolicy; a class of one's own is not applicable",
    ),
    Setting("replication.policy.separator", "topics[].central", ""),
    Setting("source.cluster.alias", "topics[].central", "the beginning of central names"),
    Setting("target.cluster.alias", "central", ""),
    Setting("auto.offset.reset", "topics[].start", "of the consumer that reads the source"),
    Setting("replication.factor", "replication_factor", "of topics that the hub creates at central"),
    Setting("sync.topic.configs.enabled", "config_sync", "true becomes `apply`, false `tell`"),
    Setting("emit.heartbeats.enabled", "heartbeats.emit", "the hub writes them to edges, and sees them arrive"),
    Setting("emit.heartbeats.interval.seconds", "heartbeats.interval", ""),
    Setting("emit.checkpoints.enabled", "offsets.checkpoints", "without a word about groups there is no `offsets`"),
    Setting("emit.checkpoints.interval.seconds", "offsets.interval", ""),
    Setting("emit.offset-syncs.enabled", "offsets.syncs", ""),
    Setting("sync.group.offsets.enabled", "offsets.sync_groups", ""),
    Setting("groups groups.whitelist", "offsets.groups", "a list becomes alternatives"),
    Setting("groups.exclude groups.blacklist", "offsets.exclude", "a list becomes alternatives"),
)
# The misspelt `replication.policy.seperator` has a similarity of 0.96; no two settings of MirrorMaker exceed 0.9.
_ANOTHER_SPELLING = 0.93
_GROUPS = "`offsets: {…}` has one interval, patterns as the only filter, and MirrorMaker 2's own names of topics"
_LEDGER = "positions lie in the hub's ledger, in the transaction of the records"
_OWN_TOPICS = "the hub keeps its state in topics of its own, with settings of its own"
_BYTES = "the policy says how values are written (`value_format`), and what becomes of them"
_ACLS = "rights at central are given there: `aggregator acls print` lists what is needed"
_ALWAYS = "the hub looks at each edge's topics every second"
_WORKER = "of Connect's workers, which the hub does not have"
_TASKS = "slots share all partitions: `replication: {slots: …}`; one slot is enough for most"
NOT_APPLICABLE: tuple[Setting, ...] = (
    Setting("tasks.max tasks.max.enforce", "", _TASKS),
    Setting(
        "exactly.once.source.support exactly.once.support transaction.boundary* offsets.storage.topic",
        "",
        "the hub always delivers exactly once",
    ),
    Setting("offset.lag.max offset-syncs.* mm.enable.internal*", "", _LEDGER),
    Setting(
        "group.filter.class sync.group.offsets.interval.seconds refresh.groups.* checkpoints.topic.*"
        " checkpoints.replication.*",
        "",
        _GROUPS,
    ),
    Setting("refresh.topics.*", "", _ALWAYS),
    Setting("sync.topic.acls.*", "", _ACLS),
    Setting(
        "sync.topic.configs.interval.seconds",
        "",
        "with `config_sync: apply` the hub carries changes over within a minute",
    ),
    Setting(
        "config.properties.exclude config.properties.blacklist config.property.filter.class"
        " use.incremental.alter.configs use.defaults.from topic.creation.*",
        "",
        "which settings follow is fixed (docs/operate.md); `central_config` of a rule sets others",
    ),
    Setting("topic.filter.class", "", "`match` and `exclude` of a rule are the only filter"),
    Setting("heartbeats.topic.* heartbeats.replication.enabled", "", _OWN_TOPICS),
    Setting("internal.topic.separator.enabled replication.policy.internal*", "", _OWN_TOPICS),
    Setting("config.storage.* offset.storage.* status.storage.*", "", _OWN_TOPICS),
    Setting(
        "key.converter* value.converter* header.converter* internal.key.converter* internal.value.converter*",
        "",
        _BYTES,
    ),
    Setting("transforms* predicates*", "", "the policy says what becomes of a field, for all topics by schema"),
    Setting("errors.*", "", "what cannot be delivered is a dead letter with its reason: `aggregator dlq list`"),
    Setting("name connector.class connector.plugin.version", "", "the hub is one process, not a connector"),
    Setting("config.providers*", "", "the hub's references take their place: `env:`, `file:` and `${…}`"),
    Setting(
        "plugin.path plugin.discovery rest.* listeners* offset.flush.* connector.client.config.override.policy"
        " dedicated.mode.enable.internal.rest access.control.* admin.listeners* worker.* scheduled.rebalance.*"
        " connect.protocol inter.worker.* task.shutdown.* topic.tracking.* response.http.* config.action.reload"
        " rebalance.timeout.ms header.converter.schemas.enable",
        "",
        _WORKER,
    ),
    Setting(
        "consumer.poll.timeout.ms poll.timeout.ms admin.timeout.ms", "", "the hub's own polls have no such setting"
    ),
    Setting(
        "add.source.alias.to.metrics metric.reporters metric.names.formats metrics.* auto.include.jmx.reporter",
        "",
        "`metrics: {listen: …}` serves Prometheus metrics (docs/metrics.md)",
    ),
    Setting("forwarding.admin.class", "", "foreign code is not loaded"),
    Setting("replication.policy.*", "", "belongs to a class of Java: write the names into `central` of a rule"),
    Setting(
        "zookeeper.* consumer.timeout.ms rebalance.* num.consumer.fetchers auto.commit.* refresh.leader.*"
        " exclude.internal.topics queued.max.message.chunks socket.* fetch.message.max.bytes shallow.iterator.enable",
        "",
        "of the old consumer, which spoke to Zookeeper",
    ),
    Setting(
        "producer.type block.on.buffer.full queue.* serializer.class key.serializer.class request.required.acks"
        " request.num.acks message.send.max.retries topic.metadata.refresh.interval.ms compressed.topics"
        " compression.codec send.buffer.bytes.* metadata.fetch.timeout.ms timeout.ms",
        "",
        "of the old producer, which lost or doubled records",
    ),
    Setting("offset.commit.interval.ms abort.on.send.failure num.streams message.handler*", "", _LEDGER),
)
# Only the connector that copies records decides these settings; in other connectors they do not concern topics.
_OF_RECORDS = (
    "topics topics.whitelist whitelist topics.exclude topics.blacklist replication.policy.class"
    " replication.policy.separator replication.factor sync.topic.configs.enabled"
)
OF_RECORDS = frozenset(_OF_RECORDS.split())


def destination(name: str) -> str:
    """The key of `hub.yaml` for a setting of MirrorMaker; empty where there is none."""
    return next((one.to for one in MAPPED if name in one.names.split()), "")


@functools.cache
def reason(name: str) -> str | None:
    """Why the hub does not have a setting of this name; None where MirrorMaker has none either."""
    found = next((one for one, pattern in _patterns() if pattern.fullmatch(name)), None)
    if found is None or (name not in found.names.split() and _is_nearly_mapped(name)):
        return None
    return found.why


def _is_nearly_mapped(name: str) -> bool:
    """Whether a name that an `*` would take is one of those that are mapped, in another spelling."""
    mapped = [one for row in MAPPED for one in row.names.split()]
    return name not in mapped and bool(difflib.get_close_matches(name, mapped, n=1, cutoff=_ANOTHER_SPELLING))


@functools.cache
def _patterns() -> tuple[tuple[Setting, re.Pattern[str]], ...]:
    return tuple(
        (one, re.compile("|".join(re.escape(name).replace(r"\*", ".*") for name in one.names.split())))
        for one in NOT_APPLICABLE
    )


def _names() -> Iterator[str]:
    for one in (*MAPPED, *NOT_APPLICABLE):
        yield from (name.rstrip("*").rstrip(".") for name in one.names.split())


def did_you_mean(name: str, known: frozenset[str]) -> str:
    """A hint such as `did you mean …?`, or nothing.

    Args:
        name: The unknown name.
        known: Names of clients' properties, beside those of MirrorMaker.
    """
    return document.did_you_mean(name, sorted({*_names(), *known}), likeness=0.8)
