"""Locked clusters, real ones: every client by every door, a whole hub through them, rights, and a door that is shut."""

import json
import os
import threading
import time

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AclOperation, ResourceType

from aggregator.cli.main import main
from aggregator.config.load import load_config
from aggregator.errors import Unreachable
from aggregator.kafka.client import clients
from aggregator.kafka.cluster import topics
from aggregator.kafka.cluster.topic_ids import EdgeTopicIds
from aggregator.observe.observation import HubObserver
from aggregator.observe.rights import lacking_rights
from aggregator.state.internal_topics import internal_topics
from aggregator.state.names import HubNames
from aggregator.threads import Threads
from tests.authority import Authority
from tests.left_by_mirrormaker import CONNECTOR, MirrorMaker2
from tests.oauth import token_server
from tests.secured import ALLOWED_URLS, PASSWORD, bindings, exactly, right, secured
from tests.trial import Trial, settle, wait_for

pytestmark = [pytest.mark.brokers]

DOORS = ("scram", "mutual", "token")
LIFETIME_S = 60


@pytest.fixture(scope="module")
def locked(tmp_path_factory):
    """Central and one edge; a client that got in by any door may do everything."""
    folder = tmp_path_factory.mktemp("locked")
    authority = Authority(folder)
    with token_server(folder, authority, lifetime_s=LIFETIME_S) as tokens, pytest.MonkeyPatch.context() as patch:
        options = os.environ.get("JDK_JAVA_OPTIONS", "")
        patch.setenv("JDK_JAVA_OPTIONS", f"{options} {ALLOWED_URLS}={tokens.keys}")
        with secured(folder / "clusters", authority, tokens=tokens) as made:
            made.grant_everything()
            yield made


@pytest.fixture
def nothing(locked):
    """Nobody may do anything, until the test is over."""
    locked.revoke_everything()
    yield locked
    locked.revoke_everything()
    locked.grant_everything()


@pytest.fixture
def hub(locked, tmp_path):
    """A hub of its own, whose doors the test chooses."""
    made = Trial(locked.sandbox, tmp_path)
    made.create("eu")
    yield made
    made.close()


def entered(locked, hub, door):
    """The edge as the hub's clients take it."""
    locked.lead(hub, {"eu": door})
    return load_config(hub.config, os.environ).edges["eu"]


@pytest.mark.ci
def test_init_reads_secured_clusters(locked, hub):
    """By what `--client` says of each cluster; what it writes connects in the same way, and holds no secret."""
    locked.lead(hub, {"central": "mutual", "eu": "scram"})
    arguments = ["--schemas", f"directory:{hub.folder / 'schemas'}", "--output", str(hub.folder / "first" / "hub.yaml")]
    for name, section in (("central", hub.settings["central"]), ("eu", hub.settings["edges"]["eu"])):
        arguments += ["--central" if name == "central" else "--edge"]
        arguments += [section["bootstrap_servers"] if name == "central" else f"eu={section['bootstrap_servers']}"]
        for option, value in section["client"].items():
            arguments += ["--client", f"{name}:{option}={value}"]
    (hub.folder / "first").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(hub.folder)
        made = CliRunner().invoke(main, ["init", *arguments])
    assert made.exit_code == 0, made.output
    written = load_config(hub.folder / "first" / "hub.yaml", os.environ)
    assert hub.topic in topics.topic_names(written.edges["eu"])
    assert topics.topic_names(written.central) is not None
    assert PASSWORD not in (hub.folder / "first" / "hub.yaml").read_text()


