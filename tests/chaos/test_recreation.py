"""A topic deleted and created again at once, again and again, under traffic, on one broker and on three."""

import pytest

from tests.chaos.recreations import recreated

pytestmark = [pytest.mark.brokers, pytest.mark.timeout(1800)]


def test_a_topic_created_again_at_once_is_read_once(new_trial):
    """Fault 14, faster than any look at the edge (I1, I2, I4): nothing of a life is taken for another one's."""
    recreated(new_trial())


def test_a_topic_created_again_at_once_on_three_brokers(replicated_trial):
    """The same where leaders and whoever answers are several."""
    recreated(replicated_trial)
