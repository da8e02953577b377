"""The sandbox's clusters are real, survive the command that started them, and leave nothing behind."""

import json
import socket
import subprocess
import sys

import psutil
import pytest

from aggregator.errors import FatalError
from aggregator.kafka.cluster.topic_spec import TopicSpec
from aggregator.kafka.cluster.topics import ensure, topic_names
from aggregator.sandbox.flights import Departures
from aggregator.sandbox.readback import count_topic, read_topic
from aggregator.sandbox.sandbox import Sandbox
from aggregator.sandbox.traffic import produce_traffic
from aggregator.schema.registries import open_registry

pytestmark = pytest.mark.brokers


def _aggregator(*arguments):
    command = [sys.executable, "-m", "aggregator.cli.main", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)


def _lives(pid):
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A sandbox of two clusters, started by the command; whatever runs at the end is stopped."""
    folder = tmp_path_factory.mktemp("sandbox") / "two"
    ran = _aggregator("sandbox", "up", "--edges", "jfk", "--dir", folder, "-o", "json")
    assert ran.returncode == 0, ran.stderr
    (folder / "up.json").write_text(ran.stdout)
    yield folder
    Sandbox.load(folder).down()


@pytest.fixture
def running(folder):
    """All clusters of it, running."""
    sandbox = Sandbox.load(folder)
    for cluster in sandbox.clusters:
        cluster.start()
    return sandbox


def test_the_json_has_the_fixed_names_and_nothing_else(folder, running):
    """`-o json` is a contract: central, edges, config, dir, brokers."""
    assert json.loads((folder / "up.json").read_text()) == {
        "central": running.central.bootstrap,
        "edges": {"jfk": running.edges["jfk"].bootstrap},
        "config": str(folder / "hub.yaml"),
        "dir": str(folder),
        "brokers": {
            cluster.name: [{"node": 1, "address": cluster.bootstrap, "pid": cluster.pid}]
            for cluster in running.clusters
        },
    }


def test_brokers_listen_on_loopback_only(running):
    """Nothing of a sandbox can be reached from another machine."""
    for cluster in running.clusters:
        sockets = psutil.Process(cluster.pid).net_connections(kind="tcp")
        listening = {entry.laddr.ip for entry in sockets if entry.status == psutil.CONN_LISTEN}
        assert listening <= {"127.0.0.1", "::ffff:127.0.0.1"}
        assert listening


def test_a_second_up_says_that_it_runs(folder):
    """The second `up` changes nothing and names the command that stops the first."""
    ran = _aggregator("sandbox", "up", "--dir", folder)
    assert ran.returncode == 1
    assert "already running (central, jfk)" in ran.stderr
    assert f"aggregator sandbox down --dir {folder}" in ran.stderr
    assert ran.stdout == ""


def test_up_brings_back_what_was_killed_and_leaves_the_others_alone(folder, running):
    """Who tries what a hub does without an edge need not stop central for it to return."""
    running.edges["jfk"].kill()
    pid = running.central.pid
    ran = _aggregator("sandbox", "up", "--dir", folder)
    assert ran.returncode == 0, ran.stderr
    assert "starting 1 Kafka cluster in" in ran.stderr
    assert running.central.pid == pid
    assert running.edges["jfk"].pid is not None


def test_other_edges_in_the_same_folder_are_refused(folder):
    """hub.yaml names the edges that the folder was made for; others would make it untrue."""
    with pytest.raises(FatalError, match="was made for the edges jfk"):
        Sandbox.up(folder, ["ewr"])


def test_old_records_stay_and_poison_lies_among_them(running):
    """Traffic of 2013 is acknowledged, counted, and not deleted by a time retention."""
    jfk = running.edges["jfk"]
    registry = open_registry(f"directory:{running.dir / 'schemas'}")
    made = produce_traffic("jfk", jfk.config, registry, whose=Departures("JFK"), count=600)
    assert count_topic(jfk.config, "flights") == made.flights
    assert count_topic(jfk.config, "bookings") == made.total - made.flights
    years = {
        stamp // 31_556_952_000 + 1970 for chunk in read_topic(jfk.config, "flights") for stamp in chunk.timestamps_ms
    }
    assert years == {2013}


def test_a_killed_edge_comes_back_with_its_address_and_its_data(running):
    """A kill is a power cut: the same port and the same topics after start, and central never noticed."""
    jfk, pid = running.edges["jfk"], running.central.pid
    ensure(jfk.config, [TopicSpec("before", 2)])
    jfk.kill()
    assert jfk.pid is None
    jfk.start()
    assert topic_names(jfk.config)["before"] == 2
    assert running.central.pid == pid


def test_a_frozen_broker_answers_nobody_until_it_is_thawed(running):
    """To freeze is a hang, not an end: the port still accepts."""
    jfk = running.edges["jfk"]
    jfk.freeze()
    try:
        with pytest.raises(FatalError, match="was not ready after 1 s"):
            jfk.wait_ready(timeout_s=1)
    finally:
        jfk.thaw()
    jfk.wait_ready()


def test_down_leaves_no_process_and_up_finds_everything_again(folder, running):
    """After `down` no broker lives; after `up` addresses, data, and an edited hub.yaml are as they were."""
    pids = [cluster.pid for cluster in running.clusters]
    addresses = [cluster.bootstrap for cluster in running.clusters]
    ensure(running.central.config, [TopicSpec("kept", 1)])
    hub = folder / "hub.yaml"
    hub.write_text(hub.read_text() + "# mine\n")
    assert _aggregator("sandbox", "down", "--dir", folder).returncode == 0
    assert not any(_lives(pid) for pid in pids)
    again = Sandbox.up(folder)
    assert [cluster.bootstrap for cluster in again.clusters] == addresses
    assert topic_names(again.central.config)["kept"] == 1
    assert hub.read_text().endswith("# mine\n")


def test_a_port_in_use_is_named_and_nothing_starts(folder, running):
    """Another program on a recorded port: one sentence with the port, and no half of a sandbox."""
    running.down()
    (broker,) = running.central.brokers
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", broker.port))
        other.listen()
        with pytest.raises(FatalError, match=f"port {broker.port} of cluster central is in use"):
            Sandbox.up(folder)
    assert running.running() == []


def test_delete_removes_what_the_sandbox_wrote_and_nothing_else(tmp_path):
    """`down --delete` takes the sandbox's files; a stranger's file in the folder stays, and so does the folder."""
    sandbox = Sandbox.up(tmp_path, ["lga"])
    (tmp_path / "mine.txt").write_text("mine")
    sandbox.down(delete=True)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_broker_that_does_not_start_leaves_no_other_running(tmp_path):
    """One wrong broker setting fails the whole `up`, names the log, and stops what had started."""
    with pytest.raises(FatalError, match="storage of lga could not be formatted") as caught:
        Sandbox.up(tmp_path, ["lga"], settings={"lga": {"num.io.threads": "zero"}})
    assert str(tmp_path / "lga" / "broker.log") in caught.value.hint
    assert Sandbox.load(tmp_path).running() == []
