"""What `plan` says is what `run` then does: troubles that a hub can begin with, planned, then run, on real brokers."""

import json
import re
import shlex
import time
from collections import defaultdict

import pytest

from tests.trial import ORDER

pytestmark = pytest.mark.brokers

DAY_MS = 86_400_000
HELD = re.compile(r"held: (\S+?/\S+?/\d+)(?: and \d+ more)? \(\w+\): (.*)")


def planned(trial, *arguments: str) -> tuple[dict, int]:
    """The plan's JSON and its exit code."""
    done = trial.typed("plan", "-o", "json", *arguments)
    assert done.stdout, done.stderr
    return json.loads(done.stdout), done.exit_code


def said(trial, *arguments: str) -> list[str]:
    """The plan's lines."""
    return trial.typed("plan", *arguments).stdout.splitlines()


def flow(plan: dict, edge: str, topic: str) -> dict:
    """One edge topic of a plan."""
    (found,) = [one for one in plan["flows"] if (one["edge"], one["topic"]) == (edge, topic)]
    return found


def ran(trial) -> tuple[str, int]:
    """What a drain says, and how it ends."""
    done = trial.typed("run", "--drain")
    assert done.exit_code in (0, 4, 5), (done.output, done.exception)
    return done.stderr, done.exit_code


def agrees(trial, plan: dict, told: str) -> None:
    """Each word of a plan about a flow, and the run that followed it, say the same of each other."""
    by_plan: dict[str, list[str]] = defaultdict(list)
    for place, _, why in (_split(held) for one in plan["flows"] for held in one["held"]):
        by_plan[why.partition("\n")[0]].append(place)
    by_run = {match.groups() for match in HELD.finditer(told)}
    assert {(min(places), why) for why, places in by_plan.items()} == by_run
    after = {(one["edge"], one["topic"]): [0, 0] for one in plan["flows"]}
    for one in trial.status()["flows"]:
        counted = after.setdefault((one["edge"], one["topic"]), [0, 0])
        counted[0] += one["delivered"]
        counted[1] += one["dead"]
    for one in plan["flows"]:
        delivered, dead = after[one["edge"], one["topic"]]
        if one["topic"] == "heartbeats" or one["waiting_records"] is None:
            continue
        if one["held"]:
            assert delivered == 0 or len(one["held"]) < one["partitions"], one
        else:
            assert delivered + dead == one["waiting_records"], one
        assert bool(one["dead"]) == (dead > 0 and delivered == 0), one


def _split(sentence: str) -> tuple[str, str, str]:
    return sentence.partition(": ")


def things(trial) -> set[tuple[str, str]]:
    """What a run makes: central's topics, derived schemas, tables."""
    topics = {name for name in trial.admin("central").list_topics(timeout=10).topics if trial.mark in name}
    schemas = {path.parent.name for path in (trial.folder / "central-schemas").glob("*/*.avsc")}
    tables = {path.parent.name for path in (trial.folder / "lake").glob("*/_delta_log")}
    return {
        *(("topic", one) for one in topics),
        *(("schema", one) for one in schemas),
        *(("table", one) for one in tables),
    }


def quiet(trial) -> None:
    """Without heartbeats, which the edges of other trials have already."""
    trial.settings["heartbeats"] = {"emit": False}
    trial.settings["replication"]["drain_patience"] = "2s"
    trial.write()


def test_the_first_line_counts_what_the_run_makes(trial):
    """So much to add, of each kind; after the run nothing is left to add, and no field is told twice for two edges."""
    quiet(trial)
    trial.produce("eu", 30)
    trial.produce("us", 30)
    own = ("--topic", trial.topic)  # the edges may have heartbeats of other trials
    before, (plan, code) = things(trial), planned(trial, *own)
    assert (plan["summary"]["waiting_records"], code) == (60, 0)
    lines = said(trial, *own)
    count = sum(plan["summary"]["add"].values())
    assert lines[0] == f"{count} to add, 0 to change"
    assert sum(line.startswith("customer ") for line in lines) == 1
    assert f"eu, us: {trial.topic} -> eu.{trial.topic}, us.{trial.topic}" in lines
    told, _ = ran(trial)
    agrees(trial, plan, told)
    made = [kind for kind, name in things(trial) - before if trial.topic in name]
    assert {kind: made.count(kind) for kind in ("topic", "schema", "table")} == plan["summary"]["add"]
    assert said(trial, *own)[0] == "0 to add, 0 to change"
    assert planned(trial, *own, "--detailed-exitcode")[1] == 0


