"""What clients sign in by is renewed while they work: tokens end, passwords change, certificates expire; none stops."""

import os
import time

import pytest

from aggregator.config.load import load_config
from aggregator.kafka.cluster import topics
from aggregator.kafka.cluster.topic_ids import EdgeTopicIds
from aggregator.kafka.readers.reader import EdgeReader
from aggregator.kafka.readers.reader_events import StartPosition
from aggregator.kafka.writers.writer import TransactionalWriter
from aggregator.replicate.leadership.kafka_central import KafkaDriverCentral
from aggregator.replicate.leadership.lease_renewal import LeaseRenewal
from aggregator.state.internal_topics import internal_topics
from aggregator.state.names import HubNames
from tests.authority import Authority
from tests.chaos.promptness import Arrivals, keeps_flowing
from tests.oauth import token_server
from tests.secured import ALLOWED_URLS, PASSWORD, SECRET, secured
from tests.trial import Trial, wait_for

pytestmark = [pytest.mark.brokers]

LIFETIME_S = 20
# A busy machine's; without the new password or certificate no patience helps.
PATIENCE_S = 30.0
_DAY_S = 86_400


@pytest.fixture(scope="module")
def locked(tmp_path_factory):
    """Central and an edge, at which whoever signed in has to do so again after twenty seconds."""
    folder = tmp_path_factory.mktemp("locked")
    authority = Authority(folder)
    with token_server(folder, authority, lifetime_s=LIFETIME_S) as tokens, pytest.MonkeyPatch.context() as patch:
        patch.setenv("JDK_JAVA_OPTIONS", f"{os.environ.get('JDK_JAVA_OPTIONS', '')} {ALLOWED_URLS}={tokens.keys}")
        with secured(folder / "clusters", authority, tokens=tokens, session_s=LIFETIME_S) as made:
            made.grant_everything()
            yield made


@pytest.fixture
def hub(locked, tmp_path):
    """A hub of its own, whose certificate expires soon, and which comes in anew."""
    made = Trial(locked.sandbox, tmp_path)
    made.create("eu")
    made.create("central", topic=f"eu.{made.topic}")
    yield made
    made.close()
    for cluster in locked.doors:
        locked.give_password(cluster, PASSWORD)


class Kept:
    """The clients that a hub keeps for hours: reader, questions for ids, admin clients, and a writer at central."""

    def __init__(self, hub) -> None:
        config = load_config(hub.config, os.environ)
        self.hub, self.edge, self.central = hub, config.edges["eu"], config.central
        self.reader = EdgeReader(self.edge, buffer_bytes=1_000_000)
        self.reader.assign({(hub.topic, partition): StartPosition(0, None) for partition in range(3)})
        self.ids = EdgeTopicIds(self.edge)
        self.writer = TransactionalWriter(self.central, f"{hub.hub}.driver")
        self.writer.open()
        self.produced = self.read = self.rounds = 0

    def work(self) -> None:
        """Each of them does its work once, in time; what was produced is read."""
        self.hub.produce("eu", 20)
        self.produced += 20
        self.rounds += 1
        deadline = time.monotonic() + PATIENCE_S
        while self.read < self.produced:
            assert time.monotonic() < deadline, f"read {self.read} of {self.produced}"
            self.read += sum(len(chunk.values) for chunk in self.reader.poll(1000, 0.2).chunks)
        self.ids.ask(self.rounds, [self.hub.topic], -1)
        answer = wait_for(lambda: self.ids.answer(0.2), timeout=PATIENCE_S, what="an answer")
        assert answer.code == 0
        for cluster in (self.edge, self.central):
            topics.topic_names(cluster)
        self.writer.begin()
        self.writer.produce(f"eu.{self.hub.topic}", b"k", b"v", partition=0)
        self.writer.commit()
        time.sleep(0.2)

    def work_until(self, moment_s: float) -> None:
        """Again and again."""
        while time.monotonic() < moment_s:
            self.work()

    def close(self) -> None:
        for one in (self.reader, self.ids, self.writer):
            one.close()


def test_clients_work_on_over_lifetimes_of_their_tokens(locked, hub):
    """Three lifetimes; each connection shows a newer token in time, or the broker ends it."""
    locked.lead(hub, {"eu": "token", "central": "token"})
    kept = Kept(hub)
    kept.work_until(time.monotonic() + 3 * LIFETIME_S)
    kept.close()
    assert kept.rounds > 3


