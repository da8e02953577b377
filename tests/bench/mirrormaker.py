"""MirrorMaker 2 in dedicated mode, as a process: its jars, its settings, its start.

Settings are those that its documentation advises for throughput, and are part of every answer of the bench. The pins in
`mirrormaker.sha512` are of the release's own artefacts at Maven Central.
"""

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

from aggregator.sandbox.jars import Distribution, ensure_jars, pins_of, pyspark_jars
from aggregator.sandbox.java import find_java
from aggregator.sandbox.ports import free_ports
from tests.processes import LoggedProcess, kill_all

PINS = Path(__file__).with_suffix(".sha512")
HEAP = ("-Xms256m", "-Xmx1g")
# What makes it quick: few large requests on both sides, and a transaction per poll that is worth one.
TUNED = {
    "tasks.max": "2",
    "consumer.max.poll.records": "20000",
    "consumer.fetch.max.bytes": "52428800",
    "consumer.max.partition.fetch.bytes": "8388608",
    "consumer.fetch.min.bytes": "65536",
    "consumer.fetch.max.wait.ms": "50",
}
TUNED_PRODUCER = {"linger.ms": "5", "batch.size": "1000000", "buffer.memory": "134217728"}
_QUIET = {
    "emit.heartbeats.enabled": "false",
    "emit.checkpoints.enabled": "false",
    "sync.topic.acls.enabled": "false",
    "sync.topic.configs.enabled": "false",
}


def _on_stderr(line):
    print(line, file=sys.stderr)


def jars(say=_on_stderr) -> Path:
    """Folder of its verified jars, fetched once."""
    return ensure_jars(Distribution("mirrormaker", "connect-mirror", "34 MB", pins_of(PINS.read_text())), say)


def settings(
    alias: str, source: str, target: str, topic: str, *, exactly_once: bool, port: int, codec: str = "none"
) -> dict[str, str]:
    """Everything in its properties file.

    Args:
        alias: Of the source cluster: the copy is `<alias>.<topic>`, and all its state bears the alias.
        source: Bootstrap servers.
        target: Bootstrap servers.
        topic: What to copy.
        exactly_once: KIP-618's exactly-once source support, with a source that is read committed.
        port: Of its own REST listener, which exactly once needs.
        codec: What it compresses with.
    """
    flow = f"{alias}->central"
    made = {
        "clusters": f"{alias}, central",
        f"{alias}.bootstrap.servers": source,
        "central.bootstrap.servers": target,
        f"{flow}.enabled": "true",
        f"central->{alias}.enabled": "false",
        f"{flow}.topics": topic,
        "replication.factor": "1",
        "dedicated.mode.enable.internal.rest": "true",
        "listeners": f"http://127.0.0.1:{port}",
    }
    for kind in ("checkpoints.topic", "heartbeats.topic", "offset-syncs.topic", "offset.storage", "status.storage"):
        made[f"{kind}.replication.factor"] = "1"
    made["config.storage.replication.factor"] = "1"
    made |= {f"{flow}.{name}": value for name, value in (TUNED | _QUIET).items()}
    made |= {f"central.producer.{name}": value for name, value in TUNED_PRODUCER.items()}
    made["central.producer.compression.type"] = codec
    if exactly_once:
        made["central.exactly.once.source.support"] = "enabled"
        made[f"{flow}.consumer.isolation.level"] = "read_committed"
    return made


@contextmanager
def running(folder: Path, properties: dict[str, str]):
    """The process while the block runs; killed at its end."""
    folder.mkdir(parents=True)
    file = folder / "mm2.properties"
    file.write_text("".join(f"{name} = {value}\n" for name, value in properties.items()))
    logging = [
        path
        for pattern in ("slf4j-api-2*.jar", "log4j-slf4j2-impl-*.jar", "log4j-*.jar")
        for path in pyspark_jars(pattern)
    ]
    path = os.pathsep.join([*map(str, logging), f"{jars()}/*"])
    log = (folder / "mm2.log").open("w")
    process = LoggedProcess(
        [find_java(), *HEAP, "-cp", path, "org.apache.kafka.connect.mirror.MirrorMaker", file],
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    process.log = folder / "mm2.log"
    try:
        yield process
    finally:
        kill_all(process)
        log.close()


def free_port() -> int:
    """A port for its REST listener."""
    return free_ports(1)[0]
