"""Carries out a backfill from its present state to its end: into central, then into the table, and then records its
end.

Invariant: the record of the end is written last, and every step before it may be done twice. The result is therefore
the same if a process is killed at any point, or runs beside another one.
"""

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from aggregator.backfill.backfill_state import Backfill, End
from aggregator.backfill.driver import BackfillDriver, BackfillOutcome
from aggregator.backfill.fill import fill_table
from aggregator.backfill.request import Mode
from aggregator.backfill.restate import Restated, restate_tables
from aggregator.backfill.store import finish, note_policies, read_backfills
from aggregator.config.match import rule_for
from aggregator.config.model import HubConfig
from aggregator.errors import AnotherHub, FatalError
from aggregator.machine_clock import utc_now_ms
from aggregator.privacy.policy.file import Policy
from aggregator.replicate.flow.cursor import Hold, HoldReason
from aggregator.state.names import HubNames

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# If several processes begin at the same moment, all find the lease free, and all but the last one are fenced.
_TURNS = 5
log = logging.getLogger(__name__)


def run_to_end(
    config: HubConfig,
    spark: "SparkSession",
    policies: Mapping[Path, Policy],
    backfill: Backfill,
    *,
    identity: str,
    stop: threading.Event,
) -> BackfillOutcome:
    """Run a backfill from its present state to its end.

    Args:
        config: The hub's configuration.
        spark: Where slots and lake tasks run.
        policies: Policies of the rules, by path.
        backfill: The backfill, as central has it.
        identity: Unique name of this process; begins with the backfill's id.
        stop: Set from outside to end cleanly; the backfill can be resumed.

    Raises:
        AggregatorError: as the driver, the lake and a restate do.
    """
    if backfill.plan.mode is Mode.RESTATE:
        _require_same_policies(config, policies, backfill)

    def deliver() -> BackfillOutcome:
        return BackfillDriver(config, spark, policies, backfill, identity=identity, stop=stop).run()

    outcome = _deliver_unfenced(deliver, backfill.plan.id)
    if not outcome.finished:
        return outcome
    if backfill.plan.mode is Mode.INTO and config.lake:
        held = fill_table(config, backfill.plan, spark, stop)
        if held or stop.is_set():
            first = backfill.plan.writes[0].source
            return replace(
                outcome, finished=False, holds=tuple(Hold(first, HoldReason.LAKE, reason) for reason in held)
            )
    names = HubNames(config.hub)
    if backfill.plan.mode is Mode.RESTATE:
        now = read_backfills(config.central, names)[backfill.plan.id]
        for table in restate_tables(config, now, spark):
            _tell_restated(backfill.plan.id, table)
    lost = {str(source): tuple((one.start, one.end) for one in some) for source, some in (outcome.lost or {}).items()}
    finish(config.central, names, backfill.plan.id, End(utc_now_ms(), lost))
    return outcome


def _tell_restated(id_: str, table: Restated) -> None:
    log.info("backfill %s: table %s, %d rows restated", id_, table.table, table.rows)
    if table.left:
        log.warning(
            "backfill %s: table %s, %d rows stay: their records were not read, or delete and are left out",
            id_,
            table.table,
            table.left,
        )
    if table.keyless:
        log.warning(
            "backfill %s: table %s, %d rows stay without their key: nobody knows what it is under the policy,"
            " and an older row may be current; a restate up to the log's end helps if the edge has the records",
            id_,
            table.table,
            table.keyless,
        )


def _deliver_unfenced(deliver: Callable[[], BackfillOutcome], id_: str) -> BackfillOutcome:
    """Bring the records to central; who is overtaken waits for the other one, as if it were started again.

    Raises:
        AnotherHub: it was overtaken again and again.
    """
    for _ in range(_TURNS - 1):
        try:
            return deliver()
        except AnotherHub as error:
            log.warning("backfill %s: %s; it waits until that one has ended", id_, error.message)
    return deliver()


def _require_same_policies(config: HubConfig, policies: Mapping[Path, Policy], backfill: Backfill) -> None:
    """Go on under the policies under which it began, and no others: a commit names one for each topic.

    Raises:
        FatalError: a policy was changed since.
    """
    now = _hashes(config, policies, backfill)
    if not backfill.policies:
        note_policies(config.central, HubNames(config.hub), backfill.plan.id, now)
    elif backfill.policies != now:
        raise FatalError(
            f"the policy was changed since restate {backfill.plan.id} began: rows of two policies would be mixed",
            hint=f"aggregator backfill cancel {backfill.plan.id}, then run the same again: it begins anew",
        )


def _hashes(config: HubConfig, policies: Mapping[Path, Policy], backfill: Backfill) -> dict[str, str]:
    """Name, version and hash of each edge topic's present policy."""
    found = {}
    for one in backfill.plan.writes:
        rule = rule_for(config, one.source.edge, one.source.topic)
        if rule is not None:
            policy = policies[rule.policy]
            found[f"{one.source.edge}/{one.source.topic}"] = f"{policy.policy} {policy.version} {policy.hash}"
    return found
