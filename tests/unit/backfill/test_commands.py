"""`backfill` and `dlq` at their door: what contradicts itself or is unreadable is refused before a cluster is asked."""

import json

import pytest
from click.testing import CliRunner

from aggregator.cli.main import main

HUB = {
    "hub": "h",
    "central": {"bootstrap_servers": "127.0.0.1:1"},
    "edges": {"eu": {"bootstrap_servers": "127.0.0.1:1"}},
}


@pytest.fixture
def aggregator(tmp_path):
    """Runs `aggregator …` on a hub whose clusters are not there."""
    (tmp_path / "hub.yaml").write_text(json.dumps(HUB))

    def run(*words: str):
        return CliRunner().invoke(main, [*words, "--config", str(tmp_path / "hub.yaml")])

    return run


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["backfill", "plan", "--missing", "--into", "v2"], "choose one"),
        (["backfill", "plan", "--restate", "--into", "v2"], "choose one"),
        (["backfill", "plan", "--rekey", "customer", "--into", "v2"], "leave --topic, --into"),
        (["backfill", "plan", "--rekey", "nobody"], "no topic that has a table uses a key called nobody"),
        (["backfill", "plan", "--from", "yesterday"], "--from"),
        (["backfill", "plan", "--rate", "fast"], "records a second"),
        (["backfill", "run", "--rate", "0"], "records a second"),
        (["backfill", "run", "--plan", "p.json", "--edge", "eu"], "not both"),
        (["backfill", "plan", "--ranges", "r.yaml", "--edge", "eu"], "leave"),
        (["dlq", "replay", "eu/orders/5"], "EDGE/TOPIC/PARTITION/OFFSET/INCARNATION"),
        (["dlq", "list", "--reason", "bored"], "--reason"),
    ],
)
def test_contradictions_are_usage_errors(aggregator, words, told):
    """Exit code 2, and the sentence names what to say instead."""
    done = aggregator(*words)
    assert done.exit_code == 2, done.output
    assert told in done.output


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "words", "told"),
    [
        (("r.yaml", "- {edge: eu, until: 5}"), ["backfill", "plan", "--ranges"], "not until"),
        (("r.yaml", "- {from: yesterday}"), ["backfill", "plan", "--ranges"], "ISO 8601"),
        (("r.yaml", "{{"), ["backfill", "plan", "--ranges"], "cannot be read"),
        (("r.yaml", "5"), ["backfill", "plan", "--ranges"], "a window"),
        (("p.json", "[1]"), ["backfill", "run", "--plan"], "is no plan"),
        (("none.json", None), ["backfill", "run", "--plan"], "cannot be read"),
        (("deep.json", "[" * 1500), ["backfill", "run", "--plan"], "cannot be read"),
    ],
)
def test_files_that_are_none_are_configuration_errors(aggregator, tmp_path, file, words, told):
    """Exit code 78 with the file's name, without a traceback."""
    name, text = file
    if text is not None:
        (tmp_path / name).write_text(text)
    done = aggregator(*words, str(tmp_path / name))
    assert done.exit_code == 78, done.output
    assert told in done.output
    assert name in done.output


def test_a_plan_that_was_changed_is_refused(aggregator, tmp_path):
    """What runs is what was planned."""
    (tmp_path / "p.json").write_text(json.dumps({"v": 1, "id": "abc", "partitions": []}))
    done = aggregator("backfill", "run", "--plan", str(tmp_path / "p.json"))
    assert done.exit_code == 1
    assert "was changed after it was made" in done.output
