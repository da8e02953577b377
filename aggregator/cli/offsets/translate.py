"""`aggregator offsets translate`: shows where a consumer group of an edge goes on at central, and the way back.

Invariant: the command joins no group. It commits only on request, only for a group without members, and never
backwards. The JSON names are a contract.
"""

import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aggregator.cli.terminal.output import config_option, emit, output_option, table
from aggregator.config.load import load_config
from aggregator.config.model import ClusterConfig, HubConfig
from aggregator.count_text import format_count
from aggregator.errors import ExitCode, FatalError

if TYPE_CHECKING:
    from aggregator.coordinates import Partition
    from aggregator.offsets.failback import Failback
    from aggregator.offsets.translation import Translation
    from aggregator.offsets.translator import Translations


@click.command(
    epilog="""\b
Examples:
  aggregator offsets translate --group billing --edge eu
  aggregator offsets translate --group billing --edge eu --topic orders -o json
  aggregator offsets translate --group billing --edge eu --commit
  aggregator offsets translate --group billing --edge eu --back --commit

\b
Exit codes: 0 every position has one on the other side, and is committed where that was asked for; 4 some have
none, with the reason, or cannot be committed."""
)
@config_option
@click.option("--group", required=True, help="Consumer group.")
@click.option("--edge", required=True, help="Edge at which it has committed, or, with --back, goes on.")
@click.option("--topic", help="One topic, as the edge calls it; all by default.")
@click.option("--back", is_flag=True, help="From its positions at central to the edge.")
@click.option("--commit", "is_committed", is_flag=True, help="Commit them for the group, which has no member there.")
@output_option
def translate(
    config: Path, *, group: str, edge: str, topic: str | None, back: bool, is_committed: bool, output: str
) -> None:
    """Show where a group of an edge goes on at central, partition by partition.

    Each position is found in central's log itself: of the first record from the group's position on. What was dropped,
    suppressed or a dead letter is thereby counted right. A group that is ahead of the hub has no position yet.
    """
    hub = load_config(config, os.environ)
    if edge not in hub.edges:
        raise FatalError(f"no edge {edge} is configured", hint=f"the edges are {', '.join(hub.edges)}")
    found: tuple[Translation, ...] | tuple[Failback, ...]
    merged: list[str] = []
    cluster: ClusterConfig
    if back:
        found = _ways_back(hub, group, edge, topic)
        place, cluster, lines, wanted = f"edge {edge}", hub.edges[edge], _lines_back(found), _homeward(found)
        missing = _uncommitted(hub.central, {one.at for one in found})
    else:
        forward = _translated(hub, group, edge, topic)
        found = forward.results
        place, cluster, lines, (wanted, merged) = "central", hub.central, _lines(found), _wanted(hub, group, forward)
        missing = _uncommitted(hub.edges[edge], {(one.source.topic, one.source.partition) for one in found})
    answer = {"group": group, "edge": edge, "partitions": [one.plain() for one in found]}
    answer["uncommitted"] = [{"topic": name, "partition": number} for name, number in missing]
    lines = [*lines, *_uncommitted_lines(missing, "central" if back else f"edge {edge}")]
    if is_committed:
        made = _committed(cluster, group, place, wanted)
        answer["committed"] = [{"topic": at[0], "partition": at[1], "offset": offset} for at, offset in made.items()]
        rest = "" if len(made) == len(wanted) else "; the others stand there already, or further"
        lines = [*lines, "", f"committed at {place}: {len(made)} of {format_count(len(wanted), 'partition')}{rest}"]
        lines += [f"not committed: several edge topics lie in {at}, each with its own position" for at in merged]
        answer["not_committed"] = merged
    emit(answer, output, lambda: lines)
    if any(one.why for one in found) or (is_committed and merged):
        raise SystemExit(ExitCode.HELD)


