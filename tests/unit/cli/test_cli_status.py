"""`aggregator status`: what it lists beside edges and flows."""

import itertools
from dataclasses import replace
from pathlib import Path

import pytest

from aggregator.cli.dlq import _lines
from aggregator.cli.status_text import status_lines
from aggregator.cli.top import _text as _top
from aggregator.cli.top import _topics
from aggregator.config.waivers import Waiver
from aggregator.coordinates import EdgePartition
from aggregator.edges.availability import AvailabilityState
from aggregator.lake.status import TableStatus
from aggregator.observe.selection import StatusSelection
from aggregator.replicate.identity.clusters import Identity
from aggregator.state.dead_letters import Letter
from aggregator.state.gap import Gap, GapKind
from aggregator.threads import ThreadCondition, ThreadStatus
from tests.unit.observe.hubs import edge, flow, snapshot


def feeds(flows):
    """Each topic a table of its name."""
    return {one.topic for one in flows}


def shown(**parts) -> str:
    """The text of an imagined hub."""
    return "\n".join(status_lines(replace(snapshot(flows=[flow(partition=0)]).status, **parts)))


def test_threads_that_are_not_well_are_listed_and_the_others_not():
    """Hanging, restarting, dead; and one that runs again, with its last error."""
    well = ThreadStatus("lease", ThreadCondition.RUNNING, 0)
    again = ThreadStatus("monitor", ThreadCondition.RUNNING, 0, 3, "OverflowError at feeds.py:90")
    hangs = ThreadStatus("edge-eu", ThreadCondition.HANGING, 0, 0, "no pulse for over 300 s")
    text = shown(threads=(well, again, hangs))
    assert "no pulse for over 300 s" in text
    assert "OverflowError at feeds.py:90" in text
    assert "lease" not in text
    assert "thread of the hub" not in shown(threads=(well,))


def test_a_flow_that_has_not_begun_is_listed_with_its_reason():
    """One with a position is told with its flow, and not twice."""
    why = ("discovery", "no broker leads partition 1: is a broker of the edge away?")
    text = shown(refused={"eu/orders/0": why, "eu/invoices/2": why})
    assert "eu/invoices/2" in text
    assert text.count("no broker leads partition 1") == 1
    assert "flow that has not begun" not in shown(refused={"eu/orders/0": why})


def test_policies_that_the_hub_refused_are_told_with_what_speaks_against_them():
    """Nobody has to read the log for it."""
    text = shown(objections=("policy.yaml: orders.email: dropped becomes passes",))
    assert "policy.yaml: orders.email: dropped becomes passes" in text
    assert "send SIGHUP again" in text
    assert "former policies" not in shown()


def test_topics_that_no_rule_takes_are_named_ten_at_most():
    """Somebody made one, and nobody decided about it."""
    text = shown(without_rule={"eu": tuple(f"t{at:02}" for at in range(12))})
    assert "eu: no rule takes 12 topics: t00, t01, " in text
    assert "t09 and 2 more; give them one" in text
    assert "no rule takes" not in shown()


def test_topics_without_a_rule_are_among_the_problems():
    """Records of them wait for somebody's decision, whoever asks for problems alone."""
    seen = replace(snapshot().status, without_rule={"eu": ("wages",), "us": ("wages", "rent")})
    chosen = StatusSelection("us", "w.*", problems=True).of(seen, feeds)
    assert chosen.without_rule == {"us": ("wages",)}


@pytest.mark.parametrize(
    ("state", "step"),
    [
        (AvailabilityState.UNREACHABLE, "next: aggregator doctor shows at which step the connection ends"),
        (AvailabilityState.LOSING_DATA, "next: aggregator gaps list shows what the edge no longer has"),
        (AvailabilityState.PAUSED, "next: aggregator edge resume eu lets it go on"),
    ],
)
def test_an_edge_that_is_not_well_has_a_next_step(state, step):
    """The state and its reason are no remedy."""
    assert step in shown(edges=(edge(state=state), edge("us", state=state))).splitlines()
    assert "next:" not in shown(edges=(edge(state=AvailabilityState.UP),))


def test_what_there_is_nothing_of_has_no_heading():
    """`--problems` of a hub that is well is one sentence."""
    nothing = replace(snapshot().status, edges=(), flows=(), lake=())
    assert list(status_lines(nothing, problems=True)) == [
        "no problem: edges are UP, and no flow and no table stands still",
        "",
    ]


