"""The top-level command: quick help, errors as sentences, exit codes, colour, logs."""

import io
import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest
import structlog
from click.testing import CliRunner, Result

from aggregator.cli.main import COMMANDS, main
from aggregator.cli.terminal.lazy_group import Lazy, LazyGroup
from aggregator.cli.terminal.logs import configure_logs
from aggregator.errors import AnotherHub, ConfigError, FatalError, HoldError, Unreachable

PAYLOAD = "jane@example.com"
Run = Callable[[BaseException], Result]


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """The command line sets up the process's logging; a test gives it back."""
    root = logging.getLogger()
    before = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = before[0], before[1]
    structlog.reset_defaults()


@pytest.fixture
def raising() -> Run:
    """Run a group whose only command raises the given error."""

    def run(error: BaseException) -> Result:
        group = LazyGroup("group", table={})

        @click.command()
        def bad() -> None:
            raise error

        group.get_command = lambda _ctx, _name: bad
        return CliRunner().invoke(group, ["bad"])

    return run


@pytest.mark.slow
def test_help_imports_no_command():
    """`aggregator --help` shows every command and imports neither one of them nor an engine."""
    code = (
        "import sys\nfrom aggregator.cli.main import main\nmain(['--help'], standalone_mode=False)\n"
        "heavy = ('pyspark', 'confluent_kafka', 'pyarrow', 'pydantic', 'structlog', 'aggregator.cli.config')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("[]\n")
    assert "config" in done.stdout
    assert "Exit codes: 0 ok" in done.stdout


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_help_with_an_example(name):
    """What the group lists can be loaded and explains itself; a command that is not there yet is not listed."""
    listed = main.list_commands(click.Context(main))
    result = CliRunner().invoke(main, [name, "--help"])
    if name in listed:
        assert result.exit_code == 0, result.output
        assert "Example" in result.output
        assert "..." not in result.output.partition("Commands:")[2].partition("Example")[0]
    else:
        assert result.exit_code == 2


def test_a_command_whose_module_is_missing_leaves_the_others_alone():
    """A table may name commands that this version does not have."""
    table = {"config": COMMANDS["config"], "tomorrow": Lazy("aggregator.cli.tomorrow:tomorrow", "Not yet.")}
    group = LazyGroup("group", table=table)
    listed = CliRunner().invoke(group, ["--help"]).output
    assert "config" in listed
    assert "tomorrow" not in listed
    result = CliRunner().invoke(group, ["tomorrow"])
    assert (result.exit_code, "No such command" in result.output) == (2, True)


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    """A command whose package is not installed says which, and how to get it."""
    (tmp_path / "needy.py").write_text("import no_such_package_anywhere\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    result = CliRunner().invoke(LazyGroup("group", table={"needy": Lazy("needy:needy", "x")}), ["needy"])
    assert result.exit_code == 1
    assert "no_such_package_anywhere" in result.stderr
    assert "next: pip install" in result.stderr


def test_the_version_is_the_packages():
    """`--version` prints the installed version."""
    from importlib.metadata import version  # noqa: PLC0415 - only here

    result = CliRunner().invoke(main, ["--version"], prog_name="aggregator")
    assert result.output == f"aggregator {version('aggregator')}\n"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (FatalError("it broke", hint="mend it"), 1),
        (Unreachable("no broker", hint="mend it"), 1),
        (HoldError("edge held", hint="mend it"), 4),
        (AnotherHub("taken", hint="mend it"), 6),
        (ConfigError("bad file", hint="mend it"), 78),
    ],
)
def test_an_error_is_a_sentence_a_next_step_and_its_code(raising, error, code):
    """Message and hint go to stderr, nothing to stdout, no traceback, and the exit code is the error's own."""
    result = raising(error)
    assert result.exit_code == code
    assert result.stdout == ""
    assert result.stderr == f"error: {error.message}\nnext: mend it\n"


def test_an_interrupt_ends_with_130(raising):
    """Ctrl-C ends as a shell expects it."""
    result = raising(KeyboardInterrupt())
    assert (result.exit_code, result.stderr) == (130, "interrupted\n")


def test_a_defect_shows_its_kind_and_place_but_not_its_text(raising):
    """The text of a foreign exception may hold a payload."""
    result = raising(ValueError(PAYLOAD))
    assert result.exit_code == 1
    assert "unexpected ValueError at test_cli_main.py:" in result.stderr
    assert "--log-level debug" in result.stderr
    assert PAYLOAD not in result.output
    assert "Traceback" not in result.output


def test_debug_shows_where_a_defect_is_and_still_not_its_text(raising):
    """At log level debug the frames are shown, without the exception's text and without local variables."""
    logging.getLogger().setLevel(logging.DEBUG)
    result = raising(ValueError(PAYLOAD))
    assert 'test_cli_main.py", line' in result.stderr
    assert PAYLOAD not in result.output


def test_usage_errors_keep_clicks_code():
    """An unknown option is a usage error, 2."""
    assert CliRunner().invoke(main, ["config", "lint", "--colour"]).exit_code == 2


def test_no_color_is_obeyed(monkeypatch, tmp_path):
    """Even where colour is forced, NO_COLOR turns it off."""
    arguments = ["config", "lint", "--config", str(tmp_path / "no.yaml")]
    assert "\x1b[" in CliRunner().invoke(main, arguments, color=True).stderr
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in CliRunner().invoke(main, arguments, color=True).stderr


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """Yes."""
        return True


