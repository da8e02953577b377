"""What a sandbox remembers, where it listens, and what a machine must have."""

import random
import socket

import pytest

from aggregator.errors import Failed
from aggregator.sandbox.machine import available_memory, check_disk, check_memory
from aggregator.sandbox.ports import free_ports, is_free
from aggregator.sandbox.sandbox import Sandbox
from aggregator.sandbox.state import SandboxState


def test_state_survives_a_round_trip(tmp_path):
    """Ports and ids come back as they were, edges in their order."""
    state = SandboxState.fresh(["z", "a"])
    state.write(tmp_path / "sandbox.json")
    assert SandboxState.read(tmp_path / "sandbox.json") == state
    assert state.edges == ("z", "a")


def test_ports_and_ids_are_all_different():
    """No two clusters share a port or a cluster id."""
    clusters = SandboxState.fresh([f"e{n}" for n in range(10)]).clusters.values()
    assert len({port for c in clusters for port in (c.port, c.controller_port)}) == 22
    assert len({c.cluster_id for c in clusters}) == 11


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"clusters": {"a": {"port": 1}}}', '{"clusters": 3}'])
def test_a_damaged_state_is_refused(tmp_path, content):
    """A state that can not be read is told by name; it is not taken for a new sandbox."""
    path = tmp_path / "sandbox.json"
    path.write_text(content)
    with pytest.raises(Failed, match=r"sandbox\.json can not be read"):
        SandboxState.read(path)


def test_a_taken_port_is_not_handed_out():
    """A port with a listener is not free, and the draw goes around it."""
    first = free_ports(1, draw=random.Random(1))[0]
    with socket.socket() as other:
        other.bind(("127.0.0.1", first))
        other.listen()
        assert not is_free(first)
        assert first not in free_ports(5, draw=random.Random(1))
    assert is_free(first)


def test_too_little_memory_says_how_much_is_needed():
    """The refusal names what is needed, what there is, and the way out."""
    with pytest.raises(Failed, match="4 clusters need 2000 MB, 100 MB are available") as caught:
        check_memory(4, 100 * 1024**2)
    assert "--edges" in caught.value.hint


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
        (["central"], "can not be named 'central'"),
        (["lake"], "can not be named 'lake'"),
        (["EU"], "can not be named 'EU'"),
        (["eu.west"], "can not be named"),
        (["a" * 33], "can not be named"),
        (["eu", "eu"], "named once each"),
        ([], "at least one"),
    ],
)
def test_edge_names_that_would_collide_are_refused(tmp_path, edges, text):
    """A wrong name is refused before anything is written."""
    with pytest.raises(Failed, match=text):
        Sandbox.up(tmp_path / "s", edges)
    assert not (tmp_path / "s").exists()


def test_a_comma_in_the_path_is_refused(tmp_path):
    """Kafka would take it for two log folders."""
    with pytest.raises(Failed, match="comma"):
        Sandbox.up(tmp_path / "a,b")


def test_a_folder_without_a_sandbox_says_how_to_make_one(tmp_path):
    """`down` and `status` on a wrong folder name the command that starts one."""
    with pytest.raises(Failed, match="no sandbox") as caught:
        Sandbox.load(tmp_path)
    assert f"sandbox up --dir {tmp_path}" in caught.value.hint
