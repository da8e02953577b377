"""Makes the class archive of Kafka: one broker starts and stops, and every later broker starts in half the time.

Invariant: the archive only makes the start faster. An error here is reported and has no other effect.
"""

import tempfile
from pathlib import Path

from aggregator.class_archive import archive_of, reading, writing
from aggregator.coordinates import CENTRAL
from aggregator.errors import FatalError
from aggregator.sandbox.cluster import Cluster
from aggregator.sandbox.jars import Say
from aggregator.sandbox.program import Kafka
from aggregator.sandbox.releases import KafkaRelease
from aggregator.sandbox.state import SandboxState


def kafka_of(release: KafkaRelease, java: Path, jars: Path) -> Kafka:
    """Kafka as it is run: with its class archive, where there is one."""
    return Kafka(release, java, jars, reading(_program(release, jars), java))


def archive_kafka(release: KafkaRelease, java: Path, jars: Path, say: Say) -> None:
    """Write the archive, if it is not there.

    Args:
        release: Which Kafka.
        java: A verified Java.
        jars: The folder of Kafka's jars.
        say: Takes progress lines.
    """
    archive = archive_of(_program(release, jars), java)
    if archive is None or archive.exists():
        return
    say("starting Kafka once, so that it starts in half the time from now on …")
    try:
        with tempfile.TemporaryDirectory(prefix="aggregator-") as folder, writing(archive) as options:
            state = SandboxState.fresh(()).clusters[CENTRAL]
            cluster = Cluster.of("kafka", Path(folder) / "kafka", state, Kafka(release, java, jars, options), {})
            try:
                cluster.start()
            finally:
                cluster.stop()
    except FatalError as error:
        say(f"it starts as slowly as before: {error.message}")


def _program(release: KafkaRelease, jars: Path) -> str:
    return f"kafka {release.version} {jars.resolve()}"
