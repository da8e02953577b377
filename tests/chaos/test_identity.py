"""Names and clusters: one cluster under two names, and a name that begins to lead to another cluster."""

import json

import pytest

from tests.chaos.backfilling import backfill, check, done, listed, running
from tests.trial import wait_for

pytestmark = [pytest.mark.brokers, pytest.mark.spark]

EACH = 300


def stands_for(trial) -> dict[str, str]:
    return {body["edge"]: body["cluster_id"] for key, body in trial.control() if key.startswith("cluster/")}


@pytest.mark.ci
def test_one_cluster_under_two_names_is_refused(trial, clusters):
    """Before the first record, by `run` and by `plan`: 78, with both names. Its address is written in another way."""
    for name, where in (("us", clusters.edges["eu"]), ("us", clusters.central)):
        trial.settings["edges"][name]["bootstrap_servers"] = where.bootstrap.replace("127.0.0.1", "localhost")
        trial.write()
        trial.produce("eu", 10)
        for command in (("run", "--drain"), ("plan",)):
            done = trial.run(*command)
            assert done.returncode == 78, done.stderr
            assert "edge us and " in done.stderr
            assert "are the same cluster" in done.stderr
        assert trial.ends(f"eu.{trial.topic}") == 0


def test_a_name_that_leads_elsewhere_is_held_until_somebody_says_so(trial, lines):
    """Running and drained: nothing of the stranger comes, the other edge flows; accepted, it is a new incarnation."""
    lines.lead(trial, "eu")
    (stranger,) = lines.proxies["us"]._doors.values()
    trial.produce("eu", EACH)
    with trial.running("--only", "replicate") as hub:
        wait_for(lambda: trial.central_count("eu") == EACH, timeout=120, what="the first records")
        known = stands_for(trial)
        lines.proxies["eu"].lead_to(stranger)
        trial.produce("us", EACH)
        wait_for(
            lambda: "edge eu leads to the cluster of edge us" in hub.log.read_text(), timeout=60, what="the finding"
        )
        wait_for(lambda: trial.central_count("us") == EACH, timeout=120, what="the other edge")

        def told() -> bool:
            seen = trial.status()
            held = {flow["edge"] for flow in seen["flows"] if "leads to the cluster" in flow["trouble"]}
            return held == {"eu"} and [one["name"] for one in seen["clusters"] if one["why"]] == ["eu"]

        wait_for(told, timeout=60, what="the word in the status")
        assert trial.central_count("eu") == EACH
        lines.proxies["eu"].lead_to(None)
        trial.produce("eu", EACH)
        wait_for(lambda: trial.central_count("eu") == 2 * EACH, timeout=120, what="the edge after its return")
        hub.terminate()
        assert hub.wait(60) == 0
    assert stands_for(trial) == known
    trial.check_exactly_once("eu", 2 * EACH, lake=False)
    assert {incarnation for _, incarnation, _ in trial.origins("eu")} == {0}

    lines.proxies["eu"].lead_to(stranger)
    trial.settings["edges"].pop("us")  # its cluster has another name from now on
    trial.write()
    drained = trial.drain("--only", "replicate", expect=4)
    assert "leads to cluster" in drained.stderr
    assert trial.run("plan").returncode == 4
    accepted = trial.run("edge", "accept", "eu", "--reason", "moved")
    assert accepted.returncode == 0, accepted.stderr
    assert trial.run("edge", "accept", "eu", "--reason", "moved").returncode == 1
    trial.drain("--only", "replicate")
    origins = trial.origins("eu")
    assert len(origins) == 3 * EACH
    assert sum(incarnation == 1 for _, incarnation, _ in origins) == EACH
    assert stands_for(trial) == known | {"eu": known["us"]}
    audited = json.loads(trial.run("audit", "-o", "json").stdout)
    assert [one["note"] for one in audited.get("decisions", {}).get("faults", [])] == []


def test_a_backfill_takes_nothing_from_another_cluster_behind_the_name(new_trial, lines):
    """It stops by name while the edge leads elsewhere; afterwards the same command fetches what is left, once."""
    trial = new_trial(start="latest")
    lines.lead(trial, "eu")
    (stranger,) = lines.proxies["us"]._doors.values()
    trial.produce("eu", 3000)
    trial.drain("--only", "replicate")
    trial.produce("us", 5000)
    words = ("run", "--yes", "--edge", "eu", "--topic", trial.topic, "--rate", "200")
    with running(trial, "backfill", *words) as process:
        wait_for(lambda: done(trial) > 300, timeout=120, what="the first records")
        lines.proxies["eu"].lead_to(stranger)
        wait_for(lambda: "leads to cluster" in process.log.read_text(), timeout=60, what="the finding")
        before = trial.central_count("eu")
        assert process.wait(200) == 4
        assert trial.central_count("eu") == before
        assert "correct its `bootstrap_servers`" in process.log.read_text().splitlines()[-2]
    lines.proxies["eu"].lead_to(None)
    backfill(trial, *words[:-2])
    (one,) = listed(trial)
    assert (one["state"], one["delivered"]) == ("finished", 3000)
    trial.drain()
    check(trial, "eu", range(3000))
