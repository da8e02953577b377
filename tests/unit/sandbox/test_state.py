"""What a sandbox remembers, where it listens, and what a machine must have."""

import random
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

from aggregator.errors import FatalError
from aggregator.sandbox.machine import available_memory, check_disk, check_memory
from aggregator.sandbox.ports import free_ports, is_free
from aggregator.sandbox.sandbox import Sandbox
from aggregator.sandbox.state import BrokerState, SandboxState, SavedCluster


def test_state_survives_a_round_trip(tmp_path):
    """Ports and ids come back as they were, edges in their order."""
    state = SandboxState.fresh(["z", "a"], {"a": 3}, {"z": "2.8.2"})
    state.write(tmp_path / "sandbox.json")
    assert SandboxState.read(tmp_path / "sandbox.json") == state
    assert state.edges == ("z", "a")
    assert state.sizes == {"central": 1, "z": 1, "a": 3}
    assert state.versions == {"central": "4.3.1", "z": "2.8.2", "a": "4.3.1"}


def test_ports_and_ids_are_all_different():
    """No two clusters share a port or a cluster id."""
    clusters = SandboxState.fresh([f"e{n}" for n in range(10)], {"central": 3, "e7": 3}).clusters.values()
    assert len({port for c in clusters for b in c.brokers for port in (b.port, b.controller_port)}) == 2 * (9 + 3 + 3)
    assert len({c.cluster_id for c in clusters}) == 11


def test_a_state_of_version_1_is_still_read(tmp_path):
    """Before a cluster could have three brokers, the ports of its one lay beside its id."""
    path = tmp_path / "sandbox.json"
    path.write_text('{"version": 1, "clusters": {"eu": {"port": 1, "controller_port": 2, "cluster_id": "x"}}}')
    assert SandboxState.read(path) == SandboxState({"eu": SavedCluster("x", (BrokerState(1, 2),))})


_UNKNOWN = '{"clusters": {"a": {"cluster_id": "x", "brokers": [], "version": "2.7.0"}}}'


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "{}", '{"clusters": {"a": {"port": 1}}}', '{"clusters": 3}', _UNKNOWN]
)
def test_a_damaged_state_is_refused(tmp_path, content):
    """A state that cannot be read is told by name; it is not taken for a new sandbox."""
    path = tmp_path / "sandbox.json"
    path.write_text(content)
    with pytest.raises(FatalError, match=r"sandbox\.json cannot be read"):
        SandboxState.read(path)


def test_a_taken_port_is_not_handed_out(tmp_path, monkeypatch):
    """A port with a listener is not free, and the draw goes around it, whoever reserved it."""
    first = free_ports(1, draw=random.Random(1))[0]
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with socket.socket() as other:
        other.bind(("127.0.0.1", first))
        other.listen()
        assert not is_free(first)
        assert first not in free_ports(5, draw=random.Random(1))
    assert is_free(first)


def test_too_little_memory_says_how_much_is_needed():
    """The refusal names what is needed, what there is, and the way out."""
    with pytest.raises(FatalError, match="4 brokers need 2000 MB, 100 MB are available") as caught:
        check_memory(4, 100 * 1024**2)
    assert "--edges" in caught.value.hint
    assert "--brokers" in caught.value.hint


def test_a_containers_limit_counts(tmp_path):
    """In a container the limit decides, not the machine behind it; what only caches files is free."""
    for name, content in {"max": "1000", "current": "900", "stat": "anon 700\ninactive_file 150\n"}.items():
        (tmp_path / f"memory.{name}").write_text(content)
    assert available_memory(tmp_path) == 250


def test_no_limit_means_the_machines_memory(tmp_path):
    """`max` and no container at all are no limit."""
    without = available_memory(tmp_path)
    for name, content in {"max": "max", "current": "900", "stat": ""}.items():
        (tmp_path / f"memory.{name}").write_text(content)
    assert min(without, available_memory(tmp_path)) > 1024**2


def test_a_disk_with_room_is_taken(tmp_path):
    """A folder on a disk with a gigabyte is fine."""
    check_disk(tmp_path)


