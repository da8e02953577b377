"""Describes Kafka as a program: its release, the Java that runs it, and its jars.

Invariant: every program of Kafka has the same class path and logs to its standard output.
"""

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from aggregator.sandbox.jars import classpath
from aggregator.sandbox.releases import KafkaRelease


@dataclass(frozen=True, slots=True)
class Kafka:
    """Describes Kafka as a program that can be started.

    Attributes:
        release: The release of Kafka.
        java: The path of a verified Java.
        jars: The folder of Kafka's jars.
        options: Options of every JVM that runs it.
    """

    release: KafkaRelease
    java: Path
    jars: Path
    options: tuple[str, ...] = ()

    def arguments(self, main: str) -> list[str]:
        """Java's arguments to run a class of the program."""
        logging = files(__package__).joinpath("log4j2.properties")
        path = classpath(self.jars, self.release)
        return [*self.options, "-cp", path, f"-Dlog4j2.configurationFile={logging}", main]
