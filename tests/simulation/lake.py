"""One schedule of the lake: the real driver, ranges, commit and table handles over a simulated central and table.

Invariants: I2, every committed central record is in the table once and in order of its commits; a position of the table
never shrinks; no file that a commit names is removed; a cycle that tells of no commit made none; and progress: a last
driver without faults reaches the end.
"""

import itertools
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from greenlet import getcurrent

from aggregator.config.lake_model import CatalogConfig
from aggregator.config.model import HubConfig
from aggregator.coordinates import CentralPartition, EdgePartition, OffsetRange
from aggregator.errors import RetryError
from aggregator.lake.columns.columns import FIXED_COLUMNS
from aggregator.lake.cycle.ranges import Span, SpanProgress, StagingOutcome
from aggregator.lake.cycle.report import CycleReport
from aggregator.lake.cycle.task import StagingPlan
from aggregator.lake.driver import LakeBounds
from aggregator.lake.storage.files import StagedFile
from aggregator.lake.tables.delta import DeltaTables
from aggregator.lake.tables.port import Tables
from aggregator.state.names import HubNames
from tests.simulation.protocol import Mutant, compiled, edited
from tests.simulation.scheduler import Actor, Scheduler
from tests.simulation.table import Place, SimCatalog, Storage, table_class

MODULES = (
    "aggregator.lake.cycle.ranges",
    "aggregator.lake.storage.staging",
    "aggregator.lake.cycle.commit",
    "aggregator.lake.driver",
)
FORMS = {
    "delta": ("aggregator.lake.tables.delta",),
    "iceberg": ("aggregator.lake.tables.iceberg_handle", "aggregator.lake.tables.iceberg"),
}
CONFIG = HubConfig(
    hub="sim",
    central={"bootstrap_servers": "central:1"},
    edges={"eu": {"bootstrap_servers": "edge:1"}},
    topics=({"match": "t", "policy": Path("policy.yaml"), "lake": "{topic}"},),
    schemas="directory:schemas",
    lake={"path": Path("lake")},
)
PARTITIONS = tuple(CentralPartition("eu.t", "id", number) for number in range(3))
BOUNDS = LakeBounds(parallel=2, task_records=4, cycle_records=20)
STEPS = 200
SETTLED = 5_000


def _nothing(*_: object, **__: object) -> None:
    """No file of a schedule is old."""


class LakeCode:
    """The product's modules of the lake as this simulation takes them, with one rule removed or none."""

    def __init__(self, form: str, mutant: Mutant | None = None) -> None:
        self.form = form
        found = edited((*MODULES, *FORMS[form]), mutant)
        self._sources = {name: compile(text, name, "exec") for name, text in found.items()}

    def over(self, world: "LakeSchedule") -> type:
        """The driver's class, whose modules meet this world where the real ones meet Kafka, Spark and a library."""
        ranges, staging, commit, driver, *form = (compiled(name, code) for name, code in self._sources.items())
        commit.committable, commit.discard, form[0].mark_sent = ranges.committable, staging.discard, staging.mark_sent
        driver.discard_outcomes = commit.discard_outcomes
        driver.Commit, driver.backlog, driver.tasks = commit.Commit, ranges.backlog, ranges.tasks
        driver.open_tables = lambda config: self._tables(config.hub, world, *form)
        driver.central_partitions = lambda *_: PARTITIONS
        driver.offset_bounds = world.bounds
        driver.run_jobs, driver.sweep, driver.sweep_scratch = world.run_jobs, _nothing, _nothing
        return driver.LakeDriver

    def _tables(self, hub: str, world: "LakeSchedule", *modules: Any) -> Tables:
        """The real tables of the form over a simulated library."""
        place = Place(world.storage, world.remove)
        if self.form == "delta":
            (delta,) = modules
            delta.DeltaTable = table_class(world.storage)
            return delta.DeltaTables(hub, place)
        handle, iceberg = modules
        handle.schema_to_pyarrow = lambda schema, **_: schema
        iceberg.IcebergHandle = handle.IcebergHandle
        iceberg.connected = lambda *_, **__: SimCatalog(world.storage)
        return iceberg.IcebergTables(hub, place, catalog=CatalogConfig(options={"type": "sim"}))


