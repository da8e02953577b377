"""A trial: one hub under test on real brokers, driven by the commands that a user types, judged by plain clients.

Nothing here asks the code under test what happened: records are produced and read back with confluent-kafka and
fastavro directly, and the lake is read by DuckDB over the table's live file list.
"""

import io
import itertools
import json
import os
import random
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import duckdb
import fastavro
import pytest
from click.testing import CliRunner, Result
from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from deltalake import DeltaTable

from aggregator.cli.backfill import run as backfill_run
from aggregator.cli.main import COMMANDS
from aggregator.cli.terminal.lazy_group import LazyGroup
from aggregator.engine import session
from tests.local_spark import LocalSpark
from tests.processes import LoggedProcess, environment, kill_all

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "email", "type": "string", "confluent:tags": ["PII"]},
        {"name": "customer", "type": "string", "confluent:tags": ["PII.ID"]},
        {"name": "amount", "type": "double"},
    ],
}
POLICY = """
policy: trial
version: 1
default: drop
tags:
  PII: drop
  PII.ID: {pseudonymize: {key: customer, domain: customer}}
topics:
  ".*":
    key: keep
    headers: [traceparent]
    fields:
      id: keep
      amount: keep
"""
HEADERS = [("traceparent", b"00-1"), ("x-user-email", b"canary@x.example")]
KEY = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="


