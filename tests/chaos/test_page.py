"""The page in a real browser, while an edge's broker is killed, brought back, frozen, and thawed."""

import subprocess
import time
import urllib.request
from contextlib import contextmanager

import pytest

from aggregator.sandbox.ports import free_ports
from tests.browsing import Visit, chromium
from tests.processes import environment, kill_all
from tests.trial import wait_for

pytestmark = [pytest.mark.brokers, pytest.mark.spark]

# Three beats and two seconds.
SEEN_S = 5.0
# Central would delete it right after delivery.
LONG_AGO_MS = 1_600_000_000_000
START_S = 90.0


@contextmanager
def beside(trial, port: int):
    """`aggregator ui` as a process of its own: what it shows has gone through central."""
    command = trial.command("ui", "--listen", str(port))
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment(), start_new_session=True)
    try:
        yield process.stdout.readline().strip()
    finally:
        kill_all(process)
        process.stdout.close()


def seen_by_all(visits, edge: str, word: str, since_s: float) -> float:
    """Seconds until every page shows this state."""
    for visit in visits:
        visit.wait_for_state(edge, word, 30)
    return round(time.monotonic() - since_s, 2)


def test_the_page_shows_each_state_in_time(trial):
    """Killed, brought back, frozen, thawed: the open pages of `run --ui` and of `aggregator ui` show each state within
    three beats and two seconds, a recovery from the first beat that came through; the other edge stays up; a flow that
    no slot got is named with the reason; nothing of a record is on them.
    """
    own, other = free_ports(2)
    old = f"old-{trial.mark}"
    trial.settings["ui"] = {"listen": f"127.0.0.1:{own}"}
    trial.settings["topics"].append({"match": old, "policy": "policy.yaml"})
    trial.write()
    trial.create("eu", 1, topic=old, retention_ms="-1")
    trial.create("central", 1, topic=f"eu.{old}", retention_ms=str(7 * 86_400_000))
    trial.produce_raw("eu", [(b"k", trial.value(1), 0)], timestamp_ms=LONG_AGO_MS, topic=old)
    broker, took = trial.sandbox.edges["eu"], {}
    for edge in ("eu", "us"):
        trial.produce(edge, 50)
    with chromium() as browser, trial.running("--only", "replicate", "--ui") as hub:
        wait_for(lambda: "the page: " in hub.log.read_text(), timeout=START_S, what="the page")
        with beside(trial, other) as address:
            visits = [Visit(browser, f"http://127.0.0.1:{own}/"), Visit(browser, address)]
            for edge in ("eu", "us"):
                seen_by_all(visits, edge, "Up", time.monotonic())
            for visit in visits:
                visit.page.locator("#needs li", has_text=f"eu/{old}/0").get_by_text("retention.ms").wait_for()
            for name, hurt, heal in (("kill", broker.kill, broker.start), ("freeze", broker.freeze, broker.thaw)):
                began = time.monotonic()
                hurt()
                took[name] = seen_by_all(visits, "eu", "Unreachable", began)
                assert {visit.state("us") for visit in visits} == {"Up"}
                beats = trial.ends("eu.heartbeats")
                heal()
                wait_for(lambda before=beats: trial.ends("eu.heartbeats") > before, timeout=60, what="the first beat")
                took[f"{name}: back"] = seen_by_all(visits, "eu", "Up", time.monotonic())
            print(took)
            assert max(took.values()) < SEEN_S, took
            for visit in visits:
                shown = visit.page.content()
                assert trial.topic in shown
                assert "@x.example" not in shown
                assert visit.complaints == []


def test_the_page_begins_anew_when_its_files_change(trial):
    """A table that a rule names since is shown, and the former one is not; a file with a fault changes nothing."""
    trial.produce("eu", 10)
    trial.drain()
    (port,) = free_ports(1)
    with beside(trial, port) as address:

        def shows(table: str) -> bool:
            try:
                with urllib.request.urlopen(address, timeout=10) as answer:
                    return f'rowheader">{table}<' in answer.read().decode()
            except OSError:
                return False

        wait_for(lambda: shows(trial.topic), timeout=START_S, what="the table")
        good, other = trial.config.read_text(), f"{trial.topic}_v2"
        trial.config.write_text(good + "nonsense: 1\n")
        time.sleep(8)
        assert shows(trial.topic)
        assert not shows(other)
        trial.settings["topics"][0]["lake"] = "{topic}_v2"
        trial.write()
        wait_for(lambda: shows(other), timeout=START_S, what="the table that the rule names now")
