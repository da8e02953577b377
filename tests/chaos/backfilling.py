"""Backfills as a user runs them, and what must hold after each: I1 to I6 of the faults, and a green audit."""

import json
import subprocess
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import contextmanager
from pathlib import Path

import duckdb
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

from tests.processes import LoggedProcess, environment, kill_all
from tests.trial import read_all

CANARY = b"@x.example"


@contextmanager
def running(trial, *words: str):
    """A command as a process group of its own, killed at the end."""
    with (trial.folder / f"command-{time.monotonic_ns()}.log").open("w") as log:
        process = LoggedProcess(
            trial.command(*words), stdout=log, stderr=subprocess.STDOUT, env=environment(), start_new_session=True
        )
        process.log = Path(log.name)
        try:
            yield process
        finally:
            kill_all(process)


def backfill(trial, *words: str, expect: int = 0) -> str:
    done = trial.run("backfill", *words, timeout=400)
    assert done.returncode == expect, done.stderr[-3000:]
    return done.stdout


def listed(trial) -> list[dict]:
    return json.loads(backfill(trial, "list", "-o", "json"))


def rows(trial, table: str, columns: str) -> list[tuple]:
    """Rows of a table by DuckDB over the files that the format's own library lists."""
    folder = trial.folder / "lake"
    if trial.settings["lake"]["format"] == "delta":
        files = DeltaTable(folder / table).file_uris()
    else:
        catalog = load_catalog("lake", type="sql", uri=f"sqlite:///{folder / 'catalog.db'}")
        files = [task.file.file_path for task in catalog.load_table(("lake", table)).scan().plan_files()]
    if not files:
        return []
    with duckdb.connect() as connection:
        return connection.sql(f"select {columns} from read_parquet({files!r}, union_by_name=true)").fetchall()


def check(trial, edge: str, expected: Iterable[int], *tables: str) -> None:
    """I1 to I5: every number once at central, the same rows in the lake, the live records in order, no canary.

    Args:
        trial: Whose.
        edge: Which flows.
        expected: Numbers that must be there.
        tables: Those that the lake's rows lie in; by default the topic's own.
    """
    numbers = Counter(trial.numbers(edge))
    assert [n for n, times in numbers.items() if times > 1] == [], "duplicates at central"
    assert set(numbers) == set(expected), "lost or invented at central"
    origins, live = Counter(), {}
    for message in trial.central_records(edge):
        headers = dict(message.headers())
        _, _, _, partition, offset, incarnation = headers["hub.origin"].decode().split("/")
        origins[int(partition), int(incarnation), int(offset)] += 1
        if "hub.backfill" not in headers:
            live.setdefault(partition, []).append((int(incarnation), int(offset)))
    assert all(offsets == sorted(offsets) for offsets in live.values()), "reordered"
    there = tables or (trial.topic,)
    found = [row for table in there for row in rows(trial, table, "_edge, _partition, _incarnation, _offset")]
    assert Counter(row[1:] for row in found if row[0] == edge) == origins, "lake and central differ"
    no_canary(trial, *there)


def no_canary(trial, *tables: str) -> None:
    """I5: no address of anybody at central, whatever topic of the hub, and in no row."""
    listed = trial.admin("central").list_topics(timeout=10).topics
    for topic in (name for name in listed if trial.mark in name):
        for message in read_all(trial.sandbox.central.bootstrap, topic):
            contents = [message.key(), message.value(), *(value for _, value in message.headers() or ())]
            assert not any(CANARY in (content or b"") for content in contents), f"a canary in {topic}"
    for table in tables:
        assert not any(CANARY.decode() in str(row) for row in rows(trial, table, "*")), f"a canary in {table}"


def audited(trial) -> None:
    """I6: everything is explained."""
    done = trial.run("audit", "--topic", trial.topic, "--wait", "30s")
    assert done.returncode == 0, done.stdout


def done(trial) -> int:
    """Records that a backfill has brought; plain central counts, cheap enough to be asked often."""
    return trial.ends(f"eu.{trial.topic}")
