"""The hub's positions as source offsets of MirrorMaker 2: whose, where, and what it does not know."""

from pathlib import Path

from aggregator.config.model import HubConfig
from aggregator.config.start import MirrorMaker2
from aggregator.coordinates import EdgePartition
from aggregator.kafka.readers.log_record import LogRecord
from aggregator.mirrormaker.connect_offsets import source_offsets
from aggregator.mirrormaker.handover import handed_over, names_of
from aggregator.state.gap import Gap, GapKind
from aggregator.state.ledger import LedgerRecord

CONFIG = HubConfig(
    hub="h",
    central={"bootstrap_servers": "c:1"},
    edges={"eu": {"bootstrap_servers": "e:1"}, "us": {"bootstrap_servers": "u:1"}},
    topics=(
        {"match": "orders", "policy": Path("p.yaml"), "start": {"mirrormaker2": {"source": "DC-{edge}"}}},
        {"match": "plain", "policy": Path("p.yaml")},
    ),
)
EU = MirrorMaker2().at("eu")


def entry(next_offset: int, **more) -> LedgerRecord:
    return LedgerRecord(0, "id", next_offset, epoch=1, slot=0, **more)


def test_each_flow_of_a_rule_goes_on_at_its_position():
    """Heartbeats have none, nor has a topic that no rule takes; names are the rule's, else those of dedicated mode."""
    ledger = {
        EdgePartition("us", "orders", 0): entry(7),
        EdgePartition("eu", "plain", 1): entry(42, dead=2),
        EdgePartition("eu", "heartbeats", 0): entry(9),
        EdgePartition("eu", "gone", 0): entry(9),
        EdgePartition("ap", "plain", 0): entry(9),
    }
    found = {str(one.source): one for one in handed_over(CONFIG, ledger, {}, None)}
    assert {name: (one.names.offsets_topic, one.record.value) for name, one in found.items()} == {
        "eu/plain/1": ("mm2-offsets.eu.internal", b'{"offset":41}'),
        "us/orders/0": ("mm2-offsets.DC-us.internal", b'{"offset":6}'),
    }
    assert found["eu/plain/1"].note == "of these 2 are dead letters, which it does not deliver"
    assert [str(one.source) for one in handed_over(CONFIG, ledger, {}, "us")] == ["us/orders/0"]
    assert names_of(CONFIG, "eu", "gone") is None


def test_a_log_that_was_not_read_yet_is_forgotten():
    """A topic that was created again: what MirrorMaker 2 had copied of the former one is no offset of this one."""
    key = '["MirrorSourceConnector",{"cluster":"eu","partition":0,"topic":"plain"}]'
    known = {EU: source_offsets([LogRecord(4, 0, key, b'{"offset":9}')], "MirrorSourceConnector", "eu")}
    ledger = {EdgePartition("eu", "plain", 0): entry(0), EdgePartition("eu", "plain", 1): entry(0)}
    former, new = handed_over(CONFIG, ledger, known, None)
    assert former.record == (key, None, 4)
    assert new.record is None


def test_a_gap_is_told():
    """MirrorMaker 2 starts anew there, and says nothing."""
    gap = Gap(GapKind.EXPIRED, 5, 9, 0)
    (one,) = handed_over(CONFIG, {EdgePartition("eu", "plain", 0): entry(5, gap=gap)}, {}, None)
    assert "a gap of kind expired is open here" in one.note
