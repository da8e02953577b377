"""Settles what backfills left undecided at central. It settles for all backfills together, because they share their
ids.

Invariant: as in `replicate.leadership.settlement`. Every plan that was ever written says where its backfill wrote, and
no other backfill runs meanwhile. A finished or cancelled backfill is settled like any other.
"""

import threading
from collections import defaultdict
from collections.abc import Collection, Mapping

from aggregator.backfill.store import read_plans
from aggregator.config.model import HubConfig
from aggregator.coordinates import EdgePartition, Partition
from aggregator.kafka.cluster import topics
from aggregator.replicate.epoch.opening import open_epoch
from aggregator.replicate.leadership.kafka_central import KafkaDriverCentral
from aggregator.replicate.leadership.leadership import await_lease, hold_leadership
from aggregator.replicate.leadership.lease_renewal import LeaseRenewal
from aggregator.replicate.leadership.settlement import TransactionOwner, await_decided
from aggregator.state.names import HubNames
from aggregator.threads import Threads

# An id that no plan has.
_NOBODY = "nobody"


def backfills_central(config: HubConfig, backfill: str = _NOBODY) -> KafkaDriverCentral:
    """Central for the driver of a backfill, or for the settlement of what all backfills left.

    Args:
        config: The hub.
        backfill: Id of the backfill whose driver asks.

    Raises:
        FatalError: a plan is damaged.
        Unreachable: central does not answer.
    """
    names = HubNames(config.hub)
    written: dict[tuple[EdgePartition, str], set[str]] = defaultdict(set)
    for id_, plan in read_plans(config.central, names).items():
        for one in plan.writes:
            written[one.source, id_].add(one.central)

    def of(source: EdgePartition, id_: str) -> Collection[str]:
        return written.get((source, id_), ())

    return KafkaDriverCentral(config, names.backfills(), backfill=backfill, written=of)


def partitions_of_backfills(config: HubConfig, central: KafkaDriverCentral) -> list[Partition]:
    """Partitions of central that a backfill has ever been told to write, of those that exist.

    Raises:
        FatalError: a plan is damaged.
        Unreachable: central does not answer.
    """
    names = HubNames(config.hub)
    plans = read_plans(config.central, names).values()
    return central.partitions(
        {one.central for plan in plans for one in plan.writes} | {*TransactionOwner.of_backfills(names).letters}
    )


def is_stuck(config: HubConfig) -> bool:
    """Whether something stays undecided where backfills say how far they are: nothing can be planned then.

    Raises:
        Unreachable: central does not answer.
    """
    owner = TransactionOwner.of_backfills(HubNames(config.hub))
    central = backfills_central(config)
    try:
        found = central.read_undecided(central.partitions({owner.ledger, owner.requests, *owner.letters}))
        return bool(await_decided(central, {at: offsets for at, offsets in found.items() if len(offsets)}))
    finally:
        central.close()


def settle_backfills(config: HubConfig, *, identity: str, stop: threading.Event) -> Mapping[Partition, str]:
    """Settle what backfills left undecided, while none of them runs.

    Args:
        config: The hub.
        identity: Unique name of this process.
        stop: Set from outside to end early.

    Returns:
        Partitions in which something is undecided still, with the reason.

    Raises:
        AnotherHub: a backfill runs; it settles what it finds.
        FatalError: the id was lost for no visible reason.
        Unreachable: central does not answer.
    """
    names = HubNames(config.hub)
    own, there = names.backfills(), topics.topic_names(config.central)
    if not {own.control, own.ledger, own.requests} <= there.keys():
        return {}  # no backfill has ever begun
    central = backfills_central(config)
    try:
        hint = "it settles what it finds; say this again when it has ended"
        await_lease(central, "a backfill of this hub", standby=False, stop=stop, hint=hint)
        newest, renewal = central.read_control().epoch_number, LeaseRenewal(central, identity)
        with hold_leadership(central, renewal, (), Threads(stop), identity=identity, epoch_number=lambda: newest):
            partitions = partitions_of_backfills(config, central)
            opened = open_epoch(
                central, slots=1, driver=identity, partitions=partitions, owner=TransactionOwner.of_backfills(names)
            )
        return opened.held
    finally:
        central.close()
