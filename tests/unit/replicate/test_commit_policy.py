"""What the commit policy makes of latency and throughput, on a slot loop in simulated time."""

from dataclasses import dataclass, field

import pytest

from aggregator.replicate.slot.commit_policy import CommitPolicy
from aggregator.replicate.slot.slot import POLL_RECORDS

COMMIT_POLICY = CommitPolicy(interval_s=0.5, limit_bytes=16 * 1024 * 1024)
ROUND_S, RECORD_S, RECORD_BYTES = 0.0005, 8e-6, 160


@dataclass
class Ran:
    """How long each record waited to be visible, and the share of time that commits took."""

    waited_s: list[float] = field(default_factory=list)
    commit_share: float = 0.0

    def percentile_ms(self, share: float) -> float:
        return sorted(self.waited_s)[int(len(self.waited_s) * share)] * 1e3


def ran(*, rate: float, commit_s: float, seconds: float = 5.0, backlog: int = 0) -> Ran:
    """The slot's loop: poll what is there, deliver it, commit when due; a commit is visible when it is answered."""
    now, taken, opened, committing, result = 0.0, 0, None, 0.0, Ran()
    pending: list[float] = []
    while now < seconds:
        there = backlog + int(now * rate)
        got = min(POLL_RECORDS, there - taken)
        pending += [max(0.0, (taken + n - backlog) / rate) for n in range(got)]
        taken += got
        now += ROUND_S + got * RECORD_S
        if got and opened is None:
            opened = now
        if opened is None:
            continue
        size = len(pending) * RECORD_BYTES
        behind = got == POLL_RECORDS
        if COMMIT_POLICY.due(
            pending_bytes=size, open_s=now - opened, drained=not got, behind=behind, commit_s=commit_s
        ):  # fmt: skip
            now += commit_s
            committing += commit_s
            result.waited_s += [now - at for at in pending]
            pending, opened = [], None
    result.commit_share = committing / now
    return result


@pytest.mark.parametrize("rate", [1_000, 20_000])
@pytest.mark.parametrize(("commit_s", "median_ms", "p99_ms"), [(0.003, 25, 50), (0.005, 25, 50), (0.02, 50, 100)])
def test_a_slot_that_keeps_up_shows_records_soon(rate, commit_s, median_ms, p99_ms):
    """Also where each poll brings something, so that the readers are never drained."""
    found = ran(rate=rate, commit_s=commit_s)
    assert found.percentile_ms(0.5) <= median_ms
    assert found.percentile_ms(0.99) <= p99_ms
    assert found.commit_share < 0.51


def test_a_backlog_pays_for_throughput_only():
    """Full polls: transactions are as long as interval and bytes allow, and commits take a hundredth of the time."""
    found = ran(rate=1_000, commit_s=0.005, backlog=2_000_000)
    assert found.commit_share < 0.02


def test_after_a_backlog_latency_counts_again():
    """Two seconds behind, then as soon as ever: nothing of the backlog stays behind."""
    found = ran(rate=20_000, commit_s=0.005, seconds=20.0, backlog=40_000)
    late = found.waited_s[len(found.waited_s) // 2 :]
    assert max(late) < 0.1
