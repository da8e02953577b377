"""This module ships the plans of slots to Spark executors, runs each slot in a task, and collects the outcomes.

Invariant: plans contain references to secrets, never secrets. A slot that ends by the protocol ends as a *successful*
task, so Spark retries only crashed tasks.
"""

import functools
import pickle
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from aggregator.config.model import HubConfig
from aggregator.config.secrets import KeyRing
from aggregator.config.subkeys import Purpose, subkey
from aggregator.engine.archives import forget_archives
from aggregator.engine.collector import freeze_objects
from aggregator.engine.worker_log import show_warnings
from aggregator.errors import ExitError, FatalError, kind_and_place
from aggregator.privacy.policy.file import Policy
from aggregator.replicate.flow.limits import BATCH_BYTES
from aggregator.replicate.identity.chains import Chains, chain_keys, chained_topics
from aggregator.replicate.identity.clusters import ClusterIds
from aggregator.replicate.identity.cycles import Cycles, ReturningTopics, seal_keys
from aggregator.replicate.slot.delivery import Delivery, DeliveryPlan
from aggregator.replicate.slot.kafka_ports import KafkaSlotPorts
from aggregator.replicate.slot.key_checks import checked_rings
from aggregator.replicate.slot.plan import BackfillTerms, SlotOutcome, SlotPlan, SlotResult
from aggregator.replicate.slot.planned_limits import PlannedLimits
from aggregator.replicate.slot.slot import Slot
from aggregator.replicate.slot.strips import strips


@dataclass(frozen=True, slots=True)
class EpochWork:
    """Holds everything that the slots of one epoch need; it is pickled into the Spark job.

    Attributes:
        config: The hub.
        policies: Of its rules, by path.
        plans: One for each slot.
        written: Central topics of this hub.
        checks: Check values of all keys.
        clusters: Which clusters it stands between.
    """

    config: HubConfig
    policies: Mapping[Path, Policy]
    plans: tuple[SlotPlan, ...]
    written: frozenset[str]
    checks: Mapping[tuple[str, int], str] = field(default_factory=dict)
    clusters: ClusterIds = field(default_factory=ClusterIds)


def run_slots(spark: SparkSession, work: EpochWork) -> list[SlotOutcome]:
    """Run one task per slot and wait until the last one ends.

    Raises:
        Exception: whatever Spark raises after a task failed for the last time.
    """
    count = len(work.plans)
    # A task unpickles its own plan only: the plans of all slots may take half a gigabyte.
    pickled = [pickle.dumps(plan) for plan in work.plans]
    run = functools.partial(_slots, replace(work, plans=()), pickled)
    tasks = spark.range(0, count, 1, count).mapInArrow(run, "outcome binary")
    return [pickle.loads(row.outcome) for row in tasks.collect()]  # noqa: S301 - written by our own tasks


def _slots(work: EpochWork, pickled: list[bytes], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    freeze_objects()
    show_warnings()
    for batch in batches:
        for slot in batch.column(0).to_pylist():
            outcome = _guarded(work, pickle.loads(pickled[slot]))  # noqa: S301 - written by our own driver
            yield pa.RecordBatch.from_pydict({"outcome": [pickle.dumps(outcome)]})
    forget_archives()


def _guarded(work: EpochWork, plan: SlotPlan) -> SlotOutcome:
    try:
        return _run(work, plan)
    except Exception as error:  # noqa: BLE001 - see below
        # Spark prints a task's error, and a foreign error may quote a record. So only its kind and place are passed on.
        raise FatalError(
            f"slot {plan.slot}: {kind_and_place(error)}",
            hint="Spark tries it again; if it comes back, report it with this place",
        ) from None


def _run(work: EpochWork, plan: SlotPlan) -> SlotOutcome:
    plan = replace(plan, flows=tuple(plan.flows))  # made once: `plan.flows` makes them at every iteration
    limits = [flow.limits.record_bytes for flow in plan.flows]
    terms = plan.terms or BackfillTerms("", plan.names.dead_letters)
    batch_bytes = min([BATCH_BYTES, *limits])
    key_rings = checked_rings(work.config.keys, work.checks)
    ports = KafkaSlotPorts(
        work.config, plan.names, plan.slot, batch_bytes=batch_bytes, backfill=terms.backfill, rates=plan.rates
    )
    try:
        delivery = Delivery(
            DeliveryPlan(
                work.config.hub,
                terms.dead_letters,
                cycles_of(work, key_rings),
                digest_key(key_rings),
                terms.backfill,
                chains_of(work, key_rings),
                writes_notices=terms.writes_notices,
            ),
            strips(work.config, work.policies, key_rings),
            PlannedLimits(ports).require,
        )
        return Slot(plan, ports, delivery).run()
    except ExitError as error:
        return SlotOutcome(plan.slot, SlotResult.FAILED, detail=str(error))
    finally:
        ports.close()


def cycles_of(work: EpochWork, key_rings: Mapping[str, KeyRing]) -> Cycles:
    """What tells the hub which records are its own."""
    return Cycles(work.config.hub, work.written, ReturningTopics(work.config.topics), seal_keys(key_rings))


def chains_of(work: EpochWork, key_rings: Mapping[str, KeyRing]) -> Chains:
    """The chains by which the hub recognises records that other hubs bring back."""
    config, clusters = work.config, work.clusters
    begins = chained_topics(ReturningTopics(config.topics), config.chain_key)
    return Chains(clusters.central, clusters.edges, chain_keys(key_rings, config.chain_key), begins)


def digest_key(key_rings: Mapping[str, KeyRing]) -> bytes | None:
    """Key of the dead letters' hash: a sub-key of the first key ring's current version, if there is one.

    Whoever writes to an edge chooses what is hashed; under the key itself the hash would be the token of any value.
    """
    for name in sorted(key_rings):
        return subkey(key_rings[name].material(name), Purpose.DEAD_LETTER)
    return None
