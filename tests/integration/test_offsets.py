"""Positions of consumer groups at central, against a plain consumer's scan of it, on real brokers."""

import base64
import json
import random
import threading
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, IsolationLevel, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from aggregator.config.load import load_config
from aggregator.coordinates import EdgePartition
from aggregator.errors import HoldError
from aggregator.kafka.cluster.groups import commit_offsets
from aggregator.observe.observation import HubObserver
from aggregator.offsets.mirror_records import Checkpoint, OffsetSync, checkpoint, offset_sync
from aggregator.offsets.translation import Why
from aggregator.offsets.translator import Translator
from aggregator.threads import Threads
from tests.other_group import other_group
from tests.trial import POLICY, read_all, wait_for

pytestmark = pytest.mark.brokers

A_TENTH = POLICY.replace(
    "    key: keep\n", "    key: keep\n    drop_record: [{field: id, in: [3, 17, 20, 41, 42, 43, 66, 71, 98, 99]}]\n"
)


def committed(bootstrap: str, group: str, offsets: dict[tuple[str, int], int]) -> None:
    """Positions of a group without members."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
    wanted = [TopicPartition(*at, offset) for at, offset in offsets.items()]
    (future,) = admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, wanted)]).values()
    assert all(one.error is None for one in future.result(15).topic_partitions)


def positions(bootstrap: str, group: str) -> dict[tuple[str, int], int]:
    """What a group has committed."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
    (future,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    return {(one.topic, one.partition): one.offset for one in future.result(15).topic_partitions}


def in_transactions(trial, edge: str, numbers, *, aborts: bool = False) -> None:
    """Orders in transactions of a few records, so that both logs have markers between them."""
    producer = Producer(
        {"bootstrap.servers": trial.sandbox.edges[edge].bootstrap, "transactional.id": f"{trial.mark}-{edge}"}
    )
    producer.init_transactions(30)
    numbers = list(numbers)
    for at in range(0, len(numbers), 25):
        producer.begin_transaction()
        for n in numbers[at : at + 25]:
            producer.produce(trial.topic, trial.value(n % 100), b"k%d" % n, n % 3)
        if aborts and at % 3 == 0:
            producer.flush(30)
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)


def translated(trial, group: str, edge: str, *, code: int = 0) -> dict:
    """What the command says, by topic and partition."""
    done = trial.typed("offsets", "translate", "--group", group, "--edge", edge, "-o", "json")
    assert done.exit_code == code, done.output
    return {(one["topic"], one["partition"]): one for one in json.loads(done.stdout)["partitions"]}


def scanned(trial, edge: str) -> dict[int, list[tuple[int, int]]]:
    """Edge offset and central offset of everything that was delivered, by partition, read without the hub."""
    found = {0: [], 1: [], 2: []}
    for message in trial.central_records(edge):
        _, _, _, partition, offset, _ = dict(message.headers())["hub.origin"].decode().split("/")
        found[int(partition)].append((int(offset), message.offset()))
    return found


def test_a_position_is_that_of_the_first_record_from_it_on(trial):
    """With transactions and aborts at the edge and a tenth of the records left out; at every sort of position."""
    (trial.folder / "policy.yaml").write_text(A_TENTH)
    in_transactions(trial, "eu", range(1200), aborts=True)
    trial.drain_here()
    there, draws = scanned(trial, "eu"), random.Random(5)
    assert all(there.values())
    ends = {at: entry["next_offset"] for (edge, at), entry in trial.ledger().items() if edge == "eu"}
    asked = {
        f"g{turn}": {
            EdgePartition("eu", trial.topic, at): draws.choice([0, end, end - 1, *draws.sample(range(end), 9)])
            for at, end in ends.items()
        }
        for turn in range(60)
    }
    translator = Translator(load_config(trial.config, {}))
    found = translator.translate(asked).results
    assert len(found) == 180
    for one in found:
        assert (one.why, one.behind_records) == (None, 0)
        right(there[one.source.partition], one.edge_offset, one.central_offset)
    assert translator.translate(asked).results == found  # what is remembered is the same answer
    moved = {group: {at: ends[at.partition] for at in own} for group, own in asked.items()}
    for one in translator.translate(moved).results:
        right(there[one.source.partition], one.edge_offset, one.central_offset)