def _translated(hub: HubConfig, group: str, edge: str, topic: str | None) -> "Translations":
    """Every partition that the group has committed at the edge.

    Raises:
        FatalError: it has committed nothing there.
    """
    from aggregator.coordinates import EdgePartition
    from aggregator.kafka.cluster.groups import committed_offsets
    from aggregator.offsets.translator import Translator
    from aggregator.replicate.identity.identities import require_own_clusters

    require_own_clusters(hub, [edge])
    committed = {
        EdgePartition(edge, *at): offset
        for at, offset in committed_offsets(hub.edges[edge], group).items()
        if topic in (None, at[0])
    }
    if not committed:
        raise _nothing(f"edge {edge}", group, f"of topic {topic}" if topic else "")
    return Translator(hub).translate({group: committed})


def _ways_back(hub: HubConfig, group: str, edge: str, topic: str | None) -> "tuple[Failback, ...]":
    """Every flow of the edge that the group reads at central.

    Raises:
        FatalError: it reads none of them there.
    """
    from aggregator.kafka.cluster.groups import committed_offsets
    from aggregator.offsets.translator import Translator
    from aggregator.replicate.identity.identities import require_own_clusters

    require_own_clusters(hub, [edge])
    ways = Translator(hub).translate_back(edge, committed_offsets(hub.central, group))
    found = tuple(one for one in ways if topic in (None, one.source.topic))
    if not found:
        raise _nothing("central", group, f"of topic {topic}" if topic else f"of edge {edge}")
    return found


def _uncommitted(cluster: ClusterConfig, read: "Collection[Partition]") -> "list[Partition]":
    """The partitions of these topics in which the group has no position, and none is carried over."""
    from aggregator.kafka.cluster.topics import described

    shown = described(cluster, sorted({name for name, _ in read}))
    return [
        (name, number)
        for name, one in sorted(shown.items())
        for number in range(one.partitions)
        if (name, number) not in read
    ]


def _uncommitted_lines(missing: "list[Partition]", place: str) -> Iterator[str]:
    for name in dict.fromkeys(name for name, _ in missing):
        numbers = [str(number) for other, number in missing if other == name]
        yield ""
        yield (
            f"no position at {place} in {format_count(len(numbers), 'partition')} of {name} ({', '.join(numbers)}):"
            " the service begins there where its auto.offset.reset says"
        )


def _nothing(place: str, group: str, of: str) -> FatalError:
    return FatalError(
        f"{place}: group {group} has no committed position {of}".rstrip(),
        hint="`kafka-consumer-groups.sh --describe` there shows groups and their positions",
    )


def _wanted(hub: HubConfig, group: str, found: "Translations") -> "tuple[dict[Partition, int], list[str]]":
    """The offsets to commit at central, and the reasons where a shared topic prevents it."""
    from aggregator.offsets.group_commits import committable

    wanted, merged = committable(hub, found.results, found.facts)
    return wanted.get(group, {}), [f"{topic}-{partition}" for topic, partition in sorted(merged)]


def _homeward(found: "tuple[Failback, ...]") -> "dict[Partition, int]":
    return {(one.source.topic, one.source.partition): one.edge_offset for one in found if one.edge_offset is not None}


def _committed(
    cluster: ClusterConfig, group: str, place: str, wanted: "Mapping[Partition, int]"
) -> "dict[Partition, int]":
    """Commit what is a step forward, and return it.

    Raises:
        FatalError: the group has a member.
    """
    from aggregator.kafka.cluster.groups import commit_offsets, committed_offsets, idle_groups
    from aggregator.offsets.group_commits import forward

    if not idle_groups(cluster, [group]):
        raise FatalError(
            f"{place}: group {group} has a member, is none of consumers, or may not be described",
            hint="stop its consumers there first: while they run, its positions are their own",
        )
    due = forward(wanted, committed_offsets(cluster, group))
    if due:
        commit_offsets(cluster, group, due)
    return due


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


def _lines_back(found: "tuple[Failback, ...]") -> list[str]:
    columns = ("central topic", "partition", "at central", "topic", "partition", "at the edge", "why")
    rows = [
        (*one.at, one.central_offset, one.source.topic, one.source.partition, one.edge_offset, one.detail)
        for one in found
    ]
    return table(columns, rows)
