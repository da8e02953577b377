"""Where the hub runs: the way of a record and the bytes of the far line, with the edge far away or central.

    python -m tests.bench.wan --seconds 20 --rounds 2 -o json

The hub reaches its edge and its central through proxies, of which one, the other or none delays every byte by 40 ms
each way: 80 ms there and back. The demo's kind of traffic arrives at a steady pace. A record's way is from its
timestamp at the edge to a read_committed reader beside central, on one clock. Bytes are those that the two proxies
saw, both ways, by record. Rounds run all three places once, every second one in reverse.
"""

import argparse
import json
import statistics
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.chaos.lines import lined
from tests.trial import Trial, settle, wait_for

FAR_S = 0.04
PLACES = {"both_near": (), "edge_far": ("eu",), "central_far": ("us",)}
BATCH, PAUSE_S = 50, 0.05
_SETTLE_S = 8.0


class Ways(threading.Thread):
    """Reads central beside it, and notes how long each record was on its way.

    Attributes:
        taken_ms: One number for each record.
    """

    def __init__(self, servers: str, topic: str) -> None:
        super().__init__()
        self.taken_ms: list[int] = []
        self._over = threading.Event()
        self._reader = Consumer({"bootstrap.servers": servers, "group.id": "ways", "auto.offset.reset": "earliest"})
        self._reader.assign([TopicPartition(topic, partition) for partition in range(3)])

    def run(self) -> None:
        while not self._over.is_set():
            messages = self._reader.consume(1000, 0.02)
            now_ms = time.time() * 1000
            self.taken_ms += [round(now_ms - one.timestamp()[1]) for one in messages if one.error() is None]
        self._reader.close()

    def stop(self) -> None:
        """Read no more."""
        self._over.set()
        self.join()


def measure(trial: Trial, lines, far: tuple[str, ...], seconds: float) -> dict[str, float]:
    """One hub, one place."""
    lines.heal()
    for name in far:
        lines.proxies[name].slow(delay_s=FAR_S)
    central, topic = trial.sandbox.edges["us"].bootstrap, f"eu.{trial.topic}"
    admin = AdminClient({"bootstrap.servers": central})
    trial.create("eu")
    with trial.running("--only", "replicate") as hub, trial.traffic("eu", batch=BATCH, pause_s=PAUSE_S):
        wait_for(lambda: topic in admin.list_topics(timeout=10).topics, timeout=120, what="central's topic")
        ways = Ways(central, topic)
        ways.start()
        wait_for(lambda: ways.taken_ms, timeout=120, what="the first record")
        time.sleep(_SETTLE_S)
        before, seen = {name: bytes_of(lines, name) for name in ("eu", "us")}, len(ways.taken_ms)
        time.sleep(seconds)
        moved, taken = {name: bytes_of(lines, name) - before[name] for name in before}, ways.taken_ms[seen:]
        assert hub.poll() is None, hub.log.read_text()[-3000:]
        ways.stop()
    settle(admin.delete_topics([topic]))
    ranked = sorted(taken)
    return {
        "median_ms": statistics.median(ranked),
        "p99_ms": ranked[int(len(ranked) * 0.99)],
        "records_per_s": round(len(ranked) / seconds),
        "edge_line_bytes": round(moved["eu"] / len(ranked)),
        "central_line_bytes": round(moved["us"] / len(ranked)),
    }


def bytes_of(lines, name: str) -> int:
    """What a line carried, both ways."""
    return sum(lines.proxies[name].seen[way] for way in ("up", "down"))


def placed(sandbox, lines, folder: Path) -> Trial:
    """A hub whose central is the second cluster, and both over lines."""
    folder.mkdir()
    trial = Trial(sandbox, folder)
    trial.settings["edges"] = {"eu": trial.settings["edges"]["eu"] | {"bootstrap_servers": lines.proxies["eu"].address}}
    trial.settings["central"]["bootstrap_servers"] = lines.proxies["us"].address
    del trial.settings["lake"], trial.settings["topics"][0]["lake"]
    trial.write()
    return trial


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("-o", choices=["json"], default="json")
    options = parser.parse_args()
    found = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder, lined(Path(folder) / "clusters") as (sandbox, lines):
        for number in range(options.rounds):
            for name in list(PLACES)[:: -1 if number % 2 else 1]:
                trial = placed(sandbox, lines, Path(folder) / f"{name}-{number}")
                found[name].append(measure(trial, lines, PLACES[name], options.seconds))
                trial.close()
    answer = {
        "seconds": options.seconds,
        "rounds": options.rounds,
        "far_ms": round(2000 * FAR_S),
        "places": {
            name: {key: statistics.median(one[key] for one in ones) for key in ones[0]} for name, ones in found.items()
        },
    }
    print(json.dumps(answer, indent=2))


if __name__ == "__main__":
    main()
