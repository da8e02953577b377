"""What MirrorMaker 2 leaves at central, written as it writes it, by tests that do not start it."""

import json
from contextlib import contextmanager

from confluent_kafka import Consumer, Producer

from tests.trial import read_all, wait_for

CONNECTOR = "MirrorSourceConnector"


class MirrorMaker2:
    """What MirrorMaker 2 leaves at central for one source, under an alias of its own."""

    def __init__(self, trial, *, tasks: int = 0):
        self.trial = trial
        self.source = f"eu-{trial.mark}"
        self.group = f"{self.source}-mm2"
        self.offsets, self.configs = (f"mm2-{kind}.{self.source}.internal" for kind in ("offsets", "configs"))
        self.bootstrap = trial.sandbox.central.bootstrap
        trial.create("central", 25, topic=self.offsets, cleanup_policy="compact")
        trial.create("central", 1, topic=self.configs, cleanup_policy="compact")
        if tasks:
            self.write(self.configs, f"tasks-fencing-{CONNECTOR}", {"task-count": tasks})
        trial.settings["topics"] = [
            {
                "match": trial.topic,
                "policy": "policy.yaml",
                "edges": ["eu"],
                "start": {"mirrormaker2": {"source": self.source}},
            }
        ]
        trial.write()

    def key(self, partition: int) -> str:
        """As Connect's converter writes it."""
        of = {"cluster": self.source, "partition": partition, "topic": self.trial.topic}
        return json.dumps([CONNECTOR, of], separators=(",", ":"))

    def write(self, topic: str, key: str, value: dict | None) -> None:
        """One record, where Java's producer would put it."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "partitioner": "murmur2_random", "log_level": 2})
        text = None if value is None else json.dumps(value, separators=(",", ":"))
        producer.produce(topic, text, key)
        assert producer.flush(20) == 0

    def copied(self, partition: int, offset: int | None) -> None:
        """The offset of the last record that it has copied."""
        self.write(self.offsets, self.key(partition), None if offset is None else {"offset": offset})

    def kept(self) -> dict[int, list[tuple[int, int | None]]]:
        """By source partition, where each of its records lies and the offset in it, in log order."""
        found: dict[int, list[tuple[int, int | None]]] = {}
        for m in read_all(self.bootstrap, self.offsets):
            at = json.loads(m.key())[1]["partition"]
            found.setdefault(at, []).append((m.partition(), json.loads(m.value())["offset"] if m.value() else None))
        return found

    @contextmanager
    def alive(self):
        """A member of its group."""
        member = Consumer({"bootstrap.servers": self.bootstrap, "group.id": self.group, "session.timeout.ms": 6000})
        member.subscribe([self.configs])
        wait_for(lambda: member.poll(0.1) is not None or member.assignment(), timeout=20, what="joining")
        try:
            yield
        finally:
            member.close()
