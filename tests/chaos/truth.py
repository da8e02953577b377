"""What the edges acknowledged, and whether central and the lake have exactly that: the judge of the mixed trials.

Invariant: nothing here asks the code under test, but for what it must *name* itself: dead letters and gaps.
"""

import itertools
from collections import Counter, defaultdict
from dataclasses import dataclass

from tests.trial import read_all

POISON = b"\xffnot a record of any schema"


@dataclass(frozen=True)
class Verdict:
    """What a trial left: all but `records`, `dead` and `gap` must be 0.

    Attributes:
        records: Acknowledged by both edges.
        dead: Poison that is a dead letter, once.
        gap: Records in ranges that were named and accepted.
        lost: Acknowledged, and neither at central, nor a dead letter, nor in a named gap.
        duplicated: More than once at central, in dead letters, or in the table.
        invented: At central, dead or in a gap without having been acknowledged, or in two of these places.
        reordered: Neighbours at central in another order than on the edge.
        unlike: Rows by which lake and central differ.
    """

    records: int
    dead: int
    gap: int
    lost: int
    duplicated: int
    invented: int
    reordered: int
    unlike: int

    @property
    def clean(self) -> bool:
        """Whether every invariant holds."""
        return not (self.lost or self.duplicated or self.invented or self.reordered or self.unlike)


class Truth:
    """Coordinates of what each edge acknowledged: (edge, incarnation, partition, offset), and which are poison."""

    def __init__(self, trial) -> None:
        self._trial = trial
        self._lives: Counter[tuple[str, int]] = Counter()
        self.acknowledged: set[tuple] = set()
        self.poison: set[tuple] = set()

    def absorb(self, edge: str) -> None:
        """Take down what the edge's log has now; before each fault that takes records away, and at the end."""
        for message in read_all(self._trial.sandbox.edges[edge].bootstrap, self._trial.topic):
            partition = message.partition()
            at = (edge, self._lives[edge, partition], partition, message.offset())
            self.acknowledged.add(at)
            if message.value() == POISON:
                self.poison.add(at)

    def recreated(self, edge: str, partitions: int) -> None:
        """The edge's topic begins again; a partition that is added later has had no life before."""
        for partition in range(partitions):
            self._lives[edge, partition] += 1

    def flow(self, edge: str, partition: int) -> tuple[str, int, int]:
        """Edge, incarnation and partition, as they are now."""
        return edge, self._lives[edge, partition], partition

    def letters(self) -> list[dict]:
        """Dead letters of the trial's topic."""
        return [letter for letter in self._trial.letters() if letter["topic"] == self._trial.topic]

    def judge(self, gaps: set[tuple]) -> Verdict:
        """Compare with central, the dead letters, and the lake.

        Args:
            gaps: Coordinates in the ranges that the hub named and somebody accepted.
        """
        origins = [
            (edge, incarnation, partition, offset)
            for edge in self._trial.sandbox.edges
            for partition, incarnation, offset in self._trial.origins(edge)
        ]
        letters = [
            (letter["edge"], letter["incarnation"], letter["partition"], letter["offset"]) for letter in self.letters()
        ]
        rows = Counter((e, i, p, o) for e, p, i, o in self._trial.lake())
        central, dead = Counter(origins), Counter(letters)
        named = [set(central), set(dead), gaps]
        return Verdict(
            records=len(self.acknowledged),
            dead=len(self.poison & set(dead)),
            gap=len(gaps),
            lost=len(self.acknowledged - set.union(*named)),
            duplicated=sum(times - 1 for seen in (central, dead, rows) for times in seen.values()),
            invented=sum(map(len, named))
            - len(set.union(*named) & self.acknowledged)
            + len(self.poison & set(central)),
            reordered=_reordered(origins),
            unlike=(rows - central).total() + (central - rows).total(),
        )


def _reordered(origins: list[tuple]) -> int:
    by_flow = defaultdict(list)
    for edge, incarnation, partition, offset in origins:
        by_flow[edge, partition].append((incarnation, offset))
    return sum(a > b for log in by_flow.values() for a, b in itertools.pairwise(log))