def test_dead_letters_stand_beside_no_problem():
    """They stop nothing, and have an alert: whoever was woken by it finds them."""
    nothing = replace(snapshot().status, edges=(), flows=(), lake=())
    text = list(status_lines(nothing, problems=True, dead={"eu": 40}))
    assert "40 dead letters of eu since the hub's first start, replayed ones too: aggregator dlq list --edge eu" in text


def test_open_connections_are_listed_with_their_reasons():
    """What is open, what that does, and why it may."""
    one = Waiver("edge eu", "security.protocol", "sends password and records in clear", "a lab")
    text = shown(waivers=(one,))
    assert all(word in text for word in one)
    assert "open connection" not in shown()
    (plain,) = replace(snapshot().status, waivers=(one,)).plain()["insecure"]
    assert plain == {"connection": "edge eu", "setting": "security.protocol", "what": one.what, "reason": "a lab"}


def test_neither_is_healthy():
    """`--exit-when-healthy` waits for both."""
    seen = snapshot().status
    assert seen.healthy
    assert not replace(seen, threads=(ThreadStatus("lake", ThreadCondition.RESTARTING, 0, 1, "x"),)).healthy
    assert not replace(seen, refused={"eu/orders/0": ("discovery", "x")}).healthy
    assert not replace(seen, objections=("x",)).healthy


def test_bytes_of_each_edge_are_listed():
    """In all and now; `-` where nobody has told yet. The names are those of `-o json`."""
    moving = edge(read_bytes=3_200_000_000, read_bytes_per_s=1_990_000.0, rate_limit_bytes_per_s=2_000_000)
    (line,) = [line for line in shown(edges=(moving,)).splitlines() if line.startswith("eu ")]
    assert "3.2 GB 1.99 MB/s" in line
    assert "0 B -" in line
    (plain,) = replace(snapshot().status, edges=(moving,)).plain()["edges"]
    assert (plain["read_bytes"], plain["rate_limit_bytes_per_s"]) == (3_200_000_000, 2_000_000)
    assert plain["written_bytes_per_s"] is None


SMALLEST = Path(__file__).parents[3] / "configs" / "hub.smallest.yaml"
HELD = flow(topic="orders", partition=2, gap=Gap(GapKind.EXPIRED, 5, 9, 0))


def rows(lines):
    """Those of the table of flows."""
    below = [*itertools.dropwhile(lambda line: not line.startswith(("topic ", "flow ")), lines)]
    return [*itertools.takewhile(bool, below)][1:]


def many():
    """Two edges, one of them away; 200 topics of three partitions each at either, one of which stands still."""
    flows = [flow(name, f"t{topic:03}", part) for name in ("eu", "us") for topic in range(200) for part in range(3)]
    flows += [flow(topic="orders", partition=0), flow(topic="orders", partition=1), HELD]
    edges = [edge("eu"), edge("us", state="UNREACHABLE", reason="no broker answers")]
    seen = snapshot(edges, sorted(flows, key=lambda one: one.source)).status
    return replace(seen, refused={"us/t000/7": ("discovery", "no leader"), "us/a.b/1": ("discovery", "no leader")})


def test_a_topic_has_one_line_and_says_which_partition_stands_still():
    """603 flows are 201 lines, and one of them says where and why; a line for each partition on demand."""
    seen = StatusSelection("eu").of(many(), feeds)
    topics = rows(status_lines(seen))
    assert len(topics) == 201
    assert sum("expired" in line for line in topics) == 1
    assert topics[0].split()[:4] == ["eu/orders", "3", "30", "1.5s"]
    assert f"partition 2: expired {HELD.gap}" in topics[0]
    assert len(rows(status_lines(seen, partitions=True))) == 603


def test_what_mends_a_flow_that_stands_still_is_told_below():
    """Once for all flows of one reason; the page and `status --problems` send their reader here."""
    why = "held, central refuses orders\n  next: give the principal Write"
    stands = tuple(flow(partition=number, trouble=why) for number in range(3))
    text = shown(flows=stands)
    assert text.count("next: give the principal Write") == 1
    assert "partition 0: held, central refuses orders (and 2 more)" in text
    lost = shown(flows=(HELD,))
    assert 'next: aggregator gaps accept --edge eu --topic orders --reason "…" goes on without it' in lost
    assert "next:" not in shown()


def test_what_ends_a_pause_is_told_below():
    """Whoever reads the status did not always ask for the pause."""
    told = "next: aggregator edge resume eu lets it go on"
    assert shown(edges=(edge("eu", state=AvailabilityState.PAUSED), edge("us"))).count(told) == 1
    assert "edge resume" not in shown(edges=(edge("eu"), edge("us")))


