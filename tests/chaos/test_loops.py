"""Hubs in a circle: every record goes round once, whatever the hubs are called, and nobody's record is lost for it."""

import json
import time
from collections import Counter
from contextlib import ExitStack
from types import SimpleNamespace

import pytest

from tests.trial import ORDER, Trial, read_all, wait_for

pytestmark = [pytest.mark.brokers, pytest.mark.spark]

EACH = 200
# Long enough for a dozen rounds of a loop that nothing ends.
CALM_S = 25.0
SHARED = {1: "ISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0+P0A=", 2: "BGr4cs+wu4ToMZn6gVFRQrFVvlDFCjGtRxmxZ5Kxu4I="}


class Hop(Trial):
    """A hub from one cluster to another, by their names."""

    source: str
    target: str

    def rotate(self, current: int, listed: tuple[int, ...]) -> None:
        """The versions of the common key that it lists from its next start on, and the one that it seals with."""
        versions = {number: f"file:shared-{number}" for number in listed}
        for number, material in SHARED.items():
            (self.folder / f"shared-{number}").touch(0o600)
            (self.folder / f"shared-{number}").write_text(material)
        self.settings["keys"]["together"] = {"current": current, "versions": versions}
        self.write()


class Circle:
    """Clusters whose records the same topic holds, and hubs from one to the next.

    Args:
        clusters: By name.
        folder: Of registries and hubs.
        shared: Whether the hubs have a key in common.
    """

    def __init__(self, clusters, folder, *, shared: bool = True):
        self.clusters, self.folder, self.shared = clusters, folder, shared
        self.topic = f"orders-{folder.name}".replace("_", "-")
        self.hubs = []
        for name in clusters:
            subject = folder / f"registry-{name}" / f"{self.topic}-value"
            subject.mkdir(parents=True)
            (subject / "1-7.avsc").write_text(json.dumps(ORDER))

    def hub(self, source: str, target: str) -> Hop:
        """A hub from one cluster to another, whose topics keep their names."""
        folder = self.folder / f"{source}-{target}"
        folder.mkdir()
        edges = {f"of-{source}": self.clusters[source]}
        made = Hop(SimpleNamespace(central=self.clusters[target], edges=edges), folder, central="{topic}")
        made.topic = self.topic
        made.settings["topics"][0] |= {"match": self.topic}
        del made.settings["topics"][0]["lake"], made.settings["lake"]
        made.settings["edges"][f"of-{source}"]["schemas"] = f"directory:{self.folder}/registry-{source}"
        made.settings["schemas"] = f"directory:{self.folder}/registry-{target}"
        if self.shared:
            made.settings["chain_key"] = "together"
            made.rotate(1, (1,))
        made.write()
        made.source, made.target = source, target
        self.hubs.append(made)
        return made

    def create(self) -> None:
        """The topic, everywhere; `hub` has made a hub that leads there."""
        for hub in self.hubs:
            hub.create(f"of-{hub.source}")

    def produce(self, name: str, first: int, count: int, **more) -> None:
        """Numbered records of one cluster."""
        hub = next(hub for hub in self.hubs if hub.source == name)
        rows = ((b"%s-%d" % (name.encode(), n), hub.value(n), n % 3) for n in range(first, first + count))
        hub.produce_raw(f"of-{name}", rows, **more)

    def keys(self, name: str) -> Counter:
        """Records that a cluster has, by their keys."""
        return Counter(message.key() for message in read_all(self.clusters[name].bootstrap, self.topic))

    def arrived(self, wanted: Counter) -> None:
        """Every cluster has these records."""
        wait_for(
            lambda: all(wanted.keys() <= self.keys(name).keys() for name in self.clusters), timeout=300, what="all"
        )

    def settled(self, wanted: Counter) -> None:
        """Every cluster has these records, once each, and a while later no other."""
        self.arrived(wanted)
        time.sleep(CALM_S)
        for name in self.clusters:
            assert self.keys(name) == wanted, f"{name}: {Counter(self.keys(name).values())} times each"


def expected(names, count: int) -> Counter:
    return Counter(b"%s-%d" % (name.encode(), n) for name in names for n in range(count))


@pytest.fixture
def pair(clusters, tmp_path):
    """Two hubs in opposite directions that know each other's seal."""
    made = Circle({"a": clusters.central, "b": clusters.edges["eu"]}, tmp_path)
    made.hub("a", "b")
    made.hub("b", "a")
    made.create()
    yield made
    for hub in made.hubs:
        hub.close()


