"""One slow edge and one that is not: what the other edge's throughput is worth while the first one crawls.

    python -m tests.bench.isolation -o json

One hub, one slot for both edges: the hardest case. A long backlog waits on the good edge, a trickle comes to the other.
Windows with and without the fault (256 kbit/s, 500 ms, 20 % loss) follow one another in the order without, with, with,
without, so that a machine that becomes slower or faster meets both alike; the ratio of the sums counts.
"""

import argparse
import itertools
import json
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.chaos.lines import Lines, lined
from tests.trial import Trial, wait_for

SLOW = {"bytes_per_s": 256_000 / 8, "delay_s": 0.5, "loss": 0.2}
_SETTLE_S = 0.5


@dataclass(frozen=True)
class Isolation:
    """Records per second of the edge that was not hit.

    Attributes:
        without_fault: Over all windows in which the other edge's line was as it should be.
        with_fault: Over all windows in which it was slow.
        ratio: The second by the first.
        slow_bytes: What passed the slow line: the fault's own proof.
        lost_packets: What it lost, and sent again.
        behind: Records of the slow edge that waited at the end of the last slow window.
    """

    without_fault: int
    with_fault: int
    ratio: float
    slow_bytes: int
    lost_packets: int
    behind: int


def measure(trial: Trial, lines: Lines, *, backlog: int, pairs: int = 2, window_s: float = 1.5) -> Isolation:
    """Alternate over `pairs` times two windows of each kind.

    Raises:
        AssertionError: the backlog was too short, or the fault did not hit.
    """
    proxy, topic = lines.proxies["eu"], f"us.{trial.topic}"
    lines.lead(trial, "eu")
    values = [trial.value(n) for n in range(1000)]
    trial.produce_raw("us", ((b"k", values[n % 1000], n % 3) for n in range(backlog)))
    moved, seconds, behind = {False: 0, True: 0}, {False: 0.0, True: 0.0}, 0
    with trial.traffic("eu", batch=200, pause_s=0.1) as produced, trial.running("--only", "replicate") as hub:
        wait_for(lambda: hub.poll() is not None or trial.ends(topic) > 0, timeout=120, what="the first record")
        wait_for(lambda: trial.ends(f"eu.{trial.topic}") > 0, timeout=60, what="the first record of the slow edge")
        for slow in itertools.chain.from_iterable([(False, True, True, False)] * pairs):
            proxy.slow(**SLOW) if slow else proxy.heal()
            time.sleep(_SETTLE_S)
            began, before = time.monotonic(), trial.ends(topic)
            time.sleep(window_s)
            moved[slow] += trial.ends(topic) - before
            seconds[slow] += time.monotonic() - began
            assert trial.ends(topic) < backlog, "the backlog was too short for the measurement"
            if slow:
                behind = produced["eu"] - trial.ends(f"eu.{trial.topic}")
        assert hub.poll() is None, hub.log.read_text()
    rates = {slow: moved[slow] / seconds[slow] for slow in moved}
    slow_bytes = proxy.seen["slow-down"]
    assert slow_bytes > 0 < proxy.seen["lost"], "the fault did not hit"
    assert behind > 0, "the slow edge was not slow"
    ratio = round(rates[True] / rates[False], 3)
    return Isolation(round(rates[False]), round(rates[True]), ratio, slow_bytes, proxy.seen["lost"], behind)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=8_000_000)
    parser.add_argument("--pairs", type=int, default=2)
    parser.add_argument("-o", choices=["json"], default="json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, lined(Path(folder) / "clusters") as (sandbox, lines):
        trial = Trial(sandbox, Path(folder))
        for edge in sandbox.edges:
            trial.create(edge)
        found = measure(trial, lines, backlog=options.records, pairs=options.pairs)
    print(json.dumps(asdict(found), indent=2))


if __name__ == "__main__":
    main()
