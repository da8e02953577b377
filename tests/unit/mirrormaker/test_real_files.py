"""Configurations that people have: each key has one outcome, what is written is clean, no secret comes out."""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from aggregator.cli.main import main
from aggregator.mirrormaker.result import NO_KEY
from tests.unit.mirrormaker.real_files import FACTS, PLANTED, real

REAL = list(real())
# Nothing is copied by these: a target that `clusters` does not list, and connectors beside the one that copies.
COPY_NOTHING = {
    "bunyaminonum/deploy_cp-kafka_docker/mm2.properties",
    "aws-samples/mirrormaker2-msk-migration/Configuration/connectors/sasl-scram/mm2-cpc-sasl-auth.json",
    "aws-samples/mirrormaker2-msk-migration/Configuration/connectors/no-auth/mm2-hbc-no-auth.json",
}
IMPORTED = [one for one in REAL if one.name not in COPY_NOTHING]


def imported(one, folder, *more):
    """The command over one configuration."""
    names = []
    for name, text in one.files:
        (folder / name).write_text(text, encoding="utf-8")
        names.append(str(folder / name))
    return CliRunner().invoke(main, ["import", *names, "--out", str(folder / "out"), *more])


def test_there_are_enough():
    """Forty and more, of each form several."""
    assert len(REAL) >= 40
    assert len({one.name for one in REAL}) == len(REAL)
    assert sorted(path.stem for path in FACTS.glob("*.json")) == ["connect", "dedicated", "mirrormaker1", "strimzi"]


@pytest.mark.slow
@pytest.mark.parametrize("one", IMPORTED, ids=lambda one: one.name)
def test_what_is_written_passes_lint(one, tmp_path):
    """Once the named variables are set and the named commands have made their files."""
    done = imported(one, tmp_path, "-o", "json")
    assert done.exit_code == 0, done.stderr
    answer = json.loads(done.stdout)
    texts = {hub["config"]: Path(hub["config"]).read_text(encoding="utf-8") for hub in answer["hubs"]}
    variables = {one["name"]: f"kafka-{number}" for number, one in enumerate(answer["variables"])}
    for text in texts.values():
        for name in re.findall(r'bootstrap_servers: "\$\{(\w+)\}"', text):
            variables[name] = f"{variables[name].partition(':')[0]}:9092"
        named = re.findall(r"\$\{(\w+)\}|env:(?!CUSTOMER_KEY)(\w+)", text)
        assert {name for pair in named for name in pair} <= {"", *variables}
    for command in answer["commands"]:
        if made := re.search(r"certificates/[\w.-]+", command):
            (tmp_path / "out" / made[0]).parent.mkdir(exist_ok=True)
            (tmp_path / "out" / made[0]).touch()
    for config in texts:
        linted = CliRunner().invoke(main, ["config", "lint", "--config", config], env=variables)
        assert linted.exit_code == 0, linted.stderr


@pytest.mark.parametrize("one", IMPORTED, ids=lambda one: one.name)
def test_every_key_has_one_outcome_and_no_secret_comes_out(one, tmp_path):
    """In words and as JSON; with a reason wherever it is not mapped."""
    done = imported(one, tmp_path, "-o", "json")
    keys = json.loads(done.stdout)["keys"]
    assert len(keys) == one.keys
    assert all(key["to"] if key["outcome"] == "mapped" else not key["to"] for key in keys)
    assert all(key["why"] for key in keys if key["outcome"] == "not applicable")
    written = [path.read_text(encoding="utf-8") for path in (tmp_path / "out").rglob("*.yaml")]
    (tmp_path / "out").rename(tmp_path / "before")
    said = imported(one, tmp_path)
    for text in [done.stdout, said.stdout, done.stderr, said.stderr, *written]:
        assert PLANTED not in text
    for key in keys:
        shown = f"line {key['line']}" if key["key"] == NO_KEY else key["key"]
        assert shown in said.stdout


@pytest.mark.parametrize("one", [one for one in REAL if one.name in COPY_NOTHING], ids=lambda one: one.name)
def test_what_copies_nothing_is_refused(one, tmp_path):
    """There is nothing to write; what to do is said."""
    done = imported(one, tmp_path)
    assert done.exit_code == 78
    assert "copies nothing" in done.stderr
    assert "next:" in done.stderr
    assert PLANTED not in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("one", IMPORTED, ids=lambda one: one.name)
def test_the_policy_lets_nothing_pass(one, tmp_path):
    """Whatever MirrorMaker copied."""
    imported(one, tmp_path)
    policies = [path for path in (tmp_path / "out").rglob("*.yaml") if path.parent.name == "policies"]
    assert policies
    for path in policies:
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
        assert lines[1:] == ["version: 1", "default: drop", "tags: {}", "topics: {}"]