def test_records_that_would_all_be_dead_letters_are_told_before(trial):
    """Text where Avro is expected: no schema is registered, no table made, and every record is a dead letter."""
    quiet(trial)
    trial.produce_raw("eu", [(b"k", b"plain text", n % 3) for n in range(9)])
    trial.produce("us", 9)
    plan, code = planned(trial)
    assert (flow(plan, "eu", trial.topic)["dead"], code) == (
        "all 3 records looked at would be dead letters: 3 wrong_magic",
        4,
    )
    assert flow(plan, "us", trial.topic)["dead"] == ""
    assert [(one["subject"], one["action"]) for one in plan["schemas"]] == [
        (f"eu.{trial.topic}-value", "none"),
        (f"us.{trial.topic}-value", "register"),
    ]
    lines = said(trial, "--problems")
    assert f"dead letters: eu/{trial.topic}: all 3 records looked at would be dead letters: 3 wrong_magic" in lines
    assert not any(f"us.{trial.topic}" in line for line in lines)
    told, _ = ran(trial)
    agrees(trial, plan, told)
    assert not (trial.folder / "central-schemas" / f"eu.{trial.topic}-value").exists()


def test_records_of_which_every_other_is_dead_are_told_before(trial):
    """A producer that writes two kinds in turns: whoever looks at even places alone sees one of them."""
    trial.produce_raw("eu", [(b"k", trial.value(n) if n % 2 == 0 else b"text", 0) for n in range(40)])
    plan, code = planned(trial)
    found = flow(plan, "eu", trial.topic)
    assert (found["dead"], code) == ("", 0)
    assert found["some_dead"] == "3 of 6 records looked at would be: 3 wrong_magic"
    assert any(line.startswith(f"some dead letters: eu/{trial.topic}: 3 of 6") for line in said(trial, "--problems"))


def test_what_waits_is_told_of_flows_that_stand_still_too(trial):
    """Records older than central keeps: a thousand wait and are not read, in the words of the run."""
    quiet(trial)
    trial.configure("eu", trial.topic, "retention.ms", "-1")
    trial.settings["topics"][0]["central_config"] = {"retention.ms": str(7 * DAY_MS)}
    trial.write()
    trial.produce("eu", 1000, timestamp_ms=int(time.time() * 1000) - 30 * DAY_MS)
    plan, code = planned(trial)
    eu = flow(plan, "eu", trial.topic)
    assert (eu["waiting_records"], len(eu["held"]), code) == (1000, 3, 4)
    told, ended = ran(trial)
    agrees(trial, plan, told)
    assert ended == 4


def test_a_schema_that_central_refuses_holds_in_the_words_of_the_run(trial):
    """An older version among the unread records is met, too, not only the newest of its subject."""
    quiet(trial)
    trial.produce("eu", 3)
    ran(trial)
    folder = trial.folder / "schemas" / f"{trial.topic}-value"
    odd = json.loads(json.dumps(ORDER))
    odd["fields"][0]["type"] = "string"
    (folder / "2-8.avsc").write_text(json.dumps(odd))
    (folder / "3-9.avsc").write_text((folder / "1-7.avsc").read_text())
    trial.produce_raw("eu", [(b"k", trial.value(1, 8, odd, id="1"), 0)])
    plan, code = planned(trial)
    (held,) = flow(plan, "eu", trial.topic)["held"]
    assert (held.startswith(f"eu/{trial.topic}/0: "), code) == (True, 4)
    told, ended = ran(trial)
    assert ended == 4
    assert {match.groups() for match in HELD.finditer(told)} == {
        (f"eu/{trial.topic}/0", held.partition(": ")[2].partition("\n")[0])
    }


