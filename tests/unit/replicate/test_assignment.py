"""Assignment of flows to slots."""

from hypothesis import given
from hypothesis import strategies as st

from aggregator.coordinates import EdgePartition
from aggregator.replicate.assignment import assign

flows = st.builds(
    EdgePartition, st.sampled_from(["eu", "us", "ap"]), st.sampled_from(["a", "b", "c"]), st.integers(0, 9)
)
weights = st.dictionaries(flows, st.floats(1, 1e9), max_size=60)
previous = st.dictionaries(flows, st.integers(0, 12), max_size=60)


@given(weights, previous, st.integers(1, 8))
def test_every_flow_has_exactly_one_slot(weights, previous, slots):
    """No flow is left out or placed outside, whatever the last epoch looked like."""
    placed = assign(weights, previous, slots)
    assert placed.keys() == weights.keys()
    assert all(0 <= slot < slots for slot in placed.values())


@given(weights, st.integers(1, 8))
def test_assigning_again_moves_nothing(weights, slots):
    """Sticky: with the same weights every flow stays."""
    first = assign(weights, {}, slots)
    again = assign(weights, first, slots)
    assert assign(weights, again, slots) == again


@given(st.dictionaries(flows, st.just(1.0), min_size=1, max_size=60), previous, st.integers(1, 8))
def test_equal_flows_are_spread_evenly(weights, previous, slots):
    """No slot has more than a tenth above its share, plus one flow."""
    placed = assign(weights, previous, slots)
    loads = [list(placed.values()).count(slot) for slot in range(slots)]
    assert max(loads) <= len(weights) / slots * 1.1 + 1


def test_edges_stay_together_where_that_is_fair():
    """Each edge in a slot is a set of connections: two equal edges on two slots do not mix."""
    weights = {EdgePartition(edge, "t", p): 1.0 for edge in ("eu", "us") for p in range(6)}
    placed = assign(weights, {}, 2)
    assert {len({placed[flow] for flow in weights if flow.edge == edge}) for edge in ("eu", "us")} <= {1, 2}
    assert len({(flow.edge, slot) for flow, slot in placed.items()}) <= 3
