"""Plans which lake tables a run would make or widen.

Invariant: columns come from the code that stages and commits the rows. It is the lake's own translation of the derived
schemas, merged into the table as a commit merges them. This module only reads.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from aggregator.config.model import HubConfig
from aggregator.coordinates import CentralPartition, EdgePartition, OffsetRange
from aggregator.errors import AggregatorError, HoldError
from aggregator.kafka.readers.committed_reader import central_partitions, offset_bounds
from aggregator.lake.columns.columns import arrow_schema, initial_schema, merge_schemas
from aggregator.lake.cycle.sources import lake_sources
from aggregator.lake.tables.formats import open_tables
from aggregator.lake.tables.port import TableHandle, Tables
from aggregator.plan.actions import CREATE, NOTHING, REFUSED, UNKNOWN, WIDEN_TABLE
from aggregator.state.edge_status import read_edge_statuses
from aggregator.state.lake_holds import LakeHold, format_places, group_by_reason
from aggregator.state.names import HubNames

# The lake's words for such records, with the next step.
_BARE = (
    "has values without a schema, which are not framed as Avro with a schema id: no table can hold them; give it a rule"
    " without `lake`"
)


@dataclass(frozen=True, slots=True)
class TableStep:
    """One table: what would happen to it, the columns that it would get, and the reason if nothing can happen."""

    table: str
    action: str
    columns: tuple[str, ...]
    topics: tuple[str, ...]
    detail: str = ""


def table_steps(
    config: HubConfig,
    flows: Collection[EdgePartition],
    texts: Mapping[str, Collection[str]],
    have: Collection[str],
    *,
    fed: Collection[str],
    bare: Collection[str],
) -> Iterator[TableStep]:
    """The treatment of every table that the hub's flows feed.

    Args:
        config: The hub.
        flows: Present and future flows of the hub.
        texts: Central topic to the derived schemas of its values.
        have: Topics that central has.
        fed: Central topics for which records wait at an edge.
        bare: Central topics whose values have no schema.
    """
    if config.lake is None:
        return
    tables = open_tables(config)
    known = read_edge_statuses(config.central, HubNames(config.hub)).lake
    for name, sources in sorted(lake_sources(config, flows).items()):
        partitions = central_partitions(config.central, sources.intersection(have))
        bounds = offset_bounds(config.central, partitions)
        own = sorted({text for source in sources for text in texts.get(source, ())})
        filled = any(map(len, bounds.values())) or not sources.isdisjoint(fed)
        if plain := sorted(sources.intersection(bare)):
            yield TableStep(name, REFUSED, (), tuple(sorted(sources)), f"{', '.join(plain)} {_BARE}")
        else:
            held = [one for one in known if one.table == name]
            stands = partial(_standing, held, bounds)
            yield _step(tables, name, tuple(sorted(sources)), own, stands, filled=filled)


def _standing(holds: Sequence[LakeHold], bounds: Mapping[CentralPartition, OffsetRange], handle: TableHandle) -> str:
    """Why a table stands before a record that a run has found already; empty where it does not."""
    positions = handle.positions(list(bounds)) if holds else {}
    ends = {partition: offsets.end for partition, offsets in bounds.items()}
    standing = [one for one in holds if one.topic and one.stands(positions, ends)]
    return "; ".join(f"{format_places(places)}: {reason}" for places, reason in group_by_reason(standing))


def _step(
    tables: Tables,
    name: str,
    sources: tuple[str, ...],
    texts: Sequence[str],
    stands: Callable[[TableHandle], str],
    *,
    filled: bool,
) -> TableStep:
    refused = ""
    try:
        handle = tables.open(name)
        refused = stands(handle) if handle else ""
        found = [tables.narrowed(arrow_schema(text)) for text in texts]
        schema = handle.schema() if handle else initial_schema(found, tables.promotes)
        for columns in found:
            schema = columns if schema is None else merge_schemas(schema, columns, tables.promotes)
    except HoldError as error:
        refused = refused or str(error)
    except AggregatorError as error:
        return TableStep(name, UNKNOWN, (), sources, str(error))
    if refused:
        return TableStep(name, REFUSED, (), sources, refused)
    new = tuple(schema.names) if schema is not None else ()
    if not filled:
        return TableStep(name, NOTHING, (), sources, "" if handle else "when its first record is at central")
    if handle is None:
        return TableStep(name, CREATE, new, sources)
    if schema == handle.schema():
        return TableStep(name, NOTHING, (), sources)
    return TableStep(name, WIDEN_TABLE, tuple(one for one in new if one not in handle.schema().names), sources)