class Trial:
    """One hub with a name and topics of its own on shared clusters."""

    def __init__(self, sandbox, folder: Path, *, slots: int = 1, master: str | None = None, **topic_keys):
        self.sandbox = sandbox
        self.folder = folder
        self.mark = uuid.uuid4().hex[:8]
        self.hub = f"hub-{self.mark}"
        self.schema = fastavro.parse_schema(ORDER)
        self._admins = {}
        self._producers = {}
        self._counted = {}
        self.replace_policies(f"orders-{self.mark}")
        (folder / "policy.yaml").write_text(POLICY)
        (folder / "key").touch(0o600)
        (folder / "key").write_text(KEY)
        rule = {"match": self.topic, "policy": "policy.yaml", "lake": "{topic}"} | topic_keys
        self.settings = {
            "hub": self.hub,
            "central": {"bootstrap_servers": sandbox.central.bootstrap},
            "edges": {
                name: {"bootstrap_servers": edge.bootstrap, "schemas": "directory:schemas"}
                for name, edge in sandbox.edges.items()
            },
            "schemas": "directory:central-schemas",
            "topics": [rule],
            "lake": {"path": "lake", "format": "delta", "commit_interval": "2s"},
            "keys": {"customer": "file:key"},
            "replication": {"slots": slots, "schema_patience": "1s"},
        }
        if master:
            self.settings["spark"] = {"master": master}
        self.write()

    def replace_policies(self, topic: str) -> None:
        """Be about this topic from now on: its schema is there, its orders are numbered from 0."""
        self.topic = topic
        self._next = {edge: itertools.count() for edge in self.sandbox.edges}
        self._register(topic)

    def _register(self, topic: str) -> None:
        """The order's schema under the topic's own subject: no other subject's ids count on it."""
        subject = self.folder / "schemas" / f"{topic}-value"
        subject.mkdir(parents=True, exist_ok=True)
        if not any(subject.iterdir()):
            (subject / "1-7.avsc").write_text(json.dumps(ORDER))

    @property
    def config(self) -> Path:
        return self.folder / "hub.yaml"

    def write(self) -> None:
        self.config.write_text(json.dumps(self.settings, indent=1))

    def create(self, cluster: str, partitions: int = 3, *, topic: str | None = None, **settings: str) -> None:
        config = {key.replace("_", "."): value for key, value in settings.items()}
        if topic and cluster != "central":
            self._register(topic)
        settle(self.admin(cluster).create_topics([NewTopic(topic or self.topic, partitions, config=config)]))

    def delete(self, edge: str) -> None:
        settle(self.admin(edge).delete_topics([self.topic]))
        self._producers.pop(edge, None)  # it knows the old topic

    def clear(self, edge: str, topics: list[str]) -> None:
        """Delete topics of an edge, and what central has of them: brokers of later tests start with fewer."""
        for cluster, prefix in ((edge, ""), ("central", f"{edge}.")):
            for future in self.admin(cluster).delete_topics([prefix + topic for topic in topics]).values():
                future.exception(60)

    def widen(self, edge: str, partitions: int) -> None:
        settle(self.admin(edge).create_partitions([NewPartitions(self.topic, partitions)]))
        self._producers.pop(edge, None)  # it knows the old partitions

    def configure(self, cluster: str, topic: str, name: str, value: str) -> None:
        """Set one setting of a topic, on an edge or at central; a broker tells it a moment after it was taken."""
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        settle(self.admin(cluster).incremental_alter_configs([resource]))

        def told() -> bool:
            (future,) = self.admin(cluster).describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
            return future.result(15)[name].value == value

        wait_for(told, timeout=20, what=f"another {name} of {topic}")

    def cut(self, edge: str, partition: int, offset: int) -> None:
        """Delete the records before `offset`, as retention would."""
        settle(self.admin(edge).delete_records([TopicPartition(self.topic, partition, offset)]))

    def forget(self, at: tuple[str, int]) -> None:
        """Delete every record of a partition of a compacted topic at central."""
        self.configure("central", at[0], "cleanup.policy", "compact,delete")

        def deleted() -> bool:
            (future,) = self.admin("central").delete_records([TopicPartition(*at, -1)]).values()
            error = future.exception(15)
            # The leader hears of the setting a moment after it was taken.
            assert error is None or error.args[0].code() == KafkaError.POLICY_VIOLATION, error
            return error is None

        wait_for(deleted, timeout=20, what="a deletion of all records")

    def admin(self, cluster: str) -> AdminClient:
        where = self.sandbox.central if cluster == "central" else self.sandbox.edges[cluster]
        if cluster not in self._admins:
            made = AdminClient({"bootstrap.servers": where.bootstrap, "log_level": 3})
            made.list_topics(timeout=30)  # what it asks before it knows the brokers it may let go of
            self._admins[cluster] = made
        return self._admins[cluster]

    def value(self, number: int, schema_id: int = 7, schema=None, **more) -> bytes:
        """An order under an id, written by the trial's schema or another one, with what that one has more."""
        out = io.BytesIO()
        record = {"id": number, "email": f"p{number}@x.example", "customer": f"c{number % 97}", "amount": number / 4}
        fastavro.schemaless_writer(out, schema or self.schema, record | more)
        return b"\0" + schema_id.to_bytes(4, "big") + out.getvalue()

    def produce(self, edge: str, count: int, *, timestamp_ms: int | None = None) -> None:
        """Append `count` numbered orders, spread over the partitions by number."""
        self.produce_raw(
            edge,
            ((b"k%d" % (n % 13), self.value(n), n % 3) for n in itertools.islice(self._next[edge], count)),
            timestamp_ms=timestamp_ms,
        )

    def produce_raw(self, edge: str, records, *, timestamp_ms: int | None = None, headers=HEADERS, topic=None) -> None:
        """Append (key, value, partition) records; every one is acknowledged when this returns."""
        failures = []
        producer = self._producer(edge)
        when = {} if timestamp_ms is None else {"timestamp": timestamp_ms}
        for index, (key, value, partition) in enumerate(records):
            producer.produce(
                topic or self.topic,
                value,
                key,
                partition,
                on_delivery=lambda error, _: failures.append(error) if error else None,
                headers=headers,
                **when,
            )
            if index % 5000 == 0:
                producer.poll(0)
        assert producer.flush(60) == 0
        assert not failures

    def close(self) -> None:
        """Let go of the clients, which would complain once the clusters are down."""
        self._producers.clear()
        self._admins.clear()

    def _producer(self, edge: str) -> Producer:
        if edge not in self._producers:
            self._producers[edge] = Producer(
                {
                    "bootstrap.servers": self.sandbox.edges[edge].bootstrap,
                    "linger.ms": 5,
                    "queue.buffering.max.messages": 500_000,
                    "reconnect.backoff.max.ms": 500,
                    "log_level": 2,
                }
            )
        return self._producers[edge]

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "aggregator.cli.main", *arguments, "--config", str(self.config)]

    def run(self, *arguments: str, timeout: float = 200) -> subprocess.CompletedProcess:
        """Run a command to its end."""
        return subprocess.run(
            self.command(*arguments), capture_output=True, text=True, timeout=timeout, env=environment(), check=False
        )

    def drain(self, *arguments: str, expect: int = 0, timeout: float = 200) -> subprocess.CompletedProcess:
        done = self.run("run", "--drain", *arguments, timeout=timeout)
        assert done.returncode == expect, done.stderr[-3000:]
        return done

    @contextmanager
    def running(self, *arguments: str):
        """The hub as a process group of its own; killed at the end, whatever happened."""
        log = (self.folder / f"run-{uuid.uuid4().hex[:4]}.log").open("w")
        process = LoggedProcess(
            self.command("run", *arguments),
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment(),
            start_new_session=True,
        )
        process.log = Path(log.name)
        try:
            yield process
        except BaseException:
            print("\n".join(process.log.read_text().splitlines()[-60:]))
            raise
        finally:
            kill_all(process)
            log.close()

    def control(self) -> list[tuple[str, dict]]:
        """The hub's control log: (key, body)."""
        log = read_all(self.sandbox.central.bootstrap, f"{self.hub}.control")
        return [(m.key().decode(), json.loads(m.value())) for m in log]

    def epochs(self) -> int:
        """Epochs that the hub has opened so far."""
        return sum(key == "epoch" for key, _ in self.control())

    def told_states(self, edge: str) -> list[tuple[float, str]]:
        """(central's stamp in seconds, state) of what the hub told of an edge, in order."""
        log = read_all(self.sandbox.central.bootstrap, f"{self.hub}.edge-status")
        found = [m for m in log if m.key() == f"state/{edge}".encode()]
        assert {m.timestamp()[0] for m in found} <= {2}, "LogAppendTime"
        return [(m.timestamp()[1] / 1000, json.loads(m.value())["state"]) for m in found]

    def ledger(self) -> dict[tuple[str, int], dict]:
        """Last ledger record of each flow of the trial's topic, by edge and partition, and where it lies."""
        last = {}
        for m in read_all(self.sandbox.central.bootstrap, f"{self.hub}.ledger"):
            edge, topic, partition = m.key().decode().split("/")
            body = json.loads(m.value()) | {"ledger_partition": m.partition()}
            at = (edge, int(partition))
            if topic == self.topic and body["epoch"] >= last.get(at, body)["epoch"]:
                last[at] = body
        return last

    @contextmanager
    def traffic(self, *edges: str, batch: int = 50, pause_s: float = 0.1, most: int = 2**31):
        """Orders arrive on these edges, each up to `most` in all, until the block ends; yields the counts so far."""
        produced, over = Counter(dict.fromkeys(edges, 0)), threading.Event()

        def flow() -> None:
            while not over.wait(pause_s) and min(produced.values()) < most:
                for edge in edges:
                    self.produce(edge, min(batch, most - produced[edge]))
                    produced[edge] += min(batch, most - produced[edge])

        thread = threading.Thread(target=flow)
        thread.start()
        try:
            yield produced
        finally:
            over.set()
            thread.join()

    def ends(self, topic: str) -> int:
        """Sum of a central topic's last stable offsets, 0 while it is not there: cheap enough to be asked often."""
        return sum(self._stable_ends(topic)[1])

    def _stable_ends(self, topic: str) -> tuple[str, tuple[int, ...]]:
        """Id and last stable offsets of a central topic; none while it is not there, or has no leaders."""
        admin = self.admin("central")
        try:
            (future,) = admin.describe_topics(TopicCollection([topic])).values()
            known = future.result(15)
            at = {TopicPartition(topic, one.id): OffsetSpec.latest() for one in known.partitions}
            asked = admin.list_offsets(at, isolation_level=IsolationLevel.READ_COMMITTED)
            return str(known.topic_id), tuple(future.result(15).offset for future in asked.values())
        except KafkaException:
            return "", ()

    def central_count(self, edge: str) -> int:
        """Records in the central copy of an edge, 0 while there is none; read when something was committed since."""
        topic = f"{edge}.{self.topic}"
        seen = self._stable_ends(topic)
        if not any(seen[1]):
            return 0
        if self._counted.get(topic, ((), 0))[0] != seen:
            self._counted[topic] = seen, len(self.central_records(edge))
        return self._counted[topic][1]

    def central_records(self, edge: str, topic: str | None = None) -> list:
        """Everything that a read_committed reader finds in the central copy, in log order per partition."""
        return read_all(self.sandbox.central.bootstrap, topic or f"{edge}.{self.topic}")

    def origins(self, edge: str) -> list[tuple[int, int, int]]:
        """(partition, incarnation, offset) of each central record, from its `hub.origin`, in log order."""
        found = []
        for message in self.central_records(edge):
            origin = dict(message.headers())["hub.origin"].decode().split("/")
            assert origin[:3] == [self.hub, edge, self.topic]
            found.append((int(origin[3]), int(origin[5]), int(origin[4])))
        return found

    def numbers(self, edge: str) -> list[int]:
        """Order numbers at central."""
        return [order["id"] for order in self.orders(edge)]

    def orders(self, edge: str) -> list[dict]:
        """Orders at central, decoded with central's own schema, which is registered before the first of them."""
        found = [message.value() for message in self.central_records(edge)]
        schemas = {}
        for path in (self.folder / "central-schemas").glob("*/*.avsc"):
            schemas[int(path.stem.split("-")[1])] = fastavro.parse_schema(json.loads(path.read_text()))
        return [
            fastavro.schemaless_reader(io.BytesIO(value[5:]), schemas[int.from_bytes(value[1:5], "big")])
            for value in found
            if value is not None
        ]

    def lake(self, columns: str = "_edge, _partition, _incarnation, _offset") -> list[tuple]:
        """Rows of the lake table, by DuckDB over the live file list."""
        if self.lake_version() < 0:
            return []
        files = DeltaTable(str(self.folder / "lake" / self.topic)).file_uris()
        if not files:  # its first commit makes the table, without records
            return []
        with duckdb.connect() as connection:
            return connection.sql(f"select {columns} from read_parquet({files!r}, union_by_name=true)").fetchall()

    def lake_version(self) -> int:
        """Version of the lake table, -1 before its first commit."""
        commits = (self.folder / "lake" / self.topic / "_delta_log").glob("*.json")
        return max((int(commit.stem) for commit in commits), default=-1)

    def letters(self) -> list[dict]:
        """Dead letters of this hub."""
        return [json.loads(m.value()) for m in read_all(self.sandbox.central.bootstrap, f"{self.hub}.dead-letters")]

    def typed(self, *arguments: str) -> Result:
        """A command in this process, with its slots and the lake's tasks; a process and a Spark of its own load for
        seconds.
        """
        with without_spark():
            group = LazyGroup("aggregator", table=COMMANDS)
            return CliRunner().invoke(group, [*arguments, "--config", str(self.config)])

    def drain_here(self, *arguments: str, expect: int = 0) -> Result:
        """As `drain`, in this process: for what is not about Spark or processes."""
        done = self.typed("run", "--drain", *arguments)
        assert done.exit_code == expect, (done.output, done.exception)
        return done

    def status(self, *arguments: str) -> dict:
        """What `status` says."""
        done = self.typed("status", "-o", "json", *arguments)
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    def check_exactly_once(self, edge: str, produced: int, *, lake: bool = True) -> None:
        """I1, I2, I4: numbers 0…produced-1 once each at central, in order per partition, and the same in the lake."""
        numbers = Counter(self.numbers(edge))
        assert not [n for n, times in numbers.items() if times > 1], "duplicates at central"
        wrong = set(numbers) ^ set(range(produced))
        assert not wrong, f"lost or invented at central: {sorted(wrong)[:20]}"
        origins = self.origins(edge)
        for partition in {p for p, _, _ in origins}:
            offsets = [(i, o) for p, i, o in origins if p == partition]
            assert offsets == sorted(offsets), f"reordered in partition {partition}"
        if not lake:
            return
        rows = Counter(row[1:] for row in self.lake() if row[0] == edge)
        assert rows == Counter((p, i, o) for p, i, o in origins), "lake and central differ"


