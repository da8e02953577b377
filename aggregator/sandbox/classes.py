"""The class archive of Kafka: one broker starts and stops, and every later one starts in half the time.

Invariant: for the start's sake only; what goes wrong here is said and goes no further.
"""

import tempfile
from pathlib import Path

from aggregator.class_archive import archive_of, reading, writing
from aggregator.errors import Failed
from aggregator.sandbox.broker import Broker, Kafka
from aggregator.sandbox.jars import KAFKA_VERSION, Say
from aggregator.sandbox.ports import free_ports
from aggregator.sandbox.state import new_cluster_id


def kafka_of(java: Path, jars: Path) -> Kafka:
    """Kafka as it is run: with its class archive, where there is one."""
    return Kafka(java, jars, reading(_program(jars), java))


def archive_kafka(java: Path, jars: Path, say: Say) -> None:
    """Write the archive, if it is not there.

    Args:
        java: A verified Java.
        jars: The folder of Kafka's jars.
        say: Takes progress lines.
    """
    archive = archive_of(_program(jars), java)
    if archive is None or archive.exists():
        return
    say("starting Kafka once, so that it starts in half the time from now on …")
    try:
        with tempfile.TemporaryDirectory(prefix="aggregator-") as folder, writing(archive) as options:
            port, controller = free_ports(2)
            kafka = Kafka(java, jars, options)
            broker = Broker("kafka", Path(folder) / "kafka", 1, port, (controller,), new_cluster_id(), kafka, {})
            try:
                broker.start()
            finally:
                broker.stop()
    except Failed as error:
        say(f"it starts as slowly as before: {error.message}")


def _program(jars: Path) -> str:
    return f"kafka {KAFKA_VERSION} {jars.resolve()}"
