"""What the page shows: everything that is known, escaped, small and quick; and nothing that nobody knows."""

import json
import shlex
from dataclasses import replace
from html.parser import HTMLParser

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.edges.availability import AvailabilityState
from aggregator.edges.history import WINDOWS_MS, StateSpan
from aggregator.lake.status import TableStatus
from aggregator.observe.fields import FieldSum
from aggregator.page.attention import needs
from aggregator.page.charts import BAR_WIDTH, bar, line
from aggregator.page.frames import Frame, Frames
from aggregator.page.overview import overview
from aggregator.page.picture import SIZE, picture, spokes
from aggregator.page.rendering import Pages
from aggregator.page.runbooks import runbooks
from aggregator.page.states import badge_of, badness
from aggregator.page.stripped_fields import by_schema
from aggregator.page.timeline import changes
from aggregator.state.lake_holds import LakeHold
from aggregator.state.telemetry import SlotReport
from tests.documented_commands import check_command
from tests.growth import cpu_s
from tests.unit.observe.hubs import edge, flow, snapshot
from tests.unit.page.showing import AT_MS, MINUTE_MS, Watched, application, client, config, fields_of, troubled, wide

WITHIN_S = 1 / 3
BEHIND = "The hub is behind: none of 2"
HOSTILE = "<img src=x onerror=alert(1)>'\"&{{7*7}}"


class Words(HTMLParser):
    """The text of a page, and its ids."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.text, self.ids, self.links = [], [], []
        self.feed(page)

    def handle_starttag(self, _tag, attrs):
        known = dict(attrs)
        self.ids += [known["id"]] if "id" in known else []
        self.links += [known["href"]] if "href" in known else []

    def handle_data(self, data):
        self.text.append(data)

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.text).split())


def read(path: str, seen=None) -> Words:
    """A page of the troubled hub as a reader without scripts gets it."""
    answer = client(seen or troubled()).get(path)
    assert answer.status_code == 200
    return Words(answer.text)


@pytest.mark.parametrize(
    "said",
    [
        "2 of 3 edges are losing data or unreachable",
        "neither a heartbeat nor an answer for 6 s (no route)",
        "aggregator gaps accept --edge us --topic orders --partition 0 --reason",
        "The flow waits for your decision.",
        "us/orders/0",
        "eu/orders/1",
        "the registry has no schema 9",
        "the quality gate holds its next commit",
        "the folder cannot be read",
        "Last beat",
        "0.8s",
        "99.000%",
        "for 5.0min",
        "drop 2 · 180",
        "seat",
        "retail version 3",
        "500 of 2,000 offsets",
        "into v2",
        "ada@desk",
        "held",
        "Unreachable",
        "so far",
        "edge us security.protocol sends password and records in clear a lab <b>",
    ],
)
@pytest.mark.slow
def test_the_start_page_says_all_of_it_without_a_script(said):
    """States with reasons, what needs somebody and what to do, what is stripped, the lake, backfills, the past."""
    assert said in read("/").words


@pytest.mark.parametrize(
    "said",
    [
        "the registry has no schema 9",
        "crew 3 no rule's `match` is its whole name",
        "__consumer_offsets 50 internal topics are never replicated",
        "payments 1 held: central would delete it at once",
        "unknown_schema 6",
        "2 partitions",
        "1 hour",
        "30 days",
    ],
)
@pytest.mark.slow
def test_the_page_of_an_edge_says_why(said):
    """Topics, partitions and why they stand; topics without a flow and why; letters by reason; the past by window."""
    assert said in read("/edges/eu").words


def test_gaps_are_told_with_who_let_them_pass():
    """Open ones and decided ones, on the page of their edge."""
    words = read("/edges/us").words
    assert "expired [90, 140) open" in words
    assert "accepted 1970-01-01 00:00:00 ada (claimed): a known outage" in words


@pytest.mark.slow
def test_a_topic_is_explained_though_nobody_answers(monkeypatch):
    """An internal one, one that no rule wants, one of other edges: why not; an edge's silence is part of the answer."""
    monkeypatch.setattr("aggregator.plan.explanation._TIMEOUT_S", 0.1)
    assert "Not replicated : internal topics" in read("/edges/eu/topics/__consumer_offsets").words
    assert "no rule's `match` is its whole name" in read("/edges/eu/topics/crew").words
    assert "one does on eu, us" in read("/edges/ap/topics/orders").words


