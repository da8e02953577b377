"""The frozen model of the configuration, which all other parts of the hub read.

Invariant: no other part reads a dict. Unknown keys are refused at every level, secrets are references, and no error
quotes a value.
"""

from datetime import timedelta
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from aggregator.budgets import LATE_SECONDS
from aggregator.config.client import checked, role_refusal, why_refused
from aggregator.config.closed_model import Model
from aggregator.config.features import token_fault
from aggregator.config.fields import (
    AUTHENTICATE,
    broker_count,
    central_pattern,
    host_name,
    is_loopback,
    lake_pattern,
    lineage_target,
    listen_address,
    refuse_in_clear,
    servers,
    spark_conf,
    topic_pattern,
    web_address,
)
from aggregator.config.lake_model import LakeConfig
from aggregator.config.transport import insecure_client_settings
from aggregator.config.value_types import (
    ByteRate,
    Duration,
    EdgeName,
    GroupPattern,
    HubName,
    Key,
    Moment,
    Option,
    RegistryOptions,
    RegistryReference,
    Secret,
    SizeBytes,
    Start,
    Text,
)


class MskIam(Model):
    """Signing in to Amazon MSK with this machine's AWS credentials.

    Attributes:
        region: The cluster's.
        role_arn: A role to take on first.
        profile: Credentials of this profile, instead of those that AWS's own search finds.
    """

    region: Annotated[str, Field(pattern=r"^[a-z0-9-]{1,32}$")]
    role_arn: Annotated[str, Field(pattern=r"^arn:[A-Za-z0-9:/_+=,.@-]{1,256}$")] | None = None
    profile: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$")] | None = None

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.role_arn is not None and self.profile is not None:
            raise ValueError("takes a role or a profile, not both")
        return self


class ClusterConfig(Model):
    """How to reach one Kafka cluster.

    Attributes:
        bootstrap_servers: `host:port`, several with commas.
        client: librdkafka properties of all its clients (TLS, SASL), secrets by reference; and, where they leave the
            connection open, `insecure` with the reason.
        consumer: Further ones of the clients that read records; they win over `client`.
        producer: The same of those that write.
        admin: The same of those that ask about topics, offsets and settings.
        msk_iam: Tokens of AWS, beside `sasl.mechanism: OAUTHBEARER`.
    """

    bootstrap_servers: Annotated[str, AfterValidator(servers)]
    client: Annotated[dict[str, Option], AfterValidator(checked(why_refused, insecure_client_settings))] = {}
    consumer: Annotated[dict[str, Option], AfterValidator(checked(role_refusal("consumer")))] = {}
    producer: Annotated[dict[str, Option], AfterValidator(checked(role_refusal("producer")))] = {}
    admin: Annotated[dict[str, Option], AfterValidator(checked(role_refusal("admin")))] = {}
    msk_iam: MskIam | None = None

    @model_validator(mode="after")
    def _gets_tokens_in_one_way(self) -> Self:
        if why := token_fault(self.client, msk_iam=self.msk_iam is not None):
            raise ValueError(why)
        return self


class MaintenanceWindow(Model):
    """A time at which an edge may be away: no alert, and none of its objective is spent.

    Attributes:
        start: When it begins, the first time.
        lasts: How long.
        every: How often it comes again; None: never.
    """

    start: Moment
    lasts: Duration
    every: Duration | None = None

    @model_validator(mode="after")
    def _comes_to_an_end(self) -> Self:
        if self.every is not None and self.every <= self.lasts:
            raise ValueError("lasts as long as it takes to come again: the edge would always be in maintenance")
        return self


class EdgeConfig(ClusterConfig):
    """Configures one regional cluster.

    Attributes:
        schemas: Its registry: `directory:<path>`, an http(s) address, or `glue:<region>/<registry>`.
        schemas_client: How to connect to an address: `basic.auth.user.info` or `bearer.auth.*`, `ssl.*`, `context` and
            `insecure`; of Glue `profile`.
        maintenance: Times at which it may be away.
        rate_limit: Bytes a second that the slots' readers receive from it, all slots together; None: no bound.
    """

    schemas: RegistryReference | None = None
    schemas_client: RegistryOptions = {}
    maintenance: tuple[MaintenanceWindow, ...] = ()
    rate_limit: ByteRate | None = None