@contextmanager
def without_spark():
    """Commands that this process runs in the block have their slots and the lake's tasks in its threads."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("os.nice", lambda _: 0)  # for good, and this process runs other tests
        for module in (session, backfill_run):
            patched.setattr(module, "open_session", lambda *_: LocalSpark())
        yield


def read_all(bootstrap: str, topic: str, isolation: str = "read_committed") -> list:
    """Read a whole topic with a plain consumer to its end; a transaction that stays open is left out."""
    options = {
        "bootstrap.servers": bootstrap,
        "group.id": uuid.uuid4().hex,
        "enable.partition.eof": True,
        "auto.offset.reset": "earliest",
    }
    # A read_committed watermark is the last stable offset, which a commit that was answered may not have moved yet.
    ends = Consumer(options | {"isolation.level": "read_uncommitted"})
    consumer = Consumer(options | {"isolation.level": isolation})
    try:
        partitions = ends.list_topics(topic, timeout=10).topics[topic].partitions
        high = {partition: _watermark(ends, topic, partition) for partition in partitions}
        patience = time.monotonic() + 3
        while (left := {p: _watermark(consumer, topic, p) for p in partitions}) != high and time.monotonic() < patience:
            time.sleep(0.05)
        consumer.assign([TopicPartition(topic, partition, 0) for partition in left])
        found = []
        deadline = time.monotonic() + 60
        reached = set()
        while len(reached) < len(left):
            assert time.monotonic() < deadline, f"{topic} could not be read to its end"
            for message in consumer.consume(5000, 0.1):
                at_end = message.offset() >= left[message.partition()]
                if message.error() is None:
                    found.append(message)
                    at_end = message.offset() >= left[message.partition()] - 1
                if at_end:
                    reached.add(message.partition())
        return found
    finally:
        ends.close()
        consumer.close()


def _watermark(consumer: Consumer, topic: str, partition: int) -> int:
    """The end of a partition; one whose leader does not know yet that it leads is asked again."""
    deadline = time.monotonic() + 10
    while True:
        try:
            return consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=10)[1]
        except KafkaException as error:
            if error.args[0].code() != KafkaError.NOT_LEADER_FOR_PARTITION or time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def incompressible(size: int) -> bytes:
    """Text of this many bytes, half of which no codec saves: central's bounds are of compressed batches."""
    return os.urandom(size // 2).hex().encode()


def settle(futures) -> None:
    """Wait for what an admin client was asked to do."""
    for future in futures.values():
        future.result(15)


def starved_s() -> float:
    """Seconds in which something on this machine waited for a processor; none where the kernel does not count them."""
    try:
        return int(Path("/proc/pressure/cpu").read_text().split("total=")[1].split()[0]) / 1e6
    except (OSError, IndexError):
        return 0.0


def wait_for(condition, *, timeout: float, what: str):
    """Poll until `condition()` is true; returns its value.

    `timeout` is of a machine that has time: where others take it, as much more is given, thrice as much at most.
    """
    began, starved = time.monotonic(), starved_s()
    while time.monotonic() - began < timeout + min(starved_s() - starved, 2 * timeout):
        value = condition()
        if value:
            return value
        time.sleep(0.1)
    waited = f"{time.monotonic() - began:.0f} s, in {starved_s() - starved:.0f} of which the machine was short of time"
    raise AssertionError(f"{what} did not happen within {timeout} s (waited {waited})")


def seeded() -> random.Random:
    """A generator whose seed is printed, and taken from SEED where that is set."""
    seed = int(os.environ.get("SEED") or random.SystemRandom().randrange(2**32))
    print(f"SEED={seed}")
    return random.Random(seed)
