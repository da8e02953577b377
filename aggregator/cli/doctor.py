"""`aggregator doctor`: finds faults of clusters, registries and this machine, with their causes and how to mend them.

Invariant: the command only reads. Exit code 0: nothing failed. 4: something failed, at edges only. 1: something failed
at central or on this machine, so that nothing is delivered at all. A warning alone does not change the exit code.
"""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aggregator.cli.terminal.output import config_option, emit, output_option, table
from aggregator.config.load import load_config
from aggregator.errors import ExitCode

if TYPE_CHECKING:
    from aggregator.doctor.finding import Finding

_NEXT = "next: "


@click.command(
    epilog="\b\nExamples:\n"
    "  aggregator doctor\n"
    "  aggregator doctor -o json | jq '.findings[] | select(.state != \"ok\") | {cluster, check, what, next}'"
)
@config_option
@output_option
def doctor(config: Path, output: str) -> None:
    """Look for what keeps the hub from working: names, ports, TLS, passwords, rights, ids, versions, sizes, clocks,
    transactions, replication, retention, registries, disks, Java. Each finding says what mends it.

    Nothing is written anywhere. Exit 1 when something failed at central or on this machine, 4 when only at edges.
    """
    from aggregator.doctor.examination import examine
    from aggregator.privacy.policy.file import load_policy

    hub = load_config(config, os.environ)
    policies = {rule.policy: load_policy(rule.policy) for rule in hub.topics}
    found = examine(hub, policies)
    emit({"findings": [asdict(one) | {"state": one.state.value} for one in found]}, output, lambda: _text(found))
    failures = {one.cluster in hub.edges for one in found if one.state == "failed"}
    if failures:
        raise SystemExit(ExitCode.HELD if failures == {True} else ExitCode.FAILED)


def _text(found: Sequence["Finding"]) -> Iterator[str]:
    """The findings as text; the bad ones come last, next to the terminal's prompt."""
    order = {"ok": 0, "warning": 1, "failed": 2}
    rows = sorted(found, key=lambda one: order[one.state])
    heading, *lines = table(
        ("state", "cluster", "check", "what"), [(one.state.value, one.cluster, one.check, one.what) for one in rows]
    )
    yield heading
    for one, line in zip(rows, lines, strict=True):
        yield line
        if one.next:
            yield " " * heading.index("what") + _NEXT + one.next
    counts = Counter(one.state.value for one in found)
    yield ""
    yield ", ".join(f"{counts[state]} {state}" for state in order if counts[state])
