"""From a committed position to a question, and from a search to an answer: every reason why there is none."""

import pytest

from aggregator.config.model import HubConfig
from aggregator.coordinates import EdgePartition, Position
from aggregator.offsets.questions import TranslationInputs, merged_partitions, question
from aggregator.offsets.search import Placed, Search
from aggregator.offsets.translation import PositionQuery, Why, translated
from aggregator.state.gap import Gap, GapDecision, GapKind
from aggregator.state.ledger import LedgerRecord

CONFIG = HubConfig.model_validate(
    {
        "hub": "h",
        "central": {"bootstrap_servers": "c:1"},
        "edges": {"eu": {"bootstrap_servers": "e:1"}, "us": {"bootstrap_servers": "u:1"}},
        "topics": [
            {"match": "keyed", "policy": "p.yaml", "partition_by": "key"},
            {"match": "merged", "policy": "p.yaml", "central": "{topic}"},
            {"match": "orders", "policy": "p.yaml"},
        ],
    }
)
ORDERS = EdgePartition("eu", "orders", 1)
FACTS = TranslationInputs(
    {ORDERS: LedgerRecord(0, "id-1", 100, 3, 0)},
    edges={("eu", "orders"): "id-1"},
    central={"eu.orders": ("id-c", 3)},
    targets={("eu", "orders"): frozenset({("eu.orders", False)})},
)


def changed(**parts) -> TranslationInputs:
    """The facts with others in their place."""
    return TranslationInputs(
        **({name: getattr(FACTS, name) for name in ("ledger", "decisions", "edges", "central", "targets")} | parts)
    )


def test_a_position_becomes_a_question():
    """About the central topic of today's rules, in the same partition."""
    assert question(CONFIG, "g", ORDERS, 40, FACTS) == PositionQuery(
        "g", ORDERS, Position(0, 40), ("eu.orders", 1), "id-c", ()
    )


@pytest.mark.parametrize(
    ("source", "facts", "why"),
    [
        (("eu", "other", 0), FACTS, Why.NOT_REPLICATED),
        (("eu", "us.checkpoints.internal", 0), FACTS, Why.NOT_REPLICATED),
        (("eu", "keyed", 0), FACTS, Why.BY_KEY),
        (ORDERS, changed(ledger={}), Why.NOT_BEGUN),
        (ORDERS, changed(central={}), Why.NOT_BEGUN),
        (ORDERS, changed(central={"eu.orders": ("id-c", 1)}), Why.NOT_BEGUN),
        (ORDERS, changed(edges={("eu", "orders"): "id-2"}), Why.RECREATED),
        (ORDERS, changed(edges={}), Why.RECREATED),
        (
            ORDERS,
            changed(ledger={ORDERS: LedgerRecord(0, "id-1", 100, 3, 0, gap=Gap(GapKind.TRUNCATED, 20, None, 1))}),
            Why.GAP,
        ),
        (ORDERS, changed(ledger={ORDERS: LedgerRecord(0, "id-1", 100, 3, 0, copied=41)}), Why.COPIED),
    ],
)
def test_what_cannot_be_looked_for_is_refused_by_name(source, facts, why):
    """With a reason, and in words."""
    said = question(CONFIG, "g", EdgePartition(*source), 40, facts)
    assert (said.why, said.central_offset) == (why, None)
    assert said.detail


def test_an_offset_counts_in_the_incarnation_that_it_belongs_to():
    """After an accepted rewind at 30 what lies before it is of the incarnation before; after a new topic nothing is."""
    entry = LedgerRecord(2, "id-1", 100, 3, 0)
    rewind = GapDecision(ORDERS, Position(1, 50), Gap(GapKind.TRUNCATED, 30, None, 1), "ann", 1, "")
    anew = GapDecision(ORDERS, Position(0, 70), Gap(GapKind.RECREATED, 70, None, 1), "hub", 1, "")
    facts = changed(ledger={ORDERS: entry}, decisions={ORDERS: (rewind, anew)})
    found = {offset: question(CONFIG, "g", ORDERS, offset, facts).position for offset in (0, 29, 30, 100, 120)}
    assert found == {0: (1, 0), 29: (1, 29), 30: (2, 30), 100: (2, 100), 120: (2, 120)}


def test_behind_what_mirrormaker_2_had_copied_the_hub_s_records_tell():
    """From the offset on at which the flow began, and of every later log."""
    for entry in (LedgerRecord(0, "id-1", 100, 3, 0, copied=40), LedgerRecord(1, "id-1", 100, 3, 0, copied=90)):
        assert isinstance(question(CONFIG, "g", ORDERS, 40, changed(ledger={ORDERS: entry})), PositionQuery)


ASKED = PositionQuery("g", ORDERS, Position(0, 40), ("eu.orders", 1), "id-c")
BEFORE, AT = Placed(55, Position(0, 38)), Placed(60, Position(0, 41))


def answer(search: Search, *, delivered: int = 100, decided: bool = True, asked: PositionQuery = ASKED):
    """What a search means at the end of a partition at 80."""
    return translated(asked, search, LedgerRecord(0, "id-1", delivered, 3, 0), end=80, decided=decided)


def test_the_first_record_behind_is_the_position():
    """Also where a transaction is open behind it."""
    said = answer(Search(ASKED.position, 60, 60, BEFORE, AT), decided=False)
    assert (said.central_offset, said.behind_records, said.why, said.before) == (60, 0, None, BEFORE)


def test_without_a_record_behind_it_is_the_end_if_the_hub_has_passed_it():
    """What was left out at the end is passed; what the hub has not delivered yet, or hides, is not."""
    none = Search(ASKED.position, 80, 80, BEFORE)
    assert answer(none).central_offset == 80
    assert answer(none, delivered=40).central_offset == 80
    ahead = answer(none, delivered=30)
    assert (ahead.why, ahead.central_offset, ahead.behind_records) == (Why.AHEAD, None, 10)
    assert answer(none, decided=False).why == Why.UNDECIDED


def test_a_search_without_an_answer_is_none():
    """Its trouble is told."""
    said = answer(Search(ASKED.position, 5, 80, trouble="none of 500,000 records is of this flow"))
    assert said.why == Why.UNREAD
    assert "500,000" in said.detail


def test_what_earlier_rules_wrote_elsewhere_is_not_passed_over():
    """Unless central's topic has a record before the position: then all later ones are in it."""
    moved = ASKED._replace(former_topics=("all",))
    assert answer(Search(ASKED.position, 60, 60, None, AT), asked=moved).why == Why.MOVED
    assert answer(Search(ASKED.position, 60, 60, BEFORE, AT), asked=moved).central_offset == 60


def test_a_topic_that_several_edges_fill_is_merged():
    """And one that a single edge topic fills is not."""
    flows = dict.fromkeys(
        [ORDERS, EdgePartition("eu", "merged", 0), EdgePartition("us", "merged", 0)], LedgerRecord(0, "i", 1, 1, 0)
    )
    facts = changed(ledger=flows)
    assert merged_partitions(CONFIG, [("merged", 0), ("eu.orders", 1)], facts) == {("merged", 0)}
