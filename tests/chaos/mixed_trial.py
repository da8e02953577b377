"""A mixed trial: faults drawn by a seed hit a hub under traffic; all is healed, drained, and judged.

Several trials follow one another on one hub, each with a topic of its own: a hub that runs for long has lived through
more than one fault. Invariant: a fault that did not hit makes its trial void, by an assertion of its own; one seed
draws the same faults.
"""

import contextlib
import json
import random
import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

from tests.chaos.promptness import Arrivals
from tests.chaos.replicas import REPLICATED, kill
from tests.chaos.supervisor import Supervised
from tests.chaos.truth import POISON, Truth, Verdict
from tests.processes import freeze, signal_all
from tests.trial import Trial, settle, wait_for

EDGES = ("eu", "us")
RECOVERY_S = 120.0
_PER_SECOND = 400


@dataclass
class Outcome:
    """One line of the table.

    Attributes:
        seed: Draws the same faults again.
        brokers: How many central and each edge had, as `3/1/1`.
        faults: What was injected, in order.
        recovered_s: Seconds from healing until everything acknowledged before was at central, by fault.
        verdict: What was left; None where it did not come to that.
        failure: Why it did not: something did not recover, or a fault did not hit.
    """

    seed: int
    brokers: str
    faults: list[str]
    recovered_s: list[tuple[str, float]] = field(default_factory=list)
    verdict: Verdict | None = None
    failure: str = ""

    @property
    def clean(self) -> bool:
        """Whether every invariant holds."""
        return self.verdict is not None and self.verdict.clean


class Feed:
    """Orders arrive on one edge until it is stopped; `paused` gives the edge to the injector alone.

    Args:
        trial: Whose topic.
        edge: Which edge.
        every_s: Between two batches: seldom, and a hub rests between transactions; often, and one is always open.
    """

    def __init__(self, trial: Trial, edge: str, every_s: float) -> None:
        self.acknowledged = 0
        self._trial = trial
        self._edge = edge
        self._every_s = every_s
        self._turn = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._flow)
        self._thread.start()

    def _flow(self) -> None:
        batch = round(_PER_SECOND * self._every_s)
        while not self._over.wait(self._every_s):
            with self._turn:
                self._trial.produce(self._edge, batch)
                self.acknowledged += batch

    @contextlib.contextmanager
    def paused(self):
        """Nothing else is written to the edge while the block runs."""
        with self._turn:
            yield self

    @property
    def flows(self) -> bool:
        """Whether more will come."""
        return not self._over.is_set()

    def stop(self) -> None:
        """No more orders."""
        self._over.set()
        self._thread.join()


class Ground:
    """A hub under supervision, with topics for as many trials as will follow one another on it.

    Attributes:
        hub: The life that is supervised; another one after a takeover.
    """

    def __init__(self, sandbox, lines, folder, *, trials: int, slots: int) -> None:
        folder.mkdir()
        self.lines = lines
        self.trial = Trial(sandbox, folder, slots=slots)
        self._topics = [f"{self.trial.topic}-{number}" for number in range(trials)]
        self.trial.settings["topics"][0]["match"] = f"{self.trial.topic}-.*"
        for topic in self._topics:
            self.trial.replace_policies(topic)
            for edge in EDGES:
                self.trial.create(edge)
        lines.lead(self.trial, *EDGES)
        self.hub = Supervised(self.trial)

    def __enter__(self) -> Self:
        self.hub.start()
        return self

    def __exit__(self, *_exception) -> None:
        self.hub.stop()
        for cluster in ("central", *EDGES):  # or the brokers of a long campaign would have ever more to recover
            there = self.trial.admin(cluster).list_topics(timeout=10).topics
            settle(self.trial.admin(cluster).delete_topics([name for name in there if self.trial.mark in name]))
        self.trial.close()

    def next_topic(self) -> None:
        """Turn to a topic that no trial has had."""
        self.trial.replace_policies(self._topics.pop(0))


