"""Reports how a run ended: what it did not complete, in sentences on stderr and as an exit code."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from aggregator.cli.terminal.output import progress
from aggregator.config.model import HubConfig
from aggregator.coordinates import EdgePartition, format_flows
from aggregator.errors import ExitCode, in_one_line
from aggregator.state.lake_holds import format_places, group_by_reason
from aggregator.state.names import HubNames

if TYPE_CHECKING:
    from aggregator.replicate.driver import RunReport
    from aggregator.replicate.flow.cursor import Hold
    from aggregator.state.lake_holds import LakeHold


def report_end(
    config: HubConfig, report: "RunReport", held: "Sequence[LakeHold]", *, drained: bool, judged: bool
) -> ExitCode:
    """Print what the run did not complete, and return the exit code."""
    stood = [f"held: the lake: {format_places(holds)}: {reason}" for holds, reason in group_by_reason(held)]
    for sentence in (*_sentences(config, report, drained=drained), *stood):
        for line in sentence.split("\n"):
            progress(line)
    return exit_code(report, lake_held=bool(held)) if judged else ExitCode.DONE


def exit_code(report: "RunReport", *, lake_held: bool) -> ExitCode:
    """Translate what a run left behind: 5 for a gap, 4 for anything else that stood still, else 0."""
    from aggregator.replicate.flow.cursor import HoldReason

    if any(hold.reason == HoldReason.GAP for hold in report.holds):
        return ExitCode.DATA_LOSS
    stands = (
        report.holds
        or report.undrained
        or report.silent
        or report.undecided_partitions
        or report.foreign_clusters
        or lake_held
    )
    return ExitCode.HELD if stands else ExitCode.DONE


def _totals(config: HubConfig) -> Iterator[str]:
    """The totals of each edge since the hub's first start, from the ledger's own counters."""
    from aggregator.state.ledger import totals
    from aggregator.state.ledger_log import read_ledger

    ledger = read_ledger(config.central, HubNames(config.hub))
    for edge in config.edges:
        sums = totals(ledger, edge)
        counted = f"{sums.delivered:,} delivered, {sums.dead:,} dead letters, {sums.suppressed:,} suppressed"
        yield f"{edge}: {counted} since the first start"
        if sums.dead:
            yield f"  which and why: aggregator dlq list --edge {edge}"


def _stands(holds: "Sequence[Hold]") -> Iterator[str]:
    """One line for all partitions that stand for the same reason, and below it the next step."""
    from aggregator.replicate.flow.gaps import accept_command

    by_reason = defaultdict[tuple[str, str], list[EdgePartition]](list)
    for hold in sorted(holds, key=lambda one: one.source):
        by_reason[hold.reason, hold.detail].append(hold.source)
    for (reason, detail), places in by_reason.items():
        yield f"held: {format_flows(places)} ({reason}): {detail}"
    for edge, topic in sorted({(hold.source.edge, hold.source.topic) for hold in holds if hold.gap}):
        yield f"next: {accept_command(edge, topic)} goes on without what {edge} lost of {topic}"


def _sentences(config: HubConfig, report: "RunReport", *, drained: bool) -> Iterator[str]:
    if drained:
        yield from _totals(config)
    yield from _stands(report.holds)
    why = "central has not decided what was written" if report.undecided_partitions else "its edge fell silent"
    for flow in report.undrained:
        yield f"not drained: {flow}: {why}; run again when it answers"
    for topic, partition in report.undecided_partitions:
        yield (
            f"not visible yet: {topic}-{partition} at central: a transaction is undecided, or it has no leader; "
            "run again when that is over"
        )
    for flow, offsets in report.undecided.items():
        yield f"not decided: {flow}: open transactions at its edge kept {offsets:,} offsets from every reader"
    for sentence in report.foreign_clusters:
        yield f"held: {sentence}"
    for edge, why in report.silent.items():
        yield f"edge {edge} was not read: {in_one_line(why) or 'no answer yet'}; its flows go on where they were"
