"""Runs one broker of a cluster: a real Kafka process on loopback that is also a controller, with its folder and its
ports.

Invariant: address and data stay the same over stop, kill and start. A broker is ready when it answers a metadata
request of the real client and counts itself among the brokers. A start on a port that another process uses is refused.
"""

import base64
import signal
import time
import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path

from aggregator.config.model import ClusterConfig
from aggregator.errors import FatalError
from aggregator.kafka.client.clients import consumer
from aggregator.sandbox.java import run_java
from aggregator.sandbox.ports import LOOPBACK, answers, is_free
from aggregator.sandbox.process import Daemon, stop_all, wait_for_exit
from aggregator.sandbox.program import Kafka
from aggregator.sandbox.zookeeper import ZooKeeper

_HEAP = ("-Xms96m", "-Xmx448m", "-XX:+UseSerialGC", "-XX:MaxDirectMemorySize=256m")
# In a cluster of three a broker leads a third of the partitions, and nine such brokers must fit a laptop.
_REPLICA_HEAP = ("-Xms64m", "-Xmx320m", "-XX:+UseSerialGC", "-XX:MaxDirectMemorySize=192m")
# Four brokers on one busy core need about a minute; an idle machine with two cores 10 s.
START_TIMEOUT_S = 120.0
# A controlled shutdown takes two seconds. A broker whose disk hangs is killed after this time.
STOP_TIMEOUT_S = 20.0
_FORMAT_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Broker:
    """Runs one broker of a cluster.

    Attributes:
        name: Of its cluster, and with its number where the cluster has more than one broker.
        folder: Everything of the broker: `server.properties`, `data/`, `broker.log`.
        node: Kafka's `node.id`, from 1.
        port: The port that clients connect to.
        quorum: Ports on which the controllers of its cluster, this one too, speak to each other; by node, from 1. With
            ZooKeeper the first is ZooKeeper's, and nobody uses the others.
        cluster_id: Kafka's id of the cluster.
        kafka: Kafka as a program.
        settings: Broker settings beyond the sandbox's own, at every start.
        zookeeper: The cluster's, if its release needs one.
    """

    name: str
    folder: Path
    node: int
    port: int
    quorum: tuple[int, ...]
    cluster_id: str
    kafka: Kafka
    settings: Mapping[str, str] = field(hash=False)
    zookeeper: ZooKeeper | None = None

    @property
    def bootstrap(self) -> str:
        """The `host:port` that clients connect to."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def controller_port(self) -> int:
        """Where the other controllers of its cluster reach it."""
        return self.quorum[self.node - 1]

    @property
    def ports(self) -> tuple[int, ...]:
        """The ports on which the broker listens."""
        return (self.port,) if self.zookeeper else (self.port, self.controller_port)

    @property
    def data(self) -> Path:
        """Log segments, one folder per topic partition."""
        return self.folder / "data"

    @property
    def log(self) -> Path:
        """The path of the broker's own log."""
        return self.folder / "broker.log"

    @property
    def properties(self) -> Path:
        """The broker's settings; its absolute path in the command line marks our process."""
        return self.folder / "server.properties"

    @property
    def daemon(self) -> Daemon:
        """The daemon that runs the broker's process."""
        return Daemon(self.folder / "broker.pid", str(self.properties), self.log)

    @property
    def pid(self) -> int | None:
        """Id of the broker's process while it runs."""
        process = self.daemon.find()
        return None if process is None else process.pid

    def start(self, settings: Mapping[str, str] | None = None) -> None:
        """Start the broker and wait until it is ready. A running broker is left alone.

        Args:
            settings: Broker settings beyond all others, for this start only.

        Raises:
            FatalError: a port is in use, or the broker does not come up.
        """
        self.spawn(settings)
        self.wait_ready()

    def check_ports(self) -> None:
        """Refuse ports that another process listens on.

        Raises:
            FatalError: names the port.
        """
        for port in self.ports:
            if not is_free(port):
                raise FatalError(
                    f"port {port} of cluster {self.name} is in use by another process",
                    hint=f"end that process (ss -ltnp | grep {port}), or take another sandbox folder with --dir",
                )

    def spawn(self, settings: Mapping[str, str] | None = None) -> None:
        """Start the broker without waiting; formats its storage the first time. A running broker is left alone.

        Raises:
            FatalError: a port is in use, the storage could not be formatted, or ZooKeeper keeps its former life.
        """
        if self.pid is not None:
            return
        self.check_ports()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.properties.write_text(self._settings(settings or {}), encoding="ascii")
        if self.zookeeper:
            self.zookeeper.forget(self.node)
        elif not (self.data / "meta.properties").exists():
            self._format()
        heap = _HEAP if len(self.quorum) == 1 else _REPLICA_HEAP
        self.daemon.spawn([self.kafka.java, *heap, *self.kafka.arguments("kafka.Kafka"), self.properties])

    def wait_ready(self, timeout_s: float = START_TIMEOUT_S, *, beside: Collection[int] = ()) -> None:
        """Wait until the broker answers a metadata request and is one of the brokers in the answer.

        Args:
            timeout_s: How long.
            beside: Nodes that must be in its answer, too: a client drops its connections to those that are not.

        Raises:
            FatalError: its process ended, or it does not answer in time; names the log.
        """
        deadline = time.monotonic() + timeout_s
        while not (answers(self.port) and {self.node, *beside} <= self._brokers()):
            if self.pid is None:
                raise FatalError(f"the broker of {self.name} ended while it started", hint=self._advice())
            if time.monotonic() > deadline:
                raise FatalError(
                    f"the broker of {self.name} was not ready after {timeout_s:.0f} s", hint=self._advice()
                )
            time.sleep(0.1)

    def stop(self) -> None:
        """End the broker by a controlled shutdown: others take its partitions first; data and address stay."""
        stop_all([self.daemon], timeout_s=STOP_TIMEOUT_S)

    def kill(self) -> None:
        """End the broker by SIGKILL, as a power cut would; its data and its address stay."""
        process = self.daemon.signal(signal.SIGKILL)
        if process is not None:
            wait_for_exit(process, STOP_TIMEOUT_S)
        self.daemon.forget()

    def freeze(self) -> None:
        """Stop the broker's clock (SIGSTOP): its port accepts connections, nothing answers."""
        self.daemon.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let a frozen broker continue."""
        self.daemon.signal(signal.SIGCONT)

    def _brokers(self) -> set[int]:
        """The nodes in the broker's answer; empty while there is none."""
        # A client that ends here: a client that is kept would go on reconnecting after the broker stopped.
        client = consumer(ClusterConfig(bootstrap_servers=self.bootstrap))
        try:
            return set(client.list_topics(timeout=2.0).brokers)
        except Exception:  # noqa: BLE001 - librdkafka's error has no name in this room; every one means: not yet
            return set()
        finally:
            client.close()

    def _format(self) -> None:
        command = [
            *("-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
            *self.kafka.arguments("kafka.tools.StorageTool"),
        ]
        command += ["format", "--cluster-id", self.cluster_id, "--config", str(self.properties)]
        if self.kafka.release.voters_are_formatted:
            command += ["--initial-controllers", ",".join(self._voters())]
        if run_java(self.kafka.java, command, log=self.log, timeout_s=_FORMAT_TIMEOUT_S) != 0:
            raise FatalError(f"the storage of {self.name} could not be formatted", hint=self._advice())

    def _voters(self) -> list[str]:
        """The quorum's controllers as `format` wants them; each broker comes to the same directory ids."""
        return [
            f"{node}@{LOOPBACK}:{port}:{_directory_id(self.cluster_id, node)}"
            for node, port in enumerate(self.quorum, start=1)
        ]

    def _settings(self, more: Mapping[str, str]) -> str:
        own = dict(self.kafka.release.settings(self.node, self.port, self.quorum)) | {"log.dirs": str(self.data)}
        whole = own | _replication(len(self.quorum)) | dict(self.settings) | dict(more)
        fixed = files(__package__).joinpath("broker.properties").read_text(encoding="ascii")
        return fixed + "\n" + "".join(f"{name}={_escaped(value)}\n" for name, value in whole.items())

    def _advice(self) -> str:
        return f"read the end of {self.log}"


def _replication(brokers: int) -> dict[str, str]:
    """Settings by which every topic, Kafka's own included, is on all brokers, and a write needs most of them."""
    majority = str(brokers // 2 + 1)
    factors = ("default", "offsets.topic", "transaction.state.log", "share.coordinator.state.topic")
    least = ("min.insync.replicas", "transaction.state.log.min.isr", "share.coordinator.state.topic.min.isr")
    return {f"{name}.replication.factor": str(brokers) for name in factors} | dict.fromkeys(least, majority)


def _directory_id(cluster_id: str, node: int) -> str:
    """Id of a broker's data folder as Kafka writes them; it follows from the cluster's, so no file has to hold it."""
    drawn = uuid.uuid5(uuid.NAMESPACE_OID, f"{cluster_id}/{node}")
    return base64.urlsafe_b64encode(drawn.bytes).decode().rstrip("=")


def _escaped(value: str) -> str:
    """A value as Java reads properties: ASCII, everything else as an escape."""
    return "".join(c if " " <= c <= "~" and c != "\\" else f"\\u{ord(c):04x}" for c in value)
