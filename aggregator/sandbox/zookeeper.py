"""Runs the ZooKeeper of a cluster whose Kafka needs one: a process beside its brokers, on loopback.

Invariant: its port and its data stay the same over stop, kill and start, as those of the brokers do.
"""

import contextlib
import socket
import time
from dataclasses import dataclass
from pathlib import Path

from aggregator.errors import FatalError
from aggregator.sandbox.ports import LOOPBACK, is_free
from aggregator.sandbox.process import Daemon
from aggregator.sandbox.program import Kafka

_HEAP = ("-Xms32m", "-Xmx128m", "-XX:+UseSerialGC")
_START_PATIENCE_S = 60.0
# A broker's session ends after four seconds, and ZooKeeper checks once per tick.
_SESSION_PATIENCE_S = 20.0
_ANSWER_S = 2.0
_SETTINGS = """\
clientPortAddress={address}
clientPort={port}
dataDir={data}
tickTime=1000
maxClientCnxns=0
admin.enableServer=false
4lw.commands.whitelist=ruok,dump
"""


@dataclass(frozen=True, slots=True)
class ZooKeeper:
    """Runs one ZooKeeper server.

    Attributes:
        name: The name of its cluster.
        folder: Everything of it: `zookeeper.properties`, `data/`, `zookeeper.log`.
        port: The port that brokers connect to.
        kafka: The release that brings it.
    """

    name: str
    folder: Path
    port: int
    kafka: Kafka

    @property
    def log(self) -> Path:
        """The path of ZooKeeper's own log."""
        return self.folder / "zookeeper.log"

    @property
    def _properties(self) -> Path:
        return self.folder / "zookeeper.properties"

    @property
    def daemon(self) -> Daemon:
        """The daemon that runs ZooKeeper's process."""
        return Daemon(self.folder / "zookeeper.pid", str(self._properties), self.log)

    def start(self) -> None:
        """Start it and wait until it answers. A running one is left alone.

        Raises:
            FatalError: its port is in use, or it does not come up.
        """
        if self.daemon.find() is not None:
            return
        self.check_port()
        self.folder.mkdir(parents=True, exist_ok=True)
        text = _SETTINGS.format(address=LOOPBACK, port=self.port, data=self.folder / "data")
        self._properties.write_text(text, encoding="utf-8")
        program = self.kafka.arguments("org.apache.zookeeper.server.quorum.QuorumPeerMain")
        self.daemon.spawn([self.kafka.java, *_HEAP, "-Dzookeeper.jmx.log4j.disable=true", *program, self._properties])
        deadline = time.monotonic() + _START_PATIENCE_S
        while self._answer("ruok") != "imok":
            if self.daemon.find() is None or time.monotonic() > deadline:
                raise FatalError(f"the ZooKeeper of {self.name} did not start", hint=f"read the end of {self.log}")
            time.sleep(0.1)

    def check_port(self) -> None:
        """Refuse a port that another process listens on; its own may have outlived the brokers.

        Raises:
            FatalError: names the port.
        """
        if self.daemon.find() is None and not is_free(self.port):
            raise FatalError(
                f"port {self.port} of cluster {self.name} is in use by another process",
                hint=f"end that process (ss -ltnp | grep {self.port}), or take another sandbox folder with --dir",
            )

    def forget(self, node: int) -> None:
        """Wait until a broker's former life is over: one that was killed is not taken back before.

        Raises:
            FatalError: its session does not end.
        """
        deadline = time.monotonic() + _SESSION_PATIENCE_S
        while f"/brokers/ids/{node}\n" in self._answer("dump"):
            if time.monotonic() > deadline:
                raise FatalError(
                    f"the ZooKeeper of {self.name} still knows broker {node}", hint=f"read the end of {self.log}"
                )
            time.sleep(0.1)

    def _answer(self, command: str) -> str:
        """The answer to one of its four-letter words; empty without one."""
        answer = b""
        with contextlib.suppress(OSError), socket.create_connection((LOOPBACK, self.port), _ANSWER_S) as connection:
            connection.sendall(command.encode())
            while piece := connection.recv(65_536):
                answer += piece
        return answer.decode(errors="replace")