def logged(stream: io.StringIO, form: str, environ: dict[str, str] | None = None, level: str = "info") -> list[str]:
    """Lines of one structlog and one standard-library logger."""
    configure_logs(level, form, stream, environ or {})
    structlog.get_logger("aggregator.hub").info("slot started", slot=3)
    logging.getLogger("librdkafka").warning("broker %s is away", "eu")
    logging.getLogger("py4j").info("chatter")
    return stream.getvalue().splitlines()


@pytest.mark.parametrize("form", ["auto", "json"])
def test_logs_are_json_lines_off_a_terminal(form):
    """Both kinds of logger write one JSON object per line, with time, level, logger and event."""
    own, foreign = (json.loads(line) for line in logged(io.StringIO(), form))
    assert (own["event"], own["slot"], own["level"], own["logger"]) == ("slot started", 3, "info", "aggregator.hub")
    assert (foreign["event"], foreign["level"], foreign["logger"]) == ("broker eu is away", "warning", "librdkafka")
    assert own["time"].endswith("Z")


@pytest.mark.parametrize("level", ["debug", "info"])
def test_a_library_is_heard_from_warnings_on(level):
    """A registry's client tells each request at info, with its address; one that comes along tomorrow does, too."""
    stream = io.StringIO()
    configure_logs(level, "json", stream, {})
    for name in ("httpx2", "httpcore2.connection", "pyiceberg.io", "botocore", "some.library"):
        logging.getLogger(name).info("HTTP Request: GET http://registry/subjects")
        logging.getLogger(name).warning("heard")
    assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == ["heard"] * 5


def test_logs_are_readable_on_a_terminal():
    """Text with colour on a terminal, without where NO_COLOR is set, and text anywhere on request."""
    assert "\x1b[" in "".join(logged(Terminal(), "auto"))
    plain = logged(Terminal(), "auto", {"NO_COLOR": "1"})
    assert "\x1b[" not in "".join(plain)
    assert "slot started" in plain[0]
    assert "slot=3" in logged(io.StringIO(), "text")[0]
    assert json.loads(logged(Terminal(), "json")[0])["slot"] == 3


def test_the_level_holds_for_both_kinds_of_logger():
    """Below the level nothing is written."""
    (line,) = logged(io.StringIO(), "json", level="warning")
    assert "broker eu" in line


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_logged_traceback_shows_no_local_variables(form):
    """Local variables may be records."""
    stream = io.StringIO()
    configure_logs("info", form, stream, {})
    record = PAYLOAD
    try:
        "broke".index(record)
    except ValueError:
        logging.getLogger("hub").exception("slot failed")
    assert '"broke".index(record)' in stream.getvalue().replace('\\"', '"')
    assert PAYLOAD not in stream.getvalue()


@pytest.mark.slow
def test_output_is_utf8_where_the_terminal_says_otherwise():
    """JSON is UTF-8, and no letter of a name ends a command."""
    code = "import click, aggregator.cli.main as m; m.main = lambda _: click.echo('東京'); m.entry()"
    environ = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    ended = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=60, env=environ)
    assert ended.stdout.decode() == "東京\n"


@pytest.mark.parametrize("arguments", ["--help", "config show", "policy --help"])
@pytest.mark.slow
def test_a_full_disk_is_no_defect(arguments):
    """Of whoever writes there, help or a command: what is full and what to do."""
    hub = Path(__file__).resolve().parents[3] / "configs" / "hub.full.yaml"
    words = [*arguments.split(), *(["--config", str(hub)] if arguments == "config show" else [])]
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        command = [sys.executable, "-m", "aggregator.cli.main", *words]
        ended = subprocess.run(command, check=False, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (
        1,
        "error: output: No space left on device\nnext: free space there, then run it again\n",
    )


@pytest.mark.parametrize("closed", ["1", "2"])
@pytest.mark.slow
def test_a_closed_stream_changes_no_exit_code(closed, tmp_path):
    """As with `2>&-` of a shell."""
    command = f"exec {closed}>&-; exec {sys.executable} -m aggregator.cli.main config lint --config {tmp_path}/no.yaml"
    assert subprocess.run(["bash", "-c", command], check=False, timeout=60).returncode == 78


@pytest.mark.parametrize(("daemon", "taken_apart"), [(True, False), (False, True)])
@pytest.mark.parametrize(("arguments", "code", "word"), [(["--version"], 0, "0.1"), (["run", "--no"], 2, "--no")])
@pytest.mark.slow
def test_a_process_whose_threads_are_daemons_ends_with_its_code_and_takes_nothing_apart(
    daemon, taken_apart, arguments, code, word
):
    """A library's thread that comes back to an interpreter in pieces would end the process by a signal."""
    lines = [
        "import atexit, threading, time",
        "from aggregator.cli.main import entry",
        f"threading.Thread(target=time.sleep, args=({60 if daemon else 0},), daemon={daemon}).start()",
        "atexit.register(print, 'taken apart')",
        f"entry({arguments})",
    ]
    command = [sys.executable, "-c", "\n".join(lines)]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert ended.returncode == code
    assert word in ended.stdout + ended.stderr
    assert ("taken apart" in ended.stdout) == taken_apart
