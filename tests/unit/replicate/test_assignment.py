"""Assignment of flows to slots."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from aggregator.coordinates import EdgePartition
from aggregator.replicate.epoch import assignment
from aggregator.replicate.epoch.assignment import NOWHERE

flows = st.builds(
    EdgePartition, st.sampled_from(["eu", "us", "ap"]), st.sampled_from(["a", "b", "c"]), st.integers(0, 9)
)
weights = st.dictionaries(flows, st.floats(1, 1e9), max_size=60)
previous = st.dictionaries(flows, st.integers(0, 12), max_size=60)


def assign(weights: dict[EdgePartition, float], previous: dict[EdgePartition, int], slots: int):
    """By name, as a person would say it."""
    before = np.array([previous.get(flow, NOWHERE) for flow in weights], np.int64)
    placed = assignment.assign(list(weights), np.array(list(weights.values())), before, slots)
    return dict(zip(weights, placed.tolist(), strict=True))


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


def connections(placed) -> int:
    return len({(flow.edge, slot) for flow, slot in placed.items()})


many = st.dictionaries(
    st.builds(
        EdgePartition, st.sampled_from([f"e{n}" for n in range(8)]), st.sampled_from(["a", "b"]), st.integers(0, 9)
    ),
    st.just(1.0),
    min_size=1,
    max_size=160,
)


@given(many, st.integers(2, 12))
def test_losing_a_slot_moves_little_more_than_its_flows(weights, slots):
    """The survivors keep what they have, but for at most one flow each that is above its share there."""
    before = assign(weights, {}, slots)
    after = assign(weights, before, slots - 1)
    moved = sum(after[flow] != slot for flow, slot in before.items() if slot < slots - 1)
    assert moved <= slots - 1


@given(many, st.integers(2, 12))
def test_an_added_slot_takes_its_share_from_the_others(weights, slots):
    """What moves is at most what the others have above the new share, and one flow each."""
    before = assign(weights, {}, slots - 1)
    after = assign(weights, before, slots)
    moved = {flow for flow in weights if after[flow] != before[flow]}
    above = sum(max(0.0, list(before.values()).count(slot) - len(weights) / slots) for slot in range(slots - 1))
    assert len(moved) <= above + slots


@given(many, st.integers(1, 12))
def test_an_edge_is_in_few_slots(weights, slots):
    """Connections: edges cut like a rope would need one per edge and one per slot; twice that is the bound."""
    placed = assign(weights, {}, slots)
    edges = len({flow.edge for flow in weights})
    assert connections(placed) <= 2 * (edges + slots)


@given(weights, previous, st.integers(1, 8), st.randoms(use_true_random=False))
def test_the_order_of_the_flows_decides_nothing(weights, previous, slots, random):
    """Two drivers that see the same edges in another order agree."""
    shuffled = list(weights.items())
    random.shuffle(shuffled)
    assert assign(dict(shuffled), previous, slots) == assign(weights, previous, slots)
