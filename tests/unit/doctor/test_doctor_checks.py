"""What follows from what was read: rights, ids, versions, clocks, transactions, replicas, sizes, registries, disks."""

import base64
import shlex

import pytest

from aggregator.config.model import HubConfig
from aggregator.config.secrets import key_ring
from aggregator.config.subkeys import check_values
from aggregator.coordinates import EdgePartition
from aggregator.doctor import cluster, facts, flows, machine, registries, rights
from aggregator.doctor.finding import CheckState, listed
from aggregator.doctor.flows import CentralTopic
from aggregator.doctor.machine import Disk, Machine, Trouble
from aggregator.doctor.obstacles import explained
from aggregator.doctor.registries import RegistryView, Unframed
from aggregator.doctor.rights import Principal
from aggregator.errors import NEXT
from aggregator.kafka.client.address import Address
from aggregator.kafka.cluster.topic_spec import TopicSpec, inherited
from aggregator.kafka.probes.cluster_view import Acl, ClusterView, ProbedTopic, Topics
from aggregator.kafka.probes.listener import Listener, Obstacle
from aggregator.replicate.discovery.edge_topic import DiscoveredTopics, EdgeTopic, Unanswered
from aggregator.replicate.flow.cursor import Hold, HoldReason
from aggregator.state.rights import Right

HUB = Principal("User:hub", "c:9092")
AUTHORIZED = {"authorizer.class.name": "StandardAuthorizer", "super.users": "User:admin"}


def bad(found):
    return [(one.check, one.state.value) for one in found if one.state is not CheckState.OK]


def config(**more):
    return HubConfig.model_validate(
        {
            "hub": "h",
            "central": {"bootstrap_servers": "c:9092"},
            "edges": {"eu": {"bootstrap_servers": "e:9092"}},
            "topics": [
                {"match": "orders|pay", "policy": "/p.yaml"},
                {"match": "other", "policy": "/p.yaml", "edges": ["us"]},
            ],
        }
        | more
    )


def view(brokers=1, acls=None, operations=frozenset(), **settings):
    places = {number: Address("b", number) for number in range(brokers)}
    given = {name.replace("_", "."): value for name, value in settings.items()}
    return ClusterView("id", places, given, operations, acls)


def topic(in_sync=1, rights_=None, **settings):
    given = {name.replace("_", "."): value for name, value in settings.items()}
    return ProbedTopic(1, max(1, in_sync), in_sync, (), rights_, given)


def allow(operation, name="orders", kind="TOPIC", principal="User:hub", *, is_prefix=False, allows=True):
    return Acl(kind, name, is_prefix, principal, "*", operation, allows)


READS = [Right("topic", "orders", False, ("Read", "DescribeConfigs"), "it is replicated")]
WRITES = [Right("transactional-id", "h.driver", False, ("Write",), "records are delivered under it")]
MAKES = [Right("topic", "h.ledger", False, ("Read", "Write", "Create"), "state")]


@pytest.mark.parametrize(
    ("operations", "missing"),
    [
        ({"READ", "DESCRIBE_CONFIGS", "DESCRIBE"}, None),
        ({"ALL"}, None),
        ({"DESCRIBE"}, "--operation Read --operation DescribeConfigs --topic orders"),
        ({"READ", "ALTER_CONFIGS"}, None),
        ({"READ"}, "--operation DescribeConfigs --topic orders"),
    ],
)
def test_a_right_that_a_topic_lacks_is_told_with_its_command(operations, missing):
    """By what the cluster says of the topic; some operations imply others."""
    found = list(rights.findings("eu", HUB, view(), Topics({"orders": topic(rights_=frozenset(operations))}), READS))
    assert [one.next for one in found if one.state is CheckState.FAILED] == (
        [f"kafka-acls --bootstrap-server c:9092 --add --allow-principal User:hub {missing}"] if missing else []
    )


