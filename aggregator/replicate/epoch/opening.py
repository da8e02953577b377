"""Opening an epoch (protocol, rule B) publishes it, reads it back, fences old slots, and reads all flows' positions.

Invariant: the order of these steps. If the driver fenced before it published, an old slot could start again unnoticed.
If it read the ledger before it fenced, it would miss what an old slot commits in between. If it fenced fewer ids than
were ever used, a zombie would stay alive. If a slot wrote to a partition with an undecided transaction of some id, the
next transaction of that id would decide it. Everything that is undecided is therefore ended before the ledger is
judged, and the ledger is judged before the records. If an epoch's number were not above every number in the ledger, its
records would lose to older ones, and each later epoch would deliver them once more. A control topic that was deleted
knows neither the number nor the ids. The ledger knows both: partition k is that of slot k, and none is ever taken away.
"""

import logging
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from operator import attrgetter
from typing import NamedTuple, Protocol

from aggregator.coordinates import EdgePartition, Partition
from aggregator.errors import FatalError, Fenced, Unreachable
from aggregator.replicate.leadership.ledger_settlement import HINT, LedgerCentral, settle_ledger
from aggregator.replicate.leadership.settlement import TransactionOwner, abort_open_transactions, rewrite_missing
from aggregator.state.control import LAST_EPOCH, MAX_SLOTS, ControlState, Epoch, Target, former_topics
from aggregator.state.ledger import LedgerRecord

log = logging.getLogger(__name__)
# No hub opens so many epochs between two records of its ledger: at one a second that takes a century.
_MAX_LEAP = 2**32
_WHO = "nothing but the hub may write its topics: find out who did"


class Opened(NamedTuple):
    """Describes an epoch that is open.

    Attributes:
        epoch: The epoch as it was published.
        ledger: The winning ledger record of every flow: nothing older can commit any more.
        held: Central's partitions that must not be written, with the reason.
    """

    epoch: Epoch
    ledger: Mapping[EdgePartition, LedgerRecord]
    held: Mapping[Partition, str]


class DriverCentral(LedgerCentral, Protocol):
    """The interface to central that a driver needs to open an epoch."""

    def read_control(self) -> ControlState:
        """Read the control topic to its end."""

    def fence(self, slots: Iterable[int]) -> None:
        """Take and release the transactional ids of these slots, in parallel."""

    def read_ledger(self) -> Mapping[EdgePartition, LedgerRecord]:
        """Read every ledger partition to its end, and return the winning records."""


def open_epoch(
    central: DriverCentral,
    *,
    slots: int,
    driver: str,
    partitions: Collection[Partition],
    owner: TransactionOwner,
    targets: Collection[Target] = (),
    asked: Collection[Partition] | None = None,
    above: int = -1,
) -> Opened:
    """Open the next epoch, and read where every flow stands.

    Args:
        central: The central cluster, with the control topic and the ledger.
        slots: Number of slots of the new epoch.
        driver: This driver's identity.
        partitions: Central's partitions that slots write, or wrote under former rules.
        owner: Owner of the slots' records, which tells them from others.
        targets: Central topics that the slots are about to write, for a later driver whose rules no longer say so.
        asked: Those of the places that are checked if the ledger is decided; None: all.
        above: The newest epoch that this driver knows. It gives no number twice, whatever the control topic says.

    Raises:
        FatalError: somebody wrote an epoch that none can follow, or the ledger has too many partitions.
        Fenced: another driver's epoch was published in between.
        RetryError: central did not answer in between, or what is undecided hides where the flows stand.
    """
    opening = partial(
        _opened, central, slots=slots, driver=driver, partitions=partitions, owner=owner, targets=targets, asked=asked
    )
    opened = opening(above=above)
    while (newest := _newest(opened.ledger)) >= opened.epoch.epoch:
        if central.read_control().epoch != opened.epoch:
            raise Fenced(f"epoch {opened.epoch.epoch} was overtaken by another driver while it was opened")
        log.warning(
            "the ledger has records of epoch %d, and the control topic had forgotten it and what else it knew: ids of"
            " clusters, check values of keys, former targets, undecided ranges; who deleted it, or wrote to it?",
            newest,
        )
        opened = opening(above=newest)
    return opened


def _newest(ledger: Mapping[EdgePartition, LedgerRecord]) -> int:
    return max((entry.epoch for entry in ledger.values()), default=-1)


