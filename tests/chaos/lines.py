"""Clusters whose edges can also be reached over lines that break: each edge has a proxy in front of a second listener.

Invariant: who produces and checks takes the broker's own address; only a hub under test goes over the line. The second
listener is there again after every kill and start, because the cluster itself remembers it.
"""

from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path

from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, ResourcePatternType, ResourceType

from aggregator.sandbox.cluster import Cluster
from aggregator.sandbox.ports import LOOPBACK, free_ports
from aggregator.sandbox.sandbox import STATE_FILE, Sandbox
from aggregator.sandbox.state import SandboxState
from tests.chaos.proxy import Proxy

FIRST_PASSWORD = "a-password-that-is-nowhere-else"


@dataclass(frozen=True, slots=True)
class LinedCluster(Cluster):
    """A cluster that keeps settings over kill and start."""

    kept: Mapping[str, str] = field(default_factory=dict)

    def start(self, settings: Mapping[str, str] | None = None) -> None:
        Cluster.start(self, {**self.kept, **(settings or {})})


@dataclass(frozen=True, slots=True)
class Lines:
    """The line to each edge, and the listener with passwords behind which there is no line."""

    proxies: dict[str, Proxy]
    guarded: dict[str, int]

    def lead(self, trial, *edges: str) -> None:
        """Let a trial's hub reach these edges over their lines only."""
        for edge in edges:
            trial.settings["edges"][edge]["bootstrap_servers"] = self.proxies[edge].address
        trial.write()

    def guard(self, trial, edge: str) -> None:
        """Let a trial's hub reach an edge by name and password only; the password lies in a file."""
        (trial.folder / "password").write_text(FIRST_PASSWORD)
        trial.settings["edges"][edge] |= {
            "bootstrap_servers": f"{LOOPBACK}:{self.guarded[edge]}",
            "client": {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "hub",
                "sasl.password": "file:password",
            },
        }
        trial.write()

    def heal(self) -> None:
        """Every line as it should be."""
        for proxy in self.proxies.values():
            proxy.heal()


# Everybody without a password may do everything, and `hub` what it is given.
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


def right(topic: str, operation: AclOperation) -> AclBinding:
    """That the hub's principal may do something with a topic."""
    what = (ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, "User:hub", "*")
    return AclBinding(*what, operation, AclPermissionType.ALLOW)


def password_settings(password: str) -> dict[str, str]:
    """Broker settings by which the principal `hub` has this password."""
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    return {"listener.name.guarded.plain.sasl.jaas.config": f'{module} required user_hub="{password}";'}


def _settings(port: int, controller: int, inner: int, outer: int, guarded: int) -> dict[str, str]:
    own = f"PLAINTEXT://{LOOPBACK}:{port},CONTROLLER://{LOOPBACK}:{controller},GUARDED://{LOOPBACK}:{guarded}"
    return {
        "listeners": f"{own},LINE://{LOOPBACK}:{inner}",
        "advertised.listeners": f"{own},LINE://{LOOPBACK}:{outer}",
        "listener.security.protocol.map": (
            "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,LINE:PLAINTEXT,GUARDED:SASL_PLAINTEXT"
        ),
        "listener.name.guarded.sasl.enabled.mechanisms": "PLAIN",
        **password_settings(FIRST_PASSWORD),
    }


@contextmanager
def lined(folder: Path, edges: tuple[str, ...] = ("eu", "us")):
    """Central and edges with lines: (sandbox, lines); ended with the block."""
    state = SandboxState.fresh(edges)
    folder.mkdir(parents=True, exist_ok=True)
    state.write(folder / STATE_FILE)
    taken = [port for one in state.clusters.values() for port in (one.port, one.controller_port)]
    free = iter(free_ports(3 * len(edges), taken=taken))
    settings, proxies, guards = {}, {}, {}
    for edge in edges:
        inner, outer, guards[edge] = next(free), next(free), next(free)
        ports = state.clusters[edge]
        settings[edge] = _settings(ports.port, ports.controller_port, inner, outer, guards[edge])
        proxies[edge] = Proxy(inner, outer)
    try:
        sandbox = Sandbox.up(folder, edges, settings=settings)
        for edge, cluster in sandbox.edges.items():
            known = {one.name: getattr(cluster, one.name) for one in fields(Cluster)}
            sandbox.edges[edge] = LinedCluster(**known, kept=settings[edge])
        try:
            yield sandbox, Lines(proxies, guards)
        finally:
            sandbox.down()
    finally:
        for proxy in proxies.values():
            proxy.close()
