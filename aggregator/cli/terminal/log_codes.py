"""Gives each line of the hub's log a code that stays when its words change: scripts and alerts on logs go by it.

Invariant: every call that logs has one code, and every code here a call; a test reads both. A code is never given
another meaning. Where the kind depends on what is said, the call gives the code (`extra={"code": …}`).
"""

from collections.abc import Mapping
from types import MappingProxyType

# By module, then by the template that its call has.
CODES: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "backfill.driver": {
            "backfill %s, epoch %d: %d flows": "backfill.epoch_opened",
            "use of keys: %s": "key.near_its_end",
            "central refuses the backfill's pace, which stays as it was: %s": "backfill.pace_refused",
        },
        "backfill.execution": {
            "backfill %s: table %s, %d rows restated": "backfill.restated",
            (
                "backfill %s: table %s, %d rows stay: their records were not read, or delete and are left out"
            ): "backfill.rows_left",
            (
                "backfill %s: table %s, %d rows stay without their key: nobody knows what it is under the"
                " policy, and an older row may be current; a restate up to the log's end helps if the edge has"
                " the records"
            ): "backfill.keys_unknown",
            "backfill %s: %s; it waits until that one has ended": "backfill.waits_for_other",
        },
        "backfill.fill": {
            "backfill %s: %d rows into the lake": "backfill.filled",
        },
        "cli.leaves": {
            "%s-value: %s": "schema.unread",
            "%s: versions up to %d mean too many places with the others": "schema.too_many_places",
            "%s version %d: %s": "schema.version_refused",
        },
        "cli.policy.suggest": {
            "%s of its schema: %s": "schema.records_unread",
        },
        "cli.policy_reload": {
            "the policies stay as they are: %s": "policy.refused",
            "%s: policy %s version %d is in force from now on": "policy.taken",
            (
                "the hub's own file has changed since it started, and counts at its next start: restart it"
            ): "config.changed",
            "no policy file has changed: nothing is reloaded": "policy.unchanged",
            "policy files have changed: it is judged first what they would do, at every edge": "policy.judged",
        },
        "cli.run": {
            "%s": "hub.started",
        },
        "engine.driver_jvm": {
            "Spark starts as slowly as before (%s)": "spark.cold",
        },
        "health.beacon": {
            "no folder for beats, so that `aggregator health` says no: set RUNTIME_DIRECTORY": "health.no_folder",
            "%s cannot be written, so that `aggregator health` says no: %s": "health.unwritable",
        },
        "kafka.client.connection": {
            "%s: signing in with what was renewed": "credentials.renewed",
            "%s: what was renewed cannot be used: %s": "credentials.refused",
        },
        "kafka.client.msk_iam": {
            "%s: AWS signs no token for region %s: %s": "credentials.refused",
        },
        "kafka.cluster.topics": {
            "%s is made without %s, unknown to the cluster": "topic.made_plainer",
        },
        "kafka.writers.writer": {
            "%s: what was renewed cannot be used: %s": "credentials.refused",
        },
        "lake.cadence": {
            "%s": "lake.ends_unread",
        },
        "lake.current_state": {
            "the current state of table %s waits: %s": "table.current_state_waits",
        },
        "lake.cycle.attempts": {
            "%s": "table.commit_conflict",
        },
        "lake.driver": {
            "%s": "table.stands_still",
            "table %s: %d of %d %s, see %s": "table.numbers_out_of_range",
            "the lake waits: %s": "lake.waits",
        },
        "lake.quality.gate": {
            "table %s: %s: %s": "table.quality",
        },
        "lake.upkeep.background": {
            "%s": "table.not_kept_up",
        },
        "lake.upkeep.orphans": {
            "removed %d files without a commit from %s": "table.swept",
        },
        "lineage.publisher": {
            "lineage is incomplete: %s": "lineage.incomplete",
        },
        "observe.lake_poller": {
            "the lake is looked at again: %s": "monitor.looks_again",
        },
        "observe.monitor": {
            "backfills are looked at again: %s": "monitor.looks_again",
            "%s": "topic.damaged_record",
            "the monitor looks again: %s": "monitor.looks_again",
            "edge %s is %s: %s": "edge.state",
        },
        "offsets.publisher": {
            "positions of consumer groups: %s": "offsets.stand_still",
            "group %s goes on at central in %s": "offsets.published",
        },
        "otlp.collector": {
            "OpenTelemetry: %s": "otlp.refused",
        },
        "replicate.discovery.edge_watch": {
            "edge %s: %s": "edge.silent",
            "edge %s answers again": "edge.answers",
            "edge %s: topic %s waits, the others do not: %s": "topic.waits",
            "edge %s: %d more topics wait, as `aggregator status` tells: %s, …": "topic.waits",
            "edge %s: topic %s waits no more": "topic.goes_on",
            "edge %s: %d more topics wait no more": "topic.goes_on",
            "edge %s: heartbeats cannot be written: %s": "heartbeat.unwritable",
        },
        "replicate.discovery.target_topics": {
            "settings: %s": "topic.setting_copied",
        },
        "replicate.epoch.edge_follower": {
            "epoch %d: %d flows more, of %d new topics": "epoch.grown",
        },
        "replicate.epoch.epochs": {
            "epoch %d: %d flows on %d slots": "epoch.opened",
            "use of keys: %s": "key.near_its_end",
            "requests: %s": "topic.damaged_record",
            "edge %s is paused by %s: %s": "edge.paused",
            "takeover: %s": "flow.taken_over",
            "%s held: %s": "flow.held",
            "%s is %s": "cluster.known",
            "held at central: %s": "flow.undecided",
            "%s is cluster %s from now on, by %s: %s": "cluster.accepted",
            "%s goes on without the gap %s, by %s: %s": "gap.accepted",
        },
        "replicate.epoch.opening": {
            (
                "the ledger has records of epoch %d, and the control topic had forgotten it and what else it"
                " knew: ids of clusters, check values of keys, former targets, undecided ranges; who deleted it,"
                " or wrote to it?"
            ): "hub.forgot",
        },
        "replicate.epoch.policy_changes": {
            "by which policies and rules this hub goes is not on record: %s": "policy.not_recorded",
        },
        "replicate.leadership.kafka_central": {
            "%s: signing in with what was renewed": "credentials.renewed",
            "what was renewed lets nobody in, and is tried again in %.0f s: %s": "credentials.refused",
        },
        "replicate.leadership.leadership": {
            "epoch ended early (%s); the next one follows": "epoch.ended_early",
            "standing by: central does not answer (%s); it is asked again": "standby.central_silent",
            "standing by: %s is running": "standby.waits",
        },
        "replicate.leadership.lease_renewal": {
            "the lease moves again": "lease.renewed",
            "the lease does not move, and a standby may take over: %s": "lease.refused",
        },
        "replicate.warmup": {
            "workers start cold (%s)": "spark.cold",
        },
        "report.writer": {
            "the report waits: %s": "report.waits",
            "the report cannot be written into %s: %s": "report.unwritable",
        },
        "schema.questions": {
            "no thread can be started that asks a registry; it is tried again": "thread.cannot_start",
        },
        "state.control_log": {
            (
                "%s asks epoch %d to end, which was never opened: passed over; who else writes this topic?"
            ): "topic.foreign_record",
        },
        "state.letter_log": {
            "dead letters of %s are in doubt: %s has %s": "letter.in_doubt",
            (
                "%s: %s passed over, not proven by the ledger: offset %d first; who else writes it?"
            ): "topic.foreign_record",
        },
        "threads": {
            "thread %s ended and begins again in %.1f s: %s": "thread.restarts",
            "thread %s hangs: %s": "thread.hangs",
            "thread %s moves again": "thread.moves",
            "thread %s ended: %s": "thread.ended",
            "thread %s ended at the stop: %s": "thread.ended_at_stop",
        },
    }
)


def code_of(logger: str, template: object) -> str | None:
    """The code of a line; None for one that another library logs.

    Args:
        logger: The name of its logger, which is its module's.
        template: Its words, before values are put in.
    """
    return CODES.get(logger.removeprefix("aggregator."), {}).get(str(template))