@pytest.mark.ci
@pytest.mark.parametrize("door", DOORS)
def test_every_client_comes_in_by_every_door(locked, hub, door):
    """confluent-kafka's three, the native consumer, the native producer, and questions for topic ids."""
    edge = entered(locked, hub, door)
    assert hub.topic in topics.topic_names(edge)
    writer = clients.transactional_producer(edge, f"{hub.hub}.{door}", batch_bytes=1_000_000)
    writer.init_transactions(30)
    writer.begin_transaction()
    writer.produce(hub.topic, 0, b"k", b"first")
    writer.commit_transaction(30)
    writer.close()
    plain = clients.plain_producer(edge)
    plain.produce(hub.topic, b"second", partition=0)
    assert plain.flush(30) == 0
    found = []
    bulk = clients.bulk_consumer(edge, buffer_bytes=1_000_000)
    bulk.assign([(hub.topic, 0, 0, None)])
    deadline = time.monotonic() + 30
    while len(found) < 2 and time.monotonic() < deadline:
        found += [value for chunk in bulk.poll(100, 0.1).chunks for value in chunk.values]
    bulk.close()
    assert found == [b"first", b"second"]
    reader = clients.consumer(edge)
    assert hub.topic in reader.list_topics(timeout=30).topics
    reader.close()
    ids = EdgeTopicIds(edge)
    ids.ask(1, [hub.topic], -1)
    answer = wait_for(lambda: ids.answer(0.1), timeout=30, what="an answer")
    ids.close()
    assert answer.topics[hub.topic].topic_id


@pytest.mark.parametrize(
    ("door", "wrong", "said"),
    [
        ("scram", {"sasl.password": "file:wrong"}, "invalid credentials"),
        ("scram", {"ssl.ca.location": "foreign/ca.pem"}, "certificate verify failed"),
        ("mutual", {"ssl.ca.location": "foreign/ca.pem"}, "certificate verify failed"),
        ("token", {"https.ca.location": "foreign/ca.pem"}, "token"),
        ("token", {"sasl.oauthbearer.scope": "nobody"}, "token"),
    ],
)
def test_at_a_shut_door_the_reason_is_told(locked, hub, door, wrong, said):
    """A password, an authority or a token that is not right: not merely that nobody answers."""
    locked.lead(hub, {"eu": door})
    (hub.folder / "wrong").write_text("not-the-password")
    (hub.folder / "foreign").mkdir()
    Authority(hub.folder / "foreign")
    hub.settings["edges"]["eu"]["client"] |= wrong
    hub.write()
    edge = load_config(hub.config, os.environ).edges["eu"]
    with pytest.raises(Unreachable, match="lets the hub in") as refused:
        topics.topic_names(edge, timeout_s=3.0)
    assert said in refused.value.message
    assert "not-the-password" not in refused.value.message


@pytest.mark.spark
def test_a_whole_hub_works_on_secured_clusters(locked, hub):
    """Run into the lake, status, plan and audit; no output holds a secret."""
    locked.lead(hub, {"eu": "mutual", "central": "scram"})
    hub.produce("eu", 300)
    told = hub.drain()
    hub.check_exactly_once("eu", 300)
    shown = hub.run("status", "-o", "json")
    assert shown.returncode == 0, shown.stderr
    status = json.loads(shown.stdout)
    assert [one["edge"] for one in status["edges"] if one["state"] != "UNREACHABLE"] == ["eu"]
    assert status["insecure"] == []
    audit = hub.run("audit", "-o", "json")
    assert audit.returncode == 0, audit.stdout + audit.stderr
    plan = hub.run("plan", "--detailed-exitcode")
    assert plan.returncode == 0, plan.stdout + plan.stderr
    every = [text for done in (told, shown, audit, plan) for text in (done.stdout, done.stderr)]
    assert not [secret for secret in (PASSWORD, "BEGIN") if any(secret in text for text in every)]


def granted(locked, hub) -> dict[str, list]:
    """Give what `acls print` says, by cluster; a test takes it away again."""
    given = {}
    for cluster, whom in (("central", "central"), ("eu", "edge:eu")):
        printed = hub.run("acls", "print", "--for", whom, "--principal", "User:hub")
        assert printed.returncode == 0, printed.stderr
        assert "matches names" not in printed.stderr
        given[cluster] = bindings(printed.stdout)
        settle(locked.admin(cluster).create_acls(given[cluster]))
    return given


