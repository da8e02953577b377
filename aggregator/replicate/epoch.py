"""Opening an epoch (protocol, rule B): publish, read back, fence, and only then read where every flow stands.

Invariant: the order. Fencing before publishing lets an old slot start again unseen; reading the ledger before fencing
misses what an old slot commits in between; fencing fewer ids than were ever used leaves a zombie alive; writing to a
partition in which something of an id is undecided lets the next transaction of that id decide it.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple, Protocol

from aggregator.coordinates import EdgePartition, Partition
from aggregator.errors import Fenced
from aggregator.replicate.ledger_settlement import LedgerCentral, settle_ledger
from aggregator.replicate.settlement import Whose, settle
from aggregator.state.control import ControlState, Epoch, Undecided
from aggregator.state.ledger import LedgerRecord


class Opened(NamedTuple):
    """An epoch that is open.

    Attributes:
        epoch: The epoch.
        ledger: The winning ledger record of every flow: nothing older can commit any more.
        held: Central's partitions that must not be written, with the reason.
    """

    epoch: Epoch
    ledger: Mapping[EdgePartition, LedgerRecord]
    held: Mapping[Partition, str]


class DriverCentral(LedgerCentral, Protocol):
    """Central, as the driver sees it."""

    def control(self) -> ControlState:
        """The control topic, read to its end."""

    def publish(self, entry: Epoch | Undecided) -> None:
        """Commit a control record with the driver's producer."""

    def fence(self, slots: Iterable[int]) -> None:
        """Take and give back the transactional ids of these slots, in parallel."""

    def ledger(self) -> Mapping[EdgePartition, LedgerRecord]:
        """Every ledger partition, read to its end, winners only."""


def open_epoch(
    central: DriverCentral, *, slots: int, driver: str, places: Collection[Partition], whose: Whose
) -> Opened:
    """Open the next epoch.

    Args:
        central: Where control and ledger live.
        slots: Number of slots of the new epoch.
        driver: This driver's identity.
        places: Central's partitions that the slots are about to write.
        whose: Whose records are the slots' own.

    Raises:
        Fenced: another driver's epoch was published in between.
    """
    before = central.control()
    used = before.epoch.ids if before.epoch else 0
    epoch = Epoch(before.newest + 1, slots, max(used, slots), driver)
    central.publish(epoch)
    state = central.control()
    if state.epoch != epoch:
        raise Fenced(f"epoch {epoch.epoch} was overtaken by another driver while it was opened")
    central.fence(range(epoch.ids))
    internal = {at: noted for at, noted in state.undecided.items() if at[0] in {whose.ledger, whose.requests}}
    if whose.ledger:
        settle_ledger(central, epoch, internal, whose)
    ledger = central.ledger()
    notes = {at: noted for at, noted in state.undecided.items() if at not in internal}
    return Opened(epoch, ledger, settle(central, epoch, places, notes=notes, ledger=ledger, whose=whose))
