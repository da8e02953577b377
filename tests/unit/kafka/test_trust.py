"""What a token server's certificate is checked with, where the configuration does not say."""

from pathlib import Path

import pytest

from aggregator.config.model import ClusterConfig
from aggregator.kafka.client import trust
from aggregator.kafka.client.clients import Role, connection_options

OIDC = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.method": "oidc"}


@pytest.fixture
def bundle(tmp_path, monkeypatch) -> str:
    """A machine whose authorities lie in a place of its own."""
    path = tmp_path / "bundle.pem"
    path.touch()
    monkeypatch.setattr(trust, "_BUNDLES", (str(tmp_path / "elsewhere.pem"), str(path)))
    return str(path)


@pytest.mark.parametrize(
    ("more", "found"),
    [({}, True), ({"https.ca.location": "/own.pem"}, False), ({"https.ca.pem": "PEM"}, False)],
)
def test_a_token_server_is_checked_by_the_machine_s_authorities(bundle, more, found):
    """The wheel's own default is a file that Debian does not have; what the block names stays."""
    options = connection_options(ClusterConfig(bootstrap_servers="h:1", client=OIDC | more), Role.CONSUMER)
    assert (options.get("https.ca.location") == bundle) == found
    assert {name: options[name] for name in more} == more


def test_other_clients_are_left_alone(bundle):
    """Nobody else asks a token server."""
    assert Path(bundle).exists()
    for client in ({}, {"security.protocol": "SSL"}, {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}):
        assert "https.ca.location" not in connection_options(
            ClusterConfig(bootstrap_servers="h:1", client=client), Role.CONSUMER
        )
