"""Writes warnings to the log: what an edge will soon delete unread, what it has lost, and why a flow is not read.

Invariant: a warning is logged once, again each hour while it holds, and anew after it was over.
"""

import logging
import shlex
import time
from collections.abc import Collection, Iterable, Mapping

from aggregator.config.patterns import literal
from aggregator.count_text import format_count
from aggregator.edges.availability import AvailabilityState
from aggregator.errors import in_one_line
from aggregator.observe.edge_logs import EdgeLogs
from aggregator.observe.gaps import KnownGap
from aggregator.observe.hub_status import Trouble
from aggregator.repeated_warnings import RepeatedWarnings
from aggregator.replicate.flow.cursor import HoldReason
from aggregator.replicate.flow.gaps import sentence
from aggregator.state.telemetry import SlotReport, StandStill

_LEVELS = {
    AvailabilityState.STALLED: logging.WARNING,
    AvailabilityState.UNREACHABLE: logging.WARNING,
    AvailabilityState.LOSING_DATA: logging.ERROR,
}
# The code of a line in the log, by the first word of its subject.
CODES = {
    "damaged": "topic.foreign_record",
    "dead": "letter.written",
    "gap": "flow.gap",
    "margin": "flow.retention_short",
    "trouble": "flow.stands_still",
}
log = logging.getLogger(__name__)


class Warnings:
    """Logs warnings, and remembers which were logged."""

    def __init__(self) -> None:
        self._repeated = RepeatedWarnings()

    def say(self, found: Mapping[str, str]) -> None:
        """Log what is new, and what has stood for another hour.

        Args:
            found: Sentences by what they are about.
        """
        for subject, line in self._repeated.due(found, time.monotonic()).items():
            log.warning("%s", in_one_line(line), extra={"code": CODES[subject.partition(" ")[0]]})


def level_of(state: AvailabilityState | None, *, maintenance: bool) -> int:
    """The log level of an edge's new state; a maintenance window was announced."""
    return logging.INFO if maintenance or state is None else _LEVELS.get(state, logging.INFO)


def held_flows(slots: Iterable[SlotReport], refused: Mapping[str, tuple[str, str]]) -> frozenset[str]:
    """Flows that stand still for a reason that is known."""
    return frozenset(refused).union(*(slot.held for slot in slots))


def troubles(slots: Iterable[SlotReport], refused: Mapping[str, tuple[str, str]]) -> dict[str, Trouble]:
    """The reasons why flows are not read, by flow, without gaps, which have their own list.

    Args:
        slots: What the slots that run say.
        refused: What no slot got, as the driver says: a word and a sentence.
    """
    held = [(source, StandStill(*why)) for source, why in refused.items()]
    found = dict[str, Trouble]()
    for slot in slots:
        held += slot.held.items()
        found |= {source: Trouble(f"waits and tries again, {why}") for source, why in slot.waiting.items()}
    return {source: Trouble.of_held(why) for source, why in held if why.reason != HoldReason.GAP} | found


def foreign(damaged: Mapping[str, int]) -> dict[str, str]:
    """Warnings about foreign records in the hub's topics; they repeat when the number has grown tenfold.

    Args:
        damaged: Number of foreign records, by topic.
    """
    return {
        f"damaged {topic} {len(str(count))}": f"{topic}: {format_count(count, 'record')} passed over, none of ours:"
        " who else may write this topic? nothing but the hub should"
        for topic, count in damaged.items()
    }


def dead_letters(letters: Mapping[tuple[str, str, str], int]) -> dict[str, str]:
    """Warnings about records that became dead letters since somebody looks; they repeat at ten times as many.

    Args:
        letters: Number of letters by edge, topic and reason.
    """
    return {
        f"dead {edge} {topic} {reason} {len(str(count))}": f"{edge}/{topic}: {format_count(count, 'dead letter')}"
        f" ({reason}): aggregator dlq list --edge {edge} --topic {shlex.quote(literal(topic))}"
        for (edge, topic, reason), count in letters.items()
        if count
    }


def warnings(
    logs: Mapping[str, EdgeLogs], gaps: Collection[KnownGap], troubled: Mapping[str, str], *, warning_ms: int
) -> dict[str, str]:
    """The warnings by subject.

    Args:
        logs: Logs of each edge that told of them.
        gaps: Gaps that hold flows.
        troubled: Texts of `troubles`.
        warning_ms: See `replication.retention_warning`.
    """
    found = {
        f"margin {source}": f"{source}: the edge deletes unread records in {margin.left_ms / 1000:.0f} s; it keeps them"
        f" for {margin.keeps_ms / 1000:.0f} s: raise its retention, or look why this flow is behind"
        for seen in logs.values()
        for source, margin in seen.margins.items()
        if margin.is_short(warning_ms)
    }
    for gap in gaps:
        why = sentence(gap.gap, gap.position.next_offset)
        found[f"gap {gap.source} {gap.position}"] = f"{gap.source} is held: {why}; see `aggregator gaps list`"
    return found | {f"trouble {source} {why}": f"{source}: {why}" for source, why in troubled.items()}
