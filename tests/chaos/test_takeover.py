"""A hub takes over from MirrorMaker 2 itself, which is killed at a drawn moment; every record is counted at central.

`TAKEOVERS=20` for more moments of each kind, `SEED` for the same ones again.
"""

import io
import json
import os
import time
from collections import Counter

import fastavro
import pytest

from aggregator.kafka.readers.log_record import LogRecord
from aggregator.mirrormaker.connect_offsets import source_offsets
from tests.bench import mirrormaker
from tests.processes import kill_all
from tests.trial import Trial, read_all, seeded, wait_for

pytestmark = [pytest.mark.brokers, pytest.mark.timeout(0)]

CONNECTOR = "MirrorSourceConnector"
TAKEOVERS = int(os.environ.get("TAKEOVERS") or 1)
# A killed worker is a member until its session is over; its group is empty then.
LEAVES_S = 120


def copied(trial: Trial, alias: str) -> dict[int, int]:
    """By partition, up to where MirrorMaker 2 says that it has copied."""
    log = [
        LogRecord(m.partition(), m.offset(), m.key().decode(), m.value())
        for m in read_all(trial.sandbox.central.bootstrap, f"mm2-offsets.{alias}.internal")
    ]
    found = source_offsets(log, CONNECTOR, alias).positions
    return {partition: upto for (topic, partition), upto in found.items() if topic == trial.topic}


def delivered(trial: Trial, topic: str) -> tuple[Counter, Counter]:
    """Numbers of the records at central, by who brought them: MirrorMaker 2, and the hub."""
    schemas = {}
    for path in (trial.folder / "central-schemas").glob("*/*.avsc"):
        schemas[int(path.stem.split("-")[1])] = fastavro.parse_schema(json.loads(path.read_text()))
    theirs, ours = Counter(), Counter()
    for message in trial.central_records("eu", topic):
        value, is_ours = message.value(), "hub.origin" in dict(message.headers() or ())
        schema = schemas[int.from_bytes(value[1:5], "big")] if is_ours else trial.schema
        (ours if is_ours else theirs)[fastavro.schemaless_reader(io.BytesIO(value[5:]), schema)["id"]] += 1
    return theirs, ours


def take_over(trial: Trial, folder, chance, *, exactly_once: bool) -> None:
    """MirrorMaker 2 copies under load, dies, and the hub goes on, while records still come."""
    alias = f"eu-{trial.mark}"
    topic = f"{alias}.{trial.topic}"
    properties = mirrormaker.settings(
        alias,
        trial.sandbox.edges["eu"].bootstrap,
        trial.sandbox.central.bootstrap,
        trial.topic,
        exactly_once=exactly_once,
        port=mirrormaker.free_port(),
    ) | {"central.offset.flush.interval.ms": "700"}
    trial.settings["edges"] = {alias: trial.settings["edges"]["eu"]}
    trial.settings["topics"] = [{"match": trial.topic, "policy": "policy.yaml", "start": "mirrormaker2"}]
    trial.write()
    trial.produce("eu", 300)
    with trial.traffic("eu", batch=60, pause_s=0.05) as produced:
        with mirrormaker.running(folder, properties) as process:
            wait_for(lambda: trial.ends(topic), timeout=120, what="MirrorMaker 2's first copy")
            alive = trial.run("run", "--drain")
            assert (alive.returncode, "MirrorMaker 2 lives" in alive.stderr) == (4, True), alive.stderr
            time.sleep(chance.uniform(0.0, 4.0))
            kill_all(process)
        time.sleep(chance.uniform(0.0, 2.0))

        def drained() -> bool:
            done = trial.run("run", "--drain")
            assert done.returncode in (0, 4), done.stderr
            return done.returncode == 0

        wait_for(drained, timeout=LEAVES_S, what="a takeover")
    left = copied(trial, alias)
    trial.drain()
    theirs, ours = delivered(trial, topic)
    every = set(range(300 + produced["eu"]))
    assert not every - set(theirs + ours), "lost"
    assert set(theirs + ours) <= every
    first = {}
    for partition, _, offset in origins(trial, topic):
        first[partition] = min(offset, first.get(partition, offset))
    print(f"{exactly_once=} {left=} {first=} {sum(theirs.values())} copied, {sum(ours.values())} by the hub")
    # It goes on at the very offset at which MirrorMaker 2 would, so that nothing comes again that would not there.
    assert first == {partition: left.get(partition, 0) for partition in first}
    assert max(ours.values()) == 1
    doubled = {number for number in theirs if theirs[number] + ours[number] > 1}
    print(f"{len(doubled)} doubled")
    assert not (exactly_once and doubled)


def origins(trial: Trial, topic: str) -> list[tuple[int, int, int]]:
    """Of the records that the hub delivered."""
    found = []
    for message in trial.central_records("eu", topic):
        if origin := dict(message.headers() or ()).get("hub.origin"):
            *_, partition, offset, incarnation = origin.decode().split("/")
            found.append((int(partition), int(incarnation), int(offset)))
    return found


@pytest.mark.parametrize("exactly_once", [True, False], ids=["exactly once", "at least once"])
def test_a_hub_takes_over_from_a_killed_mirrormaker_2(new_trial, tmp_path, exactly_once):
    """Fault 37, I1: nothing is lost, and nothing doubled that MirrorMaker 2 would not have doubled by going on."""
    chance = seeded()
    for number in range(TAKEOVERS):
        print(f"takeover {number}")
        take_over(new_trial(), tmp_path / f"mm2-{number}", chance, exactly_once=exactly_once)
