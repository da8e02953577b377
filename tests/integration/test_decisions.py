"""Who decided, on real brokers: every decision is a link, two at once follow each other, and what lacks is named."""

import json
import threading

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from aggregator.cli.main import main
from aggregator.config.load import load_config
from aggregator.kafka.cluster.topics import partition_count
from aggregator.state.decisions import DecisionKind, NewDecision, append_decisions
from tests.trial import settle, wait_for

pytestmark = pytest.mark.brokers


def audited(trial, *arguments: str, expect: int) -> dict:
    done = CliRunner().invoke(main, ["audit", "--decisions", "-o", "json", "--config", str(trial.config), *arguments])
    assert done.exit_code == expect, done.output
    return json.loads(done.stdout)


def decided(answer: dict) -> list[tuple[str, str]]:
    return [(one["kind"], one["about"]) for one in answer["decisions"]]


def test_decisions_are_links_and_a_break_is_named(trial):
    """A pause and its end, with the claimed name; then a link of somebody who goes around it, and one deleted."""
    assert decided(audited(trial, expect=0)) == []
    requests = f"{trial.hub}.requests"
    trial.create("central", 1, topic=requests)
    wait_for(lambda: partition_count(load_config(trial.config, {}).central, requests), timeout=10, what="its topic")
    at = ["--config", str(trial.config)]
    for words in (["pause", "eu", "--reason", "tonight", "--by", "somebody\x1b[2J"], ["resume", "eu"]):
        done = CliRunner().invoke(main, ["edge", *words, *at])
        assert done.exit_code == 0, done.output
    answer = audited(trial, expect=0)
    assert decided(answer) == [("pause", "eu"), ("resume", "eu")]
    assert (answer["decisions"][0]["by"], answer["decisions"][0]["reason"]) == ("somebody\x1b[2J", "tonight")
    assert answer["decisions"][1]["previous"] == answer["decisions"][0]["hash"]
    assert audited(trial, "--head", answer["head"], expect=0)["faults"] == []
    said = CliRunner().invoke(main, ["audit", "--decisions", *at]).stdout
    assert "by (claimed)" in said
    assert {one["principal"] for one in answer["decisions"]} == {"User:ANONYMOUS"}
    assert "Kafka tells no client the broker's name" in said
    assert "\x1b" not in said

    hub = load_config(trial.config, {})
    failed = []

    def decide(name: str) -> None:
        try:
            for number in range(3):
                append_decisions(
                    hub, [NewDecision(DecisionKind.GAP, f"{name}-{number}", name, 1_700_000_000_000 + number)]
                )
        except BaseException as error:
            failed.append(error)
            raise

    threads = [threading.Thread(target=decide, args=(name,)) for name in ("a", "b", "c")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    answer = audited(trial, expect=0)
    assert sorted(decided(answer)[2:]) == [("gap", f"{name}-{n}") for name in "abc" for n in range(3)]
    assert [one["number"] for one in answer["decisions"]] == list(range(1, 12))

    producer = Producer({"bootstrap.servers": trial.sandbox.central.bootstrap})
    twin = {**answer["decisions"][4], "by": "innocent"}
    producer.produce(f"{trial.hub}.decisions", json.dumps(twin).encode(), b"gap", 0)
    assert producer.flush(15) == 0
    assert {one["kind"] for one in audited(trial, expect=1)["faults"]} == {"altered", "doubled"}
    topic = f"{trial.hub}.decisions"
    settle(trial.admin("central").delete_records([TopicPartition(topic, 0, 1)]))
    assert "missing" in {one["kind"] for one in audited(trial, expect=5)["faults"]}


def test_a_topic_that_lets_decisions_go_is_named(trial):
    """Whoever may create topics at central may be there first."""
    topic = NewTopic(f"{trial.hub}.decisions", 1, config={"retention.ms": "3600000", "cleanup.policy": "delete"})
    settle(trial.admin("central").create_topics([topic]))
    central = load_config(trial.config, {}).central
    wait_for(lambda: partition_count(central, f"{trial.hub}.decisions"), timeout=10, what="its topic")
    (fault,) = audited(trial, expect=1)["faults"]
    assert (fault["kind"], fault["offset"]) == ("unprotected", 0)
    assert fault["note"] == "the topic has retention.ms=3600000, which lets decisions go; set it to -1"
    append_decisions(load_config(trial.config, {}), [NewDecision(DecisionKind.GAP, "g", "ada", 1_700_000_000_000)])
    assert [one["kind"] for one in audited(trial, expect=1)["faults"]] == ["unprotected"]


def test_a_hub_puts_its_policies_on_record(trial):
    """The first start and every other policy, once; a backfill is a decision, too."""
    trial.produce("eu", 3)
    trial.produce_raw("eu", [(b"p", b"poison", 1)])
    trial.drain_here("--only", "replicate")
    (kind, about), = decided(audited(trial, expect=0))  # fmt: skip
    assert kind == "policy"
    assert about.startswith("policy.yaml: trial version 1, ")
    text = (trial.folder / "policy.yaml").read_text()
    (trial.folder / "policy.yaml").write_text(text.replace("version: 1", "version: 2"))
    trial.drain_here("--only", "replicate")
    trial.drain_here("--only", "replicate")
    assert trial.typed("dlq", "replay", "--edge", "eu", "--yes").exit_code in (0, 1)
    told = decided(audited(trial, expect=0))
    assert [kind for kind, _ in told] == ["policy", "policy", "backfill"]
    assert told[1][1].startswith("policy.yaml: trial version 2, ")