def _opened(
    central: DriverCentral,
    *,
    slots: int,
    driver: str,
    partitions: Collection[Partition],
    owner: TransactionOwner,
    targets: Collection[Target],
    asked: Collection[Partition] | None,
    above: int,
) -> Opened:
    """One epoch of a number above the given one and all that control knows, as in `open_epoch`."""
    before, ledger_partitions = central.read_control(), central.partitions([owner.ledger])
    used = before.epoch.ids if before.epoch else 0
    if before.epoch_number > _MAX_LEAP:
        _require_near(before.epoch_number, central.read_ledger(), owner)
    epoch = Epoch(max(before.epoch_number, above) + 1, slots, max(used, slots, len(ledger_partitions)), driver)
    _require_possible(epoch, owner)
    central.publish(epoch, *sorted(set(targets) - before.targets, key=attrgetter("edge", "topic", "central", "by_key")))
    state = central.read_control()
    if state.epoch != epoch:
        raise Fenced(f"epoch {epoch.epoch} was overtaken by another driver while it was opened")
    central.fence(range(epoch.ids))
    internal = set(owner.internal(epoch))
    if asked is None or not internal.isdisjoint(state.undecided) or _is_open(central, internal):
        asked = partitions
    former = {topic for topics in former_topics(targets, state.targets).values() for topic in topics}
    unguarded = set(asked).intersection(central.partitions(former)) if former else set()
    found = abort_open_transactions(
        central, epoch, {*internal, *asked}, notes=state.undecided, owner=owner, unguarded=unguarded
    )
    settle_ledger(central, found, epoch, owner)
    ledger = central.read_ledger()
    notes = {at: noted for at, noted in found.noted.items() if at not in internal}
    held = rewrite_missing(central, found, notes, ledger=ledger, owner=owner)
    if found.noted:
        _read_back(central, {*found.noted} - {*found.left, *held})
    others = {at: reason for at, reason in found.left.items() if at not in internal}
    return Opened(epoch, ledger, {**others, **held})


def _require_near(number: int, ledger: Mapping[EdgePartition, LedgerRecord], owner: TransactionOwner) -> None:
    """Refuse a number of the control topic that no hub has come to since the ledger's newest record.

    It would reach the ledger with the first record of the epoch that follows it, and could not be taken back there.

    Raises:
        FatalError: somebody else wrote it.
    """
    newest = _newest(ledger)
    if number > newest + _MAX_LEAP:
        raise FatalError(
            f"the control topic beside {owner.ledger} names epoch {number}, and the ledger's newest is {newest}",
            hint=f"{_WHO}; write the record `epoch` once more with number {max(newest, 0)}; then start the hub again",
        )


def _require_possible(epoch: Epoch, owner: TransactionOwner) -> None:
    """Refuse what no hub comes to by itself, before it is published: nobody could read it.

    Raises:
        FatalError: the number or the ids are too high.
    """
    if epoch.epoch > LAST_EPOCH:
        raise FatalError(
            f"{owner.ledger} names epoch {epoch.epoch - 1}, and none can follow it",
            hint=f"{_WHO}; set its cleanup.policy to compact,delete; delete the records of that partition up to the"
            " forged one; write the newest record of each of its flows once more, of the forged record's flow the one"
            " before; set cleanup.policy to compact; then start the hub again",
        )
    if epoch.ids > MAX_SLOTS:
        raise FatalError(
            f"{owner.ledger} has {epoch.ids} partitions, and a hub has {MAX_SLOTS} slots at most",
            hint=f"{_WHO}; make it anew with one partition for each slot that the hub has ever had, and copy every"
            " record into the partition of its number: with an empty ledger everything would be delivered once more",
        )


def _read_back(central: DriverCentral, settled: Collection[Partition]) -> None:
    """Wait until the notes are visibly removed; a note that came back later would be judged by a newer ledger.

    Raises:
        Unreachable: one is there still.
    """
    if back := sorted(central.read_control().undecided.keys() & settled):
        names = ", ".join(f"{topic}-{partition}" for topic, partition in back)
        raise Unreachable(f"{names} at central: the note of what was undecided is there still", hint=HINT)


def _is_open(central: DriverCentral, partitions: Collection[Partition]) -> bool:
    """Whether something is undecided there, or may be."""
    found = central.read_undecided(sorted(partitions))
    return any(at not in found or len(found[at]) for at in partitions)