def test_two_hubs_in_opposite_directions_come_to_rest(pair):
    """Each side has its own records and the other's, once each, and nothing grows; what came back is counted."""
    forth, back = pair.hubs
    with forth.running("--only", "replicate"), back.running("--only", "replicate"):
        pair.produce("a", 0, EACH)
        pair.produce("b", 0, EACH)
        pair.settled(expected("ab", EACH))
        pair.produce("a", EACH, EACH)
        pair.produce("b", EACH, EACH)
        pair.settled(expected("ab", 2 * EACH))
    for hub in pair.hubs:
        flows = hub.status()["flows"]
        ours = [flow for flow in flows if flow["topic"] == pair.topic]
        assert sum(flow["cycles"] for flow in ours) == sum(flow["suppressed"] for flow in ours) == 2 * EACH
        assert hub.letters() == []


def test_a_ring_of_three_hubs_comes_to_rest(clusters, tmp_path):
    """Each of three clusters has the records of all, once each."""
    ring = Circle({"a": clusters.central, "b": clusters.edges["eu"], "c": clusters.edges["us"]}, tmp_path)
    for source, target in ("ab", "bc", "ca"):
        ring.hub(source, target)
    ring.create()
    with ExitStack() as running:
        for hub in ring.hubs:
            running.callback(hub.close)
            running.enter_context(hub.running("--only", "replicate"))
        for name in "abc":
            ring.produce(name, 0, EACH)
        ring.settled(expected("abc", EACH))
    assert all(hub.letters() == [] for hub in ring.hubs)


def test_the_common_key_of_a_ring_is_rotated_while_it_runs(clusters, tmp_path):
    """First every hub lists the new version, then each makes it current: no record goes round, and none is a letter."""
    ring = Circle({"a": clusters.central, "b": clusters.edges["eu"], "c": clusters.edges["us"]}, tmp_path)
    for source, target in ("ab", "bc", "ca"):
        ring.hub(source, target)
    ring.create()
    steps = [(1, (1, 2)), (2, (1, 2)), (2, (2,))]
    produced = 0

    def more() -> None:
        nonlocal produced
        for name in "abc":
            ring.produce(name, produced, EACH // 4)
        produced += EACH // 4

    with ExitStack() as running:
        processes = {}
        for hub in ring.hubs:
            running.callback(hub.close)
            processes[hub] = running.enter_context(hub.running("--only", "replicate"))
        more()
        for current, listed in steps:
            for hub in ring.hubs:
                more()
                ring.arrived(expected("abc", produced))
                more()
                hub.rotate(current, listed)
                processes[hub].terminate()
                assert processes[hub].wait(60) == 0
                processes[hub] = running.enter_context(hub.running("--only", "replicate"))
            ring.settled(expected("abc", produced))
        for hub in ring.hubs:
            assert hub.letters() == []
            mine = [flow for flow in hub.status()["flows"] if flow["topic"] == ring.topic]
            assert sum(flow["cycles"] for flow in mine) > 0


def test_hubs_without_a_common_key_come_to_rest_loudly(clusters, tmp_path):
    """What comes back is a dead letter with its coordinates, and so is a stranger's record with a forged header."""
    pair = Circle({"a": clusters.central, "b": clusters.edges["eu"]}, tmp_path, shared=False)
    forth, back = pair.hub("a", "b"), pair.hub("b", "a")
    pair.create()
    with forth.running("--only", "replicate"), back.running("--only", "replicate"):
        pair.produce("a", 0, EACH)
        pair.produce("b", 0, EACH)
        pair.settled(expected("ab", EACH))
        # A stranger's record at b, with the header of one that a hub brought there.
        (stolen, *_) = (dict(m.headers())["hub.chain"] for m in read_all(clusters.edges["eu"].bootstrap, pair.topic)
                        if m.headers() and "hub.chain" in dict(m.headers()))  # fmt: skip
        pair.produce("b", EACH, 1, headers=[("hub.chain", stolen)])
        wait_for(lambda: len(back.letters()) > EACH, timeout=60, what="the letter")
    letters = back.letters()
    assert {one["reason"] for one in letters} == {"unproven_cycle"}
    assert len(letters) == EACH + 1
    assert pair.keys("a") == expected("ab", EACH), "a stranger's record is not delivered, and is not lost in silence"
    audited = json.loads(back.run("audit", "-o", "json").stdout)
    assert not [flow for flow in audited["flows"] if flow.get("findings")]
    listed = json.loads(back.run("dlq", "list", "--reason", "unproven_cycle", "-o", "json").stdout)
    assert len(listed) == EACH + 1
