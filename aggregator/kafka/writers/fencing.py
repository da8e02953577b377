"""Ends the transactions of transactional ids, whoever has them.

Invariant: once an id is fenced, its open transaction is aborted, and its former owner can commit nothing.
"""

from collections.abc import Collection

from aggregator.config.model import ClusterConfig
from aggregator.kafka.writers.writer import INIT_TIMEOUT_S, TransactionalWriter
from aggregator.threads import map_concurrently

_THREADS = 16


def fence(cluster: ClusterConfig, ids: Collection[str], *, timeout_s: float = INIT_TIMEOUT_S) -> None:
    """Take and give back transactional ids, in parallel.

    Args:
        cluster: Where the ids are.
        ids: The ids.
        timeout_s: Patience for each, in seconds.

    Raises:
        Fenced: a newer producer took one at the same moment.
        Unreachable: one got no answer within the bound.
    """

    def take(one: str) -> None:
        writer = TransactionalWriter(cluster, one)
        try:
            writer.open(timeout_s=timeout_s)
        finally:
            writer.close()

    map_concurrently(take, ids, most=_THREADS)
