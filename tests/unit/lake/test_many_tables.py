"""A cycle over many tables: one Spark job for what fits together, commits side by side, trouble where it is."""

import inspect
import threading
from pathlib import Path
from types import SimpleNamespace

import duckdb
import pyarrow as pa
import pytest

from aggregator.config.model import ClusterConfig, HubConfig
from aggregator.coordinates import CentralPartition, EdgePartition, OffsetRange
from aggregator.errors import HoldError, RetryError
from aggregator.lake import driver as module
from aggregator.lake.columns.columns import FIXED_COLUMNS
from aggregator.lake.cycle.job import pack_tasks, run_jobs
from aggregator.lake.cycle.ranges import Backlog, Span, SpanProgress, StagingOutcome
from aggregator.lake.cycle.task import StagingPlan
from aggregator.lake.driver import LakeBounds, LakeDriver
from aggregator.lake.storage.files import StagingWriter
from aggregator.lake.storage.folder import Folder
from aggregator.lake.table_plan import TablePlan, plan_batches, table_limits
from aggregator.lake.tables.delta import DeltaHandle, DeltaTables
from aggregator.lake.tables.formats import open_tables
from aggregator.state.names import HubNames

pytestmark = pytest.mark.slow

FORMATS = pytest.mark.parametrize("form", ["delta", "iceberg"])
TOPICS = [f"t{number:02d}" for number in range(20)]
COLUMNS = DeltaTables("h", Folder("/")).narrowed(FIXED_COLUMNS)


class ManyTables:
    """A driver of many tables, whose topics at central have one partition and so many records each."""

    def __init__(self, folder: Path, monkeypatch, form="delta", records=5, **bounds) -> None:
        self.ends = dict.fromkeys(TOPICS, records)
        self.ids = dict.fromkeys(TOPICS, "AAA")
        self.silent: dict[str, str] = {}
        self.failing: set[str] = set()
        self.jobs: list[list[str]] = []
        self.staged: list[tuple[str, str]] = []
        self.while_staged = lambda: None
        self.config = HubConfig.model_validate(
            {
                "hub": "h",
                "central": {"bootstrap_servers": "central:1"},
                "edges": {"eu": {"bootstrap_servers": "edge:1"}},
                "schemas": "directory:schemas",
                "topics": [{"match": "t.*", "policy": "p.yaml", "central": "{topic}", "lake": "{topic}"}],
                "lake": {"path": folder, "format": form},
            }
        )
        flows = {EdgePartition("eu", topic, 0): None for topic in TOPICS}
        monkeypatch.setattr(module, "central_partitions", self.partitions)
        monkeypatch.setattr(module, "offset_bounds", self.bounds)
        monkeypatch.setattr(module, "run_jobs", self.run_jobs)
        self.driver = LakeDriver(
            self.config, None, HubNames("h"), bounds=LakeBounds(**bounds), flows=lambda: flows, releases=list
        )

    def partitions(self, _, names, refused):
        refused |= {name: why for name, why in self.silent.items() if name in names}
        return [CentralPartition(name, self.ids[name], 0) for name in sorted(names) if name not in self.silent]

    def bounds(self, _, partitions, __):
        return {one: OffsetRange(0, self.ends[one.topic]) for one in partitions}

    def run_jobs(self, _, tables, *, parallel):
        self.jobs.append([one.name for one in tables])
        assert sum(len(span.offsets) for one in tables for spans in one.tasks for span in spans)
        found = [RetryError("away") if one.name in self.failing else self.outcomes(one) for one in tables]
        self.while_staged()
        return found

    def outcomes(self, plan):
        made = []
        for spans in plan.tasks:
            stage = StagingWriter(plan.folder, COLUMNS)
            for at, offsets in spans:
                place = {"_central_topic": at.topic, "_central_partition": 0, "_deleted": False}
                rows = [place | {"_central_offset": offset} for offset in range(*offsets)]
                stage.add(pa.Table.from_pylist(rows, schema=COLUMNS))
            made.append(StagingOutcome(tuple(SpanProgress(span, span.offsets.end) for span in spans), stage.close()))
            self.staged += [(plan.name, file.path) for file in made[-1].files]
        return made

    def offsets(self, name: str) -> list[int]:
        """What DuckDB reads of a table."""
        tables = open_tables(self.config)
        handle = tables.open(name)
        if handle is None:
            return []
        files = [str(Path(tables.folder) / name / path) for path in handle.live_paths()]
        with duckdb.connect() as connection:
            rows = connection.sql(f"select _central_offset from read_parquet({files!r}) order by all").fetchall()
        return [offset for (offset,) in rows]