def right(there: list[tuple[int, int]], offset: int, central: int) -> None:
    """A position by what a plain consumer saw: nothing that is due lies before it, and nothing behind it is not due."""
    assert [edge for edge, at in there if at >= central] == [edge for edge, _ in there if edge >= offset]


def end_of(trial, topic: str, partition: int) -> int:
    """Last stable offset at central."""
    at = TopicPartition(topic, partition)
    asked = trial.admin("central").list_offsets(
        {at: OffsetSpec.latest()}, isolation_level=IsolationLevel.READ_COMMITTED
    )
    return asked[at].result(15).offset


def test_the_command_says_where_a_group_goes_on_and_why_it_does_not(trial):
    """A position of a topic that is divided by key, of none that is replicated, and one that is ahead of the hub."""
    by_key, other = f"keyed-{trial.mark}", f"other-{trial.mark}"
    rule = trial.settings["topics"][0]
    trial.settings["topics"] = [rule, rule | {"match": by_key, "partition_by": "key"}]
    trial.write()
    for topic in (by_key, other):
        trial.create("eu", 1, topic=topic)
    trial.produce("eu", 90)
    trial.produce_raw("eu", [(b"k", trial.value(1), 0)], topic=by_key)
    trial.drain_here("--only", "replicate")
    trial.produce("eu", 30)
    at = {(trial.topic, 0): 30, (trial.topic, 1): 40, (by_key, 0): 1, (other, 0): 0}
    committed(trial.sandbox.edges["eu"].bootstrap, "billing", at)
    said = translated(trial, "billing", "eu", code=4)
    assert said[trial.topic, 0] == {
        "topic": trial.topic,
        "partition": 0,
        "edge_offset": 30,
        "central_topic": f"eu.{trial.topic}",
        "central_partition": 0,
        "central_offset": end_of(trial, f"eu.{trial.topic}", 0),
        "behind_records": 0,
        "reason": None,
        "detail": "",
    }
    assert {at: (one["reason"], one["central_offset"], one["behind_records"]) for at, one in said.items()} == {
        (trial.topic, 0): (None, said[trial.topic, 0]["central_offset"], 0),
        (trial.topic, 1): ("ahead", None, 10),
        (by_key, 0): ("by_key", None, None),
        (other, 0): ("not_replicated", None, None),
    }
    for words, code, told in (
        (("--group", "nobody", "--edge", "eu"), 1, "no committed position"),
        (("--group", "billing", "--edge", "xx"), 1, "no edge xx"),
        (("--group", "billing", "--edge", "eu", "--topic", "none"), 1, "of topic none"),
    ):
        done = trial.typed("offsets", "translate", *words)
        assert done.exit_code == code, done.output
        assert told in done.stderr


def told(trial, topic: str, decoded) -> dict:
    """The newest record of each key in a topic at central, by what comes before its offsets."""
    found = {}
    for message in read_all(trial.sandbox.central.bootstrap, topic):
        one = decoded(message.key(), message.value())
        found[one[:-2] if isinstance(one, OffsetSync) else one[:3]] = one
    return found


@contextmanager
def member(bootstrap: str, group: str, topic: str):
    """Somebody who reads in a group."""
    reader = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    reader.subscribe([topic])
    try:
        wait_for(lambda: reader.poll(0.2), timeout=30, what="a first record")
        yield reader
    finally:
        reader.close()