def test_every_command_is_one_that_a_shell_takes():
    """Distinguished names and groups may hold what a shell would read: each is one word."""
    for name in ("", "User:CN=O'Brien", "User:$(id)"):
        need = Right("group", "it's", False, ("Read",), "it reads")
        words = shlex.split(Principal(name, "c:1").grant(need, ["Read"]))
        assert words[words.index("--allow-principal") + 1] == (name or "User:<the hub>")
        assert words[words.index("--group") + 1] == "it's"


def test_a_host_that_a_broker_advertises_stays_one_word():
    """Whoever has a broker puts no command into anybody's terminal."""
    evil = "x;touch PWNED;"
    for obstacle in Obstacle:
        _, _, then = explained(Listener(Address(evil, 9092), obstacle=obstacle))
        assert evil not in then or shlex.quote(evil) in then


def test_a_topic_that_we_may_not_see_is_told_as_a_right():
    """Another refusal is none, and a topic that does not tell our rights is not judged."""
    assert bad(rights.findings("eu", HUB, view(), Topics({}, {"orders": "TOPIC_AUTHORIZATION_FAILED"}), READS))
    assert not bad(rights.findings("eu", HUB, view(), Topics({}, {"orders": "no answer"}), READS))
    assert not list(rights.findings("eu", HUB, view(), Topics({"orders": topic()}), READS))


@pytest.mark.parametrize(
    ("acls", "more", "fine"),
    [
        ((allow("WRITE", "h.driver", "TRANSACTIONAL_ID"),), {}, True),
        ((allow("WRITE", "h.", "TRANSACTIONAL_ID", is_prefix=True),), {}, True),
        ((allow("ALL", "*", "TRANSACTIONAL_ID", "User:*"),), {}, True),
        ((allow("WRITE", "h.driver", "TOPIC"),), {}, False),
        ((allow("WRITE", "h", "TRANSACTIONAL_ID"),), {}, False),
        ((allow("DESCRIBE", "h.driver", "TRANSACTIONAL_ID"),), {}, False),
        ((allow("WRITE", "h.driver", "TRANSACTIONAL_ID", "User:other"),), {}, False),
        (
            (allow("WRITE", "*", "TRANSACTIONAL_ID"), allow("ALL", "h.driver", "TRANSACTIONAL_ID", allows=False)),
            {},
            False,
        ),
        ((), {"super.users": ""}, False),
        ((), {"allow.everyone.if.no.acl.found": ""}, True),
        ((allow("WRITE", "h.driver", "TRANSACTIONAL_ID", "User:x"),), {"allow.everyone.if.no.acl.found": ""}, False),
        ((), {"authorizer.class.name": ""}, True),
    ],
)
def test_transactional_ids_are_judged_by_the_rules_of_the_authorizer(acls, more, fine):
    """A denial beats; where there is no authorizer nothing is missing."""
    seen = ClusterView("id", {}, AUTHORIZED | more, frozenset(), acls)
    assert bool(bad(rights.findings("central", HUB, seen, Topics(), WRITES))) is not fine


@pytest.mark.parametrize(
    ("need", "acls", "command"),
    [
        (Right("group", "", True, ("Describe",), "positions"), (allow("READ", "*", "GROUP"),), None),
        (Right("group", "", True, ("Describe",), "positions"), (allow("READ", "app", "GROUP"),), "--group '*'"),
        (Right("group", "app-", True, ("Read",), "positions"), (allow("READ", "app", "GROUP", is_prefix=True),), None),
        (
            Right("group", "app-", True, ("Read",), "positions"),
            (allow("DESCRIBE", "*", "GROUP"),),
            "--operation Read --group app- --resource-pattern-type prefixed",
        ),
    ],
)
def test_groups_are_judged_by_the_rules_of_the_authorizer(need, acls, command):
    """Of all groups, and of those whose names begin so."""
    seen = ClusterView("id", {}, AUTHORIZED, frozenset(), acls)
    found = [one for one in rights.findings("eu", HUB, seen, Topics(), [need]) if one.state is CheckState.FAILED]
    assert [one.next.endswith(command or "") for one in found] == ([True] if command else [])