def test_a_password_and_a_certificate_are_renewed_while_clients_work(locked, hub):
    """Central's password; the edge's certificate, which expires before the edge's broker starts anew."""
    locked.lead(hub, {"eu": "mutual", "central": "scram"})
    issue(locked, hub, seconds=2 * LIFETIME_S)
    kept, began = Kept(hub), time.monotonic()
    kept.work_until(began + 5)
    fresh = "the-next-password-that-is-nowhere-else"
    issue(locked, hub, seconds=_DAY_S)
    locked.give_password("central", fresh)
    replace(hub.folder / "central.password", fresh)
    kept.work_until(began + 2 * LIFETIME_S + 5)
    broker = locked.sandbox.edges["eu"]
    broker.stop()
    broker.start()
    hub.close()  # its own clients know the broker's former life
    kept.work_until(began + 4 * LIFETIME_S)
    kept.close()


def test_a_driver_leads_on_when_its_certificate_at_central_is_renewed_and_expires(locked, hub):
    """Central starts anew after the former one expired, so that no connection is left from before."""
    locked.lead(hub, {"central": "mutual"})
    issue(locked, hub, seconds=LIFETIME_S)
    config, names = load_config(hub.config, os.environ), HubNames(hub.hub)
    topics.ensure(config.central, internal_topics(names, 1))
    driver, began = KafkaDriverCentral(config, names), time.monotonic()
    driver.take_id()
    renewal = LeaseRenewal(driver, "first")
    renewal.try_renew()
    issue(locked, hub, seconds=_DAY_S)
    while time.monotonic() < began + LIFETIME_S + 3:
        renewal.try_renew()
        time.sleep(1)
    hub.close()  # its own clients know the broker's former life
    broker = locked.sandbox.central
    broker.stop()
    broker.start()

    def moved() -> bool:
        before = driver.read_control().lease
        renewal.try_renew()
        return driver.read_control().lease != before

    wait_for(moved, timeout=3 * PATIENCE_S, what="a lease that moves")
    driver.close()


@pytest.mark.spark
def test_a_hub_flows_on_over_lifetimes_of_its_tokens(locked, hub):
    """Three lifetimes; it ends well, nothing was held, and no log has the client's secret."""
    locked.lead(hub, {"eu": "token", "central": "token"})
    arrived = Arrivals(hub, "eu")
    with hub.running("--only", "replicate") as process, hub.traffic("eu") as produced:
        arrived.reach(100, hub=process, timeout=180)
        print(keeps_flowing(arrived, produced, "eu", for_s=3 * LIFETIME_S, hub=process))
        process.terminate()
        assert process.wait(90) == 0, process.log.read_text()[-3000:]
    arrived.close()
    told = process.log.read_text()
    assert "is held" not in told
    assert SECRET not in told


@pytest.mark.spark
def test_a_hub_flows_on_when_its_certificate_at_central_is_renewed_and_expires(locked, hub):
    """Driver, slots and whoever else is at central sign in by the new one; then no connection of before is left."""
    locked.lead(hub, {"eu": "scram", "central": "mutual"})
    hub.settings["heartbeats"] = {"emit": False}
    hub.write()
    issue(locked, hub, seconds=4 * LIFETIME_S)
    began = time.monotonic()
    hub.produce("eu", 100)
    with hub.running("--only", "replicate") as process:
        wait_for(lambda: hub.central_count("eu") == 100, timeout=70, what="the first records")
        issue(locked, hub, seconds=_DAY_S)
        produced = 200
        while time.monotonic() < began + 4 * LIFETIME_S + 3:
            hub.produce("eu", 10)
            produced += 10
            time.sleep(1)
        hub.close()  # its own clients know the broker's former life
        broker = locked.sandbox.central
        broker.stop()
        broker.start()
        hub.produce("eu", 100)
        wait_for(lambda: hub.central_count("eu") == produced, timeout=120, what="the records after it expired")
        process.terminate()
        assert process.wait(90) == 0, process.log.read_text()[-3000:]
    assert "signing in with what was renewed" in process.log.read_text()


def issue(locked, hub, *, seconds: float) -> None:
    """A new certificate and its key, each in one step, one after the other."""
    for path in locked.authority.issue("hub", days=seconds / _DAY_S):
        replace(hub.folder / path.name, path.read_text())


def replace(path, text: str) -> None:
    """Other words in a file, in one step."""
    beside = path.with_suffix(".new")
    beside.write_text(text)
    beside.replace(path)
