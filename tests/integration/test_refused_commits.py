"""A commit that took effect and was answered with an error is the writer's own success, and its files stay.

Both formats with their real clients: Delta in an object store that applies a conditional put and then refuses it,
Iceberg in a catalogue that applies a commit and then refuses it.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

import pytest

from aggregator.config.lake_model import CatalogConfig
from aggregator.errors import RetryError
from aggregator.lake.current_state import CurrentState
from aggregator.lake.cycle.ranges import StagingOutcome
from aggregator.lake.quality.quarantine import Quarantine, SplitOutcome
from aggregator.lake.quality.split import Split, marked
from aggregator.lake.storage.folder import Folder
from aggregator.lake.tables.delta import DeltaTables
from aggregator.lake.tables.iceberg import IcebergTables
from aggregator.lake.tables.port import TableUnavailable
from aggregator.lake.upkeep.compaction import Compacted, compact
from aggregator.lake.upkeep.orphans import sweep
from tests.object_store import BUCKET, ObjectStore
from tests.rest_catalogue import refuse, rest_catalogue
from tests.unit.backfill.restates import NEW, Restate, origins
from tests.unit.lake.tabling import FIRST, NAME, commit, ids, staged

TWO_DAYS_S = 2 * 86_400.0
CASES = [("delta", 500, 1), ("delta", 503, 1), ("delta", 500, 0)]
CASES += [("iceberg", status, 0) for status in (409, 500, 503)]


@dataclass
class World:
    """Tables, and how the next commit to one of them is refused after it took effect."""

    tables: DeltaTables | IcebergTables
    refuse: Callable[[str], None]

    def rows(self, name: str = NAME, column: str = "id") -> list[int]:
        """A column of every live row, once everything is gone that can go."""
        folder = self.tables.folder / name
        sweep(self.tables, name, now_s=time.time() + TWO_DAYS_S)
        files = self.tables.open(name).live_paths()
        return sorted(number for path in files for number in folder.rows(path, [column])[column].to_pylist())


@pytest.fixture(params=CASES, ids=["-".join(map(str, case)) for case in CASES])
def world(request, tmp_path):
    form, status, retries = request.param
    if form == "iceberg":
        with rest_catalogue(tmp_path) as address:
            catalog = CatalogConfig(options={"type": "rest", "uri": address})
            tables = IcebergTables("hub", Folder(str(tmp_path / "lake")), catalog=catalog)
            yield World(tables, lambda name: refuse(address, name, status))
        return
    store = ObjectStore()
    options = store.options("delta") | {"max_retries": str(retries)}
    tables = DeltaTables("hub", Folder(f"s3://{BUCKET}/hub", "delta", options))
    yield World(tables, lambda name: store.refuse(rf"{name}/_delta_log/\d+\.json", status))
    store.end()


def test_appended_rows_stay(world):
    """The commit is told as done, its rows are there once, and the next one goes on behind it."""
    tables = world.tables
    commit(tables, staged(tables, FIRST, 0, 2, ids(1, 2)))
    world.refuse(NAME)
    done = commit(tables, staged(tables, FIRST, 2, 4, ids(3, 4)))
    assert (done.version, len(done.settled.accepted)) == (tables.open(NAME).version, 1)
    commit(tables, staged(tables, FIRST, 4, 5, ids(5)))
    assert world.rows() == [1, 2, 3, 4, 5]
    assert tables.open(NAME).positions([FIRST]) == {FIRST: 5}


def test_a_table_that_was_created_or_widened_goes_on(world):
    """Whoever was refused looks again, and finds what it did."""
    tables = world.tables
    world.refuse(NAME)
    for _ in range(2):  # Iceberg's unknown outcome is for the next cycle to look at
        try:
            commit(tables, outcome := staged(tables, FIRST, 0, 2, ids(1, 2)))
            break
        except TableUnavailable:
            continue
    assert outcome.files
    assert world.rows() == [1, 2]


def test_compacted_rows_stay(world):
    """The one file of all rows is what the refused commit named."""
    tables = world.tables
    for number in range(3):
        commit(tables, staged(tables, FIRST, number, number + 1, ids(number)))
    world.refuse(NAME)
    assert compact(tables, tables.folder / NAME, NAME) == Compacted(3, 1)
    assert world.rows() == [0, 1, 2]


def test_the_current_state_stays(world):
    """Its commit replaces every file of the one before."""
    tables = world.tables
    state = CurrentState(tables, tables.folder, NAME)
    commit(tables, staged(tables, FIRST, 0, 3, origins(0, 1, 2)))
    state.refresh([FIRST])
    commit(tables, staged(tables, FIRST, 3, 5, origins(3, 4)))
    world.refuse(state.table)
    assert state.refresh([FIRST], force=True) == tables.open(state.table).version
    assert world.rows(state.table) == [2, 3, 4]


def test_replaced_rows_stay(world):
    """A restate that was refused after it took effect is done, and says how many rows."""
    tables = world.tables
    commit(tables, staged(tables, FIRST, 0, 5, origins(*range(5))))
    restate = Restate(tables, 1, 4, [1, 2, 3])
    world.refuse(NAME)
    done = restate.run()
    assert (done.version, done.rows) == (tables.open(NAME).version, 3)
    assert world.rows() == [0, 4, NEW + 1, NEW + 2, NEW + 3]


@pytest.mark.parametrize("where", ["__quarantine", ""])
def test_diverted_rows_stay_on_both_sides(world, where):
    """The quarantine's commit decides, the table's follows; either may be refused after it took effect."""
    tables = world.tables
    quarantine = Quarantine(tables, tables.folder, NAME)

    def halves(start: int, *offsets: int) -> list[SplitOutcome]:
        outcome = staged(tables, FIRST, start, start + len(offsets), origins(*offsets))
        columns = marked(origins(*offsets).schema).serialize().to_pybytes()
        split = Split(tables.folder / NAME, quarantine.folder, columns, {None: "AAA"})
        stays, goes = split.cut(outcome.files[0], {1: ["r"]})
        return [SplitOutcome(StagingOutcome(outcome.reached, stays), StagingOutcome(outcome.reached, goes))]

    quarantine.publish(tables.open(NAME), halves(0, 0, 1), force=True)
    world.refuse(f"{NAME}{where}")
    done = quarantine.publish(tables.open(NAME), halves(2, 2, 3), force=True)
    assert done.version == tables.open(NAME).version
    assert (world.rows(), world.rows(quarantine.name)) == ([0, 2], [1, 3])


def test_what_no_answer_tells_is_left_to_the_next_look():
    """The store applies the commit and is away from then on: nothing is removed, and the next cycle finds the rows."""
    store = ObjectStore()
    try:
        tables = DeltaTables("hub", Folder(f"s3://{BUCKET}/hub", "delta", store.options("delta")))
        commit(tables, staged(tables, FIRST, 0, 1, ids(1)))
        outcome = staged(tables, FIRST, 1, 2, ids(2))
        store.refuse(rf"{NAME}/_delta_log/\d+\.json", 500, then_away=True)
        with pytest.raises(RetryError):
            commit(tables, outcome)
        store.turn()
        assert commit(tables, outcome).version is None
        assert World(tables, store.refuse).rows() == [1, 2]
        assert tables.open(NAME).vacuum(timedelta(days=7), now_s=time.time()) == 0
    finally:
        store.end()
