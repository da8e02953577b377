"""Keys of a hub from start to start: new ones are recorded, others under a known name and version are refused."""

import base64

import pytest

from aggregator.config.secrets import key_ring
from aggregator.errors import ConfigError
from aggregator.kafka.readers.log_record import LogRecord
from aggregator.replicate.slot.key_checks import checked_rings, checks_of, new_checks, recorded_checks
from aggregator.state.control import ControlState, KeyCheck, encode, fold


@pytest.fixture
def put(tmp_path):
    """Writes key files; gives their references."""

    def written(name: str, number: int) -> str:
        (tmp_path / name).write_text(base64.b64encode(bytes(range(number, number + 32))).decode())
        return f"file:{tmp_path / name}"

    return written


def recorded(checks: list[KeyCheck]) -> ControlState:
    """What the control topic says after these."""
    return fold(ControlState(), [LogRecord(0, at, *encode(one)) for at, one in enumerate(checks)], "h.control")


def test_a_replaced_key_is_refused_and_a_new_version_is_not(put):
    """By name and version, whatever else is new; a version that is no longer configured stays on record."""
    keys = {"customer": key_ring(put("a", 1)), "other": key_ring(put("b", 2))}
    fresh = new_checks(keys, {})
    assert [(one.name, one.version) for one in fresh] == [("customer", 1), ("other", 1)]
    state = recorded(fresh)
    assert new_checks(keys, state.keys) == []
    rotated = {"customer": key_ring({"current": 2, "versions": {2: put("c", 3)}})}
    (new,) = new_checks(rotated, state.keys)
    assert (new.name, new.version) == ("customer", 2)
    assert checks_of(rotated, state.keys).keys() == {("customer", 1), ("other", 1), ("customer", 2)}
    put("a", 9)
    with pytest.raises(ConfigError, match="key customer version 1: another key") as refused:
        new_checks(keys, state.keys)
    assert refused.value.exit_code == 78
    with pytest.raises(ConfigError, match="key customer version 1"):
        checked_rings(keys, state.keys)["customer"].material("customer")
    assert checked_rings(keys, state.keys)["other"].material("other") == bytes(range(2, 34))


def test_who_records_nothing_uses_no_key_that_is_not_recorded(put):
    """A backfill under a new version would make tokens under a key that the hub may never get."""
    keys = {"customer": key_ring({"current": 2, "versions": {1: put("a", 1), 2: put("b", 2)}})}
    first = recorded(new_checks({"customer": key_ring(put("a", 1))}, {})).keys
    with pytest.raises(ConfigError, match="key customer version 2: this hub has not run with it yet") as refused:
        recorded_checks(keys, first, {"customer"})
    assert refused.value.exit_code == 78
    both = recorded(new_checks(keys, {})).keys
    assert recorded_checks(keys, both, {"customer"}) == both
    more = {**keys, "other": key_ring(put("c", 3))}
    assert recorded_checks(more, both, {"customer"}).keys() == {*both, ("other", 1)}
    put("b", 9)
    with pytest.raises(ConfigError, match="key customer version 2: another key"):
        recorded_checks(keys, both, ())