@pytest.mark.slow
@FORMATS
def test_every_table_has_each_record_once(form, tmp_path, monkeypatch):
    """Twenty tables, three cycles: created and committed side by side, in a job for each cycle."""
    lake = ManyTables(tmp_path, monkeypatch, form)
    for end in (5, 9, 9):
        lake.ends = dict.fromkeys(TOPICS, end)
        report = lake.driver.cycle()
        assert [one.table for one in report.tables] == TOPICS
        assert not report.troubles
    assert lake.jobs == [TOPICS, TOPICS]
    assert [lake.offsets(name) for name in TOPICS] == [list(range(9))] * 20


def test_what_a_round_takes_on_is_bounded(tmp_path, monkeypatch):
    """Twenty tables of five records, twelve at a time: two tables a job."""
    lake = ManyTables(tmp_path, monkeypatch, cycle_records=12)
    assert lake.driver.cycle().rows == 100
    assert [len(one) for one in lake.jobs] == [2] * 10


def test_trouble_of_one_table_is_its_own(tmp_path, monkeypatch):
    """A topic that nobody tells of, a task that fails, a topic that is created again: the other tables go on."""
    lake = ManyTables(tmp_path, monkeypatch)
    lake.silent, lake.failing = {"t03": "no leader"}, {"t05"}
    lake.while_staged = lambda: lake.ids.update(t07="BBB")
    report = lake.driver.cycle()
    failed = {one.table: str(one.failed) for one in report.tables if one.failed}
    assert failed.keys() == {"t03", "t05", "t07"}
    assert "t03: no leader" in failed["t03"]
    assert "t07: it changed while it was read" in failed["t07"]
    assert not [path for name, path in lake.staged if name == "t07" and (tmp_path / name / path).exists()]
    assert {name: len(lake.offsets(name)) for name in TOPICS} == {name: 0 if name in failed else 5 for name in TOPICS}
    lake.silent, lake.failing, lake.while_staged = {}, set(), lambda: None
    assert not lake.driver.cycle().troubles
    assert [lake.offsets(name) for name in TOPICS] == [list(range(5))] * 20


class Session:
    """A Spark session that runs a job here, unless it stages for a table that ends its worker."""

    def __init__(self, fatal: str) -> None:
        self.fatal, self.jobs = fatal, []

    def range(self, _start, end, _step, _parts):
        self.count = end
        return self

    def mapInArrow(self, body, _schema):  # noqa: N802 - Spark's name
        self.tables = inspect.getclosurevars(body).nonlocals["plans"]
        self.body = body
        return self

    def collect(self):
        self.jobs.append([one.name for one in self.tables])
        if self.fatal in self.jobs[-1]:
            raise RuntimeError("a worker was lost")
        batches = self.body(iter([pa.RecordBatch.from_pydict({"id": list(range(self.count))})]))
        return [row for batch in batches for row in batch.to_pylist()]


def test_a_table_that_ends_its_worker_stops_no_other(tmp_path, monkeypatch):
    """Its job is run again in halves, and from then on it has one of its own, until that runs."""
    lake = ManyTables(tmp_path, monkeypatch)
    lake.driver._spark = session = Session("t07")
    monkeypatch.setattr(module, "run_jobs", run_jobs)
    monkeypatch.setattr(StagingPlan, "stage", lambda plan, number: lake.outcomes(plan)[number])
    for end in (5, 9):
        lake.ends, session.jobs[:] = dict.fromkeys(TOPICS, end), []
        failed = [one.table for one in lake.driver.cycle().tables if one.failed]
        assert failed == ["t07"]
    assert session.jobs == [[name for name in TOPICS if name != "t07"], ["t07"]]
    session.fatal = ""
    for _ in range(2):
        lake.ends = {name: end + 1 for name, end in lake.ends.items()}
        session.jobs.clear()
        assert not lake.driver.cycle().troubles
    assert session.jobs == [TOPICS]
    assert [lake.offsets(name) for name in TOPICS] == [list(range(11))] * 20


@pytest.mark.parametrize("step", ["open", "schema", "commit"])
@pytest.mark.parametrize("error", [TypeError("x"), pa.ArrowInvalid("x"), OSError("x"), HoldError("x")])
def test_what_one_table_raises_stops_no_other(tmp_path, monkeypatch, step, error):
    """Metadata that somebody damaged raises anything: it is told of its own table, and nothing of it stays behind."""
    lake = ManyTables(tmp_path, monkeypatch)
    assert not lake.driver.cycle().troubles
    lake.ends = dict.fromkeys(TOPICS, 9)
    if step == "open":
        real_open = DeltaTables.open
        monkeypatch.setattr(DeltaTables, "open", lambda tables, name: raising(error, name) or real_open(tables, name))
    else:
        real = getattr(DeltaHandle, step)
        monkeypatch.setattr(
            DeltaHandle, step, lambda self, *of, **by: raising(error, self.owner) or real(self, *of, **by)
        )
    report = lake.driver.cycle()
    assert [one.table for one in report.tables if one.failed or one.held] == ["t07"]
    monkeypatch.undo()
    assert {name: len(lake.offsets(name)) for name in TOPICS} == {name: 5 if name == "t07" else 9 for name in TOPICS}
    there = {path.name for path in (tmp_path / "t07").glob("*.parquet")}
    assert there == set(open_tables(lake.config).open("t07").live_paths())


