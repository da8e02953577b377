"""As whom the hub signs in: what its configuration says, and nothing where only somebody else would know."""

from datetime import UTC, datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, pkcs12
from cryptography.x509.oid import NameOID

from aggregator.config.model import ClusterConfig
from aggregator.kafka.client.principal import principal_of

SUBJECT = "User:CN=hub,OU=data,O=Retail\\, Inc.,C=PL"  # as java.security names it, and a broker after it
PASSWORD = "a password"


@pytest.fixture(scope="module")
def signed(tmp_path_factory):
    """A client's certificate as a file, as text, and in a keystore."""
    folder = tmp_path_factory.mktemp("tls")
    key = ec.generate_private_key(ec.SECP256R1())
    names = ((NameOID.COUNTRY_NAME, "PL"), (NameOID.ORGANIZATION_NAME, "Retail, Inc."),
             (NameOID.ORGANIZATIONAL_UNIT_NAME, "data"), (NameOID.COMMON_NAME, "hub"))  # fmt: skip
    name = x509.Name([x509.NameAttribute(oid, text) for oid, text in names])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "an authority")]))
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(datetime(2026, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(2036, 1, 1, tzinfo=UTC))
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(Encoding.PEM)
    (folder / "c.pem").write_bytes(pem)
    (folder / "password").write_text(PASSWORD)
    locked = BestAvailableEncryption(PASSWORD.encode())
    (folder / "k.p12").write_bytes(pkcs12.serialize_key_and_certificates(b"hub", key, certificate, None, locked))
    return folder


def told(client: dict[str, str]) -> str:
    return principal_of(ClusterConfig.model_validate({"bootstrap_servers": "c:1", "client": client}))


SASL = {"security.protocol": "SASL_SSL", "sasl.password": "env:PW"}


@pytest.mark.parametrize(
    ("client", "principal"),
    [
        ({}, "User:ANONYMOUS"),
        ({"security.protocol": "SSL"}, "User:ANONYMOUS"),
        ({**SASL, "sasl.mechanism": "PLAIN", "sasl.username": "jane"}, "User:jane"),
        ({**SASL, "sasl.mechanisms": "SCRAM-SHA-512", "sasl.username": "jane"}, "User:jane"),
        ({**SASL, "sasl.mechanism": "PLAIN", "sasl.username": "env:NOBODY_SET_THIS"}, ""),
        ({"security.protocol": "sasl_ssl", "sasl.kerberos.principal": "hub/h@EXAMPLE"}, "User:hub/h@EXAMPLE"),
        ({"security.protocol": "SASL_SSL"}, "User:kafkaclient"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.method": "oidc"}, ""),
        ({"security.protocol": "SSL", "ssl.certificate.location": "/nowhere/c.pem"}, ""),
    ],
)
def test_a_name_is_what_the_configuration_says(client, principal):
    """`ANONYMOUS` only where nobody is asked; nothing where a token, or a secret that is not there, would tell it."""
    assert told(client) == principal


def test_a_certificate_s_subject_is_the_name(signed):
    """From each of the three places that librdkafka takes it from, in the order that a broker writes it in."""
    ssl = {"security.protocol": "SSL"}
    keystore = {"ssl.keystore.location": str(signed / "k.p12"), "ssl.keystore.password": f"file:{signed / 'password'}"}
    assert told({**ssl, "ssl.certificate.location": str(signed / "c.pem")}) == SUBJECT
    assert told({**ssl, "ssl.certificate.pem": (signed / "c.pem").read_text()}) == SUBJECT
    assert told({**ssl, **keystore}) == SUBJECT
    (signed / "other").write_text("no password of it")
    assert told({**ssl, **keystore, "ssl.keystore.password": f"file:{signed / 'other'}"}) == ""
