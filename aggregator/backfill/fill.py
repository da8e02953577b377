"""Fills the table of a generation: the lake's own driver brings the backfill's central topics into the lake.

Invariant: positions and commits are those of any table. Filling twice adds nothing.
"""

import logging
import threading
from typing import TYPE_CHECKING

from aggregator.backfill.plan import Plan
from aggregator.backfill.target import target_config
from aggregator.config.model import HubConfig
from aggregator.lake.driver import LakeDriver
from aggregator.state.names import HubNames

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)


def fill_table(config: HubConfig, plan: Plan, spark: "SparkSession", stop: threading.Event) -> tuple[str, ...]:
    """Bring a generation's topics into its tables.

    Args:
        config: The hub.
        plan: A finished plan with `Mode.INTO`.
        spark: Where to run.
        stop: Ends it early; filling again goes on.

    Returns:
        The reasons why partitions are held.

    Raises:
        RetryError: what did not answer.
    """
    where = target_config(config, plan.mode, plan.into)
    flows = {one.source: one for one in plan.partitions}
    report = LakeDriver(where, spark, HubNames(config.hub), flows=lambda: flows).drain(stop=stop)
    log.info("backfill %s: %d rows into the lake", plan.id, report.rows)
    return tuple(map(str, report.held))