def test_a_transactional_id_is_judged_by_its_coordinator_before_any_rule():
    """It knows what no rule tells, and needs no right to read them."""
    rules = (allow("WRITE", "h.driver", "TRANSACTIONAL_ID"),)
    seen = ClusterView("id", {}, AUTHORIZED, frozenset(), rules)
    (found,) = rights.findings("central", HUB, seen, Topics(), WRITES, writable={"h.driver": False})
    assert (found.state, "--operation Write --transactional-id h.driver" in found.next) == (CheckState.FAILED, True)
    hidden = ClusterView("id", {}, None, None, None)
    (found,) = rights.findings("central", HUB, hidden, Topics(), WRITES, writable={"h.driver": True})
    assert found.state is CheckState.OK


def test_a_transactional_id_of_which_nobody_tells_is_named():
    """Silence would look like all is well; where there is no authorizer there is nothing to tell."""
    hidden = ClusterView("id", {}, None, None, None)
    (found,) = rights.findings("central", HUB, hidden, Topics(), WRITES)
    assert found.state is CheckState.WARNING
    assert "transactional ids h.driver" in found.what
    assert "aggregator acls print --for central" in found.next
    assert found.next.endswith("--operation Describe --cluster")
    assert not list(rights.findings("central", HUB, ClusterView("id", {}, {}, None, None), Topics(), WRITES))


def test_who_may_do_what_no_rule_gives_is_not_judged_by_rules():
    """A super user, whose setting no broker tells; what the cluster allows us as a whole shows it."""
    rules = (allow("DESCRIBE", "kafka-cluster", "BROKER"),)
    seen = ClusterView("id", {}, AUTHORIZED | {"super.users": ""}, frozenset({"DESCRIBE"}), rules)
    assert bad(rights.findings("central", HUB, seen, Topics(), WRITES))
    seen = ClusterView("id", {}, AUTHORIZED | {"super.users": ""}, frozenset({"DESCRIBE", "CLUSTER_ACTION"}), rules)
    assert not bad(rights.findings("central", HUB, seen, Topics(), WRITES))


def test_what_is_to_be_created_needs_the_right_to():
    """On the cluster or by the topic's name; who we are may be known to the cluster alone."""
    seen = ClusterView("id", {}, AUTHORIZED, frozenset(), (allow("ALL", "h.", is_prefix=True),))
    assert not bad(rights.findings("central", HUB, seen, Topics(), MAKES))
    seen = ClusterView("id", {}, AUTHORIZED, frozenset(), ())
    (found,) = rights.findings("central", HUB, seen, Topics(), MAKES)
    assert "Read and Write and Create" in found.what
    (found,) = rights.findings("central", HUB, seen, Topics({}, {"h.ledger": "TOPIC_AUTHORIZATION_FAILED"}), MAKES)
    assert "--operation Create" in found.next
    assert not bad(rights.findings("central", Principal("", "c:1"), seen, Topics(), MAKES))
    mapped = Principal("User:CN=hub", "c:1", is_certain=False)
    assert not bad(rights.findings("central", mapped, seen, Topics(), MAKES))


def test_one_cluster_has_one_name():
    """Two edges, or an edge and central; and addresses that lead elsewhere."""
    twins = {"central": ClusterView("a", {}), "eu": ClusterView("b", {}), "us": ClusterView("b", {})}
    assert {one.cluster for one in cluster.identity(twins, {}, {}) if one.state is CheckState.FAILED} == {"eu", "us"}
    assert bad(cluster.identity({"central": ClusterView("a", {}), "eu": ClusterView("a", {})}, {}, {})) == [
        ("id", "failed")
    ]
    (found,) = cluster.identity({"eu": ClusterView("a", {})}, {"eu": {"x:1": "c"}}, {})
    assert "x:1 to c" in found.what


