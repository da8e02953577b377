"""`edge`, `heartbeat`, `run --metrics`, the page: what is refused before any cluster is asked, and how figures read."""

from pathlib import Path

import pytest

from aggregator.cli.terminal.decision import because, claimed
from aggregator.observe.formatting import ago, share

SMALLEST = Path(__file__).parents[3] / "configs" / "hub.smallest.yaml"


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["edge", "pause", "nowhere", "--reason", "x"], 1, "the edges are eu"),
        (["edge", "pause", "eu", "--reason", "…"], 2, "says nothing: whoever looks at the decision later will read it"),
        (["edge", "pause", "eu"], 2, "--reason"),
        (["edge", "resume", "nowhere"], 1, "the edges are eu"),
        (["heartbeat", "emit", "--edge", "nowhere"], 1, "the edges are eu"),
        (["heartbeat", "emit", "--edge", "eu", "--for", "5"], 2, "carries its unit"),
        (["run", "--metrics", "host"], 2, "`host:port`"),
        (["run", "--metrics", "127.0.0.1:99999"], 2, "`host:port`"),
        (["run", "--ui", "--drain"], 2, "aggregator ui"),
        (["run", "--ui", "--only", "lake"], 2, "aggregator ui"),
        (["ui", "--listen", "0.0.0.0:9465"], 2, "others reach this address"),
        (["ui", "--listen", "[::]:9465", "--token", "env:NOT_SET"], 78, "the variable is not set"),
        (["ui", "--token", "a secret in clear"], 2, "never a value in clear"),
        (["ui", "--listen", "host"], 2, "`host:port`"),
        (["ui", "--host", "a/b"], 2, "the name of a host"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_meant_is_refused_with_the_next_step(aggregator, words, code, told):
    """Unknown edges, reasons that say nothing, times without a unit, addresses that are none."""
    done = aggregator(*words, "--config", SMALLEST)
    assert done.exit_code == code
    assert told in done.stderr
    assert "a secret in clear" not in done.stderr


def test_who_and_why_are_words_that_a_record_can_hold(monkeypatch):
    """Also from an argument or an account whose bytes are no UTF-8; as they are otherwise."""
    monkeypatch.setenv("LOGNAME", "jos\udce9")
    assert claimed().startswith("jos\\udce9@")
    assert (claimed("a\udcff"), because(" ü\udcff\n")) == ("a\\udcff", "ü\\udcff")


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (None, "-"),
        (0, "0.0s"),
        (850, "0.8s"),
        (-600_000, "-10.0min"),
        (7_200_000, "2.0h"),
        (-31_536_000_000, "-365.0d"),
    ],
)
def test_a_duration_reads_in_its_largest_sensible_unit(milliseconds, text):
    """Also backwards, as a clock's skew may be."""
    assert ago(milliseconds) == text


@pytest.mark.parametrize(
    ("value", "text"), [(None, "-"), (1.0, "100.000%"), (0.9999999, "99.999%"), (0.999, "99.900%"), (0.0, "0.000%")]
)
def test_a_share_is_never_rounded_up(value, text):
    """What was not available all of the time is not shown as if it had been."""
    assert share(value) == text
