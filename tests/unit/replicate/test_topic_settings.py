"""Settings that follow from edges to central: which differ, and what becomes of each difference."""

import pytest

from aggregator.config.model import HubConfig
from aggregator.kafka.client.record_size import MAX_RECORD_BYTES
from aggregator.replicate.discovery.central_topics import central_topics
from aggregator.replicate.discovery.edge_topic import EdgeTopic
from aggregator.replicate.discovery.topic_settings import DriftAction, changes, drifts, following


def config(central="{topic}", **rule):
    return HubConfig.model_validate(
        {
            "hub": "h",
            "central": {"bootstrap_servers": "c:1"},
            "edges": {"eu": {"bootstrap_servers": "e:1"}, "us": {"bootstrap_servers": "u:1"}},
            "topics": [{"match": "orders", "policy": "/p", "central": central} | rule],
        }
    )


def found(central, eu, us=None, **rule):
    shown = {"eu": {"orders": eu}} | ({} if us is None else {"us": {"orders": us}})
    return [(one.setting, one.edge, one.action.value) for one in drifts(config(**rule), shown, {"orders": central})]


def test_what_the_topic_was_given_follows_and_what_its_brokers_say_does_not():
    """But for the size of records, which decides what central refuses wherever it comes from."""
    values = {"retention.ms": "5", "max.message.bytes": "9", "segment.ms": "7", "cleanup.policy": "delete"}
    assert following(values, {"retention.ms", "segment.ms"}) == {"retention.ms": "5", "max.message.bytes": "9"}


@pytest.mark.parametrize(
    ("name", "central", "edge", "expected"),
    [
        ("max.message.bytes", "1000", "1000", None),
        ("max.message.bytes", "1000", "2000", "change"),
        ("max.message.bytes", "2000", "1000", None),
        ("retention.ms", "1000", "2000", "change"),
        ("retention.ms", "1000", "-1", "unbounded"),
        ("retention.ms", "1000", str(2**63 - 1), "unbounded"),
        ("retention.bytes", "1000", str(2**50), "unbounded"),
        ("min.compaction.lag.ms", "0", str(2**62), "unbounded"),
        ("retention.bytes", "1000", str(2**49), "change"),
        ("retention.ms", "-1", "1000", "confirm"),
        ("retention.ms", "2000", "1000", "confirm"),
        ("retention.bytes", "-1", "-1", None),
        ("compression.type", "producer", "zstd", "change"),
        ("cleanup.policy", "delete", "compact", "confirm"),
        ("cleanup.policy", "compact,delete", "delete, compact", None),
        ("cleanup.policy", "compact,delete", "compact", "change"),
    ],
)
def test_nothing_follows_by_itself_that_makes_central_forget(name, central, edge, expected):
    """Larger and longer is carried over; shorter, and another kind of forgetting, only by a person."""
    told = found({name: central}, {name: edge})
    assert told == ([(name, edge, expected)] if expected else [])


def test_of_several_edges_the_largest_counts_and_words_must_agree():
    """An edge that says nothing of its own does not agree to less."""
    assert found({"max.message.bytes": "5"}, {"max.message.bytes": "7"}, {"max.message.bytes": "9"}) == [
        ("max.message.bytes", "9", "change")
    ]
    assert found({"retention.ms": "9"}, {"retention.ms": "5"}, {}) == [("retention.ms", "5", "keep")]
    assert found({"retention.ms": "9"}, {"retention.ms": "5"}, {"retention.ms": "6"}) == [
        ("retention.ms", "6", "confirm")
    ]
    words = {"compression.type": "zstd"}, {"compression.type": "lz4"}
    assert found({"compression.type": "gzip"}, *words) == [("compression.type", "eu: zstd, us: lz4", "keep")]


def test_what_a_rule_says_is_the_rules_own():
    """`central_config` beats what the edge has; heartbeats and topics without a rule have nothing that follows."""
    told = found({"retention.ms": "1"}, {"retention.ms": "5"}, central_config={"retention.ms": "1"})
    assert told == []
    shown = {"eu": {"heartbeats": {"retention.ms": "5"}, "other": {"retention.ms": "5"}}}
    assert drifts(config(), shown, {"eu.heartbeats": {}, "other": {}}) == []