def forge(trial, topic: str) -> None:
    """Records that are no positions, as anybody who may write there can write them."""
    producer = Producer({"bootstrap.servers": trial.sandbox.central.bootstrap})
    for key, value in ((None, b"x"), (b"x", None), (b"\xff" * 9, b"\xff" * 40), (b"\0\1g\0\1t\0\0\0\1", b"\0")):
        producer.produce(topic, value, key, 0)
    assert producer.flush(30) == 0


@contextmanager
def telling(trial):
    """What a hub that leads has beside its slots: the monitor and what tells positions."""
    stop = threading.Event()
    threads = Threads(stop)
    watching = HubObserver(load_config(trial.config, {}), stop, threads, wanted=True)
    watching.begin()
    try:
        yield
        assert {one.name: one.restarts for one in threads.statuses()}["offsets"] == 0
    finally:
        watching.finish()


def test_a_hub_tells_positions_and_commits_them_for_groups_that_rest(trial):
    """Checkpoints, syncs, and KIP-545: for a group without a member, never for one that has one, never backwards."""
    edge, central = trial.sandbox.edges["eu"].bootstrap, trial.sandbox.central.bootstrap
    mark, topic = trial.mark, f"eu.{trial.topic}"
    rests, reads, leads, left_out = (f"{name}-{mark}" for name in ("rests", "reads", "leads", "console-consumer"))
    trial.settings["offsets"] = {"syncs": True, "groups": [f".*-{mark}"], "interval": "1s"}
    trial.write()
    trial.produce("eu", 300)
    trial.drain_here("--only", "replicate")
    first = {partition: at[30] for partition, at in scanned(trial, "eu").items()}  # edge offset 30, with its place
    for group in (rests, reads, leads, left_out):
        committed(edge, group, {(trial.topic, at): 30 for at in first})
    ends = {(topic, at): end_of(trial, topic, at) for at in first}
    committed(central, leads, ends)
    with member(central, reads, topic), telling(trial):
        wait_for(lambda: positions(central, rests), timeout=40, what="a commit for the group that rests")
        assert positions(central, rests) == {(topic, at): offset for at, (_, offset) in first.items()}
        assert positions(central, leads) == ends
        assert positions(central, reads) == {}
        assert positions(central, left_out) == {}
        found = told(trial, "eu.checkpoints.internal", checkpoint)
        for group in (rests, reads, leads):
            for at, (_, offset) in first.items():
                assert found[group, topic, at] == Checkpoint(group, topic, at, 30, offset)
        assert not [one for one in found if one[0] == left_out]
        last = {partition: at[-1] for partition, at in scanned(trial, "eu").items()}
        syncs = told(trial, "mm2-offset-syncs.eu.internal", offset_sync)
        for at, pair in last.items():
            assert syncs[trial.topic, at] == OffsetSync(trial.topic, at, *pair)
        forge(trial, "eu.checkpoints.internal")
        status = trial.status()
        shown = {(one["group"], one["partition"]): one["central_offset"] for one in status["groups"]}
        assert shown[rests, 1] == first[1][1]
        assert rests in trial.typed("status").output
        committed(edge, rests, {(trial.topic, 0): 60, (trial.topic, 1): 10})
        sixty = scanned(trial, "eu")[0][60][1]
        wait_for(lambda: positions(central, rests)[topic, 0] == sixty, timeout=20, what="a further position")
        assert positions(central, rests)[topic, 1] == first[1][1]


