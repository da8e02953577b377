"""Compacted topics take no record without a key: what becomes of those that have none, or that would lose theirs."""

import pytest

from aggregator.errors import HoldError
from aggregator.replicate.epoch.plan import plan_flows
from aggregator.replicate.flow.limits import TopicLimits
from tests.unit.replicate.compaction import COMPACTED, _delivered
from tests.unit.replicate.plan_inputs import CONFIG, FLOW, SETTINGS, SNAPSHOTS


def test_a_record_that_came_without_a_key_is_a_dead_letter():
    """One such record would make the broker refuse its slot's whole transaction, again and again."""
    log, flow = _delivered(COMPACTED, [], [1, None, 2])
    entry = flow.cursor.entry
    assert (len(log.keys), log.reasons, (entry.delivered, entry.dead)) == (2, ["bad_key"], (2, 1))
    log, _ = _delivered(COMPACTED._replace(limits=TopicLimits()), [], [1, None, 2])
    assert (len(log.keys), log.reasons) == (3, [])


def test_a_key_of_which_its_tags_leave_nothing_holds_the_flow():
    """The policy keeps keys, and the schema's tags take them: nothing is produced, and the sentence says what to do."""
    with pytest.raises(HoldError, match=r"eu\.orders is compacted, and nothing is left of a record key") as refusal:
        _delivered(COMPACTED, ["PII"], [1])
    assert "pseudonymize" in refusal.value.hint
    log, _ = _delivered(COMPACTED._replace(limits=TopicLimits()), ["PII"], [1])
    assert log.keys == [None]


@pytest.mark.parametrize(("cleanup", "compacted"), [("compact", True), ("compact,delete", True), ("delete", False)])
def test_a_flow_knows_what_central_shows(cleanup, compacted):
    """Whatever the edge's topic is, and whoever made the central one."""
    settings = SETTINGS | {"eu.orders": {"cleanup.policy": cleanup}}
    flows = plan_flows(CONFIG, {}, SNAPSHOTS, settings, epoch=0, drain=False, now_ms=0)
    plans = {plan.source: plan for some in flows.by_slot.values() for plan in some}
    assert plans[FLOW].limits.requires_key is compacted
