"""One Kafka cluster of the sandbox: a single real broker on loopback, its folder, its ports, its life.

Invariant: the address and the data of a cluster stay the same over stop, kill and start. Ready means that the broker
answers a metadata request of the real client. Refuses: to start on a port that somebody else uses.
"""

import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from aggregator.config.model import ClusterConfig
from aggregator.errors import Failed
from aggregator.kafka.clients import consumer
from aggregator.sandbox.jars import classpath
from aggregator.sandbox.java import run_java
from aggregator.sandbox.ports import LOOPBACK, answers, is_free
from aggregator.sandbox.process import Daemon, gone, stop_all

HEAP = ("-Xms96m", "-Xmx448m", "-XX:+UseSerialGC", "-XX:MaxDirectMemorySize=256m")
# Four brokers on one busy core need about a minute; an idle machine with two cores 10 s.
START_PATIENCE_S = 120.0
# A controlled shutdown takes two seconds; a broker whose disk hangs is killed after this.
STOP_PATIENCE_S = 20.0
_FORMAT_PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class Kafka:
    """The program: a verified Java and the folder of Kafka's jars."""

    java: Path
    jars: Path


@dataclass(frozen=True, slots=True)
class Cluster:
    """One cluster.

    Attributes:
        name: Edge name, or `central`.
        folder: Everything of the cluster: `server.properties`, `data/`, `broker.log`.
        port: Where clients connect.
        controller_port: Where the broker speaks to itself as controller.
        cluster_id: Kafka's id of the cluster.
        kafka: The program.
    """

    name: str
    folder: Path
    port: int
    controller_port: int
    cluster_id: str
    kafka: Kafka

    @property
    def bootstrap(self) -> str:
        """`host:port` for clients."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def config(self) -> ClusterConfig:
        """The cluster as our own clients take it."""
        return ClusterConfig(bootstrap_servers=self.bootstrap)

    @property
    def data(self) -> Path:
        """Log segments, one folder per topic partition."""
        return self.folder / "data"

    @property
    def log(self) -> Path:
        """The broker's own log."""
        return self.folder / "broker.log"

    @property
    def properties(self) -> Path:
        """The broker's settings; its absolute path in the command line marks our process."""
        return self.folder / "server.properties"

    @property
    def daemon(self) -> Daemon:
        """The broker's process."""
        return Daemon(self.folder / "broker.pid", str(self.properties), self.log)

    @property
    def pid(self) -> int | None:
        """Id of the broker's process while it runs."""
        process = self.daemon.find()
        return None if process is None else process.pid

    def start(self, settings: Mapping[str, str] | None = None) -> None:
        """Start the broker and wait until it is ready. A running broker is left alone.

        Args:
            settings: Broker settings beyond the sandbox's own, for this start only.

        Raises:
            Failed: a port is in use, or the broker does not come up.
        """
        if self.pid is None:
            self.spawn(settings)
        self.wait_ready()

    def check_ports(self) -> None:
        """Refuse ports that another process listens on.

        Raises:
            Failed: names the port.
        """
        for port in (self.port, self.controller_port):
            if not is_free(port):
                raise Failed(
                    f"port {port} of cluster {self.name} is in use by another process",
                    hint=f"end that process (ss -ltnp | grep {port}), or take another sandbox folder with --dir",
                )

    def spawn(self, settings: Mapping[str, str] | None = None) -> None:
        """Start the broker without waiting; formats its storage the first time."""
        self.check_ports()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.properties.write_text(self._settings(settings or {}), encoding="ascii")
        if not (self.data / "meta.properties").exists():
            self._format()
        self.daemon.spawn([self.kafka.java, *HEAP, *self._program("kafka.Kafka"), self.properties])

    def wait_ready(self, patience_s: float = START_PATIENCE_S) -> None:
        """Wait until the broker answers a metadata request.

        Raises:
            Failed: its process ended, or it does not answer in time; names the log.
        """
        deadline = time.monotonic() + patience_s
        while not (answers(self.port) and self._lists_topics()):
            if self.pid is None:
                raise Failed(f"the broker of {self.name} ended while it started", hint=self._advice())
            if time.monotonic() > deadline:
                raise Failed(f"the broker of {self.name} was not ready after {patience_s:.0f} s", hint=self._advice())
            time.sleep(0.1)

    def stop(self) -> None:
        """End the broker cleanly; its data and its address stay."""
        stop_all([self.daemon], patience_s=STOP_PATIENCE_S)

    def kill(self) -> None:
        """End the broker by SIGKILL, as a power cut would; its data and its address stay."""
        process = self.daemon.signal(signal.SIGKILL)
        if process is not None:
            gone(process, STOP_PATIENCE_S)
        self.daemon.forget()

    def freeze(self) -> None:
        """Stop the broker's clock (SIGSTOP): its port accepts connections, nothing answers."""
        self.daemon.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let a frozen broker go on."""
        self.daemon.signal(signal.SIGCONT)

    def _lists_topics(self) -> bool:
        # A client of its own, that ends here: a kept one would go on reconnecting after the broker stopped.
        client = consumer(self.config)
        try:
            return bool(client.list_topics(timeout=2.0).brokers)
        except Exception:  # noqa: BLE001 - librdkafka's error has no name in this room; every one means: not yet
            return False
        finally:
            client.close()

    def _format(self) -> None:
        command = [
            *("-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
            *self._program("kafka.tools.StorageTool"),
        ]
        command += ["format", "--standalone", "--cluster-id", self.cluster_id, "--config", str(self.properties)]
        if run_java(self.kafka.java, command, log=self.log, timeout_s=_FORMAT_PATIENCE_S) != 0:
            raise Failed(f"the storage of {self.name} could not be formatted", hint=self._advice())

    def _program(self, main: str) -> list[str]:
        logging = files(__package__).joinpath("log4j2.properties")
        return ["-cp", classpath(self.kafka.jars), f"-Dlog4j2.configurationFile={logging}", main]

    def _settings(self, more: Mapping[str, str]) -> str:
        own = {
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://{LOOPBACK}:{self.controller_port}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://{LOOPBACK}:{self.controller_port}",
            "controller.quorum.bootstrap.servers": f"{LOOPBACK}:{self.controller_port}",
            "log.dirs": str(self.data),
        }
        fixed = files(__package__).joinpath("broker.properties").read_text(encoding="ascii")
        return fixed + "\n" + "".join(f"{name}={_escaped(value)}\n" for name, value in (own | dict(more)).items())

    def _advice(self) -> str:
        return f"read the end of {self.log}"


def _escaped(value: str) -> str:
    """A value as Java reads properties: ASCII, everything else as an escape."""
    return "".join(c if " " <= c <= "~" and c != "\\" else f"\\u{ord(c):04x}" for c in value)
