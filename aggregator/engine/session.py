"""The Spark session: the one place that names a Spark setting.

Invariant: no secret and no payload in any setting, and no secret in the environment of what it starts; local masters
listen on loopback only; tasks are retried and never run speculatively; cores stay free for the lake beside the slots.
"""

import os
import re
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

from aggregator.config.model import HubConfig
from aggregator.engine.allocator import faster_malloc
from aggregator.engine.environment import without_secrets
from aggregator.errors import ConfigError

# Spark's own lines at start say nothing that a reader of the hub's log needs; errors still come through.
_LOG4J = (Path(__file__).parent / "log4j2.properties").as_uri()
TASK_ATTEMPTS = 4
_SPARE_CORES = 2
_EXECUTORS_S = 60.0
_PRELOAD = "spark.executorEnv.LD_PRELOAD"
# Set by spark-submit, whose --master then holds.
_SUBMITTED = "PYSPARK_GATEWAY_PORT"
_LOCAL_CLUSTER = re.compile(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,\s*\d+\s*\]")


def master_url(master: str, slots: int) -> str:
    """Spell out a master; `local` gets a core per slot, two to spare, and task retry.

    Raises:
        ConfigError: a local cluster without a core that stays free of slots.
    """
    if master == "local":
        return f"local[{slots + _SPARE_CORES},{TASK_ATTEMPTS}]"
    cluster = _LOCAL_CLUSTER.fullmatch(master)
    if cluster and int(cluster[1]) * int(cluster[2]) <= slots:
        raise ConfigError(
            f"spark.master {master} has no core beside {slots} slots, and the lake would wait for ever",
            hint=f"give it at least {slots + 1} cores, or lower replication.slots",
        )
    return master


def open_session(config: HubConfig, app: str) -> SparkSession:
    """Start (or join, under spark-submit) the Spark session.

    Args:
        config: The hub; `spark.conf` is applied first and can not loosen what correctness needs.
        app: Application name.

    Raises:
        ConfigError: too few cores.
    """
    # The `.config` of the same name is ignored for Python workers; without this they run another interpreter.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOG4J}",
    } | config.spark.conf
    settings |= {"spark.speculation": "false", "spark.task.maxFailures": str(TASK_ATTEMPTS)}
    builder = SparkSession.builder.appName(app)
    if _SUBMITTED not in os.environ:
        url = master_url(config.spark.master, config.replication.slots)
        builder = builder.master(url)
        if url.startswith("local"):
            # What this machine has, its workers have; of other machines nobody knows here.
            malloc = faster_malloc()
            settings = ({_PRELOAD: malloc} if malloc else {}) | settings
            os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
            settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    for name, value in settings.items():
        builder = builder.config(name, value)
    with without_secrets(config):
        session = builder.getOrCreate()
    _await_cores(session, config.replication.slots)
    return session


def _await_cores(session: SparkSession, slots: int) -> None:
    """Executors of a cluster register after the session has started; slots would take the last core from the lake."""
    deadline = time.monotonic() + _EXECUTORS_S
    while (cores := session.sparkContext.defaultParallelism) <= slots:
        if time.monotonic() > deadline:
            session.stop()
            raise ConfigError(
                f"Spark offers {cores} cores to {slots} slots, and one must stay free of them for the lake",
                hint=f"give the application at least {slots + 1} cores, or lower replication.slots",
            )
        time.sleep(0.5)
