"""A hub that nobody looks after keeps its tables up: while records flow, and while it is killed in between."""

import json

import pytest

from tests.trial import wait_for

pytestmark = [pytest.mark.brokers, pytest.mark.spark]


def upkeep(trial) -> dict:
    """What `lake status` tells of the table's."""
    tables = json.loads(trial.typed("lake", "status", "-o", "json").stdout)
    return (tables and tables[0]["upkeep"]) or {"rewritten": 0, "written": 0}


def test_a_running_hub_keeps_its_tables_up(trial):
    """Files become few, every record is in the table once, and the next hub counts on; killed twice, with -9."""
    trial.settings["lake"]["commit_interval"] = "1s"
    trial.write()
    done: dict = {"rewritten": 0}
    with trial.traffic("eu", "us", batch=5) as produced:
        for _ in range(2):
            before = done["rewritten"]
            with trial.running():
                wait_for(lambda floor=before: upkeep(trial)["rewritten"] > floor, timeout=240, what="upkeep")
            done = upkeep(trial)
    trial.drain()
    for edge, count in produced.items():
        trial.check_exactly_once(edge, count)
    assert done["written"] * 8 <= done["rewritten"]
    assert done["vacuumed_ms"] is not None
    assert done["problem"] == ""
    audited = trial.typed("audit", "-o", "json")
    assert audited.exit_code == 0, audited.output
