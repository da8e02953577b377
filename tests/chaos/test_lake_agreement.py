"""Central and lake, row by row, after kills at every step of the lake's cycle, for both formats."""

from collections import Counter

import duckdb
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

from tests.chaos.deaths import die
from tests.chaos.spark_sql import by_spark
from tests.trial import wait_for

pytestmark = [pytest.mark.brokers, pytest.mark.spark]

STEPS = ("staged", "audited", "committed", "next")


def live_files(trial, table: str) -> list[str]:
    """The newest version's files, as the format's own library lists them."""
    folder = trial.folder / "lake"
    if trial.settings["lake"]["format"] == "delta":
        return DeltaTable(folder / table).file_uris()
    catalog = load_catalog("lake", type="sql", uri=f"sqlite:///{folder / 'catalog.db'}")
    return [task.file.file_path for task in catalog.load_table(("lake", table)).scan().plan_files()]


def rows(trial, table: str, columns: str) -> list[tuple]:
    """Rows of a table by DuckDB over the live list."""
    with duckdb.connect() as connection:
        query = f"select {columns} from read_parquet({live_files(trial, table)!r}, union_by_name=true)"
        return connection.sql(query).fetchall()


def check(trial, table: str) -> None:
    """Every central record once in the table, with its fields, keys and tombstones; nothing else."""
    expected = Counter()
    for edge in trial.sandbox.edges:
        for message in trial.central_records(edge):
            origin = dict(message.headers())["hub.origin"].decode().split("/")
            at = (origin[1], int(origin[3]), int(origin[5]), int(origin[4]))
            expected[*at, message.key(), message.value() is None] += 1
    found = Counter(rows(trial, table, "_edge, _partition, _incarnation, _offset, _key, _deleted"))
    assert found == expected
    numbers = Counter(row[0] for row in rows(trial, table, "id") if row[0] is not None)
    assert numbers == Counter(number for edge in trial.sandbox.edges for number in trial.numbers(edge))


def check_by_spark(trial, table: str) -> None:
    """Spark SQL with the format's own runtime reads the rows that DuckDB reads; two names are Iceberg's own there."""
    columns = "_central_topic, _central_partition, _central_offset, _edge, _topic, _offset, _incarnation, id"
    kind, folder = trial.settings["lake"]["format"], trial.folder / "lake"
    found = by_spark(kind, folder, f"select {columns} from {{table:{table}}}")
    assert Counter(map(tuple, found)) == Counter(rows(trial, table, columns))


@pytest.mark.parametrize("lake_format", ["delta", "iceberg"])
def test_kills_at_every_step(trial, lake_format):
    """Faults 1, 19 and 21 (I2, I3): staged, audited, committed, or in the next cycle, each record is there once."""
    trial.settings["lake"] = {
        "path": "lake",
        "format": lake_format,
        "commit_interval": "1s",
        "tables": {trial.topic: {"partition_by": ["_edge"], "current_state": True}},
    }
    trial.write()
    for step in STEPS:
        for edge in trial.sandbox.edges:
            trial.produce(edge, 700)
            trial.produce_raw(edge, [(b"k3", None, 0)])
        trial.drain("--only", "replicate")
        if step == "next":  # something is to be read after the first commit of this life
            with trial.traffic("eu"):
                die_with_replication(trial)
        else:
            die(trial, step)
    trial.drain()
    check(trial, trial.topic)
    check_by_spark(trial, trial.topic)
    state = Counter(rows(trial, f"{trial.topic}__current", "_edge, _partition, _key, _incarnation, _offset"))
    assert state == latest(rows(trial, trial.topic, "_edge, _partition, _key, _incarnation, _offset, _deleted"))
    done = trial.run("lake", "compact")
    assert done.returncode == 0, done.stderr
    check(trial, trial.topic)


def die_with_replication(trial) -> None:
    """The lake dies in the cycle after a commit, while another process delivers."""
    with trial.running("--only", "replicate") as hub:
        wait_for(lambda: "epoch " in hub.log.read_text(), timeout=60, what="the epoch")
        die(trial, "next")


def latest(history: list[tuple]) -> Counter:
    """What the current state must be, worked out in the plainest way."""
    last: dict[tuple, tuple] = {}
    for edge, partition, key, incarnation, offset, deleted in history:
        at = (edge, partition, key)
        last[at] = max(last.get(at, (-1, -1, False)), (incarnation, offset, deleted))
    return Counter((*at, *row[:2]) for at, row in last.items() if not row[2])