def test_a_gap_is_told_before_anybody_meets_it(trial):
    """Retention overtook a hub that was away; the words of the run, and of the one after it."""
    quiet(trial)
    trial.produce("eu", 30)
    ran(trial)
    trial.produce("eu", 30)
    trial.cut("eu", 0, 15)
    words = (
        f"eu/{trial.topic}/0",
        "the edge no longer has offsets 10 to 14 (5 at most): retention or a deletion of records overtook the reader",
    )
    for _ in range(2):
        plan, code = planned(trial)
        (held,) = flow(plan, "eu", trial.topic)["held"]
        told, ended = ran(trial)
        assert (code, ended) == (4, 5)
        assert held.partition("\n")[0] == ": ".join(words)
        assert {match.groups() for match in HELD.finditer(told)} == {words}
        advised = {re.search(r"next: aggregator (gaps accept .*?) goes on", text)[1] for text in (held, told)}
    (command,) = advised
    assert trial.typed(*shlex.split(command.replace("…", "known")), "--yes").exit_code == 0
    plan, code = planned(trial)
    assert (flow(plan, "eu", trial.topic)["held"], code) == ([], 0)
    assert ran(trial)[1] == 0


def test_json_values_that_no_table_can_hold(trial):
    """Where the topic is written out both refuse it with the same words; under an open pattern the table is refused."""
    quiet(trial)
    policy = trial.folder / "policy.yaml"
    policy.write_text(
        f"policy: p\nversion: 1\ntopics: {{'{trial.topic}': {{key: keep, value_format: json, fields: {{id: keep}}}}}}\n"
    )
    refused = [trial.typed(*one) for one in (("plan",), ("run", "--drain"), ("config", "lint"))]
    assert {one.exit_code for one in refused} == {78}
    assert len({one.stderr for one in refused}) == 1
    assert "JSON values" in refused[0].stderr
    policy.write_text("policy: p\nversion: 1\ntopics: {'.*': {key: keep, value_format: json, fields: {id: keep}}}\n")
    trial.settings["topics"][0]["match"] = f"{trial.topic}.*"
    trial.write()
    trial.produce_raw("eu", [(b"k", b'{"id": 1}', 0)])
    plan, code = planned(trial)
    (table,) = plan["tables"]
    assert (table["action"], "not framed as Avro with a schema id" in table["detail"], code) == ("refused", True, 4)
    told, ended = ran(trial)
    agrees(trial, plan, told)
    assert ("is not framed as Avro with a schema id" in told, ended) == (True, 4)


def test_a_silent_edge_is_unknown_and_not_empty(trial):
    """Neither "no changes" nor a zero: what waits there, and what it would need, nobody can say."""
    quiet(trial)
    trial.produce("eu", 3)
    trial.produce("us", 3)
    ran(trial)
    trial.settings["edges"]["us"]["bootstrap_servers"] = "127.0.0.1:1"
    trial.write()
    plan, code = planned(trial)
    assert (flow(plan, "us", trial.topic)["waiting_records"], code) == (None, 4)
    lines = said(trial, "--topic", trial.topic)
    assert lines[0] == "0 to add, 0 to change; more is unknown: edge us does not answer"
    (row,) = [line for line in lines if line.startswith("us ")]
    assert row.endswith("unknown")
    assert not any(line.startswith("us ") for line in said(trial, "--edge", "eu"))
    assert said(trial, "--edge", "eu")[0] == "0 to add, 0 to change"


def test_a_paused_edge_is_not_read(trial):
    """As a run leaves it out: what waits there is told, and no schema of it is registered."""
    quiet(trial)
    ran(trial)
    assert trial.typed("edge", "pause", "us", "--reason", "works").exit_code == 0
    trial.produce("us", 9)
    plan, _ = planned(trial)
    assert flow(plan, "us", trial.topic)["waiting_records"] == 9
    assert {one["action"] for one in plan["schemas"]} == {"none"}
    assert any(line.startswith("edge us is paused by ") for line in said(trial))
    ran(trial)
    assert trial.central_count("us") == 0