def test_a_group_moves_to_central_and_back(trial):
    """Committed at central for a group that rests there, and, once it has read on, at its edge; nothing twice."""
    edge, central = trial.sandbox.edges["eu"].bootstrap, trial.sandbox.central.bootstrap
    group, topic = f"moves-{trial.mark}", f"eu.{trial.topic}"
    (trial.folder / "policy.yaml").write_text(A_TENTH)
    in_transactions(trial, "eu", range(600))
    trial.drain_here("--only", "replicate")
    there = scanned(trial, "eu")
    committed(edge, group, {(trial.topic, at): 50 for at in there})
    with member(central, group, topic):
        refused = trial.typed("offsets", "translate", "--group", group, "--edge", "eu", "--commit")
        assert (refused.exit_code, "has a member" in refused.stderr) == (1, True)
    said = trial.typed("offsets", "translate", "--group", group, "--edge", "eu", "--commit", "-o", "json")
    assert said.exit_code == 0, said.output
    moved = {one["partition"]: one["offset"] for one in json.loads(said.stdout)["committed"]}
    assert {(topic, at): offset for at, offset in moved.items()} == positions(central, group)
    for at, offset in moved.items():
        right(there[at], 50, offset)
    again = trial.typed("offsets", "translate", "--group", group, "--edge", "eu", "--commit")
    assert "committed at central: 0 of 3 partitions; the others stand there already" in again.output
    # It reads on: one partition for a while, one to its end, one not at all.
    ends = {at: end_of(trial, topic, at) for at in there}
    committed(central, group, {(topic, 0): there[0][100][1], (topic, 1): ends[1]})
    back = trial.typed("offsets", "translate", "--group", group, "--edge", "eu", "--back", "--commit", "-o", "json")
    assert back.exit_code == 0, back.output
    home = {one["partition"]: one["edge_offset"] for one in json.loads(back.stdout)["partitions"]}
    ledger = {at: entry["next_offset"] for (name, at), entry in trial.ledger().items() if name == "eu"}
    first = next(offset for offset, at in there[2] if at >= moved[2])
    assert home == {0: there[0][100][0], 1: ledger[1], 2: first}
    assert positions(edge, group) == {(trial.topic, at): offset for at, offset in home.items()}
    committed(edge, f"partly-{group}", {(trial.topic, 1): 50})
    words = ("offsets", "translate", "--group", f"partly-{group}", "--edge", "eu", "-o", "json")
    partly = json.loads(trial.typed(*words).stdout)
    assert partly["uncommitted"] == [{"topic": trial.topic, "partition": at} for at in (0, 2)]
    said = trial.typed("offsets", "translate", "--group", f"partly-{group}", "--edge", "eu").stdout
    assert f"no position at edge eu in 2 partitions of {trial.topic} (0, 2)" in said
    nothing = trial.typed("offsets", "translate", "--group", "nobody", "--edge", "eu", "--back")
    assert (nothing.exit_code, "central: group nobody has no committed position of edge eu" in nothing.stderr) == (
        1,
        True,
    )


def test_a_further_tombstone_is_behind_its_record_and_misleads_nobody(trial):
    """A tombstone for a key's former versions lies behind the records that were delivered with it, out of order."""
    edge, central = trial.sandbox.edges["eu"].bootstrap, trial.sandbox.central.bootstrap
    group, topic = f"further-{trial.mark}", f"eu.{trial.topic}"
    policy = POLICY.replace("    key: keep\n", "    key: {pseudonymize: {key: customer, domain: customer}}\n")
    (trial.folder / "policy.yaml").write_text(policy)
    versions = {}
    for number in (1, 2, 3):
        (trial.folder / f"key{number}").write_text(base64.b64encode(bytes(range(number, number + 32))).decode())
        versions[number] = f"file:key{number}"
    trial.settings["keys"] = {"customer": {"current": 3, "versions": versions}}
    trial.write()
    gone = [(b"gone%d" % n, None, 0) for n in range(400)]
    trial.produce_raw("eu", [*gone, *((b"here%d" % n, trial.value(n), 0) for n in range(100))])
    trial.drain_here("--only", "replicate")
    places = [(m.offset(), dict(m.headers())["hub.origin"].decode().split("/")) for m in trial.central_records("eu")]
    assert len(places) == 100 + 3 * 400
    own = [(int(origin[4]), offset) for offset, origin in places if len(origin) == 6]
    asked = {f"g{n}": {EdgePartition("eu", trial.topic, 0): n} for n in (0, 1, 200, 399, 400, 450, 499, 500)}
    for one in Translator(load_config(trial.config, {})).translate(asked).results:
        assert one.why is None
        if one.edge_offset < 500:
            assert one.central_offset == dict(own)[one.edge_offset]
        else:
            assert one.central_offset == end_of(trial, topic, 0)
    committed(edge, group, {(trial.topic, 0): 0})
    committed(central, group, {(topic, 0): own[-1][1] + 1})  # it has read all records, and none of the further ones
    back = trial.typed("offsets", "translate", "--group", group, "--edge", "eu", "--back", "-o", "json")
    assert json.loads(back.stdout)["partitions"][0]["edge_offset"] == 500


