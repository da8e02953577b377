"""Tokens for Amazon MSK: signed by AWS's own package, asked for by every client, renewed before they end."""

import base64
import logging
import sys
import threading
import time
from urllib.parse import parse_qs, urlsplit

import pytest
from aws_msk_iam_sasl_signer import MSKAuthTokenProvider

from aggregator.config.model import ClusterConfig
from aggregator.errors import ConfigError
from aggregator.kafka.client import clients, msk_iam

CLIENT = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
SECRET = "a-secret-key-that-is-nowhere-else"


def cluster(**iam: str) -> ClusterConfig:
    given = {"bootstrap_servers": "127.0.0.1:1", "client": CLIENT, "msk_iam": {"region": "eu-central-1"} | iam}
    return ClusterConfig.model_validate(given)


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """A machine whose AWS credentials lie in its environment."""
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_CONFIG_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)


@pytest.fixture
def signed(monkeypatch):
    """AWS's package, which signs nothing here and notes what it was asked for: (way, arguments)."""
    asked, until_s = [], [1.0]

    def note(way):
        def sign(*arguments):
            asked.append((way, *arguments))
            return "token", int((time.time() + until_s[0]) * 1000)

        return sign

    for way in ("generate_auth_token", "generate_auth_token_from_role_arn", "generate_auth_token_from_profile"):
        monkeypatch.setattr(MSKAuthTokenProvider, way, note(way))
    return asked


@pytest.mark.usefixtures("machine")
def test_a_token_is_an_address_that_aws_signed():
    """For the cluster's region, with the machine's credentials, for a quarter of an hour; the secret is not in it."""
    sign = clients.connection_options(cluster(), clients.Role.CONSUMER)["oauth_cb"]
    token, until_s = sign("")
    address = urlsplit(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode())
    asked = parse_qs(address.query)
    assert address.hostname == "kafka.eu-central-1.amazonaws.com"
    assert asked["Action"] == ["kafka-cluster:Connect"]
    assert asked["X-Amz-Credential"][0].startswith("AKIAEXAMPLE/")
    assert 800 < until_s - time.time() <= 901
    assert SECRET not in address.query


@pytest.mark.parametrize(
    ("iam", "expected"),
    [
        ({}, ("generate_auth_token", "eu-central-1")),
        ({"profile": "hub"}, ("generate_auth_token_from_profile", "eu-central-1", "hub")),
        (
            {"role_arn": "arn:aws:iam::1:role/hub"},
            ("generate_auth_token_from_role_arn", "eu-central-1", "arn:aws:iam::1:role/hub"),
        ),
    ],
)
def test_credentials_are_the_machine_s_a_profile_s_or_a_role_s(signed, iam, expected):
    """As the configuration says."""
    clients.connection_options(cluster(**iam), clients.Role.ADMIN)["oauth_cb"]("")
    assert signed == [expected]


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [
        clients.admin,
        clients.consumer,
        clients.plain_producer,
        clients.topic_ids,
        lambda one: clients.bulk_consumer(one, buffer_bytes=1_000_000),
        lambda one: clients.transactional_producer(one, "id", batch_bytes=1_000_000),
    ],
    ids=["admin", "consumer", "producer", "topic ids", "native consumer", "native producer"],
)
def test_every_client_asks_for_a_token_and_for_the_next_one(signed, make):
    """Without a call of ours: nobody polls it, and no broker answers."""
    client = make(cluster())
    deadline = time.monotonic() + 30
    while len(signed) < 3 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(signed) >= 3
    assert set(signed) == {("generate_auth_token", "eu-central-1")}
    if hasattr(client, "close"):
        client.close()
    clients._admins().clear()


def test_a_token_that_cannot_be_signed_is_said_and_asked_for_again(monkeypatch, caplog):
    """The client lives on; the line has the region and no text of AWS's, which may hold anything."""
    asked = threading.Event()

    def refuse(_region):
        asked.set()
        raise ValueError(SECRET)

    monkeypatch.setattr(MSKAuthTokenProvider, "generate_auth_token", refuse)
    with caplog.at_level(logging.WARNING):
        client = clients.topic_ids(cluster())
        assert asked.wait(20)
        client.ask(1, ["orders"], -1, 0.1)
        time.sleep(0.2)
        client.close()
    assert "AWS signs no token for region eu-central-1: ValueError" in caplog.text
    assert SECRET not in caplog.text


def test_without_aws_s_package_its_name_is_told(monkeypatch):
    """It is an extra of ours."""
    monkeypatch.setitem(sys.modules, msk_iam.PACKAGE, None)
    with pytest.raises(ConfigError, match="not installed") as refused:
        clients.connection_options(cluster(), clients.Role.CONSUMER)
    assert "aggregator[msk]" in refused.value.hint
