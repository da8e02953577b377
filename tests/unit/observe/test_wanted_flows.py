"""Which flows a monitor shows, and which gap of each."""

from aggregator.coordinates import EdgePartition, Position
from aggregator.observe.edge_snapshot import EdgeSnapshot
from aggregator.observe.wanted_flows import WantedFlows
from aggregator.replicate.discovery.edge_watch import EdgeAnswer
from aggregator.state.gap import Gap, GapKind
from aggregator.state.ledger import LedgerRecord
from tests.unit.replicate.plan_inputs import CONFIG, FLOW

WRITTEN = Gap(GapKind.EXPIRED, 10, 15, 1000)
SHOWN = Gap(GapKind.EXPIRED, 10, 18, 1000)


def seen(**gaps):
    """What every edge showed; nothing where it says nothing."""
    return {edge: EdgeSnapshot(EdgeAnswer(0.0), None, None, gaps.get(edge, {})) for edge in CONFIG.edges}


def test_what_no_rule_names_and_whose_edge_is_gone_is_left_out():
    """The ledger keeps such flows for ever; nobody wants to see them."""
    flows = WantedFlows(CONFIG)
    entry = LedgerRecord(0, "id-1", 10, 0, 0)
    no_rule, no_edge = EdgePartition(FLOW.edge, "__consumer_offsets", 0), EdgePartition("gone", FLOW.topic, 0)
    flows.ingest(dict.fromkeys((FLOW, no_rule, no_edge), entry))
    assert flows.of(FLOW.edge) == {FLOW: entry}
    assert sum(len(flows.of(edge)) for edge in CONFIG.edges) == 1


def test_what_an_edge_shows_counts_while_the_flow_stands_there():
    """A gap that grew replaces the one in the ledger; one that was seen before the flow moved on is forgotten."""
    flows = WantedFlows(CONFIG)
    flows.ingest({FLOW: LedgerRecord(0, "id-1", 10, 0, 0, gap=WRITTEN)})
    assert flows.gaps(seen()) == {FLOW: WRITTEN}
    assert flows.gaps(seen(**{FLOW.edge: {FLOW: (Position(0, 10), SHOWN)}})) == {FLOW: SHOWN}
    flows.ingest({FLOW: LedgerRecord(0, "id-1", 18, 0, 0)})
    assert flows.gaps(seen(**{FLOW.edge: {FLOW: (Position(0, 10), SHOWN)}})) == {}