def test_a_cluster_that_changed_behind_its_name_is_told_with_what_accepts_it():
    """As the hub has kept it: an edge is not read then, and a hub with another central does not start."""
    views = {"central": ClusterView("c", {}), "eu": ClusterView("new", {})}
    (found,) = [one for one in cluster.identity(views, {}, {"eu": "old"}) if one.state is CheckState.FAILED]
    assert found.what == "leads to cluster new, and its name stood for old: nothing of it is read"
    assert 'aggregator edge accept eu --reason "…"' in found.next
    (found,) = [one for one in cluster.identity(views, {}, {"central": "b"}) if one.state is CheckState.FAILED]
    assert (found.cluster, "a hub does not start" in found.what) == ("central", True)


@pytest.mark.parametrize(
    ("versions", "state", "word"),
    [({3: 13, 1: 18}, "ok", "4.1"), ({3: 12, 1: 15}, "ok", "3.5"), ({3: 9, 1: 11}, "failed", "2.8")],
)
def test_brokers_without_topic_ids_are_too_old(versions, state, word):
    """A release is told by what came with it."""
    (found,) = cluster.version("eu", (Listener(Address("b", 1), versions=versions),))
    assert (found.state.value, word in found.what) == (state, True)
    assert not list(cluster.version("eu", (Listener(Address("b", 1)),)))


@pytest.mark.parametrize(
    ("skew_ms", "ahead_ms", "told"),
    [
        (None, None, None),
        (0, -(10**9), "ok"),
        (29_000, 0, "ok"),
        (-31_000, 0, "warning"),
        (60_000, 0, "warning"),
        (0, 31_000, "warning"),
    ],
)
def test_a_clock_that_is_off_is_told(skew_ms, ahead_ms, told):
    """By beats and by stamps from the future; an old stamp says nothing."""
    assert [one.state.value for one in cluster.clock("eu", skew_ms, ahead_ms)] == ([told] if told else [])


@pytest.mark.parametrize(
    ("settings", "state", "count"),
    [
        ({"transaction.max.timeout.ms": "900000"}, None, 0),
        ({"transaction.max.timeout.ms": "14999"}, None, 1),
        ({"transaction.state.log.replication.factor": "3", "transaction.state.log.min.isr": "2"}, None, 2),
        ({"transaction.state.log.replication.factor": "3"}, topic(1, min_insync_replicas="1"), 0),
        ({"transaction.state.log.min.isr": "1"}, topic(1, min_insync_replicas="2"), 1),
        ({}, None, 0),
    ],
)
def test_transactions_that_central_would_not_take_are_told(settings, state, count):
    """Too long for it, or without the replicas that it wants."""
    seen = ClusterView("id", {1: Address("b", 1)}, settings)
    assert bad(cluster.transactions(seen, state, 15_000)) == [("transactions", "failed")] * count


def test_settings_that_are_not_told_are_no_finding():
    """Without the right to see them nobody knows."""
    assert not list(cluster.transactions(ClusterView("id", {}), None, 15_000))
    assert not bad(cluster.replication(ClusterView("id", {1: Address("b", 1)}), -1, {}, "c:1"))


@pytest.mark.parametrize(
    ("brokers", "configured", "settings", "expected"),
    [
        (1, -1, {}, []),
        (3, 3, {"min.insync.replicas": "2"}, []),
        (1, 3, {}, ["failed"]),
        (1, -1, {"default.replication.factor": "3"}, ["failed"]),
        (3, 1, {"min.insync.replicas": "2"}, ["failed"]),
        (3, -1, {"default.replication.factor": "1"}, ["warning"]),
    ],
)
def test_replicas_that_brokers_cannot_keep_are_told(brokers, configured, settings, expected):
    """More than there are brokers, fewer than must be in sync, or one alone."""
    seen = ClusterView("id", {n: Address("b", n) for n in range(brokers)}, settings)
    assert [state for _, state in bad(cluster.replication(seen, configured, {}, "c:1"))] == expected


def test_a_topic_with_too_few_replicas_in_sync_is_told():
    """A broker is away, or the topic can never have so many."""
    away = {"orders": ProbedTopic(1, 3, 1, settings={"min.insync.replicas": "2"})}
    never = {"orders": ProbedTopic(1, 1, 1, settings={"min.insync.replicas": "2"})}
    seen = view(3, default_replication_factor="3", min_insync_replicas="2")
    (found,) = [one for one in cluster.replication(seen, -1, away, "c:1") if one.state is CheckState.FAILED]
    assert "start the brokers" in found.next
    (found,) = [one for one in cluster.replication(seen, -1, never, "c:1") if one.state is CheckState.FAILED]
    assert "--entity-name orders --add-config min.insync.replicas=1" in found.next


