"""Clients that are kept, and when they are given up."""

from aggregator.config.model import ClusterConfig
from aggregator.kafka.client.clients import admin, reading_options, renew_admin


def test_an_admin_client_is_kept_until_it_failed_and_is_not_young():
    """One for each cluster; what a young one fails at, another one would fail at too."""
    # The process keeps them: addresses that no other test has.
    here, there = ClusterConfig(bootstrap_servers="127.0.0.1:11"), ClusterConfig(bootstrap_servers="127.0.0.1:12")
    first, other = admin(here), admin(there)
    renew_admin(here)
    assert admin(here) is first
    renew_admin(here, older_than_s=0)
    assert admin(here) is not first
    assert admin(there) is other


def test_how_long_a_broker_waits_with_an_empty_answer_is_the_users_to_say():
    """And whoever reads for a moment waits for nobody."""
    plain = ClusterConfig(bootstrap_servers="127.0.0.1:1")
    told = ClusterConfig(bootstrap_servers="127.0.0.1:1", consumer={"fetch.wait.max.ms": "500"})
    shown = [reading_options(one, 1 << 20, {})["fetch.wait.max.ms"] for one in (plain, told)]
    assert shown == [50, "500"]
    assert reading_options(told, 1 << 20, {"fetch.wait.max.ms": 1})["fetch.wait.max.ms"] == 1
