"""A topic that an edge does not show for a moment: a backfill waits for it, once, and does not call it gone."""

import threading
import time
from datetime import timedelta

import pytest

from aggregator.backfill.backfill_state import Backfill, Signed
from aggregator.backfill.driver import BackfillDriver
from aggregator.replicate.discovery.edge_topic import DiscoveredTopics
from tests.unit.backfill.plan_inputs import PLAN, TOPIC
from tests.unit.replicate.plan_inputs import CONFIG

PATIENCE_S = 0.4


def driver(patience_s):
    """One that has looked at its edge and found nothing there; it needs no Spark for that."""
    replication = CONFIG.replication.model_copy(update={"drain_patience": timedelta(seconds=patience_s)})
    config = CONFIG.model_copy(update={"replication": replication})
    made = BackfillDriver(
        config, None, {}, Backfill(PLAN, Signed("ada", 1)), identity=f"{PLAN.id}@me", stop=threading.Event()
    )
    made._watches[0].shown = DiscoveredTopics({})
    return made


def took_s(made) -> float:
    """How long it waited."""
    began = time.monotonic()
    made._await_topics()
    return time.monotonic() - began


def test_a_topic_that_comes_back_is_waited_for_and_read():
    """The epoch is planned with it, and not without."""
    made = driver(30)
    back = threading.Timer(0.2, lambda: setattr(made._watches[0], "shown", DiscoveredTopics({"orders": TOPIC})))
    back.start()
    assert 0.1 < took_s(made) < 15
    assert made._shown() == {"eu": {"orders": TOPIC}}
    assert made._hidden() == frozenset()
    back.join()


@pytest.mark.slow
def test_one_that_stays_away_is_waited_for_once():
    """As long as for a silent edge; further epochs wait no more, until it was there again."""
    made = driver(PATIENCE_S)
    assert took_s(made) >= PATIENCE_S
    assert took_s(made) < PATIENCE_S
    made._watches[0].shown = DiscoveredTopics({"orders": TOPIC})
    assert took_s(made) < PATIENCE_S
    made._watches[0].shown = DiscoveredTopics({})
    assert took_s(made) >= PATIENCE_S


def test_an_edge_that_has_not_answered_hides_no_topic():
    """It is silent, which is told as such."""
    made = driver(PATIENCE_S)
    made._watches[0].shown = None
    assert took_s(made) < PATIENCE_S
