"""What an edge costs while nothing arrives, and what a longer `fetch.wait.max.ms` takes from it.

    python -m tests.bench.idle --seconds 20 -o json

One edge with one topic, one slot, and a line that counts bytes both ways. A silent edge is measured with few partitions
and with many, at the hub's own wait and at Kafka's. Then one partition gets a backlog, which the slot reads while its
neighbours stay silent: the speed is that between a fifth and nine tenths of it.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

from tests.bench.wan import bytes_of
from tests.chaos.lines import lined
from tests.trial import Trial, wait_for

WAITS_MS = (50, 500)
PARTITIONS = (10, 200)
_SETTLE_S = 10.0


def measure(trial: Trial, lines, partitions: int, seconds: float, backlog: int) -> dict[str, float]:
    """One hub at one wait."""
    trial.create("eu", partitions)
    topic = f"eu.{trial.topic}"
    with trial.running("--only", "replicate") as hub:
        trial.produce("eu", 3)
        wait_for(lambda: trial.ends(topic) >= 3, timeout=120, what="the first records")
        time.sleep(_SETTLE_S)
        before = bytes_of(lines, "eu")
        time.sleep(seconds)
        idle = (bytes_of(lines, "eu") - before) / seconds
        assert trial.run("edge", "pause", "eu", "--reason", "a backlog").returncode == 0
        trial.produce_raw("eu", ((b"k", trial.value(n), 0) for n in range(backlog)))
        assert trial.run("edge", "resume", "eu").returncode == 0
        began_s = _reached(trial, topic, 0.2 * backlog)
        took_s = _reached(trial, topic, 0.9 * backlog) - began_s
        assert hub.poll() is None, hub.log.read_text()[-3000:]
    return {"bytes_per_s": round(idle), "records_per_s": round(0.7 * backlog / took_s)}


def _reached(trial: Trial, topic: str, records: float) -> float:
    """When central had so many."""
    wait_for(lambda: trial.ends(topic) >= records, timeout=300, what=f"{records:,.0f} records at central")
    return time.monotonic()


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--backlog", type=int, default=1_000_000)
    parser.add_argument("-o", choices=["json"], default="json")
    options = parser.parse_args()
    found: dict[str, dict[str, dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as folder, lined(Path(folder) / "clusters") as (sandbox, lines):
        for partitions in PARTITIONS:
            for wait_ms in WAITS_MS:
                (home := Path(folder) / f"{partitions}-{wait_ms}").mkdir()
                trial = Trial(sandbox, home)
                lines.lead(trial, "eu")
                del trial.settings["edges"]["us"], trial.settings["lake"], trial.settings["topics"][0]["lake"]
                trial.settings["edges"]["eu"]["consumer"] = {"fetch.wait.max.ms": wait_ms}
                trial.write()
                figures = measure(trial, lines, partitions, options.seconds, options.backlog)
                found.setdefault(f"{partitions}", {})[f"{wait_ms}"] = figures
                trial.close()
    print(json.dumps({"seconds": options.seconds, "backlog": options.backlog, "idle": found}, indent=2))


if __name__ == "__main__":
    main()