def test_a_group_that_is_refused_keeps_no_other_from_its_positions(trial):
    """At central another application's group of that name is there, which has no consumers, or a partition is not."""
    edge, central = trial.sandbox.edges["eu"].bootstrap, trial.sandbox.central.bootstrap
    other, own = (f"{name}-{trial.mark}" for name in ("a-registry", "b-billing"))
    trial.settings["offsets"] = {"groups": [f".*-{trial.mark}"], "interval": "1s"}
    trial.write()
    trial.produce("eu", 90)
    trial.drain_here("--only", "replicate")
    for group in (other, own):
        committed(edge, group, {(trial.topic, 0): 10})
    with other_group(central, other, "sr"), telling(trial):
        wait_for(lambda: positions(central, own), timeout=30, what="a commit for the group of consumers")
        assert positions(central, other) == {}
        refused = trial.typed("offsets", "translate", "--group", other, "--edge", "eu", "--commit")
        assert (refused.exit_code, "is none of consumers" in refused.stderr) == (1, True)
    cluster = load_config(trial.config, {}).central
    with pytest.raises(HoldError, match="Unknown topic or partition"):
        commit_offsets(cluster, own, {(f"nowhere-{trial.mark}", 0): 1})


def test_a_rule_that_led_elsewhere_and_back_leaves_no_position_before_what_lies_there(trial):
    """A group that stands before records of the topic between has none; one that stands behind all of them has."""
    rule = trial.settings["topics"][0]
    for step in ({}, {"central": "other.{topic}"}, {}):
        trial.settings["topics"] = [rule | step]
        trial.write()
        trial.produce("eu", 150)
        trial.drain_here("--only", "replicate")
    asked = {f"g{offset}": {EdgePartition("eu", trial.topic, 0): offset} for offset in (30, 50, 60, 99, 100, 120)}
    found = {one.edge_offset: one for one in Translator(load_config(trial.config, {})).translate(asked).results}
    assert {offset for offset, one in found.items() if one.why is Why.MOVED} == {30, 50, 60, 99}
    there = dict(scanned(trial, "eu")[0])
    assert {offset: found[offset].central_offset for offset in (100, 120)} == {at: there[at] for at in (100, 120)}


def test_a_topic_of_several_edges_is_not_committed_and_that_is_said(trial):
    """Each edge has a position of its own there; whoever waits for a commit is not told that there was one."""
    trial.settings["topics"][0]["central"] = "{topic}"
    del trial.settings["topics"][0]["lake"]
    trial.write()
    for edge in ("eu", "us"):
        trial.produce(edge, 30)
    trial.drain_here("--only", "replicate")
    committed(trial.sandbox.edges["eu"].bootstrap, "merged", {(trial.topic, 0): 4})
    asked = ("offsets", "translate", "--group", "merged", "--edge", "eu")
    assert trial.typed(*asked).exit_code == 0
    said = trial.typed(*asked, "--commit")
    assert said.exit_code == 4, said.output
    assert f"not committed: several edge topics lie in {trial.topic}-0" in said.output
    assert positions(trial.sandbox.central.bootstrap, "merged") == {}