def test_a_topic_of_the_hub_that_forgets_is_told():
    """Its ledger must be compacted."""
    specs = [TopicSpec("h.ledger", 1, {"cleanup.policy": "compact"})]
    assert bad(cluster.own_topics({"h.ledger": topic(cleanup_policy="delete")}, specs, "c:1")) == [("topics", "failed")]
    assert not bad(cluster.own_topics({"h.ledger": topic(cleanup_policy="compact")}, specs, "c:1"))
    assert not bad(cluster.own_topics({}, specs, "c:1"))


def edge_topic(name, **settings):
    given = {key.replace("_", "."): value for key, value in settings.items()}
    return EdgeTopic(name, "id", (0,), (0,), (5,), (0,), given)


def test_rules_that_find_nothing_and_topics_without_leaders_are_told():
    """A rule of another edge is not missed here."""
    assert not bad(flows.topics("eu", config(), DiscoveredTopics({"orders": edge_topic("orders")}), frozenset()))
    assert bad(flows.topics("eu", config(), DiscoveredTopics({}), frozenset())) == [("topics", "warning")]
    shown = DiscoveredTopics({}, {"orders": Unanswered(1, "no broker leads partition 0")})
    assert bad(flows.topics("eu", config(), shown, frozenset())) == [("topics", "failed")]
    assert not bad(flows.topics("eu", config(), DiscoveredTopics({}), frozenset({"orders"})))
    shown = DiscoveredTopics({}, {"orders": Unanswered(1, "settings of orders: Topic authorization failed.")})
    assert not bad(flows.topics("eu", config(), shown, frozenset())), "told with the rights"


def test_a_record_size_that_central_does_not_take_is_told():
    """By a command where the topic is there, by the rule where the hub will make it."""
    shown = DiscoveredTopics({"orders": edge_topic("orders", max_message_bytes="2000000")})
    for exists, then in (
        (True, "--entity-name eu.orders --add-config max.message.bytes=2000000"),
        (False, "in rule 1 of"),
    ):
        central = {"eu.orders": CentralTopic("eu.orders", {"max.message.bytes": "1000000"}, exists)}
        (found,) = flows.sizes("eu", config(), shown, central, "c:1")
        assert (found.state, then in found.next) == (CheckState.WARNING, True)
    assert not list(flows.sizes("eu", config(), shown, {}, "c:1")), "nothing was compared"
    central = {"eu.orders": CentralTopic("eu.orders", {"max.message.bytes": "2000000"}, True)}
    assert not bad(flows.sizes("eu", config(), shown, central, "c:1"))


def test_records_that_central_would_delete_are_told_once_a_topic():
    """Other holds are not the doctor's."""
    holds = [Hold(EdgePartition("eu", "orders", n), HoldReason.RETENTION, "too old; set x") for n in range(3)]
    (found,) = flows.retention("eu", config(), holds, {}, "c:1")
    assert "too old (partitions that are held: 3)" in found.what
    other = [
        Hold(EdgePartition("eu", "orders", 0), HoldReason.POLICY, "x"),
        *(h for h in holds if h.source.edge == "us"),
    ]
    assert not bad(flows.retention("eu", config(), other, {}, "c:1"))


