"""The demo's books balance exactly, or the demo says so; its sample record shows every leaf of both sides."""

import json

import pytest

from aggregator.cli.demo import REPORT_FILE, _make_room
from aggregator.errors import FatalError
from aggregator.sandbox.demo_run import Account
from aggregator.sandbox.sample_record import SampleRecord
from aggregator.sandbox.sandbox import STATE_FILE
from aggregator.sandbox.state import SandboxState
from aggregator.schema.plain_json import GONE


def _account(**changes):
    return Account(
        **({"edge": "ewr", "produced": 10, "at_central": 8, "in_lake": 8, "stripped": 5, "dead_letters": 2} | changes)
    )


def test_books_balance_when_every_record_is_somewhere():
    """Produced is central plus dead letters, and the lake is central."""
    assert _account().balanced


@pytest.mark.parametrize("changes", [{"at_central": 9}, {"dead_letters": 1}, {"in_lake": 7}, {"produced": 11}])
def test_one_record_too_many_or_too_few_is_a_failure(changes):
    """A single record off in any column is not rounded away."""
    assert not _account(**changes).balanced


def test_a_specimen_shows_what_went_what_stayed_and_what_came():
    """Every leaf of either side has its line: unchanged, changed, gone, new."""
    before = {"key": "C-1", "value": {"name": "Ada", "bags": 2, "contacts": [{"phone": "1"}]}}
    after = {"key": "v1_ab", "value": {"bags": 2, "token": None}}
    assert list(SampleRecord("demo/ewr/bookings/0/1/0", before, after).lines()) == [
        ("key", '"C-1"', '"v1_ab"'),
        ("value.name", '"Ada"', GONE),
        ("value.bags", "2", "2"),
        ("value.contacts[0].phone", '"1"', GONE),
        ("value.token", "(new)", "null"),
    ]


def test_a_demo_removes_an_earlier_demo_and_nothing_else(tmp_path):
    """A sandbox that somebody made is not the demo's to remove; a folder of an earlier demo is."""
    SandboxState.fresh(["ewr"]).write(tmp_path / STATE_FILE)
    with pytest.raises(FatalError, match="there is a sandbox in"):
        _make_room(tmp_path)
    assert (tmp_path / STATE_FILE).exists()
    (tmp_path / REPORT_FILE).write_text(json.dumps({"finished": False}))
    _make_room(tmp_path)
    assert not (tmp_path / STATE_FILE).exists()