class LakeSchedule:
    """One seed's world."""

    def __init__(self, seed: int, code: LakeCode) -> None:
        self.scheduler = Scheduler(seed)
        schema = DeltaTables("sim", Place()).narrowed(FIXED_COLUMNS)
        self.storage = Storage(self.scheduler, schema, lost=0.05, refused=0.05)
        self._staged: dict[object, list[str]] = defaultdict(list)
        # Each offset of a central partition holds a record or, where False, a marker.
        self.central: list[list[bool]] = [[] for _ in PARTITIONS]
        self.files: dict[str, list[tuple[int, int]]] = {}
        self._removed: list[str] = []
        self.quiet = False
        self._numbers = itertools.count()
        self._driver = code.over(self)

    def run(self) -> None:
        """Faults, healing, a last driver, the check."""
        self.scheduler.environment = self._environment
        self._start()
        self.scheduler.run(lambda: self.scheduler.steps >= STEPS, steps=STEPS * 50)
        self.quiet, self.storage.lost, self.storage.refused = True, 0.0, 0.0
        last = self._start()
        self.scheduler.run(lambda: not last.alive, steps=SETTLED)
        self._check()

    def _environment(self) -> None:
        draw = self.scheduler.random
        if self.quiet:
            return
        if draw.random() < 0.2:
            draw.choice(self.central).extend(draw.random() < 0.8 for _ in range(draw.randint(1, 12)))
        if self.scheduler.actors and draw.random() < 0.02:
            draw.choice(self.scheduler.actors).crash()
        if self.scheduler.actors and draw.random() < 0.02:
            self.scheduler.freeze(draw.choice(self.scheduler.actors), draw.uniform(0, 1))
        alive = sum(actor.alive for actor in self.scheduler.actors)
        if not alive or (alive < 3 and draw.random() < 0.02):
            self._start()

    def _start(self) -> Actor:
        return self.scheduler.spawn(f"driver-{next(self._numbers)}", self._drive)

    def _drive(self) -> None:
        flows = {EdgePartition("eu", "t", 0): None}
        driver = self._driver(
            CONFIG, SimpleNamespace(), HubNames("sim"), bounds=BOUNDS, clock=lambda: 0.0, flows=lambda: flows
        )
        while True:
            self._staged[getcurrent()].clear()
            report = driver.cycle(force=self.quiet)
            self._check_told(report)
            ends = {(one.topic, one.partition): len(self.central[one.partition]) for one in PARTITIONS}
            if self.quiet and not any(table.short_of(ends) for table in report.tables):
                return
            self.scheduler.sleep(0.05)

    # --- what the driver touches

    def bounds(
        self, _: object, partitions: Sequence[CentralPartition], __: object
    ) -> dict[CentralPartition, OffsetRange]:
        """What is committed now."""
        self.scheduler.pause()
        return {one: OffsetRange(0, len(self.central[one.partition])) for one in partitions}

    def run_jobs(
        self,
        _: object,
        plans: Sequence[StagingPlan],
        *,
        parallel: int,
    ) -> list[list[StagingOutcome] | RetryError]:
        """Stage every task's spans, or fail."""
        return [self._outcomes(plan) for plan in plans]

    def _outcomes(self, plan: StagingPlan) -> list[StagingOutcome] | RetryError:
        outcomes = []
        for spans in plan.tasks:
            self.scheduler.pause()
            if not self.quiet and self.scheduler.random.random() < 0.03:
                return RetryError("a task failed")
            outcomes.append(self._stage(spans))
        return outcomes

    def _stage(self, spans: Sequence[Span]) -> StagingOutcome:
        reached, rows = [], []
        for span in spans:
            log, (start, end) = self.central[span.partition.partition], span.offsets
            short = not self.quiet and self.scheduler.random.random() < 0.1
            stop = self.scheduler.random.randint(start, end) if short else end
            reached.append(SpanProgress(span, stop, "held" if stop < end else ""))
            rows += [(span.partition.partition, offset) for offset in range(start, stop) if log[offset]]
        if not rows:
            return StagingOutcome(tuple(reached), ())
        path = f"part-{next(self._numbers)}.parquet"
        self.files[path] = rows
        self._staged[getcurrent()].append(path)
        staged = StagedFile(path, 1, len(rows), "{}", self.storage.schema.serialize().to_pybytes())
        return StagingOutcome(tuple(reached), (staged,))

    def remove(self, path: str) -> None:
        """Delete a staged file, which may be in no commit."""
        if path in self._named():  # told at the end: a driver goes on after whatever one table raises
            self._removed.append(path)
        self.files.pop(path, None)

    def _named(self) -> set[str]:
        return {path for version in self.storage.versions for path in version.paths}

    # --- the invariants

    def _check_told(self, report: CycleReport) -> None:
        """What a cycle of this driver staged is in no version, unless it says so, or that it does not know."""
        silent = all(table.version is None and table.failed is None for table in report.tables)
        assert not silent or not self._named() & set(self._staged[getcurrent()]), "a commit was made and not told"

    def _check(self) -> None:
        assert not self._removed, f"committed files were removed: {self._removed[:5]}"
        rows = Counter(row for version in self.storage.versions for path in version.paths for row in self.files[path])
        twice = [row for row, times in rows.items() if times > 1]
        assert not twice, f"in the table twice: {twice[:5]}"
        there = {(number, at) for number, log in enumerate(self.central) for at, record in enumerate(log) if record}
        assert not there - set(rows), f"not in the table: {sorted(there - set(rows))[:5]}"
        reached: dict[str, int] = {}
        for version in self.storage.versions:
            for application, position in version.positions.items():
                assert position > reached.get(application, -1), f"position {application} went back to {position}"
                reached[application] = position
