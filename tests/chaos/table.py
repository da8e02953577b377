"""The table of mixed trials, as Markdown: one line per seed, and how long recovery took per kind of fault.

Invariant: what is written can be read back: a campaign goes on where it was interrupted, and two may share one file.
"""

import fcntl
import re
import statistics
from dataclasses import astuple, fields
from pathlib import Path

from tests.chaos.mixed_trial import Outcome
from tests.chaos.truth import Verdict

_COLUMNS = ("seed", "brokers", "recovery after each fault", "records", "dead", "in gaps", "lost", "twice")
_COLUMNS += ("invented", "reordered", "lake")
HEAD = (f"| {' | '.join(_COLUMNS)} |", "|---" * len(_COLUMNS) + "|")

_INTRODUCTION = """\
{clean} of {trials} seeds are clean, each by its newest run, over many commits: a seed that was not clean was run again
after a mend. {records:,} records in all. Written by
`make chaos ARGS="-k mixed" TRIALS=n SEED=s TABLE=tests/bench/results/trials.md`, which runs only those seeds that are
not clean here. Each trial draws faults by its seed, hits a hub under traffic, heals, and judges central and the lake;
up to ten follow one another on one hub, each on a topic of its own. One machine ran brokers, hub and judge: recovery
times are upper bounds, and hold the hub's own start where it was killed.
`brokers` are those of central and of the two edges; before three of them were drawn by the seed, each had one (to 300).
`lake` counts rows by which table and central differ."""


def row(outcome: Outcome) -> str:
    """One line of the table."""
    recovered = ", ".join(f"{name} {seconds} s" for name, seconds in outcome.recovered_s)
    begin = f"| {outcome.seed} | {outcome.brokers} | {recovered}"
    if outcome.verdict is None:
        return f"{begin} **{outcome.failure.replace('|', ' ')}** |" + " |" * len(fields(Verdict))
    return f"{begin} | {' | '.join(map(str, astuple(outcome.verdict)))} |"


def kept(path: Path) -> dict[int, Outcome]:
    """The trials that a file holds, by seed."""
    lines = path.read_text().splitlines() if path.exists() else []
    rows = ([cell.strip() for cell in line.split("|")[1:-1]] for line in lines)
    return {int(cells[0]): _parsed(cells) for cells in rows if cells and cells[0].isdigit()}


def _parsed(cells: list[str]) -> Outcome:
    told, _, failure = cells[2].partition("**")
    recovered = [(name, float(seconds)) for name, seconds in re.findall(r"([a-z][a-z ,]+?) ([0-9.]+) s\b", told)]
    verdict = None if failure else Verdict(*map(int, cells[3:]))
    return Outcome(
        int(cells[0]), cells[1], [name for name, _ in recovered], recovered, verdict, failure.removesuffix("**")
    )


def keep(path: Path, outcome: Outcome) -> None:
    """Add one trial to a file that others may add to."""
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        outcomes = kept(path) | {outcome.seed: outcome}
        whole = path.with_suffix(".new")
        whole.write_text(page([outcomes[seed] for seed in sorted(outcomes)]))
        whole.replace(path)


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
    records = sum(outcome.verdict.records for outcome in outcomes if outcome.verdict)
    clean = sum(outcome.clean for outcome in outcomes)
    return "\n".join(
        [
            "# Mixed trials",
            "",
            _INTRODUCTION.format(trials=len(outcomes), clean=clean, records=records),
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
