"""Epochs, one after the other: plan from fresh snapshots, run the slots on Spark, end when something changed.

Invariant: while slots run, the driver only watches; it ends an epoch through the control topic and never by force,
unless the slots do not answer for longer than any transaction can last.
"""

import logging
import re
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from aggregator.config.model import HubConfig
from aggregator.errors import TransactionAborted
from aggregator.kafka import topics
from aggregator.kafka.control import Epoch
from aggregator.kafka.names import HubNames
from aggregator.privacy.policy import Policy
from aggregator.replicate.cadence import Cadence
from aggregator.replicate.discovery import EdgeTopic, EdgeWatch
from aggregator.replicate.epoch import open_epoch
from aggregator.replicate.flow import FlowPlan, Hold
from aggregator.replicate.keeper import LeaseKeeper
from aggregator.replicate.keyless import keyless
from aggregator.replicate.planning import Snapshots, central_topics, plan_flows
from aggregator.replicate.slot import SlotOutcome, SlotPlan
from aggregator.replicate.task import EpochWork, run_slots
from aggregator.replicate.world import KafkaDriverCentral

_TICK_S = 0.1
# Longer than a transaction's time-out plus the broker's sweep: no slot that lives needs more to commit and end.
_END_PATIENCE_S = 40.0
# How a traceback that came through Spark shows an error of our own tree.
_OURS = re.compile(r"^aggregator\.errors\.\w+: (.*)$", re.MULTILINE)
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class EpochResult:
    """How an epoch's slots ended, and which flows were refused before they started."""

    outcomes: tuple[SlotOutcome, ...]
    refused: tuple[Hold, ...]

    @property
    def holds(self) -> tuple[Hold, ...]:
        """Every flow that stood still."""
        return self.refused + tuple(hold for outcome in self.outcomes for hold in outcome.holds)

    def said(self) -> str:
        """How every slot ended, in one line."""
        return "; ".join(f"slot {one.slot} {one.result} {one.detail}".strip() for one in self.outcomes)

    def all(self, *words: str) -> bool:
        """Whether every slot ended with one of these results."""
        return all(outcome.result in words for outcome in self.outcomes)


class EpochRunner:
    """Runs epochs for one driver."""

    def __init__(
        self,
        config: HubConfig,
        spark: SparkSession,
        policies: Mapping[Path, Policy],
        central: KafkaDriverCentral,
        keeper: LeaseKeeper,
        *,
        watches: Sequence[EdgeWatch],
        identity: str,
        drain: bool,
        stop: threading.Event,
    ) -> None:
        self._config = config
        self._spark = spark
        self._policies = policies
        self._central = central
        self._keeper = keeper
        self._watches = watches
        self._identity = identity
        self._drain = drain
        self._stop = stop
        self._names = HubNames(config.hub)
        self._known: set[str] = set()
        self._outdated = False
        self.opened: Epoch | None = None

    def run(self) -> EpochResult:
        """Open one epoch and watch it to its end.

        Raises:
            Fenced: another driver took over.
            Unreachable: central does not answer.
        """
        snapshots = self._snapshots()
        specs = central_topics(self._config, snapshots)
        central = self._config.central
        topics.ensure(central, specs, replication_factor=self._config.replication_factor)
        settings = topics.settings(central, [spec.name for spec in specs])
        count = self._config.replication.slots
        epoch, ledger = open_epoch(self._central, slots=count, driver=self._identity)
        self.opened = epoch
        now_ms = int(time.time() * 1000)
        decisions = self._central.decisions()
        flows = plan_flows(
            self._config,
            ledger,
            snapshots,
            settings,
            epoch=epoch.epoch,
            drain=self._drain,
            now_ms=now_ms,
            decisions=decisions,
            refused=keyless(self._config, self._policies, snapshots, settings, now_ms=now_ms),
        )
        for hold in flows.holds:
            log.warning("%s is held: %s", hold.source, hold.detail)
        log.info("epoch %d: %d flows on %d slots", epoch.epoch, sum(map(len, flows.by_slot.values())), count)
        plans = tuple(self._slot_plan(epoch.epoch, slot, flows.by_slot.get(slot, ())) for slot in range(count))
        work = EpochWork(self._config, self._policies, plans, frozenset(spec.name for spec in specs))
        self._known, self._outdated = {decision.key for decision in decisions}, False
        return EpochResult(tuple(self._run_slots(work, _shapes(snapshots))), flows.holds)

    def _snapshots(self) -> dict[str, Mapping[str, EdgeTopic]]:
        return {watch.edge: watch.topics for watch in self._watches if watch.topics is not None}

    def _slot_plan(self, epoch: int, slot: int, flows: tuple[FlowPlan, ...]) -> SlotPlan:
        replication = self._config.replication
        cadence = Cadence(replication.commit_interval.total_seconds(), replication.commit_bytes)
        patience_s = replication.drain_patience.total_seconds()
        return SlotPlan(self._names, epoch, slot, flows, cadence, self._drain, patience_s)

    def _run_slots(self, work: EpochWork, shapes: object) -> list[SlotOutcome]:
        outcomes: list[SlotOutcome] = []

        def job() -> None:
            try:
                outcomes.extend(run_slots(self._spark, work))
            except Exception as error:  # noqa: BLE001 - Spark raises whatever its gateway does; the driver lives on
                outcomes.append(SlotOutcome(-1, "failed", detail=_told(error)))

        thread = threading.Thread(target=job, name="slots", daemon=True)
        thread.start()
        ending: float | None = None
        while thread.is_alive():
            thread.join(_TICK_S)
            if self._keeper.lost is not None:
                raise self._keeper.lost
            if ending is None and (self._stop.is_set() or _shapes(self._snapshots()) != shapes or self._decided()):
                ending = self._ask_to_end(work.plans[0].epoch)
            if ending is not None and time.monotonic() - ending > _END_PATIENCE_S:
                self._spark.sparkContext.cancelAllJobs()
        return outcomes

    def _decided(self) -> bool:
        """Whether a person decided something that the running slots do not know."""
        fresh = [one for one in self._central.decided_since() if one.key not in self._known]
        self._known |= {one.key for one in fresh}
        for one in fresh:
            log.warning("%s goes on without the gap %s, by %s: %s", one.source, one.gap, one.by, one.reason)
        self._outdated |= any(not one.automatic for one in fresh)
        return self._outdated

    def _ask_to_end(self, epoch: int) -> float | None:
        try:
            self._central.publish(epoch)
        except TransactionAborted:
            return None
        return time.monotonic()


def _told(error: Exception) -> str:
    """What our task said in its last words; a foreign error's text may quote a record and is left out."""
    said = _OURS.findall(str(error))
    return said[-1] if said else f"the Spark job failed ({type(error).__name__})"


def _shapes(snapshots: Snapshots) -> dict[str, dict[str, tuple[str, int]]]:
    """What makes an epoch end when it changes: topics, their ids and partition counts, edge by edge."""
    return {edge: {name: topic.shape for name, topic in shown.items()} for edge, shown in snapshots.items()}
