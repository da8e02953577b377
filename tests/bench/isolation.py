"""One edge in trouble and one that is not: what the other edge's throughput is worth meanwhile.

    python -m tests.bench.isolation -o json

One hub, one slot for both edges: the hardest case. A long backlog waits on the good edge, a trickle comes to the other.
Windows with and without the fault follow one another in the order without, with, with, without, so that a machine that
becomes slower or faster meets both alike; the ratio of the sums counts.
"""

import argparse
import itertools
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from tests.chaos.lines import Lines, lined, password_settings
from tests.chaos.proxy import Proxy, flapping
from tests.trial import Trial, settle, wait_for

SLOW = {"bytes_per_s": 256_000 / 8, "delay_s": 0.5, "loss": 0.2}
# Nothing can be read in a line's moments between two cuts.
_TOO_SHORT_S = 0.07
_SETTLE_S = 0.5


@dataclass(frozen=True)
class Isolation:
    """Records per second of the edge that was not hit.

    Attributes:
        without_fault: Over all windows in which the other edge was as it should be.
        with_fault: Over all windows in which it was in trouble.
        ratio: The second by the first; none where nothing moved without a fault either.
        waits: By how many records the edge in trouble fell behind in these windows: the fault's own proof.
    """

    without_fault: int
    with_fault: int
    ratio: float
    waits: int


@contextmanager
def _slow(proxy: Proxy) -> Iterator[None]:
    """256 kbit/s, half a second, and a fifth of the packets lost."""
    proxy.slow(**SLOW)
    try:
        yield
    finally:
        proxy.heal()


@contextmanager
def _cut(proxy: Proxy) -> Iterator[None]:
    """Every connection is reset, and each new one."""
    proxy.cut()
    try:
        yield
    finally:
        proxy.heal()


@contextmanager
def _wrong_password(trial: Trial) -> Iterator[None]:
    """The edge's broker comes back with another password than the hub's."""
    broker = trial.sandbox.edges["eu"]
    broker.kill()
    broker.start(password_settings("another"))
    try:
        yield
    finally:
        broker.kill()
        broker.start()


FAULTS = ("slow", "cut", "flapping", "wrong password")


def _fault(name: str, trial: Trial, lines: Lines) -> Callable[[], AbstractContextManager[None]]:
    """Point the hub's configuration at an edge that can be hit so; what hits it."""
    if name == FAULTS[-1]:
        lines.guard(trial, "eu")
        return lambda: _wrong_password(trial)
    lines.lead(trial, "eu")
    hits = {"slow": _slow, "cut": _cut, "flapping": partial(flapping, whole_s=_TOO_SHORT_S)}[name]
    return lambda: hits(lines.proxies["eu"])


def measure(
    trial: Trial, lines: Lines, fault: str, *, backlog: int, pairs: int = 2, window_s: float = 1.5
) -> Isolation:
    """Alternate over `pairs` times two windows of each kind.

    Raises:
        AssertionError: the backlog was too short, or the fault did not hit.
    """
    hit, good, bad = _fault(fault, trial, lines), f"us.{trial.topic}", f"eu.{trial.topic}"
    end = trial.ends(good) + backlog
    values = [trial.value(n) for n in range(1000)]
    trial.produce_raw("us", ((b"k", values[n % 1000], n % 3) for n in range(backlog)))
    moved, seconds, waits = {False: 0, True: 0}, {False: 0.0, True: 0.0}, 0
    with (
        trial.traffic("eu", batch=200, pause_s=0.1) as produced,
        trial.running("--only", "replicate") as hub,
        ExitStack() as hits,
    ):
        for topic in (good, bad):
            wait_for(
                lambda at=topic: hub.poll() is not None or trial.ends(at) > 0, timeout=120, what=f"{topic}'s first"
            )
        was_hit = False
        for is_hit in itertools.chain.from_iterable([(False, True, True, False)] * pairs):
            if is_hit and not was_hit:
                hits.enter_context(hit())
            elif was_hit and not is_hit:
                hits.close()
            was_hit = is_hit
            time.sleep(_SETTLE_S)
            began, before, waiting = time.monotonic(), trial.ends(good), produced["eu"] - trial.ends(bad)
            time.sleep(window_s)
            moved[is_hit] += trial.ends(good) - before
            seconds[is_hit] += time.monotonic() - began
            assert trial.ends(good) < end, "the backlog was too short for the measurement"
            waits += (produced["eu"] - trial.ends(bad) - waiting) * is_hit
        assert hub.poll() is None, hub.log.read_text()
    assert waits > 0, "the fault did not hit"
    rates = {is_hit: moved[is_hit] / seconds[is_hit] for is_hit in moved}
    ratio = rates[True] / rates[False] if rates[False] else 0.0
    return Isolation(round(rates[False]), round(rates[True]), round(ratio, 3), waits)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=16_000_000)
    parser.add_argument("--pairs", type=int, default=2)
    parser.add_argument("--faults", nargs="+", choices=FAULTS, default=FAULTS)
    parser.add_argument("-o", choices=["json"], default="json")
    options = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory() as folder, lined(Path(folder) / "clusters") as (sandbox, lines):
        for fault in options.faults:
            with tempfile.TemporaryDirectory() as own:
                trial = Trial(sandbox, Path(own))
                for edge in sandbox.edges:
                    trial.create(edge)
                found[fault] = asdict(measure(trial, lines, fault, backlog=options.records, pairs=options.pairs))
                for cluster, topic in (("us", trial.topic), ("central", f"us.{trial.topic}")):
                    settle(trial.admin(cluster).delete_topics([topic]))
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
