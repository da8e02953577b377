"""A plan's first line, its parts, and the fields of edges that fare alike: by plans that are made here."""

from collections import Counter

import pytest

from aggregator.plan.flows import FlowStep
from aggregator.plan.prospects import Prospect
from aggregator.plan.run_plan import HubPlan, TopicStep
from aggregator.plan.schemas import FieldRoute, SchemaStep
from aggregator.plan.selection import PlanSelection, folded
from aggregator.plan.summary import plan_summary
from aggregator.plan.tables import TableStep
from aggregator.replicate.discovery.topic_settings import Drift, DriftAction
from aggregator.replicate.identity.clusters import Identity


def flow(edge: str, topic: str, *, waiting: int | None = 10, held: tuple[str, ...] = (), dead: str = "") -> FlowStep:
    return FlowStep(edge, topic, f"{edge}.{topic}", "p.yaml", 3, 0, waiting, held, dead)


def field(edge: str, topic: str, path: str, operator: str = "keep") -> FieldRoute:
    return FieldRoute(edge, topic, f"{edge}.{topic}", path, "string", (), operator, "clear", "path id")


def schema(edge: str, topic: str, action: str, subject: str = "") -> SchemaStep:
    text = "" if action in ("refused", "dead letters") else "{}"
    return SchemaStep(edge, topic, subject or f"{edge}.{topic}-value", "orders-value version 1", action, "", text)


def plan(**parts) -> HubPlan:
    """A plan of two edges with orders and payments, of which some stand still."""
    whole = {
        "unreachable": {"ap": "nobody"},
        "topics": (
            TopicStep("central", "h.ledger", "create", 1, {}),
            TopicStep("central", "eu.orders", "create", 3, {}),
            TopicStep("central", "us.orders", "add partitions", 3, {}),
            TopicStep("us", "heartbeats", "create", 1, {}),
        ),
        "flows": (
            flow("eu", "orders"),
            flow("us", "orders", held=("us/orders/0: gone", "us/orders/1: gone")),
            flow("eu", "payments", dead="all 3 records looked at would be dead letters: 3 wrong_magic"),
            flow("ap", "orders", waiting=None),
        ),
        "schemas": (
            schema("eu", "orders", "register", "orders-value"),
            schema("us", "orders", "register", "orders-value"),
            schema("us", "payments", "refused"),
        ),
        "tables": (
            TableStep("orders", "add columns", ("b",), ("eu.orders", "us.orders")),
            TableStep("payments", "unknown", (), ("eu.payments",), "no store"),
        ),
        "fields": (field("eu", "orders", "id"), field("us", "orders", "id"), field("eu", "payments", "id", "drop")),
        "drifts": (Drift("us.orders", "retention.ms", "1", "2", ("us",), DriftAction.CHANGE, ""),),
    }
    return HubPlan("h", **(whole | parts))


def test_the_first_line_counts_each_thing_once():
    """Two edges that register one schema add one; what is unknown is said in the same line."""
    found = plan_summary(plan())
    head, more = found.lines()
    assert head == "4 to add, 2 to change; more is unknown: edge ap does not answer, table payments"
    assert more.split("; ") == [
        "to add: 3 topics, 1 schema",
        "to change: 1 topic, 1 table",
        "1 setting for --apply",
        "30 records waiting, at most",
        "would stand still: 2 partitions, 1 schema",
        "1 topic of nothing but dead letters",
    ]
    other = Identity("ap", "b", "a", "edge ap leads to another cluster than before")
    first = plan_summary(plan(clusters=(other,))).lines()[0]
    assert first.endswith("; more is unknown: edge ap leads to another cluster, table payments")
    nothing = plan_summary(HubPlan("h", {}, (), (), (), (), ()))
    assert nothing.lines() == ["0 to add, 0 to change"]


@pytest.mark.parametrize(
    ("chosen", "flows", "topics", "tables"),
    [
        (PlanSelection(edge="us"), ["us/orders"], ["us.orders", "heartbeats"], ["orders"]),
        (PlanSelection(topic="pay.*"), ["eu/payments"], [], ["payments"]),
        (PlanSelection(edge="eu", topic="orders"), ["eu/orders"], ["eu.orders"], ["orders"]),
        (PlanSelection(problems=True), ["us/orders", "eu/payments", "ap/orders"], [], ["payments"]),
    ],
)
def test_a_part_of_a_plan(chosen, flows, topics, tables):
    """By edge, by the whole name of a topic, or what is not well; the hub's own topics belong to no part."""
    found = chosen.of(plan())
    assert [f"{one.edge}/{one.topic}" for one in found.flows] == flows
    assert [one.topic for one in found.topics] == topics
    assert [one.table for one in found.tables] == tables
    assert list(found.unreachable) == (["ap"] if not chosen.edge else [])


def test_only_problems_hides_what_is_well():
    """No fields, no schema that may come, no setting that follows by itself."""
    found = PlanSelection(problems=True).of(plan())
    assert (found.fields, found.drifts) == ((), ())
    assert [one.action for one in found.schemas] == ["refused"]


def test_fields_that_fare_alike_at_several_edges_are_one_table():
    """An edge whose fields fare otherwise has one of its own."""
    alike = [field(edge, "orders", path) for edge in ("eu", "us", "ap") for path in ("id", "note")]
    other = [field("jp", "orders", "id"), field("jp", "orders", "note", "drop")]
    assert [(one.edges, one.topic, len(one.fields), one.centrals) for one in folded([*alike, *other])] == [
        (("eu", "us", "ap"), "orders", 2, ("eu.orders", "us.orders", "ap.orders")),
        (("jp",), "orders", 2, ("jp.orders",)),
    ]


def test_some_is_said_where_it_is_not_all():
    """A topic of which two thirds cannot be read is no surprise after the run."""
    assert Prospect(3, Counter({"wrong_magic": 2})).some_dead == "2 of 3 records looked at would be: 2 wrong_magic"
    assert [Prospect(3, Counter(found)).some_dead for found in ({}, {"bad_key": 3})] == ["", ""]


@pytest.mark.parametrize(
    ("looked", "dead", "said"),
    [
        (0, {}, ""),
        (3, {"wrong_magic": 2}, ""),
        (
            3,
            {"wrong_magic": 2, "bad_key": 1},
            "all 3 records looked at would be dead letters: 2 wrong_magic, 1 bad_key",
        ),
        (1, {"bad_key": 1}, "the record that was looked at would be a dead letter: 1 bad_key"),
    ],
)
def test_all_is_said_only_of_all(looked, dead, said):
    """One record that would be delivered, and nothing is foretold."""
    assert Prospect(looked, Counter(dead)).all_dead == said
