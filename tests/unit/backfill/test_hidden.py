"""A topic that an edge does not show for a moment: a backfill waits for it, once, and does not call it gone."""

import threading
import time
from datetime import timedelta

import pytest

from aggregator.backfill.driver import BackfillDriver
from aggregator.backfill.store import Backfill, Signed
from aggregator.replicate.discovery import EdgeShown
from tests.unit.backfill.test_epochs import PLAN, TOPIC
from tests.unit.replicate.test_planning import CONFIG

PATIENCE_S = 1.5


@pytest.fixture
def driver():
    """One that has looked at its edge and found nothing there; it needs no Spark for that."""
    replication = CONFIG.replication.model_copy(update={"drain_patience": timedelta(seconds=PATIENCE_S)})
    config = CONFIG.model_copy(update={"replication": replication})
    made = BackfillDriver(
        config, None, {}, Backfill(PLAN, Signed("ada", 1)), identity=f"{PLAN.id}@me", stop=threading.Event()
    )
    made._watches[0].shown = EdgeShown({})
    return made


def took_s(driver) -> float:
    """How long it waited."""
    began = time.monotonic()
    driver._await_topics()
    return time.monotonic() - began


def test_a_topic_that_comes_back_is_waited_for_and_read(driver):
    """The epoch is planned with it, and not without."""
    back = threading.Timer(0.4, lambda: setattr(driver._watches[0], "shown", EdgeShown({"orders": TOPIC})))
    back.start()
    assert 0.3 < took_s(driver) < PATIENCE_S
    assert driver._shown() == {"eu": {"orders": TOPIC}}
    assert driver._hidden() == frozenset()
    back.join()


def test_one_that_stays_away_is_waited_for_once(driver):
    """As long as for a silent edge; further epochs wait no more, until it was there again."""
    assert took_s(driver) >= PATIENCE_S
    assert took_s(driver) < 0.3
    driver._watches[0].shown = EdgeShown({"orders": TOPIC})
    assert took_s(driver) < 0.3
    driver._watches[0].shown = EdgeShown({})
    assert took_s(driver) >= PATIENCE_S


def test_an_edge_that_has_not_answered_hides_no_topic(driver):
    """It is silent, which is told as such."""
    driver._watches[0].shown = None
    assert took_s(driver) < 0.3
