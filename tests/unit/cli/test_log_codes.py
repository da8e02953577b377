"""Lines of the hub's log have codes that stay when words change: each line has one, and each code a line."""

import ast
import io
import json
import logging
import re
from pathlib import Path

import pytest

from aggregator.cli.terminal.log_codes import CODES
from aggregator.cli.terminal.logs import configure_logs
from aggregator.observe.warnings import CODES as STANDING
from aggregator.observe.warnings import Warnings, dead_letters, foreign

ROOT = Path(__file__).parents[3]
LEVELS = {"debug", "info", "warning", "error", "exception", "critical", "log"}
PASSED_ON = "kafka.native.library"  # librdkafka's own lines


def logging_calls(tree: ast.Module):
    """The template of each call that logs, and whether the call gives a code itself."""
    constants = {
        one.targets[0].id: one.value.value
        for one in ast.walk(tree)
        if isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name) and isinstance(one.value, ast.Constant)
    }
    for call in ast.walk(tree):
        match call:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="log"), attr=level)) if level in LEVELS:
                said = call.args[1 if level == "log" else 0]
                template = constants[said.id] if isinstance(said, ast.Name) else ast.literal_eval(said)
                yield template, any(word.arg == "extra" for word in call.keywords)


def test_every_line_has_a_code_and_every_code_a_line():
    """Of each module as it is written; a line that nobody gave a code cannot be searched for next year."""
    found: dict[str, set[str]] = {}
    for path in (ROOT / "aggregator").rglob("*.py"):
        module = ".".join(path.relative_to(ROOT / "aggregator").with_suffix("").parts)
        calls = [] if module == PASSED_ON else list(logging_calls(ast.parse(path.read_text(encoding="utf-8"))))
        if plain := {template for template, is_coded in calls if not is_coded}:
            found[module] = plain
    assert found == {module: set(templates) for module, templates in CODES.items()}
    assert len(found) > 30


def test_codes_are_words_that_a_search_takes():
    """What it is about, then what happened to it."""
    codes = {code for templates in CODES.values() for code in templates.values()} | set(STANDING.values())
    assert [code for code in codes if not re.fullmatch(r"[a-z]+\.[a-z_]+", code)] == []


@pytest.fixture
def lines():
    """Logs as JSON, and gives the lines as they were read back."""
    stream = io.StringIO()
    configure_logs("info", "json", stream, {})
    return lambda: [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_says_its_code(lines):
    """By its template, by what it is about, and not at all where another library speaks."""
    logging.getLogger("aggregator.replicate.epoch.epochs").warning("%s held: %s", "eu/orders/0", "no schema")
    Warnings().say(foreign({"demo.ledger": 3}) | dead_letters({("eu", "orders", "wrong_magic"): 2}))
    logging.getLogger("librdkafka").warning("%s [%s] %s", "FAIL", "rdkafka#consumer-1", "broker away")
    assert [one.get("code") for one in lines()] == ["flow.held", "topic.foreign_record", "letter.written", None]


def test_a_person_reads_no_codes():
    """They are for machines: a terminal's lines have none."""
    stream = io.StringIO()
    configure_logs("info", "text", stream, {"NO_COLOR": "1"})
    logging.getLogger("aggregator.replicate.epoch.epochs").warning("%s held: %s", "eu/orders/0", "no schema")
    assert "flow.held" not in stream.getvalue()
    assert "eu/orders/0 held: no schema" in stream.getvalue()
