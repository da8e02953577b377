"""Fail closed: whatever is wrong, no plain value passes, the record is accounted for, and work goes on.

Every cell of the matrix goes through strip and delivery, and so does what is wrong around the records.
"""

import logging

import pytest

from aggregator.errors import ConfigError, HoldError, Reason, RetryError, Unreachable
from aggregator.privacy.kernel.strip import KernelStrip
from tests.canary import recognised
from tests.reference.reference import ReferenceStrip
from tests.unit.privacy.cells import CELLS, FIELDS, KEYS, RAW, TEXT, encoded, good, record
from tests.unit.privacy.delivered import FIRST, SOURCE, deliver
from tests.unit.privacy.exposure import TRACES, topic
from tests.unit.privacy.kernel.drawing import MemoryRegistry
from tests.unit.privacy.scenarios import TOKEN

pytestmark = pytest.mark.usefixtures("foreign")

IMPLEMENTATIONS = pytest.mark.parametrize("made", [KernelStrip, ReferenceStrip])


def _strip(registry, policy, made, **more):
    return topic(f"policy: p\nversion: 1\ntopics: {{orders: {{{policy}}}}}\n", registry, made=made, **more)


@IMPLEMENTATIONS
@pytest.mark.parametrize("cell", CELLS, ids=str)
@pytest.mark.slow
def test_a_record_that_is_wrong(cell, made, caplog, capfd):
    """Never plain, always counted, told with its coordinates; what stands beside it arrives, before and after."""
    caplog.set_level(logging.DEBUG)
    registry = MemoryRegistry()
    content, beside = cell.content(registry), good(registry)
    strip = _strip(registry, cell.policy, made)
    fails_always = cell.reason is Reason.OPERATOR_FAILED
    values = [None if fails_always else beside] * 3
    keys, headers = [None] * 3, [None, list(cell.headers) or None, None]
    (values if cell.place == "value" else keys)[1] = content
    for _ in range(2):
        done = deliver(strip, values, keys, headers)
        assert recognised(done.raw(), TRACES) == []
        dead = 0 if cell.reason is None else 1
        assert done.counts == (3 - dead, dead, 0)
        assert len(done.central) == 3 - dead
        assert done.flow.position.next_offset == FIRST + 3
        told = [(one["edge"], one["topic"], one["partition"], one["offset"], one["reason"]) for one in done.letters]
        assert told == [(*SOURCE, FIRST + 1, cell.reason)] * dead
    said = caplog.text + "".join(capfd.readouterr())
    assert recognised(said.encode(), TRACES) == []


class Registry(MemoryRegistry):
    """A registry that can be away."""

    away = False

    def schema(self, schema_id, **_):
        if self.away:
            raise Unreachable("the registry does not answer")
        return super().schema(schema_id)


@IMPLEMENTATIONS
@pytest.mark.parametrize("place", ["value", "key"])
def test_a_registry_that_is_down(place, made):
    """Nothing of the batch is decided or produced; what is known flows on; later the same records arrive."""
    registry = Registry()
    known, unknown = good(registry), encoded(registry, record(token="string"), TEXT)
    strip = _strip(registry, f"{FIELDS}, {KEYS}", made)
    assert deliver(strip, [known], [known]).counts == (1, 0, 0)
    registry.away = True
    assert deliver(strip, [known], [known]).counts == (1, 0, 0)
    contents = {"value": ([known, unknown], None), "key": ([known, known], [known, unknown])}[place]
    with pytest.raises(RetryError) as refusal:
        deliver(strip, *contents)
    assert recognised(repr(refusal.value).encode(), TRACES) == []
    registry.away = False
    done = deliver(strip, *contents)
    assert done.counts == (2, 0, 0)
    assert recognised(done.raw(), TRACES) == []


class Judge(MemoryRegistry):
    """A central registry that refuses a second schema of a subject, as an incompatible one."""

    def register_compatible(self, subject, text):
        if self.texts and text not in self.texts:
            raise HoldError(f"{subject}: readers of the newest version could not read this")
        return self.register(subject, text)


@IMPLEMENTATIONS
def test_a_type_change_that_central_refuses(made):
    """The flow is held before any record of it is produced."""
    registry = MemoryRegistry()
    strip = _strip(registry, FIELDS, made, central=Judge())
    assert deliver(strip, [good(registry)]).counts == (1, 0, 0)
    changed = encoded(registry, record(kept="int", token="string"), b"\2" + TEXT)
    with pytest.raises(HoldError) as refusal:
        deliver(strip, [good(registry), changed])
    assert recognised(repr(refusal.value).encode(), TRACES) == []


@IMPLEMENTATIONS
@pytest.mark.parametrize("policy", [f"fields: {{token: {TOKEN}}}", f"{FIELDS}, key: {TOKEN}"], ids=["value", "key"])
def test_a_key_that_is_missing(policy, made):
    """Nothing is produced, and the key is named."""
    registry = MemoryRegistry()
    with pytest.raises(ConfigError, match="key nobody is not configured") as refusal:
        deliver(_strip(registry, policy.replace("key: customer", "key: nobody"), made), [good(registry)], [RAW])
    assert recognised(repr(refusal.value).encode(), TRACES) == []
