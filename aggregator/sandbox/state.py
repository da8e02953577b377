"""Stores what a sandbox remembers between commands: names, ports and cluster ids, in `sandbox.json` in its folder.

Invariant: once written, ports and ids never change, so `hub.yaml` beside the file stays valid over down and up.
"""

import base64
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from aggregator.coordinates import CENTRAL
from aggregator.errors import FatalError
from aggregator.regular_files import replace_file
from aggregator.sandbox.ports import free_ports
from aggregator.sandbox.releases import FIRST_VERSION, KAFKA_VERSION, NEWEST_FIRST


@dataclass(frozen=True, slots=True)
class BrokerState:
    """Holds the ports of one broker."""

    port: int
    controller_port: int


@dataclass(frozen=True, slots=True)
class SavedCluster:
    """Id of one cluster, its brokers in the order of their nodes, and its release of Kafka."""

    cluster_id: str
    brokers: tuple[BrokerState, ...]
    version: str = KAFKA_VERSION

    @classmethod
    def of(cls, content: dict[str, Any]) -> Self:
        """What a file says of one cluster; in those of version 1 its one broker's ports lie beside the id.

        Before the release was written down it was always the same.
        """
        brokers = tuple(BrokerState(one["port"], one["controller_port"]) for one in content.get("brokers", [content]))
        version = content.get("version", FIRST_VERSION)
        if version not in NEWEST_FIRST:
            raise ValueError(version)
        return cls(content["cluster_id"], brokers, version)


@dataclass(frozen=True, slots=True)
class SandboxState:
    """All clusters by name; `central` is one of them."""

    clusters: dict[str, SavedCluster]

    @property
    def edges(self) -> tuple[str, ...]:
        """Edge names in the order in which they were asked for."""
        return tuple(name for name in self.clusters if name != CENTRAL)

    @property
    def sizes(self) -> dict[str, int]:
        """The number of brokers of each cluster."""
        return {name: len(cluster.brokers) for name, cluster in self.clusters.items()}

    @property
    def versions(self) -> dict[str, str]:
        """The version of Kafka of each cluster."""
        return {name: cluster.version for name, cluster in self.clusters.items()}

    @classmethod
    def fresh(
        cls, edges: Sequence[str], sizes: Mapping[str, int] | None = None, versions: Mapping[str, str] | None = None
    ) -> Self:
        """Draw ports and ids for central and these edges.

        Args:
            edges: Their names.
            sizes: Brokers by name; one where it says nothing.
            versions: Releases by name; the usual one where it says nothing.
        """
        many = {name: (sizes or {}).get(name, 1) for name in (CENTRAL, *edges)}
        ports = iter(free_ports(2 * sum(many.values())))
        return cls(
            {
                name: SavedCluster(
                    new_cluster_id(),
                    tuple(BrokerState(next(ports), next(ports)) for _ in range(size)),
                    (versions or {}).get(name, KAFKA_VERSION),
                )
                for name, size in many.items()
            }
        )

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """The state in `path`; None if there is none.

        Raises:
            FatalError: the file is damaged.
        """
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            return cls({name: SavedCluster.of(cluster) for name, cluster in content["clusters"].items()})
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, AttributeError):
            raise FatalError(f"{path} cannot be read", hint="remove the folder and start a new sandbox") from None

    def write(self, path: Path) -> None:
        """Write the state, whole or not at all."""
        clusters = {name: asdict(cluster) for name, cluster in self.clusters.items()}
        replace_file(path, json.dumps({"version": 3, "clusters": clusters}, indent=2) + "\n")


def new_cluster_id() -> str:
    """A cluster id as Kafka writes them: 16 random bytes in base64url, not starting with a dash."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "A", 1)