@pytest.mark.parametrize("path", ["/edges/nobody", "/edges/eu/topics/a%20b", "/nowhere", "/edges/<b>", "/assets/x"])
def test_what_is_not_there_is_not_found(path):
    """With a page that says so and shows nothing of what was asked for as markup."""
    answer = client(troubled()).get(path)
    assert answer.status_code == 404
    assert "<b>" not in answer.text


@pytest.mark.parametrize("method", ["post", "put", "delete", "patch"])
def test_nothing_can_be_changed(method):
    """The page is for reading."""
    assert getattr(client(troubled()), method)("/").status_code == 405


def test_nothing_that_others_wrote_becomes_markup():
    """Reasons, names of topics and fields, whoever paused an edge: escaped, each time."""
    seen = troubled()
    bad = snapshot(
        [edge("eu", state="STALLED", reason=HOSTILE)],
        [flow("eu", HOSTILE, trouble=f"held, {HOSTILE}", held="refused")],
        topics={"eu": {HOSTILE: 1}},
        letters={("eu", HOSTILE, HOSTILE): 1},
        fields={("eu", HOSTILE): next(iter(seen.fields.values()))},
    )
    for path in ("/", "/edges/eu"):
        page = client(bad).get(path).text
        assert "<img" not in page
        assert "onerror=alert(1)>" not in page.replace("&gt;", "")
        assert "49" not in Words(page).words


def test_before_the_first_look_the_page_says_so():
    """It loads itself again, and needs no snapshot."""
    for path in ("/", "/edges/eu"):
        page = client(None).get(path).text
        assert "The first look is under way" in page
        assert 'http-equiv="refresh"' in page


@pytest.mark.parametrize("path", ["/", "/edges/eu"])
def test_ids_are_given_once(path):
    """A part is found by its id; a heading too."""
    ids = read(path).ids
    assert len(ids) == len(set(ids))


@pytest.mark.slow
def test_a_hundred_edges_of_fifty_topics_stay_quick_and_small():
    """Start page and page of an edge, each made anew: under a third of a second of a core, and a megabyte."""
    seen = wide(100, 50)
    app = application(seen)

    def start() -> bytes:
        app._pages = Pages()
        with_parts = app._overview_parts(Frame(seen))
        return app._page("overview.html", Frame(seen), with_parts, changes="/changes").body

    def one_edge() -> bytes:
        app._pages = Pages()
        parts = app._edge_parts(Frame(seen), "edge-7")
        return app._page("edge.html", Frame(seen), parts, changes="/changes", title="edge-7").body

    for make in (start, one_edge):
        assert len(make()) < 1_000_000
        assert cpu_s(make, enough_s=WITHIN_S) < WITHIN_S


def test_a_page_is_rendered_once_for_all_readers():
    """Whoever asks for what looks the same gets the same parts."""
    app, frame = application(troubled()), Frame(troubled())
    assert app._overview_parts(frame) is app._overview_parts(frame)
    assert app._overview_parts(frame._replace(old_s=9)) is not None


async def _sent(app, count: int, then) -> list[str]:
    """What the stream of the start page sends; `then` happens after each piece."""

    async def never() -> bool:
        return False

    found = []
    async for piece in app._changed(never, app._overview_parts):
        found.append(piece)
        then(len(found))
        if len(found) == count:
            break
    return found


def test_the_stream_sends_what_changed_and_nothing_else(monkeypatch):
    """All parts at first, then those that look different; a sign of life where none does."""
    monkeypatch.setattr("aggregator.page.frames._TELL_S", 0.1)
    calm = troubled()
    stuck = edge("eu", since_ms=AT_MS - 5 * MINUTE_MS, state="STALLED", reason="stuck")
    status = replace(calm.status, edges=(stuck, *calm.status.edges[1:]))
    other = replace(calm, number=8, status=status)
    app = application(calm)

    def then(count: int) -> None:
        if count == 3:
            app._frames.watcher.seen = other

    pieces = anyio.run(_sent, app, 4, then)
    assert pieces[0] == "retry: 1000\n\n"
    first, later = (json.loads(piece.partition("data: ")[2]) for piece in (pieces[1], pieces[3]))
    assert {"snapshot_age", "headline", "picture", "needs", "edge-eu", "edge-us", "lake", "history"} <= first.keys()
    assert pieces[2] == ": alive\n\n"
    assert "Stalled" in later["edge-eu"]
    assert not {"edge-us", "edge-ap", "lake", "backfills", "history", "stripped"} & later.keys()