def test_a_mirrormaker_2_that_lives_is_told_once():
    """With what to do; only to the edge whose flows wait for it."""
    why = "MirrorMaker 2 lives: its group eu-mm2" + NEXT + "stop it"
    holds = [
        Hold(EdgePartition("eu", name, number), HoldReason.MIRRORMAKER, why)
        for name in ("orders", "pay")
        for number in (0, 1)
    ]
    (found,) = flows.takeover("eu", holds)
    assert (found.check, found.what, found.next) == (
        "takeover",
        "orders, pay: MirrorMaker 2 lives: its group eu-mm2",
        "stop it",
    )
    assert not list(flows.takeover("us", holds))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"log_retention_hours": "168"}, "604800000"),
        ({"log_retention_ms": "", "log_retention_minutes": "2", "log_retention_hours": "1"}, "120000"),
        ({"log_retention_ms": "-1", "log_retention_hours": "1"}, "-1"),
        ({}, None),
    ],
)
def test_a_new_topic_inherits_the_retention_of_its_brokers(settings, expected):
    """Milliseconds before minutes before hours."""
    assert inherited(view(**settings).settings).get("retention.ms") == expected
    assert inherited({}) == {}


def test_a_registry_is_told_by_what_it_lacks():
    """Trouble, ids that it does not have, ids of another kind; and values in no known form."""
    assert bad(registries.findings("eu", RegistryView("r", "is away", "start it"), {})) == [("registry", "failed")]
    seen = RegistryView("r", unknown={7: ("orders",)}, refused={8: "Protobuf"}, ids=2)
    assert bad(registries.findings("eu", seen, {})) == [("registry", "failed")] * 2
    jane = int.from_bytes(b"jane")  # four bytes of a value
    (found,) = registries.findings("eu", RegistryView("r", unknown={jane: ("b",), jane + 1: ("a", "b")}, ids=2), {})
    assert found.what == "numbers by which the newest records of a, b begin are not in r"
    assert not bad(registries.findings("eu", RegistryView("r", subjects=2, ids=1), {}))
    assert bad(registries.findings("eu", None, {"a": Unframed(1, 2), "b": Unframed(2, 2)})) == [
        ("records", "warning"),
        ("records", "failed"),
    ]


@pytest.mark.parametrize(
    ("free", "writable", "state"),
    [(2**31, True, "ok"), (2**29, True, "warning"), (2**20, True, "failed"), (2**31, False, "failed")],
)
def test_a_disk_that_is_full_or_closed_is_told(free, writable, state):
    """Below 1 GB a warning, below 128 MB a failure."""
    seen = Machine("Java 17", {"/lake": Disk("the lake", "`lake.path`", free, writable)}, {"k": None})
    (found,) = [one for one in machine.findings(seen) if one.check == "disk"]
    assert found.state.value == state


def test_java_and_keys_that_are_not_there_are_told():
    """With what was said of them."""
    seen = Machine(Trouble("no Java", "install"), {}, {"customer": Trouble("no key", "make one")})
    assert bad(machine.findings(seen)) == [("java", "failed"), ("keys", "failed")]


def test_another_key_than_the_hub_has_used_is_told_as_a_start_would(tmp_path):
    """A key that was drawn anew is a good key to whoever reads it alone; one that is not readable is told once."""
    for number in range(2):
        path = tmp_path / f"key-{number}"
        path.touch(0o600)
        path.write_bytes(base64.b64encode(bytes(range(number, number + 32))))
    rings = [key_ring(f"file:{tmp_path / f'key-{number}'}") for number in range(2)]
    recorded = {("customer", 1): check_values("customer", rings[0])[1]}
    hub, found = config(), Machine("Java 17", {}, {"customer": None})
    same, other = (hub.model_copy(update={"keys": {"customer": ring}}) for ring in rings)
    assert facts.compared(found, same, recorded) == facts.compared(found, other, {}) == found
    told = machine.findings(facts.compared(found, other, recorded))
    failed = [one for one in told if one.state is CheckState.FAILED]
    assert [(one.check, one.what[:35]) for one in failed] == [("keys", "key customer version 1: another key")]
    assert "put the former key back" in failed[0].next
    unread = Machine("Java 17", {}, {"customer": Trouble("no key", "make one")})
    assert facts.compared(unread, other, recorded) == unread


def test_many_names_are_a_short_sentence():
    """The first few, and how many more."""
    assert listed("cab") == "a, b, c"
    assert listed("gfedcba") == "a, b, c, d and 3 more"
