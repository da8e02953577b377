"""`aggregator peek PLACE`: shows a record as it lies at an edge or at central, or after the strip.

Invariant: the command only reads, without a consumer group; nothing is registered or logged. Values are shown only on
request.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import click

from aggregator.cli.terminal.output import config_option, emit, output_option, table
from aggregator.config.load import load_config
from aggregator.config.model import HubConfig
from aggregator.coordinates import CENTRAL, OWN_HEADERS
from aggregator.moments import iso

if TYPE_CHECKING:
    from aggregator.kafka.readers.sample import Sampled
    from aggregator.schema.registry import Registry

_FORM = "is EDGE/TOPIC, or central/TOPIC, with /PARTITION and /OFFSET behind it where one is meant"


class RecordPlace(NamedTuple):
    """A place to read from: `central` or an edge, and a topic. A partition and an offset are optional."""

    cluster: str
    topic: str
    partition: int | None = None
    offset: int | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read what `dlq list` and `gaps list` call a place; an incarnation behind the offset is no matter.

        Raises:
            ValueError: it is none.
        """
        cluster, _, rest = text.partition("/")
        topic, *numbers = rest.split("/")
        if not (cluster and topic) or len(numbers) > 3 or not all(one.isascii() and one.isdigit() for one in numbers):  # noqa: PLR2004
            raise ValueError(_FORM)
        return cls(cluster, topic, *map(int, numbers[:2]))


class _Shown(NamedTuple):
    """One record and its leaves. A row has the path, the value, and the value after the strip."""

    at: "Sampled"
    rows: list[tuple[str, ...]]


@click.command(
    epilog="\b\nExamples:\n"
    "  aggregator peek eu/orders --after\n"
    "  aggregator peek eu/orders/2/1234 --after --show-values\n"
    "  aggregator peek central/eu.orders --count 3 -o json"
)
@click.argument("place", metavar="EDGE/TOPIC[/PARTITION[/OFFSET]]")
@click.option("--count", type=click.IntRange(1, 100), default=1, show_default=True, help="Records at most.")
@click.option("--after", is_flag=True, help="What the strip makes of it, too; of a topic of an edge.")
@click.option(
    "--show-values", is_flag=True, help="Show values; by default their types and lengths, for they are personal."
)
@config_option
@output_option
def peek(place: str, *, count: int, after: bool, show_values: bool, config: Path, output: str) -> None:
    """Show the newest records of a topic, or those from an offset on, field by field.

    The place begins with the name of an edge, or with `central`. The coordinates that dlq list shows are one, too.
    """
    try:
        at = RecordPlace.parse(place)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="PLACE") from None
    hub = load_config(config, os.environ)
    if at.cluster != CENTRAL and at.cluster not in hub.edges:
        raise click.BadParameter(f"there are {', '.join(sorted((*hub.edges, CENTRAL)))}", param_hint="PLACE")
    if after and at.cluster == CENTRAL:
        raise click.UsageError("--after speaks of an edge's records: those at central have been stripped")
    found = _found(hub, at, count)
    records = _stripped(hub, at, found, show_values) if after else _as_they_lie(hub, at, found, show_values)
    columns = ("path", "before", "after") if after else ("path", "value")
    emit([_plain(at, one, columns) for one in records], output, lambda: _text(at, records, columns))


def _found(hub: HubConfig, at: RecordPlace, count: int) -> "list[Sampled]":
    from aggregator.kafka.readers.sample import newest_records, records_from

    cluster = hub.central if at.cluster == CENTRAL else hub.edges[at.cluster]
    if at.partition is None or at.offset is None:
        return newest_records(cluster, at.topic, count, partition=at.partition)
    return records_from(cluster, at.topic, at.partition, at.offset, count)


def _registry(hub: HubConfig, at: RecordPlace) -> "Registry":
    from aggregator.cli.policy.sources import edge_registry
    from aggregator.schema.memory import MemoryRegistry
    from aggregator.schema.registries import open_registry

    if at.cluster != CENTRAL:
        return edge_registry(hub.edges[at.cluster], at.cluster)
    return MemoryRegistry() if hub.schemas is None else open_registry(hub.schemas, hub.schemas_client)


def _as_they_lie(hub: HubConfig, at: RecordPlace, found: "list[Sampled]", show_values: bool) -> list[_Shown]:
    from aggregator.privacy.review.preview import looked_at

    registry, own = _registry(hub, at), OWN_HEADERS if at.cluster == CENTRAL else ()
    return [_Shown(one, [*looked_at(one.record, registry, hide=not show_values, own=own)]) for one in found]


def _stripped(hub: HubConfig, at: RecordPlace, found: "list[Sampled]", show_values: bool) -> list[_Shown]:
    from aggregator.cli.policy.preview import stripped
    from aggregator.cli.policy.sources import TopicSample, policy_of
    from aggregator.machine_clock import utc_today
    from aggregator.privacy.policy.file import load_policy

    policy = load_policy(policy_of(hub, at.cluster, at.topic))
    sample = TopicSample(at.topic, _registry(hub, at), tuple(one.record for one in found))
    lines = stripped(sample, policy, hub.keys, utc_today(), edge=at.cluster, hide=not show_values)
    return [_Shown(one, [tuple(line) for line in record]) for one, record in zip(found, lines, strict=True)]


def _plain(at: RecordPlace, shown: _Shown, columns: tuple[str, ...]) -> dict[str, Any]:
    """The JSON object that `-o json` promises for a record."""
    return {
        "cluster": at.cluster,
        "topic": at.topic,
        "partition": shown.at.partition,
        "offset": shown.at.offset,
        "timestamp_ms": shown.at.stamp_ms,
        "fields": [dict(zip(columns, row, strict=True)) for row in shown.rows],
    }


def _none(at: RecordPlace) -> str:
    from aggregator.kafka.readers.sample import SEARCHED_OFFSETS

    if at.offset is None:
        return f"has no committed record in the last {SEARCHED_OFFSETS:,} offsets of each partition"
    return f"has no committed record from offset {at.offset} of partition {at.partition} on"


def _text(at: RecordPlace, records: list[_Shown], columns: tuple[str, ...]) -> Iterator[str]:
    if not records:
        yield f"{at.cluster}/{at.topic} {_none(at)}"
    for one in records:
        yield f"{at.cluster}/{at.topic}/{one.at.partition} offset {one.at.offset}, {iso(one.at.stamp_ms)}"
        yield from (f"  {line}" for line in table(columns, one.rows))
        yield ""
