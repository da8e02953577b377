"""This module opens the Spark session.

Invariant: no secret and no payload is in a visible setting, and no secret is in the environment of the processes that
Spark starts. Local masters listen on loopback only. The processes of all other masters authenticate each other by a
secret and encrypt. Tasks are retried and never run speculatively. Some cores beside the slots stay free for the lake.
"""

import os
import sys
import time

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from aggregator.config.fields import AUTHENTICATE
from aggregator.config.model import HubConfig
from aggregator.count_text import format_count
from aggregator.engine import driver_jvm
from aggregator.engine.allocator import faster_malloc
from aggregator.engine.environment import without_secrets
from aggregator.engine.ports import LOCAL_CLUSTER, check_ports, port_secret, port_settings
from aggregator.engine.stop_signals import sigterm_ignored
from aggregator.errors import ConfigError

TASK_ATTEMPTS = 4
_SPARE_CORES = 2
_EXECUTORS_S = 60.0
_PRELOAD = "spark.executorEnv.LD_PRELOAD"
# spark-submit sets this variable; its --master counts then.
_SUBMITTED = "PYSPARK_GATEWAY_PORT"


def master_url(master: str, slots: int) -> str:
    """Spell out a master; `local` gets a core per slot, two to spare, and task retry.

    Raises:
        ConfigError: a local cluster without a core that stays free of slots.
    """
    if master == "local":
        return f"local[{slots + _SPARE_CORES},{TASK_ATTEMPTS}]"
    cluster = LOCAL_CLUSTER.fullmatch(master)
    if cluster and int(cluster[1]) * int(cluster[2]) <= slots:
        raise ConfigError(
            f"spark.master {master} has no core beside {format_count(slots, 'slot')}, and the lake would wait for ever",
            hint=f"give it at least {slots + 1} cores, or lower replication.slots",
        )
    return master


def open_session(config: HubConfig, app: str) -> SparkSession:
    """Start (or join, under spark-submit) the Spark session.

    Args:
        config: The hub; `spark.conf` is applied first and cannot loosen what correctness needs.
        app: Application name.

    Raises:
        ConfigError: too few cores, or connections between Spark's processes that everybody could use.
    """
    # Python workers ignore the setting of the same name. Without this variable they run another interpreter.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": driver_jvm.options(),
    } | config.spark.conf
    settings |= {"spark.speculation": "false", "spark.task.maxFailures": str(TASK_ATTEMPTS)}
    builder = SparkSession.builder.appName(app)
    url = config.spark.master
    secret = None
    if _SUBMITTED not in os.environ:
        url = master_url(config.spark.master, config.replication.slots)
        builder = builder.master(url)
        if url.startswith("local"):
            # Local workers have the same libraries as this machine. Those of other machines are unknown.
            malloc = faster_malloc()
            settings = ({_PRELOAD: malloc} if malloc else {}) | settings
            os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
            settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        settings |= port_settings(config.spark, url)
        secret = port_secret(config.spark, url)
    for name, value in settings.items():
        builder = builder.config(name, value)
    with without_secrets(config), sigterm_ignored():
        if secret is not None:  # set after the start: a command line shows settings
            SparkContext._ensure_initialized(conf=SparkConf(loadDefaults=False).setAll(list(settings.items())))  # noqa: SLF001 - the only way in between
            builder = builder.config(f"{AUTHENTICATE}.secret", secret)
        session = builder.getOrCreate()
    try:
        check_ports(dict(session.sparkContext.getConf().getAll()), config.spark, str(session.sparkContext.master))
    except ConfigError:
        session.stop()
        raise
    _await_cores(session, config.replication.slots)
    return session


def _await_cores(session: SparkSession, slots: int) -> None:
    """Executors of a cluster register after the session has started; slots would take the last core from the lake."""
    deadline = time.monotonic() + _EXECUTORS_S
    while (cores := session.sparkContext.defaultParallelism) <= slots:
        if time.monotonic() > deadline:
            session.stop()
            raise ConfigError(
                f"Spark offers {format_count(cores, 'core')} to {format_count(slots, 'slot')}, and one must stay free"
                " of them for the lake",
                hint=f"give the application at least {slots + 1} cores, or lower replication.slots",
            )
        time.sleep(0.5)
