"""Two sources of one central topic, and topics that are the hub's own."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.config.collisions import RESERVED, collisions, reserved_hits, reserved_names, targets
from aggregator.config.model import TopicRule
from aggregator.config.patterns import branches, full_matches
from aggregator.state.names import HubNames


def rule(
    match: str, central: str = "{edge}.{topic}", edges: tuple[str, ...] | None = None, exclude: str | None = None
) -> TopicRule:
    """A rule with nothing but what matters here."""
    return TopicRule(match=match, policy="p.yaml", central=central, edges=edges, exclude=exclude)


def met(rules: list[TopicRule], edges: list[str]) -> list[str | None]:
    """Names of the collisions; None where both patterns are open."""
    numbered = dict(enumerate(rules))
    return [found.name for found in collisions(numbered, targets(list(numbered.items()), edges))]


APART = [
    pytest.param([rule(".*")], ["eu", "us", "eu-west"], id="one rule, all edges"),
    pytest.param([rule("orders", "{topic}")], ["eu", "us"], id="all edges into one is meant"),
    pytest.param([rule("orders", "{topic}"), rule(r"payments\..*")], ["eu"], id="names against an open pattern"),
    pytest.param([rule(r"a\..*", "{topic}"), rule(".*")], ["eu"], id="begins that differ"),
    pytest.param([rule(".*", "{topic}.{edge}")], ["eu", "us"], id="ends that differ"),
    pytest.param([rule(r"eu\.orders", "{topic}"), rule(".*", exclude="orders")], ["eu"], id="what the other excludes"),
    pytest.param([rule(r"eu\.orders|a", "{topic}", exclude=r"eu\..*"), rule("orders")], ["eu"], id="its own"),
    pytest.param([rule(".*", "a.{topic}", ("eu",)), rule(".*", "b.{topic}", ("us",))], ["eu", "us"], id="two prefixes"),
]
TOGETHER = [
    pytest.param([rule(r"eu\.orders", "{topic}"), rule("orders")], ["eu", "us"], "eu.orders", id="two names"),
    pytest.param(
        [rule(r"eu\.orders", "{topic}"), rule(".*")], ["eu", "us"], "eu.orders", id="a name and an open pattern"
    ),
    pytest.param([rule("[a-z.]+", "{topic}"), rule(".*")], ["eu"], None, id="two open patterns"),
    pytest.param(
        [rule("west-orders|orders", "{edge}-{topic}")], ["eu", "eu-west"], "eu-west-orders", id="hyphens of edges"
    ),
    pytest.param([rule("[a-z-]+", "{edge}-{topic}")], ["eu", "eu-west"], None, id="hyphens, open"),
]


@pytest.mark.parametrize(("rules", "edges"), APART)
def test_flows_with_names_of_their_own_are_accepted(rules, edges):
    """Where no two different topics can have one central name, nothing is refused."""
    assert met(rules, edges) == []


@pytest.mark.parametrize(("rules", "edges", "name"), TOGETHER)
def test_different_topics_in_one_central_topic_are_found(rules, edges, name):
    """Where two different topics could have one central name, the pair is found, with an example if there is one."""
    assert met(rules, edges) == [name]


NAMES = st.lists(
    st.sampled_from(["orders", "eu.orders", "eu-west-orders", "west-orders", "a", "eu.a"]), min_size=1, max_size=3
)
PATTERNS = st.sampled_from(["{topic}", "{edge}.{topic}", "{edge}-{topic}", "{topic}.{edge}", "eu.{topic}"])


@given(st.lists(st.tuples(NAMES, PATTERNS), min_size=1, max_size=3))
def test_for_lists_of_names_the_answer_is_exact(drawn):
    """Compared with trying every pair of flows, for patterns that are lists of names."""
    edges = ["eu", "eu-west"]
    rules = [rule("|".join(name.replace(".", r"\.") for name in names), central) for names, central in drawn]
    flows = [
        (central.replace("{edge}", edge).replace("{topic}", name), name)
        for names, central in drawn
        for edge in edges
        for name in names
    ]
    expected = any(one[0] == other[0] and one[1] != other[1] for one in flows for other in flows)
    assert bool(met(rules, edges)) == expected


def test_the_collision_is_told_at_the_later_rule(changed):
    """The message names both rules, an edge of each and an example."""
    second = "lake: \"{topic}\"\n  - {match: 'eu\\.orders', policy: policies/retail.yaml, central: '{topic}'}\n"
    lines = changed('lake: "{topic}"\n', second)
    assert len(lines) == 1
    assert lines[0].startswith("hub.yaml:14: topics[1].central: ")
    assert "eu.orders" in lines[0]
    assert "topics[0]" in lines[0]


def test_the_same_pattern_twice_is_refused(changed):
    """The first rule takes a topic, so that a second rule with the same pattern would do nothing."""
    second = 'lake: "{topic}"\n  - {match: "orders|payments\\\\..*", policy: policies/retail.yaml}\n'
    assert ["topics[1].match" in line for line in changed('lake: "{topic}"\n', second)] == [True]
    second = second.replace("}\n", ", exclude: x}\n")
    assert ["topics[1].match" in line for line in changed('lake: "{topic}"\n', second)] == [True]
    assert changed('lake: "{topic}"\n', second.replace("\n", "\n    exclude: orders\n", 1)) == [], (
        "the first leaves some"
    )


def test_every_internal_topic_is_reserved():
    """The list here and the names of the room of Kafka are the same."""
    own = {
        value.removeprefix("h.")
        for name, attribute in vars(HubNames).items()
        if isinstance(attribute, property) and not name.endswith("_id")
        for value in [getattr(HubNames("h"), name)]
    }
    assert own == set(RESERVED)


OWN = [
    pytest.param(".*", "{topic}", "eu", "demo.backfill.control", id="everything"),
    pytest.param("demo\\.dead-letters", "{topic}", "eu", "demo.dead-letters", id="dead letters"),
    pytest.param("control", "{edge}.{topic}", "demo", "demo.control", id="edge named as the hub"),
    pytest.param("demo\\.backfill\\.ledger", "{topic}", "eu", "demo.backfill.ledger", id="backfill"),
    pytest.param("us\\.heartbeats", "{topic}", "eu", "us.heartbeats", id="another edge's heartbeats"),
    pytest.param(".*", "{edge}.{topic}", "eu", None, id="its own heartbeats"),
    pytest.param("eu.*", "{topic}.internal", "eu", "eu.checkpoints.internal", id="positions of groups"),
    pytest.param(".*internal", "{topic}", "eu", None, id="what no edge replicates"),
    pytest.param("orders", "{topic}", "eu", None, id="an honest name"),
]


@pytest.mark.parametrize(("match", "central", "edge", "hit"), OWN)
def test_topics_of_the_hub_itself_are_out_of_reach(match, central, edge, hit):
    """No rule can write into the ledger, the control topic, or any other topic that the hub owns."""
    found = rule(match, central)
    every = targets([(0, found)], [edge])
    assert reserved_hits({0: found}, every, reserved_names("demo", ["eu", "us"])).get(0) == hit


def test_a_pattern_over_everything_may_not_merge_into_plain_names(faults, good):
    """`.*` with `{topic}` would copy a foreign `<hub>.ledger` over the hub's own."""
    lines = faults(good.replace("orders|payments\\\\..*", ".*").replace("{edge}.{topic}", "{topic}"))
    assert len(lines) == 1
    assert "demo.backfill.control, which is the hub's own" in lines[0]


