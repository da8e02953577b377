"""Where nobody listens at a cluster's addresses, nobody is waited for; and everybody else is."""

import socket
import time

import pytest

from aggregator.config.model import ClusterConfig
from aggregator.errors import Unreachable
from aggregator.kafka.client.reachability import why_not_listening
from aggregator.kafka.cluster.cluster_metadata import cluster_metadata

# `.invalid` is a name that nobody has (RFC 2606).
NOBODY, UNKNOWN = "127.0.0.1:1", "broker.invalid:9092"


@pytest.fixture
def silent():
    """The address of somebody who takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.slow
def test_a_refusal_is_told_and_not_waited_for():
    """A time-out of an hour is over at once."""
    with pytest.raises(Unreachable, match=r"no broker answers at 127\.0\.0\.1:1,127\.0\.0\.1:2: Connection refused"):
        cluster_metadata(ClusterConfig(bootstrap_servers=f"{NOBODY},127.0.0.1:2"), timeout_s=3600)


@pytest.mark.slow
def test_whoever_listens_is_waited_for(silent):
    """Also where another address refuses."""
    began_s = time.monotonic()
    with pytest.raises(Unreachable, match="Local"):
        cluster_metadata(ClusterConfig(bootstrap_servers=f"{NOBODY},{silent}"), timeout_s=3)
    assert time.monotonic() - began_s >= 3


def test_what_refuses(silent):
    """A name that nobody has does; one who is silent, or an address that cannot be read, does not."""
    refused = "Connection refused"
    assert why_not_listening(NOBODY, timeout_s=5) == why_not_listening(f"[::1]:1, {NOBODY}", timeout_s=5) == refused
    assert why_not_listening(f"{NOBODY},{UNKNOWN}", timeout_s=30) in ("the name broker.invalid is unknown", "")
    for other in (silent, f"{NOBODY},{silent}", f"{NOBODY},127.0.0.1:port", "127.0.0.1"):
        assert why_not_listening(other, timeout_s=5) == ""
