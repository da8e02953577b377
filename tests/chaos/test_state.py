"""All state is at central: a hub whose machine is gone goes on elsewhere; a damaged ledger is refused, not guessed."""

import json
import shutil
import subprocess

import pytest
from confluent_kafka import Producer

from tests.processes import environment, kill_all
from tests.trial import read_all

pytestmark = [pytest.mark.brokers, pytest.mark.spark]

BACKLOG = 20_000


def test_all_local_state_is_deleted(trial, arrivals, tmp_path):
    """Fault 8 (I1, I2, I4): killed and started in another folder, with another home: the result is unchanged."""
    trial.produce("eu", BACKLOG)
    with trial.running() as hub:
        arrivals["eu"].reach(1, hub=hub, timeout=120)
        kill_all(hub)
    trial.produce("eu", BACKLOG)
    assert arrivals["eu"].count() < 2 * BACKLOG, "nothing was left to do"
    old, new, home = trial.folder, tmp_path / "another-machine", tmp_path / "home"
    new.mkdir()
    home.mkdir()
    for name in ("hub.yaml", "policy.yaml", "key", "schemas", "central-schemas", "lake"):
        if (old / name).exists():
            (old / name).rename(new / name)
    for leftover in old.iterdir():
        if leftover not in {new, home}:
            shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
    trial.folder = new
    places = dict.fromkeys(("HOME", "TMPDIR", "XDG_CACHE_HOME", "NUMBA_CACHE_DIR"), str(home))
    done = subprocess.run(
        trial.command("run", "--drain"),
        capture_output=True,
        text=True,
        timeout=200,
        cwd=home,
        env=environment() | places,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    trial.check_exactly_once("eu", 2 * BACKLOG)


def test_a_damaged_ledger_record_is_refused_by_name(trial):
    """Fault 9 (I6): `run` and `status` end with 1, name topic, partition, offset and flow, and nothing is reset."""
    trial.produce("eu", 300)
    trial.drain()
    before = trial.ledger()["eu", 0]
    partition = before.pop("ledger_partition")
    crooked = json.dumps(before | {"next_offset": before["next_offset"] - 50}).encode()
    offset = _append(trial, partition, crooked)
    trial.produce("eu", 300)
    delivered = trial.central_count("eu")
    for arguments in (("run", "--drain"), ("status",)):
        done = trial.run(*arguments)
        assert done.returncode == 1
        where = f"{trial.hub}.ledger partition {partition} offset {offset}: the ledger record of eu/{trial.topic}/0"
        assert where in done.stderr
        assert "next:" in done.stderr
        assert "Traceback" not in done.stderr
    assert trial.central_count("eu") == delivered, "nothing was read past it"
    assert read_all(trial.sandbox.central.bootstrap, f"{trial.hub}.ledger")[-1].offset() >= offset


def _append(trial, partition: int, value: bytes) -> int:
    """Write a ledger record as an accident would: no transaction, no checksum that fits. Returns its offset."""
    landed = []
    producer = Producer({"bootstrap.servers": trial.sandbox.central.bootstrap, "log_level": 3})
    producer.produce(
        f"{trial.hub}.ledger",
        value,
        f"eu/{trial.topic}/0",
        partition,
        on_delivery=lambda error, message: landed.append((error, message.offset())),
    )
    assert producer.flush(20) == 0
    ((error, offset),) = landed
    assert error is None
    return offset
