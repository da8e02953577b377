"""Positions of consumer groups in the configuration: nothing unless it is asked for, and what cannot be is refused."""

from datetime import timedelta

import pytest


def test_nothing_is_told_unless_it_is_asked_for(load, good):
    """Without the block nothing; with an empty one checkpoints of all groups that MirrorMaker 2 takes, too."""
    assert load(good).offsets is None
    plain = load(good + "offsets: {}\n").offsets
    assert (plain.checkpoints, plain.syncs, plain.commits) == (True, False, False)
    assert (plain.groups, plain.interval) == ((".*",), timedelta(seconds=60))
    assert plain.exclude == ("console-consumer-.*", "connect-.*", "__.*")


@pytest.mark.parametrize(
    ("section", "commits"),
    [
        ("{syncs: true, checkpoints: true, groups: ['app-.*']}", True),
        ("{groups: ['app-.*'], sync_groups: false}", False),
        ("{sync_groups: true}", True),
    ],
)
def test_positions_are_committed_for_groups_that_are_named(load, good, section, commits):
    """Or for all, if that is said."""
    assert load(f"{good}offsets: {section}\n").offsets.commits is commits


@pytest.mark.parametrize(
    ("section", "told"),
    [
        ("offsets: {groups: ['(?=x)a']}", "offsets.groups[0]: holds a look-ahead"),
        ("offsets: {exclude: ['a(']}", "offsets.exclude[0]: "),
        ("offsets: {interval: 60}", "offsets.interval: a duration carries its unit"),
        ("offsets: {checkpoint: true}", "offsets.checkpoint: is not known; did you mean `checkpoints`?"),
    ],
)
def test_what_cannot_be_is_refused(faults, good, section, told):
    """Each with its place."""
    assert any(told in line for line in faults(f"{good}{section}\n"))
