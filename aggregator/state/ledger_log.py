"""This module reads every partition of the ledger to its end.

Invariant: this module only reads. `ledger.py` decides which record wins.
"""

from aggregator.config.model import ClusterConfig
from aggregator.coordinates import EdgePartition
from aggregator.kafka.cluster import topics
from aggregator.kafka.readers.log import read_to_end
from aggregator.kafka.readers.log_record import LogRecord
from aggregator.state.ledger import LedgerRecord, Positions, winners
from aggregator.state.names import HubNames


def read_ledger(
    cluster: ClusterConfig, names: HubNames, *, partitions: int = 0, backfill: str = ""
) -> dict[EdgePartition, LedgerRecord]:
    """Every flow's winning record, from *every* ledger partition read to its end; empty before the first run.

    Args:
        cluster: Central.
        names: The hub's names.
        partitions: How many are known to exist: stale metadata that shows fewer is an error, not an empty ledger.
        backfill: Whose flows, in the ledger of all backfills.

    Raises:
        FatalError: a damaged record, or an end that stays stuck.
        Unreachable: central does not answer.
    """
    return winners(ledger_log(cluster, names, partitions=partitions), names.ledger, backfill=backfill)


def ledger_log(cluster: ClusterConfig, names: HubNames, *, partitions: int = 0) -> list[LogRecord]:
    """Every record of every ledger partition, read to its end; arguments and errors as `read_ledger`."""
    count = max(partitions, topics.partition_count(cluster, names.ledger))
    return read_to_end(cluster, names.ledger, range(count)) if count else []


def read_positions(cluster: ClusterConfig, names: HubNames) -> Positions:
    """Where the hub's live flows and those of its backfills stand; errors as `read_ledger`."""
    late = names.backfills()
    backfills = ledger_log(cluster, late)  # first: a backfill passes only what the live flow has passed
    return Positions(read_ledger(cluster, names), backfills, late.ledger)
