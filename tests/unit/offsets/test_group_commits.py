"""KIP-545's rules: what is committed for a group at central."""

from dataclasses import replace

from aggregator.coordinates import EdgePartition
from aggregator.offsets.group_commits import forward, wanted_commits
from aggregator.offsets.translation import Translation, Why

ONE = Translation("g", EdgePartition("eu", "orders", 1), 40, "eu.orders", 1, 60, 0)


def test_only_whole_positions_of_groups_are_wanted():
    """Not the hub's own, none without an offset, and none in a topic that several edges fill."""
    other = replace(ONE, group="h", source=EdgePartition("us", "all", 0), topic="all", partition=0)
    refused = replace(ONE, source=EdgePartition("eu", "orders", 2)).refused(Why.AHEAD, "later")
    found = [ONE, refused, other, replace(ONE, group="")]
    assert wanted_commits(found, {("all", 0)}) == {"g": {("eu.orders", 1): 60}}
    assert wanted_commits(found, ()).keys() == {"g", "h"}


def test_no_position_goes_back():
    """Nor is one committed again."""
    wanted = {("t", 0): 5, ("t", 1): 5, ("t", 2): 5, ("t", 3): 0}
    assert forward(wanted, {("t", 0): 4, ("t", 1): 5, ("t", 2): 6}) == {("t", 0): 5, ("t", 3): 0}
