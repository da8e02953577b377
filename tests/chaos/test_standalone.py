"""A standalone cluster from pyspark's own wheel: its processes and the hub know each other by a secret and encrypt."""

import json
import secrets
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest

from aggregator.sandbox.ports import LOOPBACK, free_ports
from tests.processes import environment, kill_all
from tests.trial import wait_for

pytestmark = [pytest.mark.brokers, pytest.mark.spark]

SPARK = Path(pyspark.__file__).parent
CLOSED = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.network.crypto.saslFallback": "false",
    "spark.network.crypto.authEngineVersion": "2",
}
# Long enough for a worker that is let in; each of them asks at once.
REFUSED_S = 10.0


class Standalone:
    """A master, and workers by name, each a process group of its own with settings of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port, self._page = free_ports(2)
        self._running: list[subprocess.Popen] = []

    @property
    def url(self) -> str:
        """What a hub writes as its master."""
        return f"spark://{LOOPBACK}:{self.port}"

    def start(self, name: str, conf: dict[str, str]) -> None:
        """Start the master, or a worker."""
        role = "master" if name == "master" else "worker"
        settings = self.folder / f"{name}.conf"
        settings.touch(0o600)
        settings.write_text("".join(f"{key} {value}\n" for key, value in conf.items()))
        own = ["--host", LOOPBACK, "--properties-file", str(settings)]
        if role == "master":
            own += ["--port", str(self.port), "--webui-port", str(self._page)]
        else:
            where = ["--work-dir", str(self.folder / name), "--webui-port", str(free_ports(1)[0])]
            own += ["--cores", "3", "--memory", "2g", *where, self.url]
        with self.log(name).open("w") as log:
            process = subprocess.Popen(
                [str(SPARK / "bin" / "spark-class"), f"org.apache.spark.deploy.{role}.{role.title()}", *own],
                stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
                env=environment() | {"SPARK_HOME": str(SPARK), "SPARK_LOCAL_IP": LOOPBACK},
            )  # fmt: skip
        self._running.append(process)

    def log(self, name: str) -> Path:
        """What it says."""
        return self.folder / f"{name}.log"

    def alive(self) -> int:
        """Workers that the master let in."""
        try:
            with urllib.request.urlopen(f"http://{LOOPBACK}:{self._page}/json/", timeout=5) as answer:
                return json.load(answer)["aliveworkers"]
        except OSError:
            return -1

    def end(self) -> None:
        """Kill all of it."""
        for process in self._running:
            kill_all(process)


@contextmanager
def standalone(folder: Path, conf: dict[str, str]) -> Iterator[Standalone]:
    """A master and one worker that are closed."""
    cluster = Standalone(folder)
    try:
        cluster.start("master", conf)
        wait_for(lambda: cluster.alive() == 0, timeout=60, what="the master")
        cluster.start("worker", conf)
        wait_for(lambda: cluster.alive() == 1, timeout=60, what="the worker")
        yield cluster
    finally:
        cluster.end()


def test_a_hub_on_a_standalone_cluster_delivers_and_strangers_are_refused(new_trial):
    """With the cluster's secret records arrive, once; a worker that does not know it, or that would do without AES, is
    not let in.
    """
    trial = new_trial()
    secret = secrets.token_hex(32)
    (trial.folder / "secret").touch(0o600)
    (trial.folder / "secret").write_text(secret)
    own = {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK, "spark.executor.memory": "1g"}
    with standalone(trial.folder, CLOSED | {"spark.authenticate.secret": secret}) as cluster:
        trial.settings["spark"] = {"master": cluster.url, "secret": "file:secret", "conf": own}
        trial.write()
        for edge in ("eu", "us"):
            trial.produce(edge, 1000)
        trial.drain(timeout=300)
        for edge in ("eu", "us"):
            trial.check_exactly_once(edge, 1000)

        strangers = {
            "guessing": CLOSED | {"spark.authenticate.secret": secrets.token_hex(32)},
            "silent": {"spark.authenticate": "false"},
            "older": {**CLOSED, "spark.authenticate.secret": secret, "spark.network.crypto.enabled": "false"},
        }
        for name, conf in strangers.items():
            cluster.start(name, conf)
        wait_for(lambda: all("Connecting to master" in cluster.log(name).read_text() for name in strangers),
                 timeout=60, what="each stranger's question")  # fmt: skip
        time.sleep(REFUSED_S)
        assert cluster.alive() == 1, [cluster.log(name).read_text()[-2000:] for name in strangers]
        assert not any("Successfully registered" in cluster.log(name).read_text() for name in strangers)
        assert not any(secret in path.read_text() for path in trial.folder.glob("*.log"))
