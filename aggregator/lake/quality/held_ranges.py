"""Finds what the gate of a table holds now, without a Spark session, for the person who may release it.

Invariant: this module only reads. A range is held while its newest verdict says so and the table's position is the
range's start. If a range was released, the answer says by whom.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from aggregator.config.model import HubConfig
from aggregator.coordinates import CentralPartition, OffsetRange
from aggregator.errors import FatalError
from aggregator.kafka.readers.committed_reader import central_partitions, offset_bounds
from aggregator.lake.cycle.sources import lake_sources
from aggregator.lake.quality.verdict_log import CommitAudit, read
from aggregator.lake.quality.verdicts import Verdict
from aggregator.lake.tables.formats import open_tables
from aggregator.state.ledger_log import read_ledger
from aggregator.state.names import HubNames
from aggregator.state.releases import Release
from aggregator.state.request_log import read_releases

HELD_DAYS = 2  # a hold is judged again every few minutes while its hub runs


class HeldRange(NamedTuple):
    """A range of offsets of one central partition at whose start a table waits.

    Attributes:
        table: The table's name.
        partition: The partition of central.
        offsets: From start to end.
        rules: Rules that hold the range.
        release: Somebody's word that lets it pass; None while there is none.
    """

    table: str
    partition: CentralPartition
    offsets: OffsetRange
    rules: tuple[str, ...]
    release: Release | None = None

    def plain(self) -> dict[str, Any]:
        """The JSON object that `-o json` promises for a held range."""
        release = self.release
        return {
            "table": self.table,
            "topic": self.partition.topic,
            "partition": self.partition.partition,
            "start_offset": self.offsets.start,
            "end_offset": self.offsets.end,
            "rules": list(self.rules),
            "state": "released" if release else "held",
            "by": release.by if release else None,
            "at_ms": release.at_ms if release else None,
            "reason": release.reason if release else None,
        }


def held_ranges(config: HubConfig, table: str) -> list[HeldRange]:
    """The ranges that the gate of a table holds now.

    Raises:
        FatalError: no flow feeds such a table.
        Unreachable: central does not answer.
        TableUnavailable: the table or its history cannot be read.
    """
    names = HubNames(config.hub)
    sources = lake_sources(config, read_ledger(config.central, names))
    if table not in sources:
        known = ", ".join(sorted(sources)) or "none yet"
        raise FatalError(f"the hub feeds no table {table}", hint=f"there are: {known}")
    tables = open_tables(config)
    limits = offset_bounds(config.central, central_partitions(config.central, sources[table]))
    handle = tables.open(table)
    positions = handle.positions(limits) if handle else {}
    starts = {one: positions.get(one, first) for one, (first, _) in limits.items()}
    return still_held(table, read(tables.folder, table, days=HELD_DAYS), starts, read_releases(config.central, names))


def still_held(
    table: str, audits: Iterable[CommitAudit], starts: Mapping[CentralPartition, int], releases: Iterable[Release]
) -> list[HeldRange]:
    """The ranges of held audits that begin where the table stands.

    Args:
        table: Which one.
        audits: The oldest first.
        starts: The table's next offsets.
        releases: Of all tables.
    """
    at = {(one.topic, one.partition, start): one for one, start in starts.items()}
    released = {(one.table, one.partition, one.offsets): one for one in releases}
    found: dict[CentralPartition, HeldRange] = {}
    for audit in audits:
        if audit.verdict is not Verdict.HOLD:
            continue
        rules = tuple(one.rule for one in audit.rules if not one.passed and (one.raised or one.action == "hold"))
        for topic, number, start, end in audit.ranges:
            if (partition := at.get((topic, number, start))) is not None:
                offsets = OffsetRange(start, end)
                found[partition] = HeldRange(
                    table, partition, offsets, rules, released.get((table, partition, offsets))
                )
    return [found[one] for one in sorted(found)]