@pytest.mark.parametrize(
    ("edges", "text"),
    [
        (["central"], "cannot be named 'central'"),
        (["lake"], "cannot be named 'lake'"),
        (["EU"], "cannot be named 'EU'"),
        (["eu.west"], "cannot be named"),
        (["a" * 33], "cannot be named"),
        (["eu", "eu"], "named once each"),
        ([], "at least one"),
    ],
)
def test_edge_names_that_would_collide_are_refused(tmp_path, edges, text):
    """A wrong name is refused before anything is written."""
    with pytest.raises(FatalError, match=text):
        Sandbox.up(tmp_path / "s", edges)
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("brokers", [0, 2, 5, {"eu": 2}])
def test_a_cluster_has_one_broker_or_three(tmp_path, brokers):
    """With two, none may be away; another number is refused before anything is written."""
    with pytest.raises(FatalError, match=r"cannot have \d brokers"):
        Sandbox.up(tmp_path / "s", ["eu"], brokers=brokers)
    assert not (tmp_path / "s").exists()


@pytest.mark.slow
def test_other_brokers_in_the_same_folder_are_refused(tmp_path):
    """A folder keeps its brokers as it keeps its edges; the refusal says which it was made for."""
    SandboxState.fresh(["eu"], {"central": 3}).write(tmp_path / "sandbox.json")
    with pytest.raises(FatalError, match="was made for the brokers central=3,eu=1"):
        Sandbox.up(tmp_path, brokers=3)
    with pytest.raises(FatalError, match="no cluster us to give brokers to"):
        Sandbox.up(tmp_path, brokers={"us": 3})


@pytest.mark.slow
def test_another_version_in_the_same_folder_is_refused(tmp_path):
    """A folder keeps its releases of Kafka; the refusal says which it was made for."""
    SandboxState.fresh(["eu"], versions={"central": "3.5.2"}).write(tmp_path / "sandbox.json")
    with pytest.raises(FatalError, match=r"was made for the versions central=3\.5\.2,eu=4\.3\.1"):
        Sandbox.up(tmp_path, versions="3.5.2")
    with pytest.raises(FatalError, match="no cluster us to give a version of Kafka to"):
        Sandbox.up(tmp_path, versions={"us": "3.5.2"})


@pytest.mark.parametrize("versions", ["", "4", "2.7.0", "../4.3.1", {"eu": "3.5"}])
def test_a_version_that_is_not_pinned_is_refused(tmp_path, versions):
    """It is refused before anything is fetched or written."""
    with pytest.raises(FatalError, match="does not run Kafka"):
        Sandbox.up(tmp_path / "s", ["eu"], versions=versions)
    assert not (tmp_path / "s").exists()


def test_a_comma_in_the_path_is_refused(tmp_path):
    """Kafka would take it for two log folders."""
    with pytest.raises(FatalError, match="comma"):
        Sandbox.up(tmp_path / "a,b")


def test_a_folder_without_a_sandbox_says_how_to_make_one(tmp_path):
    """`down` and `status` on a wrong folder name the command that starts one."""
    with pytest.raises(FatalError, match="no sandbox") as caught:
        Sandbox.load(tmp_path)
    assert f"sandbox up --dir {tmp_path}" in caught.value.hint


@pytest.mark.slow
def test_a_folder_is_the_same_however_it_is_written(tmp_path):
    """A broker is known by its folder on its command line: a detour or a link must not make another sandbox of it."""
    (tmp_path / "sb").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "sb")
    SandboxState.fresh(["eu"]).write(tmp_path / "sb" / "sandbox.json")
    plain = Sandbox.load(tmp_path / "sb")
    for folder in (tmp_path / "other" / ".." / "sb", tmp_path / "link"):
        assert Sandbox.load(folder) == plain


def test_two_that_draw_at_once_get_different_ports(tmp_path, monkeypatch):
    """A broker listens seconds after its port was drawn; nobody else of this user is given it until then."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with ThreadPoolExecutor(8) as pool:
        drawn = list(pool.map(lambda seed: free_ports(30, draw=random.Random(seed % 2)), range(8)))
    ports = [port for some in drawn for port in some]
    assert len(ports) == len(set(ports)) == 240
    (tmp_path / "aggregator" / "ports" / "reserved.json").write_text("[damaged")
    assert len(free_ports(3)) == 3