@pytest.mark.slow
@pytest.mark.search
@pytest.mark.parametrize(
    ("rules", "edges", "central"),
    [(3_000, 1, "{edge}.{topic}"), (5, 2_000, "{edge}.{topic}"), (5, 2_000, "{topic}")],
)
def test_many_rules_and_edges_are_checked_in_proportion(rules, edges, central):
    """Time as their number, where each name of the hub with each edge, or each rule with each other, took seconds."""
    names = [f"e{at}" for at in range(edges)]
    numbered = {at: rule(f"t{at}\\..*", central) for at in range(rules)}
    began = time.process_time()
    every = targets(list(numbered.items()), names)
    assert list(collisions(numbered, every)) == []
    assert reserved_hits(numbered, every, reserved_names("hub", names)) == {}
    assert time.process_time() - began < 5


def test_an_edge_whose_own_heartbeats_a_rule_writes_hides_no_other_edge():
    """Edges at which a rule writes the same names are looked at once; that one of them may is another case."""
    for edges in (["eu", "us"], ["us", "eu"]):
        rules = {0: rule("heartbeats", "eu.{topic}")}
        assert reserved_hits(rules, targets([*rules.items()], edges), reserved_names("h", edges)) == {
            0: "eu.heartbeats"
        }


@given(
    st.from_regex(r"[a-z.|*+?()\\\[\]{}0-9]{0,12}", fullmatch=True), st.lists(st.text("ab.|1", max_size=5), max_size=5)
)
def test_what_is_said_of_a_pattern_holds_for_every_match(pattern, names):
    """Each match of a pattern begins with the literal of one of its branches, and is it where the branch is whole."""
    try:
        found = full_matches(pattern, names)
    except ValueError:
        return
    for name, matched in zip(names, found, strict=True):
        if matched:
            assert any(name == b.literal if b.is_literal else name.startswith(b.literal) for b in branches(pattern))
