"""This module condenses librdkafka's statistics to a few numbers for operators, and detects a lost client.

Invariant: no cost per record. The library delivers its statistics every ten seconds, within a poll; for an edge with a
`rate_limit` it does so every 250 ms. A text that is not a statistic is ignored.
"""

import json
from collections.abc import Mapping
from typing import Any

EVERY_MS = 10_000
# The interval for a client whose rate is bounded by these statistics.
OFTEN_MS = 250
# A client counts as lost after two such reports, because it may know no brokers for a moment as they change.
_LOST_AFTER = 2


class ClientStatistics:
    """Keeps the newest numbers of a client and of its successors; `options` go into the configuration of each.

    Args:
        every_ms: Interval of the client's reports, in milliseconds.

    Attributes:
        numbers: Those that operators watch.
        received_bytes: Bytes received from the brokers by all clients so far.
    """

    def __init__(self, every_ms: int = EVERY_MS) -> None:
        self._every_ms = every_ms
        self.numbers: Mapping[str, float] = {}
        self.received_bytes = 0
        self._client = "", 0  # the client of the newest number, and the number
        self._brokerless = 0  # reports in a row without brokers

    @property
    def options(self) -> dict[str, Any]:
        """Properties that make the client tell."""
        return {"statistics.interval.ms": self._every_ms, "stats_cb": self.take}

    def take(self, text: str) -> None:
        """Take one JSON text of librdkafka's."""
        try:
            statistics = json.loads(text)
            self.numbers = condensed(statistics)
            known = any(one["source"] != "logical" for one in statistics["brokers"].values())
            self._receive(str(statistics.get("name")), int(statistics["rx_bytes"]))
        except (ValueError, LookupError, TypeError, AttributeError):
            return  # from another version of the library; a callback must not raise an error
        self._brokerless = 0 if known else self._brokerless + 1

    def _receive(self, client: str, received: int) -> None:
        name, before = self._client
        self.received_bytes += received - before if client == name else received
        self._client = client, received

    def take_lost(self) -> bool:
        """Whether the client will never connect again and has to be replaced; said once for each such client.

        A client that hears of no brokers while it has several, as from a cluster whose controller has just started,
        forgets them all, the configured ones too, and then has nobody left to ask (librdkafka issue 5301, since 2.13).
        """
        if self._brokerless < _LOST_AFTER:
            return False
        self._brokerless = 0
        return True


def condensed(statistics: Mapping[str, Any]) -> dict[str, float]:
    """The numbers that operators watch, over all brokers of one client.

    Args:
        statistics: librdkafka's statistics (STATISTICS.md); its latencies are in microseconds, its throttles in ms.

    Returns:
        Seconds, counts and bytes by name; the worst broker's where several have one.
    """
    # A coordinator or a bootstrap address is listed once more beside the broker that it belongs to.
    brokers = [one for one in statistics["brokers"].values() if one["nodeid"] >= 0 and one["source"] != "logical"]
    partitions = [one for topic in statistics["topics"].values() for one in topic["partitions"].values()]
    return {
        "brokers_up": float(sum(one["state"] == "UP" for one in brokers)),
        "request_p99_s": max((one["rtt"]["p99"] for one in brokers), default=0) / 1e6,
        "throttle_max_s": max((one["throttle"]["max"] for one in brokers), default=0) / 1e3,
        "queue_p99_s": max((one["int_latency"]["p99"] for one in brokers), default=0) / 1e6,
        "queued_messages": float(statistics["msg_cnt"] + sum(one["fetchq_cnt"] for one in partitions)),
        "queued_bytes": float(statistics["msg_size"] + sum(one["fetchq_size"] for one in partitions)),
        "received_bytes": float(statistics["rx_bytes"]),
        "sent_bytes": float(statistics["tx_bytes"]),
        "failed_requests": float(sum(one["txerrs"] + one["rxerrs"] + one["req_timeouts"] for one in brokers)),
    }
