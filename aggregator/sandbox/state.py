"""What a sandbox remembers between commands: names, ports and cluster ids, in `sandbox.json` in its folder.

Invariant: once written, ports and ids never change, so that `hub.yaml` beside it stays true over down and up.
"""

import base64
import json
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from aggregator.errors import Failed
from aggregator.sandbox.ports import free_ports

CENTRAL = "central"


@dataclass(frozen=True, slots=True)
class ClusterState:
    """Ports and id of one cluster."""

    port: int
    controller_port: int
    cluster_id: str


@dataclass(frozen=True, slots=True)
class SandboxState:
    """All clusters by name; `central` is one of them."""

    clusters: dict[str, ClusterState]

    @property
    def edges(self) -> tuple[str, ...]:
        """Edge names in the order in which they were asked for."""
        return tuple(name for name in self.clusters if name != CENTRAL)

    @classmethod
    def fresh(cls, edges: Sequence[str]) -> Self:
        """Draw ports and ids for central and these edges."""
        names = [CENTRAL, *edges]
        ports = free_ports(2 * len(names))
        return cls(
            {
                name: ClusterState(ports[2 * index], ports[2 * index + 1], _cluster_id())
                for index, name in enumerate(names)
            }
        )

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """The state in `path`; None if there is none.

        Raises:
            Failed: the file is damaged.
        """
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            return cls({name: ClusterState(**cluster) for name, cluster in content["clusters"].items()})
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, AttributeError):
            raise Failed(f"{path} can not be read", hint="remove the folder and start a new sandbox") from None

    def write(self, path: Path) -> None:
        """Write the state, whole or not at all."""
        fresh = path.with_suffix(".new")
        clusters = {name: asdict(cluster) for name, cluster in self.clusters.items()}
        fresh.write_text(json.dumps({"version": 1, "clusters": clusters}, indent=2) + "\n", encoding="utf-8")
        fresh.replace(path)


def _cluster_id() -> str:
    """A cluster id as Kafka writes them: 16 random bytes in base64url, not starting with a dash."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "A", 1)