def test_a_busy_hub_s_quieter_topics_are_counted():
    """A screen of twenty topics does not look like all of thirty."""
    taken = snapshot(flows=[flow(topic=f"orders-{number}") for number in range(30)])
    shown_rows = "\n".join(_top(taken, _topics(taken), 20))
    assert "and 10 more topics that are quieter: --most" in shown_rows
    assert shown_rows.count("orders-") == 20
    assert "more topics" not in "\n".join(_top(taken, _topics(taken), 30))


def test_top_of_a_hub_that_does_not_run_says_so():
    """Zero records a second are no answer by themselves."""
    taken = snapshot(flows=[flow()])
    away = replace(taken, status=replace(taken.status, watched=False))
    assert any("no hub watches" in line for line in _top(away, _topics(away), 20))
    assert not any("no hub watches" in line for line in _top(taken, _topics(taken), 20))


def test_problems_are_all_that_is_not_well():
    """Nothing that is well is among them, and nothing that is not well is left out."""
    stands = TableStatus("orders", problem="the store refuses")
    same, other = Identity("eu", "a", "a"), Identity("us", "b", "a", "another cluster")
    seen = replace(many(), lake=(TableStatus("visits"), stands), clusters=(same, other))
    found = StatusSelection(problems=True).of(seen, feeds)
    assert [one.edge for one in found.edges] == ["us"]
    assert found.flows == (HELD,)
    assert (found.lake, found.clusters, found.refused) == ((stands,), (other,), seen.refused)


def test_no_problem_is_said_in_words():
    """And not by two tables without a line."""
    well = StatusSelection(problems=True).of(snapshot(edges=[edge()], flows=[flow()]).status, feeds)
    assert "no problem: edges are UP, and no flow and no table stands still" in [*status_lines(well, problems=True)]
    assert "no problem" not in "\n".join(status_lines(StatusSelection(problems=True).of(many(), feeds), problems=True))


def test_a_part_of_a_status_is_what_was_asked_for():
    """By edge, and by a pattern on the whole name of a topic; the JSON is narrowed as the text is."""
    found = StatusSelection("us", "t00.").of(many(), feeds)
    assert {one.edge for one in found.edges} == {"us"}
    assert {one.topic for one in found.flows} == {f"t00{number}" for number in range(10)}
    assert list(found.refused) == ["us/t000/7"]
    assert len(found.plain()["flows"]) == 30
    assert list(StatusSelection("us", "a.b").of(many(), feeds).refused) == ["us/a.b/1"]
    assert StatusSelection("us", "t").of(many(), feeds).flows == ()
    stands = tuple(TableStatus(name, problem="the store refuses") for name in ("orders", "t001", "t002"))
    for chosen, tables in (
        (StatusSelection("eu", "t001"), ["t001"]),
        (StatusSelection("eu", "t.*", problems=True), ["t001", "t002"]),
    ):
        assert [one.table for one in chosen.of(replace(many(), lake=stands), feeds).lake] == tables


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--edge", "mars"], "no edge mars is configured"),
        (["--topic", "a(?=b)"], "RE2 refuses the pattern"),
        (["--timeout", "2m"], "--timeout needs --exit-when-healthy"),
        (["--exit-when-healthy", "--timeout", "soon"], "a duration carries its unit"),
    ],
)
def test_what_cannot_be_selected_is_refused(aggregator, words, why):
    """Before any cluster is asked."""
    done = aggregator("status", "--config", SMALLEST, *words)
    assert done.exit_code in (1, 2)
    assert why in done.stderr


def test_dead_letters_are_counted_by_topic_and_reason():
    """The largest group first; then the newest letters, and how to see the others."""
    letters = [Letter(EdgePartition("eu", "orders", 0), n, 0, "too_large", n * 1000, None, 9) for n in range(30)]
    letters.append(Letter(EdgePartition("us", "visits", 1), 5, 0, "bad_key", 5000, 7, 9))
    lines = list(_lines(letters, 3))
    assert lines[1].split()[:3] == ["eu/orders", "too_large", "30"]
    assert lines[2].split()[:3] == ["us/visits", "bad_key", "1"]
    assert [line.split()[0] for line in lines[5:8]] == ["eu/orders/0/28/0", "eu/orders/0/29/0", "us/visits/1/5/0"]
    assert lines[-1] == "28 older ones: --most 31, or -o json"
    assert len(list(_lines(letters, 0))) == 4
    assert list(_lines([], 3)) == ["no dead letters"]
