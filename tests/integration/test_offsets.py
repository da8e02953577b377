"""Positions of consumer groups at central, against a plain consumer's scan of it, on real brokers."""

import json
import random

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, IsolationLevel, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from aggregator.config.load import load_config
from aggregator.coordinates import EdgePartition
from aggregator.offsets.translator import Translator
from tests.trial import POLICY

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
    found = translator.translate(asked).of
    assert len(found) == 180
    for one in found:
        assert (one.why, one.behind_records) == (None, 0)
        right(there[one.source.partition], one.edge_offset, one.central_offset)
    assert translator.translate(asked).of == found  # what is remembered is the same answer
    moved = {group: {at: ends[at.partition] for at in own} for group, own in asked.items()}
    for one in translator.translate(moved).of:
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
