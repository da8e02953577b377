"""The hot loops cost no more than is recorded; see `tests.bench.guard`, which records it."""

import json

import pytest

from aggregator.privacy.kernel.strip import KernelStrip
from tests.bench import guard
from tests.bench.guard import Guarded, calls, measured, worse

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def recorded():
    return json.loads(guard.RECORDED.read_text())


def test_slot_loop_and_strip_cost_no_more_than_recorded(recorded):
    """Counts and ratios only; what is beyond its tolerance is measured again, longer: other programs only ever add."""
    if worse(measured(), recorded):
        assert not worse(measured(rounds=25), recorded), "mend it, or run `python -m tests.bench.guard --record`"


def test_a_needless_call_per_record_is_found(recorded, monkeypatch):
    """The guard bites: one call more for each record in the loop is beyond the tolerance, on any machine."""
    strip = KernelStrip.strip

    def needless(self, batch):
        for value in batch.values:
            value.startswith(b"x")
        return strip(self, batch)

    monkeypatch.setattr(KernelStrip, "strip", needless)
    assert worse({"slot_calls": {"drop": calls(Guarded("drop").new_slot)}}, recorded)