def test_a_snapshot_that_nobody_renews_grows_old():
    """After four seconds the page says for how long it has heard nothing; a new one is current again."""
    now_s = [100.0]
    frames = Frames(lambda: now_s[0])
    frames.watcher = Watched(troubled())
    assert frames.newest().old_s == 0
    now_s[0] += 3.9
    assert frames.newest().old_s == 0
    now_s[0] += 5
    assert frames.newest().old_s == 8
    frames.watcher.seen = replace(troubled(), number=8)
    assert frames.newest().old_s == 0


def test_what_needs_somebody_comes_worst_first_and_calm_is_calm():
    """An edge in maintenance, or at rest, needs nobody; a hub in which all is well has an empty list."""
    assert [one.what for one in needs(troubled())] == [
        *("changed policies", "us", "ap", "us/orders/0", "eu/orders/1", "eu/payments/0", "orders", "payments"),
    ]
    resting = snapshot([edge("eu", state="UNREACHABLE", maintenance=True), edge("us", state="PAUSED")])
    assert needs(resting) == ()
    assert overview(snapshot()).headline == "The edge is up"


@given(st.lists(st.floats(0, 1e9), max_size=100))
def test_a_line_stays_in_its_box(values):
    """No value, however large or small, draws outside of it."""
    drawn = line(values, places=60)
    for pair in drawn.points.split():
        x, y = map(float, pair.split(","))
        assert 0 <= x <= 120.1
        assert 0 <= y <= 28


@given(
    st.lists(st.tuples(st.integers(1, 10**7), st.integers(0, 10**6), st.sampled_from(AvailabilityState)), max_size=40)
)
def test_a_bar_keeps_the_order_and_shows_what_is_worse(story):
    """Pieces lie in order within the bar; the worst state of the window is seen, however short it was."""
    spans, at_ms = [], AT_MS - WINDOWS_MS["1h"] * 2
    for length_ms, hole_ms, state in story:
        spans.append(StateSpan(at_ms, at_ms + length_ms, state))
        at_ms += length_ms + hole_ms
    drawn = bar(spans, from_ms=AT_MS - WINDOWS_MS["1h"], to_ms=AT_MS, cells=100)
    assert [one.x for one in drawn] == sorted(one.x for one in drawn)
    assert all(0 <= one.x < one.x + one.width <= BAR_WIDTH for one in drawn)
    inside = [one.state for one in spans if one.end_ms > AT_MS - WINDOWS_MS["1h"] and one.start_ms < AT_MS]
    assert {one.badge for one in drawn} <= {badge_of(state) for state in inside}
    assert max((badness(state) for state in inside), default=0) == max(map(_badness, drawn), default=0)


def _badness(one) -> int:
    return next(badness(state) for state in AvailabilityState if badge_of(state) == one.badge)


def test_time_that_nobody_watched_is_told_as_such():
    """A hole in the history is a change like any other, and what lasts is told to last."""
    spans = (
        StateSpan(0, 10_000, AvailabilityState.UP),
        StateSpan(10_000, 40_000, AvailabilityState.UP),
        StateSpan(100_000, 160_000, AvailabilityState.STALLED),
    )
    told = [(one.at_ms, one.badge.label, one.lasts) for one in changes({"eu": spans}, now_ms=161_000, most=9)]
    assert told == [(100_000, "Stalled", True), (40_000, "Not watched", False), (0, "Up", False)]


