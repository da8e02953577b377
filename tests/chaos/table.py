"""The table of mixed trials, as Markdown: one line per seed, and how long recovery took per kind of fault.

Invariant: what is written can be read back: a campaign goes on where it was interrupted, and two may share one file.
"""

import fcntl
import re
import statistics
from dataclasses import astuple
from pathlib import Path

from tests.chaos.mixed import Outcome
from tests.chaos.truth import Verdict

HEAD = (
    "| seed | recovery after each fault | records | dead | in gaps | lost | twice | invented | reordered | lake |",
    "|---|---|---|---|---|---|---|---|---|---|",
)
_FAILED = "**"

_INTRODUCTION = """\
Written by `make chaos ARGS="-k mixed" TRIALS={trials} SEED={seed} TABLE=docs/trials.md`, which leaves out the seeds
that are here: each trial draws faults by its seed, hits a hub under traffic, heals, and judges central and the lake;
{records:,} records in all. One machine ran brokers, hub and judge: recovery times are upper bounds, and hold the hub's
own start where it was killed. `lake` counts rows by which table and central differ."""


def row(outcome: Outcome) -> str:
    """One line of the table."""
    recovered = ", ".join(f"{name} {seconds} s" for name, seconds in outcome.recovered_s)
    if outcome.verdict is None:
        told = f"{_FAILED}{outcome.failure}{_FAILED}"
        return f"| {outcome.seed} | {recovered}; {told} |" + " |" * 8
    return f"| {outcome.seed} | {recovered} | {' | '.join(map(str, astuple(outcome.verdict)))} |"


def kept(path: Path) -> dict[int, Outcome]:
    """The trials that a file holds, by seed; those that did not come to a verdict are left out."""
    if not path.exists():
        return {}
    found = {}
    for line in path.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == len(HEAD[0].strip("|").split("|")) and cells[0].isdigit() and cells[-1]:
            times = [
                (name, float(seconds)) for name, seconds in re.findall(r"([a-z ]+(?:, accept)?) ([0-9.]+) s", cells[1])
            ]
            recovered = [(name.strip(), seconds) for name, seconds in times]
            verdict = Verdict(*map(int, cells[2:]))
            found[int(cells[0])] = Outcome(int(cells[0]), [name for name, _ in recovered], recovered, verdict)
    return found


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
