"""A standby while central is away: it waits on, and watches the lease from the beginning."""

import threading

import pytest

from aggregator.replicate.leadership import leadership
from aggregator.state.control import Lease
from tests.trial import wait_for

pytestmark = pytest.mark.brokers


def test_a_standby_waits_on_while_central_is_away(clusters, epochs, caplog):
    """Longer without a broker than any question waits: it says so once, asks again, and goes on to watch."""
    caplog.set_level("INFO")
    ended: list[BaseException | str] = []

    def wait() -> None:
        try:
            leadership.await_lease(epochs.central, "another hub", standby=True, stop=threading.Event(), hint="")
            ended.append("its turn came")
        except BaseException as error:
            ended.append(error)
            raise

    standby = threading.Thread(target=wait)
    epochs.central.publish(Lease("first", 1))
    standby.start()
    epochs.central.publish(Lease("first", 2))
    clusters.central.freeze()
    try:
        said = "central does not answer"
        wait_for(lambda: said in caplog.text or ended, timeout=90, what="its word")
        standby.join(10)
        assert standby.is_alive(), (ended, caplog.text)
    finally:
        clusters.central.thaw()
    assert caplog.text.count("central does not answer") == 1
    standby.join(3)
    assert standby.is_alive(), "nobody could move the lease: it is watched from the beginning"
    epochs.central.publish(Lease("first", 3, released=True))
    standby.join(60)
    assert not standby.is_alive()
