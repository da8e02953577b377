"""Opening an epoch (protocol, rule B): publish, read back, fence, and only then read where every flow stands.

Invariant: the order. Fencing before publishing lets an old slot start again unseen; reading the ledger before fencing
misses what an old slot commits in between; fencing fewer ids than were ever used leaves a zombie alive.
"""

from collections.abc import Iterable, Mapping
from typing import Protocol

from aggregator.coordinates import EdgePartition
from aggregator.errors import Fenced
from aggregator.kafka.control import ControlState, Epoch
from aggregator.kafka.ledger import LedgerRecord


class DriverCentral(Protocol):
    """Central, as the driver sees it."""

    def control(self) -> ControlState:
        """The control topic, read to its end."""

    def publish(self, entry: Epoch) -> None:
        """Commit a control record with the driver's producer."""

    def fence(self, slots: Iterable[int]) -> None:
        """Take and give back the transactional ids of these slots, in parallel."""

    def ledger(self) -> Mapping[EdgePartition, LedgerRecord]:
        """Every ledger partition, read to its end, winners only."""


def open_epoch(
    central: DriverCentral, *, slots: int, driver: str
) -> tuple[Epoch, Mapping[EdgePartition, LedgerRecord]]:
    """Open the next epoch.

    Args:
        central: Where control and ledger live.
        slots: Number of slots of the new epoch.
        driver: This driver's identity.

    Returns:
        The epoch, and the winning ledger record of every flow: nothing older can commit any more.

    Raises:
        Fenced: another driver's epoch was published in between.
    """
    before = central.control()
    used = before.epoch.ids if before.epoch else 0
    epoch = Epoch(before.newest + 1, slots, max(used, slots), driver)
    central.publish(epoch)
    if central.control().epoch != epoch:
        raise Fenced(f"epoch {epoch.epoch} was overtaken by another driver while it was opened")
    central.fence(range(epoch.ids))
    return epoch, central.ledger()