def test_what_is_not_at_central_yet_has_no_drift():
    """A run makes it, with room for the largest records of all its edges."""
    assert drifts(config(), {"eu": {"orders": {"retention.ms": "5"}}}, {}) == []

    def topic(size):
        return EdgeTopic("orders", "id", (0,), (0,), (0,), (None,), synced_settings={"max.message.bytes": str(size)})

    for sizes, expected in (((3_000_000, 2_000_000), "3000000"), ((1_048_588, 500), None)):
        edges = {edge: {"orders": topic(size)} for edge, size in zip(("eu", "us"), sizes, strict=True)}
        (spec,) = central_topics(config(), edges)
        assert spec.settings.get("max.message.bytes") == expected
    (spec,) = central_topics(config(central_config={"max.message.bytes": "7"}), edges)
    assert spec.settings["max.message.bytes"] == "7"


def test_what_is_to_be_set_is_what_was_decided():
    """By itself, or after a person has seen it; never what nobody agreed on."""
    shown = {"eu": {"orders": {"retention.ms": "5", "max.message.bytes": "9"}}}
    told = drifts(config(), shown, {"orders": {"retention.ms": "9", "max.message.bytes": "5"}})
    assert {one.action for one in told} == {DriftAction.CHANGE, DriftAction.CONFIRM}
    assert changes(told, confirmed=False) == {"orders": {"max.message.bytes": "9"}}
    assert changes(told, confirmed=True) == {"orders": {"max.message.bytes": "9", "retention.ms": "5"}}
    assert told[0].plain()["edges"] == ["eu"]


def test_records_become_no_larger_than_the_hub_can_send():
    """Whatever an edge allows, at a topic that is there and at a new one."""
    most = str(MAX_RECORD_BYTES)
    assert found({"max.message.bytes": "5"}, {"max.message.bytes": "2147483647"}) == [
        ("max.message.bytes", most, "change")
    ]
    assert found({"max.message.bytes": most}, {"max.message.bytes": "2147483647"}) == []
    topic = EdgeTopic("orders", "id", (0,), (0,), (0,), (None,), synced_settings={"max.message.bytes": "2147483647"})
    (spec,) = central_topics(config(), {"eu": {"orders": topic}})
    assert spec.settings["max.message.bytes"] == most


def test_what_keeps_for_ever_needs_its_own_word():
    """Whoever writes to an edge could fill central's disks by it; `--yes` alone has not seen it."""
    told = drifts(config(), {"eu": {"orders": {"retention.ms": "-1"}}}, {"orders": {"retention.ms": "5"}})
    assert changes(told, confirmed=True) == {}
    assert changes(told, confirmed=True, unbounded=True) == {"orders": {"retention.ms": "-1"}}


def test_what_no_edge_has_any_more_is_told():
    """It followed once, or somebody set it by hand; a rule that names it wants it, and so does one edge that has it."""

    def left(eu, us, central, own, **rule):
        shown = {"eu": {"orders": eu}} | ({} if us is None else {"us": {"orders": us}})
        told = drifts(config(**rule), shown, {"orders": central}, {"orders": own})
        return [(one.setting, one.central, one.edge, one.action.value) for one in told]

    kept = {"retention.ms": "-1"}
    assert left({}, {}, kept, {"retention.ms"}) == [("retention.ms", "-1", None, "keep")]
    assert left({}, {}, kept, set()) == []
    assert left({}, None, kept, {"retention.ms"}) == [], "an edge that is away may have it"
    assert left({}, {}, kept, {"retention.ms"}, central_config=kept) == []
    assert left({}, {"retention.ms": "-1"}, kept, {"retention.ms"}) == []
    sizes = {"max.message.bytes": "9"}, {"max.message.bytes": "5"}
    assert left(*sizes, {"max.message.bytes": "9"}, {"max.message.bytes"}) == []
    assert left(*sizes, {"max.message.bytes": "90"}, {"max.message.bytes"}) == [
        ("max.message.bytes", "90", "9", "keep")
    ]
    assert left(*sizes, {"max.message.bytes": "90"}, set()) == []
