"""Keys that have sealed too much: counted with the records, warned of, refused before the bound of NIST SP 800-38D."""

import pytest
from msgspec import structs

from aggregator.config.secrets import key_ring
from aggregator.coordinates import EdgePartition
from aggregator.errors import ConfigError
from aggregator.kafka.readers.log_record import LogRecord
from aggregator.replicate.epoch.key_usage import REFUSE_AT, WARN_AT, usage_warnings
from aggregator.replicate.flow.cursor import Cursor
from aggregator.state.ledger import LedgerRecord, decode

BOUND = 2**32
KEYS = {"customer": key_ring({"current": 2, "versions": {1: "env:A", 2: "env:B"}}), "other": key_ring("env:C")}


def record(**sealed) -> LedgerRecord:
    """One flow's."""
    counts = tuple(sorted((name.replace("_", "/"), count) for name, count in sealed.items()))
    return LedgerRecord(0, "t", 5, 1, 0, sealed=counts)


def test_a_key_is_warned_of_and_then_refused():
    """All flows together, the current version alone; well before the bound."""
    assert 2 * REFUSE_AT <= BOUND
    assert list(usage_warnings(KEYS, [record(customer_2=WARN_AT - 1), record(customer_1=BOUND)])) == []
    (warning,) = usage_warnings(KEYS, [record(customer_2=WARN_AT // 2), record(customer_2=WARN_AT // 2)])
    assert "key customer version 2 has sealed 1,073,741,824 values" in warning
    assert "current: 3" in warning
    with pytest.raises(ConfigError, match="as much as one AES-GCM key may") as refused:
        list(usage_warnings(KEYS, [record(customer_2=REFUSE_AT - 1), record(customer_2=1)]))
    assert refused.value.exit_code == 78
    rotated = {"customer": key_ring({"current": 3, "versions": {2: "env:B", 3: "env:D"}})}
    assert list(usage_warnings(rotated, [record(customer_2=BOUND)])) == []


def test_the_ledger_keeps_the_count():
    """Added up chunk by chunk, written and read again; records of before have none."""
    cursor = Cursor(EdgePartition("eu", "orders", 0), record())
    cursor = cursor.with_sealed({"customer/2": 5}).with_sealed({}).with_sealed({"customer/2": 2, "other/1": 1})
    body = cursor.entry.encode()
    read = decode(LogRecord(0, 0, b"eu/orders/0", body), "h.ledger")
    assert read.sealed == (("customer/2", 7), ("other/1", 1))
    assert b"sealed" not in structs.replace(read, sealed=()).encode()