@pytest.mark.parametrize("count", [1, 2, 3, 5, 12, 13, 40, 100])
def test_the_picture_has_room_for_every_edge(count):
    """Nodes lie apart and within the picture; of a crowd only those are named that need somebody."""
    edges = [edge(f"edge-{at}", state="UP" if at else "STALLED") for at in range(count)]
    drawn = spokes(edges, {"edge-0": 5000.0})
    assert len({(one.x, one.y) for one in drawn}) == count
    for one in drawn:
        assert one.radius <= one.x <= 480 - one.radius
        assert one.radius <= one.y <= 480 - one.radius
        apart = [((one.x - other.x) ** 2 + (one.y - other.y) ** 2) ** 0.5 for other in drawn if other is not one]
        assert min(apart, default=1000) >= 2 * one.radius
    whole = picture(edges, {})
    assert whole.top >= 0
    assert whole.top + whole.height <= SIZE
    assert all(whole.top + one.radius <= one.y <= whole.top + whole.height - one.radius for one in whole.spokes)
    assert [one.edge for one in drawn if one.label] == [one.edge for one in edges[: count if count <= 12 else 1]]


def test_every_state_has_a_sign_of_its_own():
    """States of one tone differ by sign and word; the sign is a symbol of the page."""
    badges = [badge_of(state) for state in AvailabilityState]
    assert len({one.sign for one in badges}) == len({one.label for one in badges}) == len(AvailabilityState)
    page = client(troubled()).get("/").text
    assert all(f'id="sign-{one.sign}"' in page for one in badges)
    assert badge_of("SOMETHING_NEW").label == "SOMETHING_NEW"


def test_a_held_flow_is_told_by_its_reason_and_not_by_its_words():
    """The badge and the runbook stay whatever the sentence says; what tries again by itself only waits."""
    seen = troubled()
    flows = (
        flow("eu", "a", trouble="held, changed", held="incompatible"),
        flow("eu", "b", trouble="held, another", held="undecided"),
        flow("eu", "c", trouble="held, words of nobody", held="refused"),
        flow("eu", "d", trouble="waits and tries again, held, another cluster"),
    )
    found = {
        one.what: one for one in needs(replace(seen, status=replace(seen.status, flows=flows, gaps=(), refused={})))
    }
    told = {what: (found[what].badge.label, found[what].runbook) for what in ("eu/a/0", "eu/b/0", "eu/c/0", "eu/d/0")}
    assert told == {
        "eu/a/0": ("Held", "changed-policy.md"),
        "eu/b/0": ("Held", "undecided-transaction.md"),
        "eu/c/0": ("Held", ""),
        "eu/d/0": ("Waits", ""),
    }


def test_partitions_of_a_table_with_one_reason_are_one_card():
    """Six cards alike hide the seventh."""
    held = tuple(LakeHold("orders", "eu.orders", n, 7, AT_MS, "cents is text\n  next: mend it") for n in range(6))
    seen = snapshot(lake=(TableStatus("orders", 4, held=held),))
    (card,) = needs(seen)
    assert (card.what, card.why) == ("orders: central eu.orders-0 at offset 7 and 5 more", "cents is text")


def test_what_waits_where_nobody_knows_is_not_nothing():
    """An edge that does not answer tells no ends: the others' sum is shown, and the edge is named."""
    ends = edge("eu", lag_records=1200), edge("us", lag_records=None)
    assert "Waiting 1,200 unknown at us" in read("/", snapshot(ends)).words
    assert "Waiting - unknown at us" in read("/", snapshot(ends[1:])).words
    assert "unknown at" not in read("/", snapshot(ends[:1])).words


def test_a_card_has_the_whole_command_and_its_runbook():
    """What can be typed as it stands, and a page to read on a bad day; each named runbook is there and is shown."""
    page = read("/")
    for command in (
        'aggregator gaps accept --edge us --topic orders --partition 0 --reason "…"',
        "aggregator gaps list",
        "aggregator status --problems",
        "aggregator doctor",
        "aggregator status --problems --edge eu --topic orders --partitions",
        'aggregator lake release orders --reason "…"',
    ):
        assert command in page.words
        check_command(shlex.split(command)[1:])
    linked = {link for link in page.links if link.startswith("/runbooks/")}
    assert linked == {
        f"/runbooks/{name}.md" for name in ("accepted-gap", "changed-policy", "edge-not-up", "held-table")
    }
    assert {one.runbook for one in needs(troubled())} - {""} <= runbooks().keys()
    assert "An accepted gap The edge lost records" in read("/runbooks/accepted-gap.md").words
    assert client(troubled()).get("/runbooks/..%2fpage.md").status_code == 404


