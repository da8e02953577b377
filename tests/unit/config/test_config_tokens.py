"""Where a client's tokens are from: a server by OIDC, or AWS; one of them, and never none."""

import pytest

SERVER = '  bootstrap_servers: "127.0.0.1:19292"\n'
TOKEN = "security.protocol: SASL_SSL, sasl.mechanism: OAUTHBEARER"


def told(changed, client: str, iam: str = "") -> list[str]:
    more = f"  msk_iam: {{{iam}}}\n" if iam else ""
    return changed(SERVER, f"{SERVER}  client: {{{client}}}\n{more}")


def test_a_client_that_would_get_no_token_is_refused(changed):
    """The line says where tokens can be from."""
    (line,) = told(changed, TOKEN)
    assert line.startswith("hub.yaml:2: central: OAUTHBEARER needs `sasl.oauthbearer.method: oidc`")
    assert "msk_iam" in line
    assert told(changed, f"{TOKEN}, sasl.oauthbearer.method: oidc") == []
    assert told(changed, TOKEN, "region: eu-central-1") == []


@pytest.mark.parametrize(
    "client",
    [
        "{}",
        "security.protocol: SSL",
        "security.protocol: SASL_SSL, sasl.mechanism: PLAIN",
        f"{TOKEN}, sasl.oauthbearer.method: oidc",
    ],
)
def test_aws_signs_only_where_its_token_is_used(changed, client):
    """Beside another mechanism it would do nothing, beside OIDC there would be two."""
    (line,) = told(changed, client.strip("{}"), "region: eu-central-1")
    assert line.startswith("hub.yaml:2: central: msk_iam needs `security.protocol: SASL_SSL`")


@pytest.mark.parametrize(
    ("iam", "key"),
    [
        ("region: ''", "region"),
        ("region: 'a/b'", "region"),
        ("region: EU", "region"),
        ("role_arn: 'arn:aws:iam::1:role/x'", "region"),
        ("region: eu, role_arn: 'role/x'", "role_arn"),
        ("region: eu, profile: 'a b'", "profile"),
        ("region: eu, key: x", "key"),
        ("region: eu, profile: a, role_arn: 'arn:aws:iam::1:role/x'", "msk_iam"),
    ],
)
def test_what_aws_is_asked_for_is_plain(changed, iam, key):
    """A region, and a role or a profile; nothing that could be another address."""
    (line,) = told(changed, TOKEN, iam)
    assert line.startswith("hub.yaml:5: central.msk_iam")
    assert key in line