def raising(error: Exception, name: str) -> None:
    if name.endswith("t07"):
        raise error


def test_a_stop_is_heard_between_two_rounds(tmp_path, monkeypatch):
    """What was not staged is told as it stands, and comes with the next run."""
    lake, stop = ManyTables(tmp_path, monkeypatch, cycle_records=12), threading.Event()
    lake.while_staged = stop.set
    report = lake.driver.cycle(stop=stop)
    assert len(lake.jobs) == 1
    assert [one.table for one in report.tables] == TOPICS
    assert report.rows == 10
    assert not report.troubles


def test_an_answer_that_lacks_a_task_is_no_answer():
    """One outcome per task of each plan, or the table waits."""
    found = run_jobs(SimpleNamespace(range=lambda *_: SilentJob()), [table_of(5, 5)], parallel=2)
    assert "Spark answered for 0 of 2 tasks" in str(found[0])


class SilentJob:
    """Answers nothing."""

    def mapInArrow(self, *_):  # noqa: N802 - Spark's name
        return self

    def collect(self):
        return []


def table_of(*lengths: int) -> StagingPlan:
    at = CentralPartition("t", "x", 0)
    spans = tuple((Span(at, OffsetRange(0, one)),) for one in lengths)
    central = ClusterConfig(bootstrap_servers="x:1")
    return StagingPlan("t", Folder("/"), central, "", DeltaTables("h", Folder("/")), None, spans)


def test_central_that_does_not_answer_is_told_for_every_table(tmp_path, monkeypatch):
    """As for one table, so that a drain waits for it."""
    lake = ManyTables(tmp_path, monkeypatch)

    def away(*_):
        raise RetryError("central is away")

    monkeypatch.setattr(module, "offset_bounds", away)
    assert [str(one.failed) for one in lake.driver.cycle().tables] == ["central is away"] * 20


def test_a_table_has_the_limits_of_its_own_topics():
    """One silent topic silences its tables, and no other."""
    one, two = CentralPartition("a", "x", 0), CentralPartition("b", "y", 3)
    bounds = {one: OffsetRange(0, 5), two: OffsetRange(2, 7)}
    found = table_limits({"first": frozenset("a"), "both": frozenset("ab"), "none": frozenset("c")}, bounds, {})
    assert found == {"both": bounds, "first": {one: OffsetRange(0, 5)}, "none": {}}
    found = table_limits({"first": frozenset("a"), "both": frozenset("ab")}, bounds, {"b": "no leader"})
    assert found["first"] == {one: OffsetRange(0, 5)}
    assert str(found["both"]).startswith("central: b: no leader")


def plan(name: str, *records: int) -> TablePlan:
    spans = tuple(Span(CentralPartition(name, "x", at), OffsetRange(0, one)) for at, one in enumerate(records))
    return TablePlan(name, None, {}, {}, Backlog(spans, ()))


def test_rounds_keep_the_order_and_a_long_plan_is_alone():
    """A plan beyond the bound is a round by itself; nothing is left out."""
    plans = [plan("a", 3, 2), plan("b", 5), plan("c", 1), plan("d", 90), plan("e", 4)]
    assert [[one.name for one in found] for found in plan_batches(plans, 10)] == [["a", "b"], ["c"], ["d"], ["e"]]
    assert list(plan_batches([], 10)) == []
    assert [[one.name for one in found] for found in plan_batches(plans, 10, apart=frozenset("ad"))] == [
        ["b", "c", "e"], ["a"], ["d"],
    ]  # fmt: skip


def test_groups_are_even_and_hold_every_task_once():
    """Of plans of any size, for as many Spark tasks as run at a time."""
    lengths = [[40], [1, 1], [], [30, 10], [5] * 6]
    plans = [table_of(*found) for found in lengths]
    for parallel in (1, 2, 3, 50):
        found = pack_tasks(plans, parallel)
        assert len(found) == min(parallel, 11)
        assert all(found)
        everything = [one for share in found for one in share]
        assert sorted(everything) == [(table, n) for table, plan in enumerate(lengths) for n in range(len(plan))]
        loads = [sum(lengths[table][n] for table, n in share) for share in found]
        assert max(loads) <= max(40, sum(loads) / len(loads) * 4 / 3)
    assert pack_tasks(plans[2:3], 2) == ()