@pytest.mark.spark
def test_the_rights_that_are_printed_are_enough_and_each_is_asked_for_by_name(nothing, hub):
    """Run, plan, status and audit pass with these alone; one less, and the right and the topic are named."""
    nothing.lead(hub, {"eu": "scram", "central": "mutual"})
    given = granted(nothing, hub)
    hub.produce("eu", 200)
    hub.produce_raw("eu", [(b"k", b"poison", 0)])
    drained = hub.drain()
    for command in (["plan", "--detailed-exitcode"], ["status"], ["audit"], ["audit", "--decisions"], ["gaps", "list"]):
        done = hub.run(*command)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        assert "lacks" not in done.stderr
    assert "lacks" not in drained.stderr
    assert len(hub.numbers("eu")) == 200
    assert [letter["reason"] for letter in hub.letters()] == ["wrong_magic"]
    config = load_config(hub.config, os.environ)
    assert lacking_rights(config) == ()
    asked = 0
    for cluster, acls in given.items():
        for acl in acls:
            if acl.operation not in {AclOperation.CREATE, AclOperation.ALTER}:
                check_named(nothing, config, cluster, acl)
                asked += 1
    assert asked > 28
    taken = right(ResourceType.TOPIC, f"{hub.hub}.ledger", AclOperation.WRITE)
    settle(nothing.admin("central").delete_acls([exactly(taken)]))
    said = f"central: the hub's principal lacks Write on topic {hub.hub}.ledger"
    wait_for(lambda: lacking_rights(config), timeout=20, what="the loss of a right")
    shown = hub.run("status")
    assert said in shown.stderr
    refused = hub.drain(expect=1)
    assert said in refused.stderr
    assert "aggregator acls print --for central" in refused.stderr


def test_positions_of_groups_take_the_rights_that_are_printed(nothing, hub):
    """They are told and committed with these alone; a group that the hub may not describe at its edge is none to it."""
    mine, other = f"app-{hub.mark}", f"other-{hub.mark}"
    hub.settings["offsets"] = {"syncs": True, "groups": [f"app-{hub.mark}"], "interval": "1s"}
    nothing.lead(hub, {"eu": "scram", "central": "mutual"})
    granted(nothing, hub)
    hub.produce("eu", 30)
    hub.drain_here("--only", "replicate")
    for group in (mine, other):
        at = ConsumerGroupTopicPartitions(group, [TopicPartition(hub.topic, 0, 5)])
        settle(nothing.admin("eu").alter_consumer_group_offsets([at]))
    stop, threads = threading.Event(), Threads()
    watching = HubObserver(load_config(hub.config, os.environ), stop, threads, wanted=True)
    watching.begin()
    try:

        def committed(group: str) -> list:
            asked = nothing.admin("central").list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
            return asked[group].result(15).topic_partitions

        (one,) = wait_for(lambda: committed(mine), timeout=40, what="a commit at central")
        assert (one.topic, one.partition) == (f"eu.{hub.topic}", 0)
        assert not committed(other)
        denied = hub.run("offsets", "translate", "--group", other, "--edge", "eu")
        assert denied.returncode == 4, denied.stderr
        assert "lacks Describe on it" in denied.stderr
    finally:
        watching.finish()


def test_status_without_read_on_the_hubs_own_topics_says_what_it_knows(nothing, hub):
    """The edge, and the right that is missing; no flow is known, and the exit code says that."""
    nothing.lead(hub, {"eu": "scram", "central": "mutual"})
    granted(nothing, hub)
    config = load_config(hub.config, os.environ)
    names = HubNames(hub.hub)
    topics.ensure(config.central, internal_topics(names, 1))
    producer = Producer({"bootstrap.servers": nothing.sandbox.central.bootstrap})
    producer.produce(names.ledger, b"{}", b"eu/a/0", 0)  # something that would have to be read
    assert producer.flush(30) == 0
    taken = right(ResourceType.TOPIC, names.ledger, AclOperation.READ)
    settle(nothing.admin("central").delete_acls([exactly(taken)]))
    wait_for(lambda: lacking_rights(config), timeout=20, what="the loss of a right")
    shown = hub.run("status", "-o", "json")
    assert shown.returncode == 1, shown.stderr
    told = json.loads(shown.stdout)
    assert [edge["state"] for edge in told["edges"] if edge["edge"] == "eu"] != ["UNREACHABLE"]
    assert names.ledger in [one["topic"] for one in told["rights"]]
    assert (told["unread"] != "", told["flows"]) == (True, [])
    assert f"lacks Read on topic {names.ledger}" in shown.stderr


