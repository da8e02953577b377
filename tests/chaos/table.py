"""The table of mixed trials, as Markdown: one line per seed, and how long recovery took per kind of fault."""

import statistics

from tests.chaos.mixed import Outcome

HEAD = (
    "| seed | recovery after each fault | records | dead | in gaps | lost | twice | invented | reordered | lake |",
    "|---|---|---|---|---|---|---|---|---|---|",
)

_INTRODUCTION = """\
Written by `make chaos TRIALS={trials} SEED={seed} TABLE=docs/trials.md`: each trial draws faults by seed, hits a hub
under traffic, heals, drains and judges; {records:,} records in all. One machine ran brokers, hub and judge: recovery
times are upper bounds, and hold the hub's own start where it was killed. `lake` counts rows by which it differs."""


def row(outcome: Outcome) -> str:
    """One line of the table."""
    left = outcome.verdict
    recovered = ", ".join(f"{name} {seconds} s" for name, seconds in outcome.recovered_s)
    counts = (left.records, left.dead, left.gap, left.lost, left.duplicated, left.invented, left.reordered, left.unlike)
    return f"| {outcome.seed} | {recovered} | {' | '.join(map(str, counts))} |"


def recoveries(outcomes: list[Outcome]) -> list[str]:
    """Median and worst recovery per kind of fault."""
    seen: dict[str, list[float]] = {}
    for outcome in outcomes:
        for name, seconds in outcome.recovered_s:
            seen.setdefault(name, []).append(seconds)
    return ["| fault | times | median s | worst s |", "|---|---|---|---|"] + [
        f"| {name} | {len(found)} | {statistics.median(found):.1f} | {max(found):.1f} |"
        for name, found in sorted(seen.items())
    ]


def page(outcomes: list[Outcome]) -> str:
    """All of it, as the repository keeps it."""
    records = sum(outcome.verdict.records for outcome in outcomes)
    return "\n".join(
        [
            "# Mixed trials",
            "",
            _INTRODUCTION.format(trials=len(outcomes), seed=outcomes[0].seed, records=records),
            "",
            *HEAD,
            *map(row, outcomes),
            "",
            "## Recovery",
            "",
            "Seconds from the healing until everything that was acknowledged by then was at central.",
            "",
            *recoveries(outcomes),
            "",
        ]
    )
