"""Counts the results for record keys, in report rows like those of fields, under a path that no field can have.

Invariants: no row holds a key. A key that does not match its format is counted as met and as rejected. A record without
a key is counted as a null.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

from aggregator.privacy.batch.strip import ReportRow
from aggregator.privacy.batch.tally import NULL, counted_rows
from aggregator.privacy.plan.plan import Row
from aggregator.privacy.policy.precedence import AppliedRule

PATH = "@key"


def key_path(inner: str) -> str:
    """The report's path of a part of an Avro key."""
    return PATH if inner in ("", ".") else f"{PATH}.{inner}"


class KeyTally:
    """Counts of one topic's keys, those of Avro keys' parts excepted."""

    def __init__(self) -> None:
        self._seen: Counter[Row] = Counter()
        self._rejected: Counter[Row] = Counter()

    def met(self, decision: AppliedRule, kind: str, seen: int, rejected: int = 0) -> None:
        """Count the keys of a batch.

        Args:
            decision: The rule that holds for them.
            kind: The format of the keys.
            seen: How many keys were there.
            rejected: How many of them are not what their format says.
        """
        if seen:
            row = Row(PATH, kind, (), decision.because, decision.rule.operator, decision.privacy_class)
            self._seen[row] += seen
            self._rejected[row] += rejected

    def missing(self, decision: AppliedRule, records: int) -> None:
        """Count records without a key."""
        self.met(decision, NULL, records)

    def rows(self, of_avro: Iterable[ReportRow]) -> Iterator[ReportRow]:
        """All rows: of the parts of Avro keys, and of keys as a whole."""
        for one in of_avro:
            yield one._replace(path=key_path(one.path))
        yield from counted_rows(self._seen, self._rejected)