class TopicRule(Model):
    """Which edge topics to replicate, under which policy, to where.

    Attributes:
        match: Full-match regular expression (RE2) on the edge topic.
        exclude: As `match`: topics that this rule does not speak of all the same; a later one may.
        policy: Policy file.
        central: Pattern of the central topic; `{edge}` and `{topic}` are filled in.
        start: `earliest`, `latest`, a time, or `mirrormaker2` for where MirrorMaker 2 stands: where the partitions
            begin that a topic has when it is first planned; one that is added later begins at its beginning.
        lake: Pattern of the lake table; None for no lake.
        edges: Edges that the rule speaks of; None for all.
        partition_by: `source` keeps the partition number, `key` re-partitions by the stripped key.
        central_config: Topic settings for central topics that the hub creates (`retention.ms`, …).
        on_gap: When the edge no longer has what is to be read: `hold` that flow until somebody accepts the gap, or
            `skip` it, on record.
    """

    match: Annotated[str, AfterValidator(topic_pattern)]
    exclude: Annotated[str, AfterValidator(topic_pattern)] | None = None
    policy: Path
    central: Annotated[str, AfterValidator(central_pattern)] = "{edge}.{topic}"
    start: Start = "earliest"
    lake: Annotated[str, AfterValidator(lake_pattern)] | None = None
    edges: tuple[EdgeName, ...] | None = None
    partition_by: Literal["source", "key"] = "source"
    central_config: dict[str, Text] = {}
    on_gap: Literal["hold", "skip"] = "hold"


class SparkConfig(Model):
    """Configures where the slots run.

    Attributes:
        master: `local` becomes `local[slots+2,4]`; any other master is taken as it is.
        conf: Spark's own settings.
        secret: Reference to what a standalone cluster (`spark://…`) and the hub know each other by, its
            `spark.authenticate.secret`; other masters draw one for each session.
    """

    master: str = "local"
    conf: Annotated[dict[str, Text], AfterValidator(spark_conf)] = {}
    secret: Secret | None = None

    @model_validator(mode="after")
    def _knows_its_cluster(self) -> Self:
        is_standalone, is_closed = self.master.startswith("spark://"), self.conf.get(AUTHENTICATE, "true") == "true"
        if is_standalone and is_closed and self.secret is None:
            raise ValueError(
                "a standalone cluster is told from others by a secret: `secret` refers to the cluster's "
                f"`{AUTHENTICATE}.secret`; or `conf: {{{AUTHENTICATE}: false}}` on a network of its own"
            )
        if self.secret is not None and not (is_standalone and is_closed):
            raise ValueError("has a `secret` that nothing asks for: it is for a standalone cluster (spark://…)")
        return self


class ReplicationConfig(Model):
    """Cadence and bounds of the slots.

    Attributes:
        slots: Long Spark tasks that share the edge partitions.
        commit_interval: Longest time that a transaction stays open under load.
        commit_bytes: Bytes after which a transaction commits early.
        fetch_buffer: Prefetch bound per edge and slot, in bytes.
        drain_patience: How long `--drain` waits for an edge that does not answer.
        schema_patience: How long a flow waits at a record whose schema id its edge's registry does not know, before
            the record is a dead letter.
        retention_warning: `run` warns when an edge will delete unread records sooner than this; below twice this
            retention, at half of it.
        exact_recreation: Ask the broker that served records which topic it has, before they are taken: none of a topic
            that was created again arrives under the former one's incarnation.
    """

    slots: Annotated[int, Field(ge=1, le=256)] = 1
    commit_interval: Duration = timedelta(milliseconds=500)
    commit_bytes: SizeBytes = 16 * 1024 * 1024
    fetch_buffer: SizeBytes = 32 * 1024 * 1024
    drain_patience: Duration = timedelta(seconds=30)
    schema_patience: Duration = timedelta(seconds=LATE_SECONDS.limit)
    retention_warning: Duration = timedelta(hours=1)
    exact_recreation: bool = True


class HeartbeatConfig(Model):
    """Configures the heartbeats of the edges.

    Attributes:
        emit: The hub writes them to every edge; else `aggregator heartbeat emit` may, near an edge. Where nobody does,
            an edge is judged by its answers and by how its offsets move.
        interval: Time between two beats, whoever writes them.
    """

    emit: bool = True
    interval: Duration = timedelta(seconds=1)


class OffsetsConfig(Model):
    """Positions of the edges' consumer groups, told at central in MirrorMaker 2's topics.

    Attributes:
        checkpoints: Write what each group's positions are at central.
        syncs: Write which record of central the newest one of each flow is.
        sync_groups: Commit them at central for groups without a member there; None: for those that `groups` names.
        groups: Full-match regular expressions (RE2) on the groups.
        exclude: The same for groups that are left out all the same; MirrorMaker 2's own by default.
        interval: Time between two looks.
    """

    checkpoints: bool = True
    syncs: bool = False
    sync_groups: bool | None = None
    groups: tuple[GroupPattern, ...] = (".*",)
    exclude: tuple[GroupPattern, ...] = ("console-consumer-.*", "connect-.*", "__.*")
    interval: Duration = timedelta(seconds=60)

    @property
    def commits(self) -> bool:
        """Whether positions are committed at central."""
        return "groups" in self.model_fields_set if self.sync_groups is None else self.sync_groups


