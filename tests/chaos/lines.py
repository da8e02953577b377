"""Clusters whose edges can also be reached over lines that break: each edge has a proxy in front of a second listener.

Invariant: who produces and checks takes the broker's own address; only a hub under test goes over the line. The second
listener is there again after every kill and start, because each broker keeps its settings.
"""

from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, ResourcePatternType, ResourceType

from aggregator.sandbox.ports import LOOPBACK, free_ports
from aggregator.sandbox.sandbox import STATE_FILE, Sandbox
from aggregator.sandbox.state import SandboxState
from tests.chaos.proxy import Proxy

FIRST_PASSWORD = "a-password-that-is-nowhere-else"


@dataclass(frozen=True, slots=True)
class Lines:
    """The line to each edge, and the listener with passwords behind which there is no line."""

    proxies: dict[str, Proxy]
    guarded: dict[str, list[int]]

    def lead(self, trial, *edges: str) -> None:
        """Let a trial's hub reach these edges over their lines only."""
        for edge in edges:
            trial.settings["edges"][edge]["bootstrap_servers"] = self.proxies[edge].address
        trial.write()

    def guard(self, trial, edge: str) -> None:
        """Let a trial's hub reach an edge by name and password only; the password lies in a file."""
        (trial.folder / "password").write_text(FIRST_PASSWORD)
        trial.settings["edges"][edge] |= {
            "bootstrap_servers": ",".join(f"{LOOPBACK}:{port}" for port in self.guarded[edge]),
            "client": {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "hub",
                "sasl.password": "file:password",
                "insecure": "a sandbox on loopback has no certificates",
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
def lined(
    folder: Path,
    edges: tuple[str, ...] = ("eu", "us"),
    brokers: Mapping[str, int] | None = None,
    more: Mapping[str, str] | None = None,
):
    """Central and edges with lines: (sandbox, lines); ended with the block.

    Args:
        folder: Of the clusters.
        edges: Names of the edges.
        brokers: How many brokers a cluster has that has more than one.
        more: Settings of every broker of an edge, beside those of its lines.
    """
    state = SandboxState.fresh(edges, brokers)
    folder.mkdir(parents=True, exist_ok=True)
    state.write(folder / STATE_FILE)
    known = Sandbox.load(folder)
    free = iter(free_ports(3 * len(known.brokers), taken=[p for b in known.brokers for p in (b.port, *b.quorum)]))
    settings, proxies, guards = {}, {}, {}
    for edge, cluster in known.edges.items():
        doors, guards[edge] = {}, []
        for broker in cluster.brokers:
            inner, outer, guarded = next(free), next(free), next(free)
            settings[broker.name] = {
                **_settings(broker.port, broker.controller_port, inner, outer, guarded),
                **(more or {}),
            }
            doors[outer] = inner
            guards[edge].append(guarded)
        proxies[edge] = Proxy(doors)
    try:
        sandbox = Sandbox.up(folder, edges, settings=settings)
        try:
            yield sandbox, Lines(proxies, guards)
        finally:
            sandbox.down()
    finally:
        for proxy in proxies.values():
            proxy.close()
