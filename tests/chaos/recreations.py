"""A topic that is deleted and created again at once, again and again, under a hub that reads it."""

import json
import time
from collections import Counter, defaultdict

from confluent_kafka import KafkaError, KafkaException

from tests.trial import wait_for

TRIES = 30
# Each life begins with more than the one before had: whoever reads on at the old offset finds records there.
MORE = 30


class Lives:
    """The lives of an edge's topic: a record's timestamp is the number of its life, its own number is its alone.

    Attributes:
        present: The life that is there.
        awaited: Numbers of the records that every life began with.
    """

    def __init__(self, trial) -> None:
        self._trial = trial
        self._began_ms = int(time.time() * 1000)
        self._count = 0
        self.present = 0
        self.awaited: set[int] = set()

    def begin(self) -> None:
        """The topic is there, and has records at once."""
        self._append(MORE * (self.present + 1))
        self.awaited |= set(range(self._count - MORE * (self.present + 1), self._count))

    def end(self) -> None:
        """More records, and before all of them can have been read the topic is another one."""
        self._append(MORE - 3)
        self._trial.delete("eu")
        wait_for(self._created, timeout=30, what="the new topic")
        self.present += 1

    def _append(self, count: int) -> None:
        self._trial.produce("eu", count, timestamp_ms=self._began_ms + self.present)
        self._count += count

    def _created(self) -> bool:
        try:
            self._trial.create("eu")
        except KafkaException as failure:
            assert failure.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
            return False
        return True

    def arrived(self) -> bool:
        """Whether all that the lives began with is at central."""
        return self._trial.central_count("eu") > 0 and self.awaited <= set(self._trial.numbers("eu"))

    def judged(self, tries: int) -> None:
        """I1, I2, I4: each record once, under its own life; what is there of a life has no hole."""
        counts = Counter(self._trial.numbers("eu"))
        twice, lost = [number for number, times in counts.items() if times > 1], self.awaited - counts.keys()
        read, foreign = defaultdict(list), 0
        for message in self._trial.central_records("eu"):
            *_, partition, offset, incarnation = dict(message.headers())["hub.origin"].decode().split("/")
            read[partition, incarnation].append(int(offset))
            foreign += int(incarnation) != message.timestamp()[1] - self._began_ms
        said = {"lives": self.present + 1, "twice": len(twice), "lost": len(lost), "foreign": foreign}
        print(json.dumps(said))
        assert said == {"lives": tries + 1, "twice": 0, "lost": 0, "foreign": 0}
        assert all(offsets == list(range(len(offsets))) for offsets in read.values())


def recreated(trial, tries: int = TRIES) -> None:
    """The whole of it, with a hub that runs."""
    lives = Lives(trial)
    with trial.running("--only", "replicate") as hub:
        lives.begin()
        for number in range(tries + 1):
            wait_for(lives.arrived, timeout=120, what=f"all of life {number}")
            assert hub.poll() is None, hub.log.read_text()
            if number < tries:
                lives.end()
                lives.begin()
        hub.terminate()
        assert hub.wait(60) == 0, hub.log.read_text()
    lives.judged(tries)
