"""A rule's `start`: its words, times, and the names of a MirrorMaker 2."""

from datetime import UTC, datetime

import pytest

from aggregator.config.start import MirrorMaker2, rule_start


def mirrormaker2(value) -> MirrorMaker2:
    """A rule's `start` that names one."""
    found = rule_start(value)
    assert isinstance(found, MirrorMaker2)
    return found


def test_the_word_means_dedicated_mode_with_the_edges_name():
    """`source->target` workers are the group `<source>-mm2`, and keep offsets in `mm2-offsets.<source>.internal`."""
    found = mirrormaker2("mirrormaker2").at("eu")
    assert found == MirrorMaker2(
        "eu", "MirrorSourceConnector", "eu-mm2", "mm2-offsets.eu.internal", "mm2-configs.eu.internal"
    )
    assert found.transactional_id(3) == "eu-mm2-MirrorSourceConnector-3"
    assert found.at("us") == found


def test_names_that_differ_are_said():
    """An alias that is no edge's name; workers of a Connect cluster, which several edges share."""
    assert mirrormaker2({"mirrormaker2": {"source": "DC-X"}}).at("dc-x").offsets_topic == "mm2-offsets.DC-X.internal"
    shared = {"group": "connect", "offsets_topic": "connect-offsets", "connector": "mirror-{edge}"}
    found = mirrormaker2({"mirrormaker2": shared}).at("eu")
    assert (found.group, found.offsets_topic, found.connector, found.source) == (
        "connect",
        "connect-offsets",
        "mirror-eu",
        "eu",
    )
    assert rule_start(mirrormaker2({"mirrormaker2": shared}).plain()) == rule_start({"mirrormaker2": shared})


def test_other_starts_are_as_ever():
    """Words and times."""
    assert rule_start("latest") == "latest"
    assert rule_start("2026-11-01T00:00Z") == datetime(2026, 11, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("mirrormaker", "`mirrormaker2`"),
        ({"mirrormaker2": "eu"}, "a block `mirrormaker2:`"),
        ({"mirrormaker2": {}, "other": {}}, "a block `mirrormaker2:`"),
        ({"mirrormaker2": {"sources": "eu"}}, "has `sources`"),
        ({"mirrormaker2": {"source": "{source}"}}, "names itself"),
        ({"mirrormaker2": {"source": "a b"}}, "`source` that is no name"),
        ({"mirrormaker2": {"group": "{topic}-mm2"}}, "`group` that is no name"),
        ({"mirrormaker2": {"group": 3}}, "`group` that is no name"),
    ],
)
def test_what_is_no_start_is_refused(value, told):
    """By what it may be."""
    with pytest.raises(ValueError, match=told):
        rule_start(value)
