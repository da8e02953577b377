"""This module defines every metric of a hub: its name, kind, unit, labels and meaning. No other module spells one.

Invariant: names follow Prometheus' conventions (base units, `_total` for counters). A sample has exactly the labels
that its measure declares. Metrics that count records count those at central, so they outlive a process. A metric that
counts since a process began says so, and starts again with the next process.
"""

from typing import NamedTuple


class Measure(NamedTuple):
    """Describes one metric.

    Attributes:
        name: The name under which it is exposed.
        kind: `counter`, `gauge` or `info`.
        unit: Unit in words; empty for a plain number.
        labels: Names of its labels, in order.
        meaning: The meaning of the metric in one sentence.
    """

    name: str
    kind: str
    unit: str
    labels: tuple[str, ...]
    meaning: str

    def of(self, value: float, *labels: str) -> "Sample":
        """A sample of this measure; the labels' values are in order."""
        assert len(labels) == len(self.labels), self.name
        return Sample(self, labels, value)


class Sample(NamedTuple):
    """Holds one value of a metric with its labels."""

    measure: Measure
    labels: tuple[str, ...]
    value: float


_EDGE = ("edge",)
# `partition` is empty unless `metrics: {partitions: true}`.
_FLOW = ("edge", "topic", "partition")

BUILD = Measure("aggregator_build_info", "gauge", "", ("version", "hub"), "1; says which version runs as which hub.")
EDGE_STATE = Measure(
    "aggregator_edge_state",
    "gauge",
    "",
    ("edge", "state"),
    "1 for the state that an edge is in, 0 for the others: UP, LAGGING, STALLED, UNREACHABLE, LOSING_DATA, PAUSED.",
)
EDGE_MAINTENANCE = Measure("aggregator_edge_maintenance", "gauge", "", _EDGE, "1 while a maintenance window is open.")
EDGE_FOREIGN_CLUSTER = Measure(
    "aggregator_edge_stranger", "gauge", "", _EDGE, "1 while another cluster than the edge's own answers; it is held."
)
HEARTBEAT_AGE = Measure(
    "aggregator_heartbeat_age_seconds",
    "gauge",
    "seconds",
    _EDGE,
    "Since the edge's last heartbeat arrived at central, by central's clock.",
)
HEARTBEAT_LATENCY = Measure(
    "aggregator_heartbeat_latency_seconds",
    "gauge",
    "seconds",
    _EDGE,
    "End to end through the live flow: from the writing of the last heartbeat to its arrival at central.",
)
RECORD_AGE = Measure(
    "aggregator_record_age_seconds",
    "gauge",
    "seconds",
    ("edge", "work"),
    "End to end: how old the newest record was, by its own time, when it was delivered; `live` and `backfill` apart.",
)
CLOCK_SKEW = Measure(
    "aggregator_edge_clock_skew_seconds",
    "gauge",
    "seconds",
    _EDGE,
    "The edge's clock less central's; nothing is judged by it.",
)
AVAILABILITY = Measure(
    "aggregator_edge_availability_ratio",
    "gauge",
    "0 to 1",
    ("edge", "window"),
    "Share of the watched time in which the edge's records came through, over 1h, 24h and 30d.",
)
BURN = Measure(
    "aggregator_edge_slo_burn_ratio",
    "gauge",
    "ratio",
    ("edge", "window"),
    "How many times faster than `availability.objective` allows the edge was unavailable.",
)
EDGE_READ = Measure(
    "aggregator_edge_read_bytes_total",
    "counter",
    "bytes",
    _EDGE,
    "Bytes that the slots' readers received from the edge, on the wire: compressed as there, TLS not counted.",
)
EDGE_WRITTEN = Measure(
    "aggregator_edge_written_bytes_total",
    "counter",
    "bytes",
    _EDGE,
    "Bytes of the edge's records in committed transactions of central, before compression.",
)
EDGE_LIMIT = Measure(
    "aggregator_edge_rate_limit_bytes_per_second",
    "gauge",
    "bytes per second",
    _EDGE,
    "The edge's `rate_limit`; absent without one.",
)
DELIVERED = Measure("aggregator_records_delivered_total", "counter", "records", _FLOW, "Records delivered to central.")
DEAD = Measure("aggregator_records_dead_total", "counter", "records", _FLOW, "Records that became dead letters.")
SUPPRESSED = Measure(
    "aggregator_records_suppressed_total",
    "counter",
    "records",
    _FLOW,
    "Records that a rule left at the edge, and cycles; absent while none.",
)
CYCLES = Measure(
    "aggregator_records_cycled_total",
    "counter",
    "records",
    _FLOW,
    "Records that came back through the edge, from this hub or another one, of those suppressed; absent while none.",
)
FORGED = Measure(
    "aggregator_records_forged_origin_total",
    "counter",
    "records",
    _FLOW,
    "Records that carried this hub's origin without its seal, or a chain that is not theirs, and were delivered.",
)
STRIPPED = Measure(
    "aggregator_values_stripped_total", "counter", "values", _FLOW, "Field values that an operator removed or changed."
)
LAG_RECORDS = Measure(
    "aggregator_lag_records", "gauge", "records", _FLOW, "Offsets that wait at the edge, an upper bound of records."
)
LAG_SECONDS = Measure(
    "aggregator_lag_seconds",
    "gauge",
    "seconds",
    _FLOW,
    "How long the oldest waiting record was seen to wait; by its own time where it waited before anybody looked.",
)
RETENTION_MARGIN = Measure(
    "aggregator_retention_margin_seconds",
    "gauge",
    "seconds",
    _FLOW,
    "Until the edge deletes the first record that is not yet read; absent where nothing waits or nothing is deleted.",
)
UNDECIDED_RECORDS = Measure(
    "aggregator_undecided_records",
    "gauge",
    "records",
    _FLOW,
    "Offsets behind the end that open transactions at the edge hold back from every reader; absent while none.",
)
UNDECIDED_SECONDS = Measure(
    "aggregator_undecided_seconds",
    "gauge",
    "seconds",
    _FLOW,
    "How long the first of them has waited, by its own time; absent where no transaction is open.",
)
GAPS = Measure("aggregator_gaps_open", "gauge", "flows", _EDGE, "Flows that want offsets which the edge no longer has.")
GAPS_DECIDED = Measure(
    "aggregator_gaps_decided_total",
    "counter",
    "gaps",
    ("edge", "topic", "state"),
    "Gaps that were accepted, or skipped.",
)
LETTERS = Measure(
    "aggregator_dead_letters_total",
    "counter",
    "records",
    ("edge", "topic", "reason"),
    "Dead letters by reason, of the newest hundred thousand when the hub started and of all since.",
)
OPERATED = Measure(
    "aggregator_fields_stripped_total",
    "counter",
    "values",
    ("edge", "topic", "operator"),
    "Values that an operator removed or changed, as far as telemetry tells (its last hour, and all since the start).",
)
UNCLASSIFIED = Measure(
    "aggregator_fields_unclassified",
    "gauge",
    "fields",
    ("edge", "topic"),
    "Fields of which neither a tag nor a path of the policy speaks; they are dropped.",
)
EPOCH = Measure("aggregator_epoch_changes_total", "counter", "epochs", (), "Assignments of flows to slots so far.")
SLOTS = Measure("aggregator_slots_running", "gauge", "slots", (), "Slots that told something in the last ten seconds.")
TRANSACTIONS = Measure(
    "aggregator_transactions_total", "counter", "transactions", ("slot",), "Committed since the slot's producer began."
)
ABORTS = Measure(
    "aggregator_transactions_aborted_total",
    "counter",
    "transactions",
    ("slot",),
    "Failed at central and begun again, since the slot's task began; `status` says why the last one did.",
)
SLOT_HELD = Measure(
    "aggregator_flows_held",
    "gauge",
    "flows",
    ("slot", "reason"),
    "Flows that stand still, and why; slot `none`: the driver gave them to none.",
)
SLOT_WAITING = Measure(
    "aggregator_flows_waiting", "gauge", "flows", ("slot",), "Flows that try again, for a registry or a broker."
)
SLOT_MEMORY = Measure("aggregator_slot_memory_bytes", "gauge", "bytes", ("slot",), "Memory of the slot's worker.")
SLOT_CPU = Measure(
    "aggregator_slot_cpu_seconds_total", "counter", "seconds", ("slot",), "CPU time of the slot's worker."
)
_CLIENT = ("slot", "client")
CLIENT_BROKERS = Measure(
    "aggregator_client_brokers_up", "gauge", "brokers", _CLIENT, "librdkafka: brokers that the client is connected to."
)
CLIENT_REQUEST = Measure(
    "aggregator_client_request_p99_seconds",
    "gauge",
    "seconds",
    _CLIENT,
    "librdkafka: 99th percentile of a request's way to the slowest broker and back; a fetch waits for up to 0.1 s.",
)
CLIENT_THROTTLE = Measure(
    "aggregator_client_throttle_max_seconds",
    "gauge",
    "seconds",
    _CLIENT,
    "librdkafka: longest throttling by a broker.",
)
CLIENT_QUEUE_TIME = Measure(
    "aggregator_client_queue_p99_seconds",
    "gauge",
    "seconds",
    _CLIENT,
    "librdkafka: 99th percentile of a record's wait in the producer's queue.",
)
CLIENT_QUEUED = Measure(
    "aggregator_client_queued_messages", "gauge", "records", _CLIENT, "librdkafka: records in the client's queue."
)
CLIENT_QUEUED_BYTES = Measure(
    "aggregator_client_queued_bytes", "gauge", "bytes", _CLIENT, "librdkafka: bytes in the client's queue."
)
CLIENT_RECEIVED = Measure(
    "aggregator_client_received_bytes_total", "counter", "bytes", _CLIENT, "librdkafka: bytes from the brokers."
)
CLIENT_SENT = Measure(
    "aggregator_client_sent_bytes_total", "counter", "bytes", _CLIENT, "librdkafka: bytes to the brokers."
)
CLIENT_FAILED = Measure(
    "aggregator_client_failed_requests_total",
    "counter",
    "requests",
    _CLIENT,
    "librdkafka: requests that failed or got no answer in time.",
)
LAKE_COMMITS = Measure(
    "aggregator_lake_commits_total", "counter", "commits", ("table",), "Versions of the table, other writers' included."
)
LAKE_ROWS = Measure("aggregator_lake_rows", "gauge", "rows", ("table",), "Rows in the table.")
LAKE_LAG = Measure(
    "aggregator_lake_lag_records", "gauge", "records", ("table",), "Offsets at central that are not in the table yet."
)
LAKE_HELD = Measure(
    "aggregator_lake_held_partitions",
    "gauge",
    "partitions",
    ("table",),
    "Partitions at which the table cannot go on, for a reason that `aggregator lake status` names.",
)
LAKE_STOOD = Measure(
    "aggregator_lake_standing_seconds",
    "gauge",
    "seconds",
    ("table",),
    "How long the partition that stands longest has had records and not moved, whatever the reason.",
)
LAKE_AGE = Measure(
    "aggregator_lake_commit_age_seconds", "gauge", "seconds", ("table",), "Since the table's last commit."
)
LAKE_FRESHNESS = Measure(
    "aggregator_lake_freshness_seconds",
    "gauge",
    "seconds",
    ("table",),
    "How old a reader's view is, at most; 0 while it has all.",
)
LAKE_FILES = Measure("aggregator_lake_files", "gauge", "files", ("table",), "Data files of the table.")
LAKE_BYTES = Measure("aggregator_lake_bytes", "gauge", "bytes", ("table",), "Size of the table's data files.")
LAKE_QUALITY = Measure(
    "aggregator_lake_quality",
    "gauge",
    "",
    ("table", "verdict"),
    "1 for the gate's last verdict; absent without a gate.",
)
LAKE_GATE_SECONDS = Measure(
    "aggregator_lake_gate_seconds_total",
    "counter",
    "seconds",
    ("table",),
    "What the gate took; begins anew with each day (UTC).",
)
LAKE_RULE_FAILURES = Measure(
    "aggregator_lake_rule_failures_total",
    "counter",
    "commits",
    ("table", "rule"),
    "Commits that failed a rule, or for which it could not be evaluated; begins anew with each day (UTC).",
)
LAKE_RULE_VALUES = Measure(
    "aggregator_lake_rule_failed_values_total",
    "counter",
    "values",
    ("table", "rule"),
    "Values that failed a rule; begins anew with each day (UTC).",
)
LAKE_QUARANTINED = Measure(
    "aggregator_lake_quarantined_rows", "gauge", "rows", ("table",), "Rows that the gate diverted."
)
LAKE_OUT_OF_RANGE = Measure(
    "aggregator_lake_out_of_range_rows",
    "gauge",
    "rows",
    ("table",),
    "Rows with a number that their column cannot hold: null there, and told in `_out_of_range`.",
)
LAKE_PROBLEM = Measure("aggregator_lake_unreadable", "gauge", "", ("table",), "1 while the table cannot be read.")
DAMAGED = Measure(
    "aggregator_damaged_records_total",
    "counter",
    "records",
    ("topic",),
    "Records of the hub's own topics that are none of its own, passed over by the monitor since it began.",
)
THREAD_UP = Measure(
    "aggregator_thread_up",
    "gauge",
    "",
    ("thread",),
    "1 while a thread of the hub does its work; 0 while it hangs, waits to begin again, or has ended with an error.",
)
THREAD_RESTARTS = Measure(
    "aggregator_thread_restarts_total",
    "counter",
    "restarts",
    ("thread",),
    "How often a thread began again after an error, since the hub started.",
)
POLICIES_REFUSED = Measure(
    "aggregator_policy_reload_refused", "gauge", "", (), "1 while the hub refuses policies that changed; 0 otherwise."
)
INSECURE = Measure(
    "aggregator_insecure_connection",
    "gauge",
    "",
    ("connection", "setting", "reason"),
    "1 for each setting that leaves a connection open, with the reason in the configuration; absent while none.",
)
SNAPSHOT_AGE = Measure(
    "aggregator_snapshot_age_seconds",
    "gauge",
    "seconds",
    (),
    "Since the hub's monitor last looked.",
)

CLIENT_NUMBERS = {
    "brokers_up": CLIENT_BROKERS,
    "request_p99_s": CLIENT_REQUEST,
    "throttle_max_s": CLIENT_THROTTLE,
    "queue_p99_s": CLIENT_QUEUE_TIME,
    "queued_messages": CLIENT_QUEUED,
    "queued_bytes": CLIENT_QUEUED_BYTES,
    "received_bytes": CLIENT_RECEIVED,
    "sent_bytes": CLIENT_SENT,
    "failed_requests": CLIENT_FAILED,
}
MEASURES: tuple[Measure, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Measure))
