"""`aggregator offsets translate`: where a consumer group of an edge goes on at central.

Invariant: reads only; no group is joined and nothing is committed. The JSON names are a contract.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aggregator.cli.terminal.output import config_option, emit, output_option, table
from aggregator.config.load import load_config
from aggregator.config.model import HubConfig
from aggregator.errors import ExitCode, Failed

if TYPE_CHECKING:
    from aggregator.offsets.translation import Translation


@click.command(
    epilog="""\b
Examples:
  aggregator offsets translate --group billing --edge eu
  aggregator offsets translate --group billing --edge eu --topic orders -o json

\b
Exit codes: 0 every position has one at central; 4 some have none, with the reason."""
)
@config_option
@click.option("--group", required=True, help="Consumer group at the edge.")
@click.option("--edge", required=True, help="Edge at which it has committed.")
@click.option("--topic", help="One topic, as the edge calls it; all by default.")
@output_option
def translate(config: Path, *, group: str, edge: str, topic: str | None, output: str) -> None:
    """Show where a group of an edge goes on at central, partition by partition.

    Each position is found in central's log itself: of the first record from the group's position on. What was dropped,
    suppressed or a dead letter is thereby counted right. A group that is ahead of the hub has no position yet.
    """
    hub = load_config(config, os.environ)
    if edge not in hub.edges:
        raise Failed(f"no edge {edge} is configured", hint=f"the edges are {', '.join(hub.edges)}")
    found = _translated(hub, group, edge, topic)
    answer = {"group": group, "edge": edge, "partitions": [one.plain() for one in found]}
    emit(answer, output, lambda: _lines(found))
    if any(one.why for one in found):
        raise SystemExit(ExitCode.HELD)


def _translated(hub: HubConfig, group: str, edge: str, topic: str | None) -> "tuple[Translation, ...]":
    """Every partition that the group has committed.

    Raises:
        Failed: it has committed nothing there.
    """
    from aggregator.coordinates import EdgePartition
    from aggregator.kafka.cluster.groups import committed_offsets
    from aggregator.offsets.translator import Translator
    from aggregator.replicate.identity.identities import require_own

    require_own(hub, [edge])
    committed = {
        EdgePartition(edge, *at): offset
        for at, offset in committed_offsets(hub.edges[edge], group).items()
        if topic in (None, at[0])
    }
    if not committed:
        of = f" of topic {topic}" if topic else ""
        raise Failed(
            f"edge {edge}: group {group} has no committed position{of}",
            hint="`kafka-consumer-groups.sh --describe` at the edge shows groups and their positions",
        )
    return Translator(hub).translate({group: committed}).of


def _lines(found: "tuple[Translation, ...]") -> list[str]:
    columns = ("topic", "partition", "at the edge", "central topic", "partition", "at central", "behind", "why")
    rows = [
        (
            one.source.topic,
            one.source.partition,
            one.edge_offset,
            one.topic,
            one.partition,
            one.central_offset,
            one.behind_records,
            one.detail,
        )
        for one in found
    ]
    return table(columns, rows)