class AvailabilityConfig(Model):
    """What is expected of the edges: percent of the time in which records come through."""

    objective: Annotated[float, Field(gt=0, lt=100)] = 99.9


class ListeningConfig(Model):
    """Something that is served on an address of this machine.

    Attributes:
        listen: Where; None: nowhere. Any address but one of loopback needs a token.
        token: Reference to the word that lets a reader in, 16 characters at least; None: nobody is asked.
        hosts: Further names by which it is reached; a request for any other name is refused. Whoever comes by a name
            that is none of loopback comes from elsewhere, so that such a name needs a token, too.
    """

    listen: Annotated[str, AfterValidator(listen_address)] | None = None
    token: Secret | None = None
    hosts: tuple[Annotated[str, AfterValidator(host_name)], ...] = ()

    @model_validator(mode="after")
    def _asks_for_a_token(self) -> Self:
        reached = [] if self.listen is None else [self.listen, *(f"{host}:0" for host in self.hosts)]
        if self.token is None and not all(map(is_loopback, reached)):
            raise ValueError("others reach this address: `token` has to refer to the word that lets a reader in")
        return self


class MetricsConfig(ListeningConfig):
    """Prometheus metrics of a running hub, as `listen: 127.0.0.1:9464`.

    Attributes:
        partitions: One series per partition instead of per topic.
    """

    partitions: bool = False


class LineageConfig(Model):
    """Where OpenLineage's events go: to a service, or into a file.

    Attributes:
        to: The service's address, with an `api_key` an https:// one; or `file:<path>`, where each event gets a line.
        api_key: Reference to what signs the hub in; None: nothing does.
    """

    to: Annotated[str, AfterValidator(lineage_target)]
    api_key: Secret | None = None

    @model_validator(mode="after")
    def _keeps_its_secret(self) -> Self:
        refuse_in_clear("api_key", self.api_key, self.to)
        return self

    @property
    def file(self) -> Path | None:
        """The file that events are appended to; None where a service gets them."""
        return Path(self.to.removeprefix("file:")) if self.to.startswith("file:") else None


class OtlpConfig(Model):
    """An OpenTelemetry collector that takes metrics and traces: OTLP over HTTP.

    Attributes:
        url: Its address, as http://127.0.0.1:4318; with `headers` it has to be https.
        headers: References to what lets the hub in, by the header's name.
        interval: Time between two pushes of metrics.
    """

    url: Annotated[str, AfterValidator(web_address)]
    headers: dict[str, Secret] = {}
    interval: Duration = timedelta(seconds=30)

    @model_validator(mode="after")
    def _keeps_its_secrets(self) -> Self:
        refuse_in_clear("headers", self.headers, self.url)
        return self


class UiConfig(ListeningConfig):
    """The page, of a running hub (`run --ui`) or beside one (`aggregator ui`)."""

    listen: Annotated[str, AfterValidator(listen_address)] = "127.0.0.1:9465"


class HubConfig(Model):
    """One hub: its name, its clusters, what flows, and where to.

    Attributes:
        policy_watch: How often a running hub looks whether policy files have changed; None: when SIGHUP says so.
        exclude: Full-match regular expression (RE2) on edge topics that no rule speaks of.
        chain_key: Name of the key that this hub shares with the hubs before and behind it: by its seal it knows records
            that have passed its central before.
        offsets: What is told of consumer groups; None: nothing.
        lineage: Where commits of tables are told as lineage; None: nowhere.
        otlp: Where metrics and traces are pushed; None: nowhere.
        config_sync: What becomes of topic settings in which central differs from its edges: `tell` them in `plan` and
            `status`, or `apply` them.
    """

    hub: HubName
    central: ClusterConfig
    edges: dict[EdgeName, EdgeConfig]
    schemas: RegistryReference | None = None
    schemas_client: RegistryOptions = {}
    topics: tuple[TopicRule, ...] = ()
    policy_watch: Duration | None = None
    exclude: Annotated[str, AfterValidator(topic_pattern)] | None = None
    lake: LakeConfig | None = None
    keys: dict[str, Key] = {}
    chain_key: str | None = None
    replication_factor: Annotated[int, AfterValidator(broker_count)] = -1
    config_sync: Literal["tell", "apply"] = "tell"
    replication: ReplicationConfig = ReplicationConfig()
    heartbeats: HeartbeatConfig = HeartbeatConfig()
    offsets: OffsetsConfig | None = None
    lineage: LineageConfig | None = None
    otlp: OtlpConfig | None = None
    availability: AvailabilityConfig = AvailabilityConfig()
    metrics: MetricsConfig = MetricsConfig()
    ui: UiConfig = UiConfig()
    spark: SparkConfig = SparkConfig()
