"""Shows a lake table and its quarantine to an audit: their rows' origins, and why they lack what central has.

Invariant: this module only reads one version of each, fixed when it is opened. A table that cannot be read is reported
as a problem. It is never treated as empty.
"""

import contextlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from aggregator.audit.omissions import LAKE, Omission
from aggregator.config.lake_model import QUARANTINE
from aggregator.config.model import HubConfig
from aggregator.coordinates import CentralPartition, EdgePartition, OffsetRange, Partition
from aggregator.errors import AggregatorError, HoldError, RetryError
from aggregator.kafka.readers.committed_reader import CommittedReader
from aggregator.lake.columns.columns import arrow_schema, merge_schemas
from aggregator.lake.origins import RowOrigins, row_origins
from aggregator.lake.quality.held_ranges import HELD_DAYS, still_held
from aggregator.lake.quality.verdict_log import read
from aggregator.lake.storage.folder import Folder
from aggregator.lake.tables.formats import open_tables
from aggregator.lake.tables.port import LiveFile, TableHandle, Tables
from aggregator.schema.registries import open_registry
from aggregator.schema.wire import HEADER_BYTES
from aggregator.state.names import HubNames
from aggregator.state.request_log import read_releases


@dataclass(slots=True)
class LakeView:
    """One version of a table and of its quarantine.

    Attributes:
        table: Its name.
        positions: Next offset by central partition; one that was never committed is left out.
        problem: Why the table cannot be read; empty otherwise.
        files: Live files, by the folder that they lie in.
        committed: Marks of the restates that it has.
    """

    config: HubConfig
    table: str
    partitions: Sequence[CentralPartition]
    positions: dict[Partition, int] = field(default_factory=dict)
    problem: str = ""
    files: dict[str, Sequence[LiveFile]] = field(default_factory=dict)
    committed: frozenset[CentralPartition] = frozenset()
    _handle: TableHandle | None = None

    @classmethod
    def opened(
        cls,
        config: HubConfig,
        table: str,
        partitions: Sequence[CentralPartition],
        marks: Sequence[CentralPartition] = (),
    ) -> "LakeView":
        """Open a table and its quarantine, and list the live files of both.

        Args:
            config: The hub's configuration.
            table: The table's name.
            partitions: Central partitions that feed the table.
            marks: Marks of restates that the table may contain.
        """
        view = cls(config, table, partitions)
        tables = open_tables(config)
        try:
            view._handle, apart = tables.open(table), tables.open(f"{table}{QUARANTINE}")
            view.files = {
                name: handle.live_files()
                for name, handle in ((table, view._handle), (f"{table}{QUARANTINE}", apart))
                if handle is not None
            }
            found = view._handle.positions(partitions) if view._handle else {}
            view.committed = frozenset(view._handle.positions(marks) if view._handle else ())
        except (HoldError, RetryError) as error:
            view.problem, view.files = f"the table cannot be read: {error.message}", {}
        else:
            view.positions = {(one.topic, one.partition): offset for one, offset in found.items()}
        return view

    def lacks(self, ends: Mapping[Partition, int]) -> bool:
        """Whether it has not got all that lies before these ends."""
        return any(self.positions.get(at, 0) < end for at, end in ends.items())

    def rows(self, source: EdgePartition) -> Iterator[RowOrigins]:
        """The origins of one flow's rows, file by file.

        Raises:
            TableUnavailable: a file cannot be read.
        """
        folder: Folder = open_tables(self.config).folder
        parts = (row_origins(folder / name, files, source) for name, files in self.files.items())
        return itertools.chain.from_iterable(parts)

    def why(self, tp: Partition, bounds: OffsetRange) -> Omission:
        """Why the table lacks records of a central partition.

        Args:
            tp: The central partition.
            bounds: What central holds there.
        """
        if self._handle is None:
            return Omission(LAKE, "no_table", f"there is no table {self.table} yet")
        start = self.positions.get(tp, bounds.start)
        where = f"table {self.table} stands at offset {start} of central {tp[0]}-{tp[1]}"
        if start < bounds.start:
            return Omission(LAKE, "removed", f"{where}, and central no longer has what follows")
        with contextlib.suppress(AggregatorError):
            tables = open_tables(self.config)
            if rules := self._rules(tables, tp, start):
                return Omission(LAKE, "quality", f"{where}: its quality gate holds what follows, by {rules}")
            if misfit := self._misfit(tables, self._handle, tp, OffsetRange(start, bounds.end)):
                return Omission(LAKE, "schema", f"{where}: {misfit}")
        return Omission(LAKE, "behind", f"{where}: run the hub, or give --wait more time while it runs")

    def _rules(self, tables: Tables, tp: Partition, start: int) -> str:
        """Rules of the quality gate that hold what begins here."""
        starts = {one: start for one in self.partitions if (one.topic, one.partition) == tp}
        releases = read_releases(self.config.central, HubNames(self.config.hub))
        held = still_held(self.table, read(tables.folder, self.table, days=HELD_DAYS), starts, releases)
        return ", ".join(rule for one in held for rule in one.rules)

    def _misfit(self, tables: Tables, handle: TableHandle, tp: Partition, offsets: OffsetRange) -> str:
        """How the next record's schema differs from the table."""
        if self.config.schemas is None:
            return ""
        with contextlib.closing(CommittedReader(self.config.central, max_bytes=1)) as reader:
            pieces = reader.read({tp: offsets})
            value = next((value for piece in pieces for value in piece.values if value is not None), None)
        if value is None or len(value) < HEADER_BYTES or value[0]:
            return ""
        registry = open_registry(self.config.schemas, self.config.schemas_client)
        try:
            theirs = arrow_schema(registry.schema(int.from_bytes(value[1:HEADER_BYTES], "big")))
            merge_schemas(handle.schema(), tables.narrowed(pa.schema(theirs)), tables.promotes)
        except HoldError as error:
            return error.message
        return ""