def test_records_that_say_they_were_here_are_told():
    """Those that came back and are suppressed, and those that are not theirs and were delivered; else nothing."""
    flows = [flow("eu", "orders", 0, cycles=3, forged=2), flow("eu", "payments", 0, cycles=0, forged=0)]
    said = read("/edges/eu", snapshot([edge("eu")], flows)).words
    assert "Records that say they were here Topic Came back, suppressed Not theirs, delivered orders 3 2" in said
    assert "Records that say" not in read("/edges/eu", snapshot([edge("eu")], flows[1:])).words


def test_what_needs_somebody_and_the_past_come_before_what_is_stripped():
    """In the order in which somebody on call reads."""
    ids = read("/").ids
    assert [one for one in ids if one in {"needs", "edges", "history", "stripped"}] == [
        *("needs", "edges", "history", "stripped"),
    ]
    ids = read("/edges/us").ids
    assert ids.index("topics") < ids.index("losses") < ids.index("edge_past") < ids.index("edge_stripped")


def test_what_is_old_is_called_so_and_nothing_up():
    """No green badge stands over what nobody has seen for a while: the headline, and the page of an edge."""
    app, old = application(troubled()), Frame(troubled(), 30)
    assert "Not current: 2 of 3 edges" in app._overview_parts(old)["headline"]
    assert 'class="rest"' in app._overview_parts(old)["headline"]
    head = app._edge_parts(old, "eu")["edge_head"]
    assert "Not current" in head
    assert "state good" not in head
    assert "was up 30 s ago" in " ".join(head.split())


@pytest.mark.parametrize(
    ("states", "more", "said"),
    [
        (("LAGGING", "LAGGING"), {"slots": ()}, "The hub is starting: no slot runs yet"),
        (("UP", "UP"), {"slots": ()}, "All 2 edges are up"),
        (
            ("LAGGING", "STALLED"),
            {"slots": (SlotReport(0, 4, 1),)},
            f"{BEHIND} edges keeps up, though all of them answer",
        ),
        (("LAGGING", "UP"), {"slots": (SlotReport(0, 4, 1),)}, "a is lagging"),
        (("UNREACHABLE", "LAGGING"), {"slots": ()}, "2 of 2 edges are unreachable or lagging"),
    ],
)
def test_a_hub_that_is_behind_or_starts_says_so_of_itself(states, more, said):
    """Where no edge keeps up and all answer, it is not the edges."""
    edges = [edge(name, state=state) for name, state in zip("ab", states, strict=False)]
    assert overview(replace(snapshot(edges), **more)).headline == said


def test_two_hundred_topics_are_folded_but_for_those_that_stand_still():
    """What stands still is in front, whatever its name is; the rest is one line to unfold."""
    flows = [flow("eu", f"t{number:03}", 0) for number in range(200)]
    flows[150] = flow("eu", "t150", 0, trouble="held, the registry has no schema 9", held="refused")
    known = config()
    hub = known.model_copy(update={"topics": (known.topics[0].model_copy(update={"match": ".*"}),)})
    page = client(snapshot([edge("eu")], flows), hub=hub).get("/edges/eu").text
    front, folded = page.split('<details id="topics-rest"')
    assert 'id="topic-t150"' in front
    assert front.count('data-name="') == 21
    assert "179 more topics, none of which stands still" in Words(folded).words
    few = client(snapshot([edge("eu")], flows[:25]), hub=hub).get("/edges/eu").text
    assert "topics-rest" not in few


def test_each_schema_of_a_topic_has_its_heading():
    """Fields of two versions in one list would show a field twice with other numbers, and not say why."""
    ids = (7, 9, None)
    fields = [FieldSum(fields_of().fields[0].row._replace(schema_id=one), 1, 0, 1, 0) for one in ids]
    known = replace(fields_of(), fields=tuple(fields))
    assert [(one.name, len(one.fields)) for one in by_schema(known)] == [
        ("Schema id 9", 1),
        ("Schema id 7", 1),
        ("Without a schema", 1),
    ]
