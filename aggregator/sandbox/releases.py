"""Lists the releases of Kafka that the sandbox runs, and the differences in how their brokers are started.

Invariant: every release has its jars pinned beside this module. Any other release is refused.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

from aggregator.errors import FatalError
from aggregator.sandbox.ports import LOOPBACK

NEWEST_FIRST = ("4.4.0", "4.3.1", "3.9.2", "3.5.2", "2.8.2")
# The release of a cluster for which no release is requested.
KAFKA_VERSION = "4.3.1"
# The release of clusters that were made before a release could be chosen.
FIRST_VERSION = "4.3.1"
# ZooKeeper counts a broker's session in its own ticks. A killed broker may come back after the session.
_SESSION_MS = 4000


@dataclass(frozen=True, slots=True)
class KafkaRelease:
    """Describes one release of Kafka.

    Attributes:
        version: The version as Kafka writes it, such as `3.9.2`.
    """

    version: str

    @property
    def _line(self) -> tuple[int, int]:
        major, minor, _ = self.version.split(".")
        return int(major), int(minor)

    @property
    def zookeeper(self) -> bool:
        """Whether a cluster of it keeps its state in ZooKeeper: before 3.3 nothing else was meant for production."""
        return self._line < (3, 3)

    @property
    def voters_are_formatted(self) -> bool:
        """Whether the quorum's members are written when the storage is formatted, and not in the settings (KIP-853)."""
        return self._line >= (3, 9)

    @property
    def logs_by_log4j_1(self) -> bool:
        """Whether its code calls log4j 1, which its jars lack; later ones bring log4j 2."""
        return self._line < (4, 0)

    def pins(self) -> str:
        """The checksums of its jars, in the format of `sha512sum`."""
        return files(__package__).joinpath(f"kafka-{self.version}.sha512").read_text(encoding="utf-8")

    def settings(self, node: int, port: int, quorum: Sequence[int]) -> Mapping[str, str]:
        """Settings by which a broker finds itself and the others.

        Args:
            node: Number of the node, from 1.
            port: Port of the clients.
            quorum: Ports of the cluster's controllers by node, from 1; with ZooKeeper the first one is ZooKeeper's.
        """
        client = f"PLAINTEXT://{LOOPBACK}:{port}"
        if self.zookeeper:
            return {
                "broker.id": str(node),
                "listeners": client,
                "zookeeper.connect": f"{LOOPBACK}:{quorum[0]}",
                "zookeeper.session.timeout.ms": str(_SESSION_MS),
            }
        members = [f"{LOOPBACK}:{one}" for one in quorum]
        listeners = f"{client},CONTROLLER://{members[node - 1]}"
        made = {
            "process.roles": "broker,controller",
            "controller.listener.names": "CONTROLLER",
            "node.id": str(node),
            "listeners": listeners,
        }
        if self.voters_are_formatted:
            return made | {"advertised.listeners": listeners, "controller.quorum.bootstrap.servers": ",".join(members)}
        voters = ",".join(f"{number}@{member}" for number, member in enumerate(members, start=1))
        return made | {"advertised.listeners": client, "controller.quorum.voters": voters}


def release(version: str) -> KafkaRelease:
    """The release of a version.

    Raises:
        FatalError: the sandbox does not run it.
    """
    if version not in NEWEST_FIRST:
        raise FatalError(f"the sandbox does not run Kafka {version!r}", hint=f"it runs {', '.join(NEWEST_FIRST)}")
    return KafkaRelease(version)
