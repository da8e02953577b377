"""Describes the result of one commit at the gate, and finishes a commit that another process decided.

Invariant: a range that the quarantine's commit decided is published by that decision, whichever process finds it.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from aggregator.lake.cycle.commit import CommitResult
from aggregator.lake.cycle.ranges import StagingOutcome, TableHold
from aggregator.lake.quality.quarantine import Quarantine
from aggregator.lake.quality.verdict_log import append_completion, range_of
from aggregator.lake.quality.verdicts import Verdict
from aggregator.lake.tables.port import TableHandle


@dataclass(frozen=True, slots=True)
class Published:
    """Describes what the gate did with one commit.

    Attributes:
        result: The result of the table's own commit.
        held: Ranges that the gate holds.
        verdict: None where there was nothing to audit.
        diverted: Records that went into the quarantine.
        audit_s: What the gate took, in seconds.
        commit_s: What the commits took, in seconds.
    """

    result: CommitResult
    held: tuple[TableHold, ...] = ()
    verdict: Verdict | None = None
    diverted: int = 0
    audit_s: float = 0.0
    commit_s: float = 0.0


def complete(
    quarantine: Quarantine, handle: TableHandle | None, outcomes: Sequence[StagingOutcome], *, now_s: float
) -> Published:
    """Publish what is decided and not yet in the table.

    Args:
        quarantine: The table's.
        handle: The table's, whose positions the outcomes were planned from.
        outcomes: Staged from the range that is pending, and from nothing else.
        now_s: Seconds since 1970.

    Raises:
        RetryError: the storage does not answer; the range stays pending.
    """
    begun = time.monotonic()
    result = quarantine.complete(handle, outcomes)
    if result.version is not None:
        ranges = [range_of(one.span) for outcome in result.settled.accepted for one in outcome.reached]
        append_completion(quarantine.lake, quarantine.table, result.version, ranges, now_s=now_s)
    return Published(result, commit_s=time.monotonic() - begun)
