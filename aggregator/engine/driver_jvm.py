"""This module sets the options of the JVM of Spark's driver: its logging, and a class archive that halves its start.

Invariant: the archive only shortens the start. It is used only for JVMs that this process starts itself.
"""

import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import pyarrow as pa
import pyspark
from pyspark.sql import SparkSession

from aggregator.class_archive import archive_of, reading, writing

# Spark's own lines at start are not needed in the hub's log. Its errors are still logged.
_LOG4J = f"-Dlog4j2.configurationFile={(Path(__file__).parent / 'log4j2.properties').as_uri()}"
# The JVM writes over 100 MB as it ends, which takes long on a busy machine.
_ENDS_WITHIN_S = 300
log = logging.getLogger(__name__)


def options() -> str:
    """Options of the driver's JVM, as Spark's setting takes them."""
    java = _java(os.environ)
    return " ".join((_LOG4J, *(reading(_program(), java) if java is not None else ())))


def archive_spark() -> None:
    """Write the archive, if it is not there: a session is opened, does a little, and is closed.

    The first JVM of this process has to be the one that writes; it ends with this call. What goes wrong is logged.
    """
    java = _java(os.environ)
    archive = archive_of(_program(), java) if java is not None else None
    if archive is None or archive.exists():
        return
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    try:
        with writing(archive) as written:
            _open_and_close(" ".join((_LOG4J, *written)))
    except Exception as error:  # noqa: BLE001 - Spark raises whatever its gateway does
        log.warning("Spark starts as slowly as before (%s)", type(error).__name__)


def _open_and_close(java_options: str) -> None:
    session = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.extraJavaOptions", java_options)
        .getOrCreate()
    )
    gateway = session.sparkContext._gateway  # noqa: SLF001 - the only way to the process
    assert gateway is not None
    try:
        session.range(1).mapInArrow(_as_it_is, "id long").collect()
        session.stop()
    finally:
        gateway.shutdown()
        gateway.proc.stdin.close()  # tells the JVM to end; it writes the archive then
        try:
            gateway.proc.wait(_ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:  # a file that it writes later would stay behind
            gateway.proc.kill()
            gateway.proc.wait()
            raise


def _as_it_is(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
    yield from batches


def _program() -> str:
    return f"spark {pyspark.__version__} {Path(pyspark.__file__).resolve().parent}"


def _java(environ: Mapping[str, str]) -> Path | None:
    """The Java that Spark's own scripts take."""
    if home := environ.get("JAVA_HOME"):
        found = shutil.which("java", path=str(Path(home) / "bin"))
    else:
        found = shutil.which("java", path=environ.get("PATH"))
    return Path(found) if found else None
