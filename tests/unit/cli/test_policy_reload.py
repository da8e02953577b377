"""What SIGHUP means to a hub: other policies; from a terminal that was closed its end, as to every program."""

import os
import pty
import signal
import sys
import threading
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from aggregator.cli.policy_reload import FileChanges, PolicyReload
from aggregator.plan.policy_reload import changed
from aggregator.privacy.policy.file import parse_policy
from aggregator.threads import Threads
from tests.trial import wait_for


class Counting(PolicyReload):
    """Counts what it was asked for."""

    def __init__(self, policies=(), policy_watch=None):
        self.times = 0
        self._policies, self._config = policies, SimpleNamespace(policy_watch=policy_watch)

    def reload(self, *, asked=True):
        self.times += asked or self._policies != ()


def _ask(reload, stop, closed):
    """SIGHUP to this process while a hub would listen, once this descriptor is closed."""
    with reload.on_hangup(Threads(), stop):
        if closed is not None:
            os.close(closed)
        os.kill(os.getpid(), signal.SIGHUP)
        wait_for(lambda: reload.times or stop.is_set(), timeout=5, what="an answer")


@pytest.mark.slow
@pytest.mark.parametrize("is_closed", [False, True])
def test_a_terminal_that_was_closed_ends_the_hub(monkeypatch, is_closed):
    """One that is open, or none, does not: then somebody asked."""
    ours, theirs = pty.openpty()
    reload, stop = Counting(), threading.Event()
    before = signal.getsignal(signal.SIGHUP)
    with os.fdopen(theirs, buffering=1) as terminal, monkeypatch.context() as patch:
        patch.setattr(sys, "stdin", terminal)
        _ask(reload, stop, ours if is_closed else None)
    assert (reload.times, stop.is_set()) == (0 if is_closed else 1, is_closed)
    assert signal.getsignal(signal.SIGHUP) is before
    if not is_closed:
        os.close(ours)


@pytest.mark.slow
def test_each_time_somebody_asks_the_files_are_read():
    """Once more after a reload is over."""
    reload, stop = Counting(), threading.Event()
    with reload.on_hangup(Threads(), stop):
        for _ in range(2):
            done = reload.times
            os.kill(os.getpid(), signal.SIGHUP)
            wait_for(lambda done=done: reload.times > done, timeout=5, what="a reload")
    assert reload.times == 2


@pytest.mark.parametrize(
    ("text", "is_changed"),
    [
        ("policy: p\nversion: 1\n", False), ("version: 1\npolicy: p   # again\n", False),
        ("policy: p\nversion: 2\n", True), ("policy: q\nversion: 1\n", True),
        ("policy: p\nversion: 1\ndefault: redact\n", True),
        ("policy: p\nversion: 1\nloosens: {version: 1, reason: r, owner: o}\n", False),
    ],
)  # fmt: skip
def test_a_policy_is_changed_if_it_means_something_else(text, is_changed):
    """Name, version or meaning; a word about the way here is no change."""
    path = Path("p.yaml")
    old = {path: parse_policy("policy: p\nversion: 1\n")}
    assert (changed(old, {path: parse_policy(text)}) == [path]) is is_changed


def test_files_are_taken_when_they_have_come_to_rest(tmp_path):
    """Once for each content; a file that is being written, or was refused, is not taken again and again."""
    path = tmp_path / "p.yaml"
    path.write_text("policy: p\nversion: 1\n")
    changes = FileChanges([path], timedelta(seconds=30))
    looks = iter(range(0, 10_000, 30))

    def due(text=None):
        if text is not None:
            path.write_text(text)
        return changes.are_due(float(next(looks)))

    assert [due(), due(), due()] == [False, True, False], "they may have changed since they were read"
    assert [due("half"), due("half, and the rest"), due(), due()] == [False, False, True, False]
    path.unlink()
    assert [due(), due(), due()] == [False, True, False], "a file that went is refused by the reload, once"
    assert [due("half, and the rest"), due()] == [False, True]
    assert not changes.are_due(0.0), "between two looks nothing is read"
    changes.try_again(0.0)
    assert [due() for _ in range(30)].count(True) == 1, "a refusal may have been an edge's, which answers by now"


def test_nobody_looks_unless_it_is_asked_for(tmp_path):
    """Without `policy_watch` SIGHUP alone counts."""
    path = tmp_path / "p.yaml"
    changes = FileChanges([path], None)
    path.write_text("policy: p\n")
    assert not any(changes.are_due(float(at)) for at in range(0, 3600, 10))


@pytest.mark.slow
def test_a_look_reloads_without_a_signal(tmp_path):
    """As in a pod, whose files change by themselves."""
    path, stop = tmp_path / "p.yaml", threading.Event()
    path.write_text("policy: p\nversion: 1\n")
    reload = Counting([path], timedelta(milliseconds=10))
    with reload.on_hangup(Threads(), stop):
        path.write_text("policy: p\nversion: 2\n")
        wait_for(lambda: reload.times, timeout=10, what="a reload")
    assert reload.times == 1