def test_a_takeover_needs_what_is_printed_and_is_held_without_any_of_it(nothing, hub):
    """Each right by itself; a group that may not be described is never taken for one without members."""
    nothing.lead(hub, {"eu": "scram", "central": "mutual"})
    mm2 = MirrorMaker2(hub, tasks=1)
    granted(nothing, hub)
    hub.produce("eu", 30)
    mm2.copied(0, 4)
    (rule,) = hub.settings["topics"]
    needed = [
        (right(ResourceType.GROUP, mm2.group, AclOperation.DESCRIBE), "authorization failed"),
        (right(ResourceType.TOPIC, mm2.offsets, AclOperation.READ), mm2.offsets),
        (right(ResourceType.TOPIC, mm2.configs, AclOperation.READ), mm2.configs),
        (
            right(ResourceType.TRANSACTIONAL_ID, f"{mm2.group}-{CONNECTOR}-", AclOperation.WRITE, prefix=True),
            "lacks Write on this transactional id",
        ),
    ]
    for acl, said in needed:
        settle(nothing.admin("central").delete_acls([exactly(acl)]))
        time.sleep(1.0)  # until brokers and clients know
        held = hub.drain_here(expect=4)
        assert f"held: eu/{hub.topic}/0 and 2 more (mirrormaker)" in held.output
        assert said.lower() in held.output.lower(), acl
        settle(nothing.admin("central").create_acls([acl]))
    time.sleep(1.0)
    assert rule["start"]["mirrormaker2"]["source"] == mm2.source
    hub.drain_here()
    assert len(hub.numbers("eu")) == 25
    assert lacking_rights(load_config(hub.config, os.environ)) == ()


def check_named(locked, config, cluster, acl) -> None:
    """Without this one right it is named, with the topic; with it, all is well again."""
    admin = locked.admin(cluster)
    settle(admin.delete_acls([exactly(acl)]))
    operation = acl.operation.name.title().replace("_", "")
    (one,) = wait_for(lambda: lacking_rights(config), timeout=20, what=f"the loss of {acl}")
    assert one.cluster == {"central": "central"}.get(cluster, f"edge:{cluster}")
    assert one.topic == acl.name + "*" * (acl.restype == ResourceType.TRANSACTIONAL_ID and "slot" in acl.name)
    assert operation in one.operations
    assert one.hidden or one.operations == (operation,)
    settle(admin.create_acls([acl]))
    wait_for(lambda: not lacking_rights(config), timeout=20, what=f"{acl}")


def test_a_reader_needs_what_is_printed_and_no_more(nothing, hub):
    """A consumer in the group that is named; without either right it is refused."""
    hub.create("central", topic=f"eu.{hub.topic}")
    printed = hub.run("acls", "print", "--for", "reader", "--principal", "User:hub", "--group", "ann")
    acls = bindings(printed.stdout)
    assert {(acl.restype, acl.name, acl.operation) for acl in acls} == {
        (ResourceType.TOPIC, f"eu.{hub.topic}", AclOperation.READ),
        (ResourceType.GROUP, "ann", AclOperation.READ),
    }
    admin = nothing.admin("central")
    settle(admin.create_acls(acls))
    producer = Producer({"bootstrap.servers": nothing.sandbox.central.bootstrap})
    producer.produce(f"eu.{hub.topic}", b"v")
    assert producer.flush(30) == 0
    nothing.lead(hub, {"central": "scram"})
    options = clients.connection_options(load_config(hub.config, os.environ).central, clients.Role.CONSUMER)
    options |= {"group.id": "ann", "auto.offset.reset": "earliest", "isolation.level": "read_committed"}
    options |= {"enable.auto.commit": False}
    assert first_word(options, f"eu.{hub.topic}") == b"v"
    for acl in acls:
        settle(admin.delete_acls([exactly(acl)]))
        assert "AUTHORIZATION_FAILED" in str(first_word(options, f"eu.{hub.topic}"))
        settle(admin.create_acls([acl]))


def first_word(options, topic):
    """The first record, or error, that a consumer of a group gets."""
    consumer = Consumer(options)
    try:
        consumer.subscribe([topic])
        message = wait_for(lambda: consumer.poll(0.5), timeout=60, what="a record or an error")
        return message.value() if message.error() is None else message.error().name()
    finally:
        consumer.close()