class MixedTrial:
    """One trial: its traffic and its faults on a hub; drawn by the seed where none are given."""

    def __init__(self, ground: Ground, seed: int, faults: Sequence[str] = ()) -> None:
        self.rng = random.Random(seed)
        self.ground, self.trial, self.lines = ground, ground.trial, ground.lines
        ground.next_topic()
        self.truth = Truth(self.trial)
        self.gaps: set[tuple] = set()
        self._widths = dict.fromkeys(EDGES, 3)
        sandbox = self.trial.sandbox
        sizes = {cluster.name: len(cluster.brokers) for cluster in sandbox.clusters}
        self.replicated = next((cluster for cluster in sandbox.clusters if sizes[cluster.name] > 1), None)
        drawn = self._draw()
        self.outcome = Outcome(seed, "/".join(str(sizes[name]) for name in ("central", *EDGES)), list(faults) or drawn)

    def _draw(self) -> list[str]:
        """Three or four faults; where a cluster has three brokers, one of them is of those that only such a one has."""
        drawn = self.rng.sample(sorted(FAULTS), self.rng.choice((3, 4)))
        if self.replicated is not None:
            drawn[self.rng.randrange(len(drawn))] = self.rng.choice(sorted(REPLICATED))
        return drawn

    def run(self) -> Outcome:
        """Inject, heal, settle, judge."""
        every_s = random.Random(f"traffic {self.outcome.seed}").choice((0.1, 0.5, 0.5))
        self.feeds = {edge: Feed(self.trial, edge, every_s) for edge in EDGES}
        self.arrivals = {edge: Arrivals(self.trial, edge) for edge in EDGES}
        try:
            wait_for(lambda: all(feed.acknowledged for feed in self.feeds.values()), timeout=60, what="orders")
            self._recover("start")  # a fault that hits before a flow has a position is another trial
            for name in self.outcome.faults:
                healed = (FAULTS | REPLICATED)[name](self, self.rng.choice(EDGES))
                self.outcome.recovered_s.append((name, self._recover(name, healed)))
            for feed in self.feeds.values():
                feed.stop()
            self._recover("end")
            for edge in EDGES:
                self.truth.absorb(edge)
            self._await_lake()
        finally:
            self.trial.sandbox.central.thaw()
            for cluster in self.trial.sandbox.clusters:
                cluster.start()
            self.lines.heal()
            for feed in self.feeds.values():
                feed.stop()
            for one in self.arrivals.values():
                one.close()
        assert {code for code, _ in self.ground.hub.ends} <= {-9, 1, 6}, self.ground.hub.ends
        self.outcome.verdict = self.truth.judge(self.gaps)
        return self.outcome

    def _recover(self, name: str, healed: float | None = None) -> float:
        """Wait until all that is acknowledged by now is at central, and something newer; seconds since the healing.

        What was there before the fault proves nothing: a hub that was killed right after a commit lacks nothing.
        """
        began = healed or time.monotonic()
        for edge, feed in self.feeds.items():
            goal = feed.acknowledged + feed.flows - sum(at[0] == edge for at in self.gaps)
            self.arrivals[edge].reach(goal, timeout=RECOVERY_S)
        return round(time.monotonic() - began, 1)

    def _await_lake(self) -> None:
        """Give the table the time for a last commit; what it lacks after that is for the judge."""
        deadline = time.monotonic() + RECOVERY_S
        while time.monotonic() < deadline:
            if len(self.trial.lake()) >= sum(len(self.trial.central_records(edge)) for edge in EDGES):
                return
            time.sleep(1)

    def kill_hub(self, _edge: str) -> float:
        """SIGKILL of the driver, its JVM and its workers."""
        hub = self.ground.hub
        before = len(hub.ends)
        hub.kill()
        wait_for(lambda: len(hub.ends) > before, timeout=10, what="the end of the killed hub")
        assert hub.ends[-1][0] == -9
        return time.monotonic()

    def kill_edge(self, edge: str) -> float:
        """SIGKILL of an edge's broker."""
        broker = self.trial.sandbox.edges[edge]
        with self.feeds[edge].paused():
            kill(broker)
            time.sleep(self.rng.uniform(0, 3))
            broker.start()
        return time.monotonic()

    def kill_central(self, _edge: str) -> float:
        """SIGKILL of the central broker."""
        kill(self.trial.sandbox.central)
        time.sleep(self.rng.uniform(0, 2))
        self.trial.sandbox.central.start()
        return time.monotonic()

    def freeze_central(self, _edge: str) -> float:
        """SIGSTOP of the central broker, at times for longer than a transaction may last."""
        central = self.trial.sandbox.central
        freeze(central)
        time.sleep(self.rng.choice((2, 6, 18)))
        central.thaw()
        return time.monotonic()

    def cut_edge(self, edge: str) -> float:
        """The line to an edge resets everything."""
        proxy = self.lines.proxies[edge]
        before = proxy.seen["reset"] + proxy.seen["refused"]
        proxy.cut()
        time.sleep(self.rng.uniform(1, 8))
        assert proxy.seen["reset"] + proxy.seen["refused"] > before
        proxy.heal()
        return time.monotonic()

    def silence_edge(self, edge: str) -> float:
        """The line to an edge swallows what the broker says."""
        proxy = self.lines.proxies[edge]
        before = proxy.seen["silent-down"]
        proxy.silence("down")
        time.sleep(self.rng.uniform(1, 8))
        assert proxy.seen["silent-down"] > before
        proxy.heal()
        return time.monotonic()

    def take_over(self, _edge: str) -> float:
        """A second hub replaces the first, which ends with 6."""
        first, self.ground.hub = self.ground.hub, Supervised(self.trial, "--take-over")
        process = first.process
        self.ground.hub.start()
        try:
            assert process.wait(90) == 6, process.log.read_text()
        finally:
            first.stop()
        self.ground.hub.ends += [end for end in first.ends if end[0] != 6]
        return time.monotonic()

    def truncate(self, edge: str) -> float:
        """Retention overtakes a hub that stands still; the gap is named, and accepted."""
        with self.feeds[edge].paused() as feed:
            signal_all(self.ground.hub.process, signal.SIGSTOP)
            time.sleep(0.3)
            self.trial.produce(edge, 600)
            feed.acknowledged += 600
            self.truth.absorb(edge)
            end = max(at[3] for at in self.truth.acknowledged if at[:3] == self.truth.flow(edge, 0))
            self.trial.cut(edge, 0, end - 20)
        signal_all(self.ground.hub.process, signal.SIGCONT)
        time.sleep(3)  # what was polled before the stop is delivered, and the gap begins behind it
        gap = wait_for(lambda: self._open_gap(edge), timeout=60, what="the gap")
        assert gap["to"] == end - 20
        self.gaps |= {(*self.truth.flow(edge, 0), offset) for offset in range(gap["from"], gap["to"])}
        at = ("--edge", edge, "--topic", self.trial.topic, "--reason", "a trial", "--yes")
        done = self.trial.run("gaps", "accept", *at)
        assert done.returncode == 0, done.stderr
        return time.monotonic()

    def _open_gap(self, edge: str) -> dict | None:
        found = json.loads(self.trial.run("gaps", "list", "-o", "json").stdout or "[]")
        here = [gap for gap in found if (gap["edge"], gap["topic"]) == (edge, self.trial.topic)]
        return next((gap for gap in here if gap["state"] == "open"), None)

    def recreate(self, edge: str) -> float:
        """A topic is deleted and created again, two id checks apart."""
        with self.feeds[edge].paused() as feed:
            lost = sum(at[0] == edge for at in self.gaps)
            self.arrivals[edge].reach(feed.acknowledged - lost, timeout=RECOVERY_S)
            time.sleep(3)  # until the positions are committed and seen, this is no clean end of a topic
            self.truth.absorb(edge)
            self.trial.delete(edge)
            time.sleep(3)
            self.trial.create(edge, self._widths[edge])
            self.truth.recreated(edge, self._widths[edge])
            time.sleep(3)
        return time.monotonic()

    def widen(self, edge: str) -> float:
        """A partition more, with records of its own."""
        with self.feeds[edge].paused() as feed:
            self._widths[edge] += 1
            self.trial.widen(edge, self._widths[edge])
            time.sleep(1)
            last = self._widths[edge] - 1
            self.trial.produce_raw(edge, [(b"w", self.trial.value(n), last) for n in range(50)])
            feed.acknowledged += 50
        return time.monotonic()

    def poison(self, edge: str) -> float:
        """Records that nobody can decode, between others."""
        before = len(self.truth.letters())
        self.trial.produce_raw(edge, [(b"p", POISON, n % 3) for n in range(20)])
        wait_for(lambda: len(self.truth.letters()) >= before + 20, timeout=RECOVERY_S, what="the dead letters")
        return time.monotonic()


FAULTS = {
    "kill hub": MixedTrial.kill_hub,
    "kill edge broker": MixedTrial.kill_edge,
    "kill central": MixedTrial.kill_central,
    "freeze central": MixedTrial.freeze_central,
    "cut edge": MixedTrial.cut_edge,
    "silence edge": MixedTrial.silence_edge,
    "take over": MixedTrial.take_over,
    "truncate, accept": MixedTrial.truncate,
    "recreate topic": MixedTrial.recreate,
    "add partition": MixedTrial.widen,
    "poison": MixedTrial.poison,
}


def sizes(seed: int) -> dict[str, int]:
    """The cluster that has three brokers in a trial of this seed; in half of them central or an edge has."""
    drawn = random.Random(f"brokers {seed}").choice((None, None, "central", EDGES[0]))
    return {drawn: 3} if drawn else {}
