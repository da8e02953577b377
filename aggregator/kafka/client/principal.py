"""This module tells the principal under which the hub signs in to a cluster, according to the hub's own configuration.

Invariant: this is a claim of the client, not a proof. No client API of Kafka tells which principal a broker
authenticated (KIP-1329, which would add one, is a draft). A broker that maps names (`ssl.principal.mapping.rules`) uses
another principal. The result is empty if only a token or an unreadable file would tell it.
"""

from collections.abc import Mapping

from cryptography import x509
from cryptography.hazmat.primitives.serialization import pkcs12

from aggregator.config.model import ClusterConfig
from aggregator.config.secrets import SecretRef
from aggregator.errors import ConfigError
from aggregator.regular_files import read_bytes

ANONYMOUS = "User:ANONYMOUS"
_Options = Mapping[str, str | SecretRef]


def principal_of(cluster: ClusterConfig) -> str:
    """The SASL user, or the subject of the client's certificate; `User:ANONYMOUS` where nobody signs in."""
    client: _Options = cluster.client
    protocol = str(client.get("security.protocol", "plaintext")).lower()
    if protocol.startswith("sasl"):
        return _named(_user(client))
    if protocol != "ssl" or not any(name in client for name in _CERTIFICATES):
        return ANONYMOUS
    try:
        return _named(_subject(client))
    except (OSError, ValueError, ConfigError):
        return ""


_CERTIFICATES = ("ssl.certificate.location", "ssl.certificate.pem", "ssl.keystore.location")


def _named(name: str) -> str:
    return f"User:{name}" if name else ""


def _user(client: _Options) -> str:
    mechanism = str(client.get("sasl.mechanism") or client.get("sasl.mechanisms") or "GSSAPI").upper()
    if mechanism == "OAUTHBEARER":
        return ""
    if mechanism == "GSSAPI":
        return str(client.get("sasl.kerberos.principal", "kafkaclient"))
    try:
        return _text(client.get("sasl.username", ""))
    except ConfigError:
        return ""


def _subject(client: _Options) -> str:
    keystore = client.get("ssl.keystore.location")
    if keystore is not None:
        password = _text(client.get("ssl.keystore.password", "")).encode() or None
        _, certificate, _ = pkcs12.load_key_and_certificates(read_bytes(_text(keystore)), password)
        return certificate.subject.rfc4514_string() if certificate else ""
    place = client.get("ssl.certificate.location")
    text = _text(client["ssl.certificate.pem"]).encode() if place is None else read_bytes(_text(place))
    return x509.load_pem_x509_certificate(text).subject.rfc4514_string()


def _text(value: str | SecretRef) -> str:
    return value.resolve() if isinstance(value, SecretRef) else value
