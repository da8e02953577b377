"""What a slot takes of its edges, and counts: an edge's limit holds that edge alone, and only commits are written."""

from aggregator.bytes_column import BytesColumn
from aggregator.kafka.native.chunk import Chunk
from aggregator.replicate.slot.commit_policy import CommitPolicy
from aggregator.replicate.slot.plan import BackfillTerms, SlotPlan
from aggregator.replicate.slot.traffic import SlotTraffic
from aggregator.state.names import HubNames

POLL = 16_000
RATE = 1_000_000.0


class World:
    """A clock, and bytes that clients have received."""

    def __init__(self):
        self.now_s, self.bytes = 0.0, {"eu": 0}

    def now(self):
        return self.now_s

    def received(self, edge):
        return self.bytes[edge]


def traffic(world, **more):
    """Of a slot that reads `eu`, which has a limit, and `us`."""
    plan = SlotPlan(
        HubNames("hub"), 1, "driver", 0, (), CommitPolicy(0.5, 1 << 20), False, 5.0, rates={"eu": RATE}, **more
    )
    return SlotTraffic(plan, world)


def chunk(count, size):
    """Records without keys."""
    values = BytesColumn.of([b"x" * size] * count)
    return Chunk("orders", 0, BytesColumn.empty(count), values, [None] * count, [0] * count, list(range(count)))


def test_a_limited_edge_is_passed_over_and_no_other_is():
    """While its limit is used up it gives nothing, and is named once in what is told; the other one gives all."""
    world = World()
    slot = traffic(world)
    world.now_s, world.bytes["eu"] = 1.0, 3_000_000
    assert slot.available("eu", POLL) == 0
    assert slot.available("us", POLL) == POLL
    assert slot.figures()["limited"] == ["eu"]
    assert slot.figures()["limited"] == []
    world.now_s = 3.5
    assert 0 < slot.available("eu", POLL) < POLL
    assert slot.is_limited("eu")
    assert not slot.is_limited("us")


def test_what_is_taken_is_charged_before_it_is_told():
    """By the bytes of keys and values; a client tells a second later."""
    world = World()
    slot = traffic(world)
    world.now_s = 1.0
    assert slot.available("eu", POLL)
    assert slot.count_read("eu", [chunk(500, 1_000), chunk(600, 1_000)]) == 1_100
    assert slot.available("eu", POLL) == 0
    assert slot.count_read("us", [chunk(9, 1_000_000)]) == 9
    assert slot.available("us", POLL) == POLL


def test_bytes_count_when_they_are_committed():
    """What an aborted transaction wrote is written again."""
    slot = traffic(World())
    slot.count_written("eu", 70)
    slot.count_written("us", 30)
    assert slot.pending_bytes == 100
    slot.abort()
    assert (slot.pending_bytes, slot.figures()["written"]) == (0, {})
    slot.count_written("eu", 50)
    slot.commit()
    slot.count_written("eu", 9)
    assert (slot.pending_bytes, slot.figures()["written"]) == (9, {"eu": 50})


def test_a_backfill_s_rate_holds_all_edges():
    """In records, and beside an edge's own limit."""
    world = World()
    slot = traffic(world, terms=BackfillTerms("b-1", "hub.dead-letters", rate=100.0))
    world.now_s = 0.5
    assert slot.available("us", POLL) == 50
    slot.count_read("us", [chunk(50, 1)])
    assert slot.available("us", POLL) == 0
    slot.pace(None)
    assert slot.available("us", POLL) == POLL
