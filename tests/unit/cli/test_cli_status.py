"""`aggregator status`: what it lists beside edges and flows."""

from dataclasses import replace

from aggregator.cli.status import _text
from aggregator.config.waivers import Waiver
from aggregator.threads import Condition, ThreadStatus
from tests.unit.observe.hubs import edge, flow, snapshot


def shown(**parts) -> str:
    """The text of an imagined hub."""
    return "\n".join(_text(replace(snapshot(flows=[flow(partition=0)]).status, **parts)))


def test_threads_that_are_not_well_are_listed_and_the_others_not():
    """Hanging, restarting, dead; and one that runs again, with its last error."""
    well = ThreadStatus("lease", Condition.RUNNING, 0)
    again = ThreadStatus("monitor", Condition.RUNNING, 0, 3, "OverflowError at feeds.py:90")
    hangs = ThreadStatus("edge-eu", Condition.HANGING, 0, 0, "no pulse for over 300 s")
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
    assert not replace(seen, threads=(ThreadStatus("lake", Condition.RESTARTING, 0, 1, "x"),)).healthy
    assert not replace(seen, refused={"eu/orders/0": ("discovery", "x")}).healthy


def test_bytes_of_each_edge_are_listed():
    """In all and now; `-` where nobody has told yet. The names are those of `-o json`."""
    moving = edge(read_bytes=3_200_000_000, read_bytes_per_s=1_990_000.0, rate_limit_bytes_per_s=2_000_000)
    (line,) = [line for line in shown(edges=(moving,)).splitlines() if line.startswith("eu ")]
    assert "3.2 GB 1.99 MB/s" in line
    assert "0 B -" in line
    (plain,) = replace(snapshot().status, edges=(moving,)).plain()["edges"]
    assert (plain["read_bytes"], plain["rate_limit_bytes_per_s"]) == (3_200_000_000, 2_000_000)
    assert plain["written_bytes_per_s"] is None
