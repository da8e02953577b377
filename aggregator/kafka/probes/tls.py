"""This module turns the TLS settings of a `client:` block into a context of Python's `ssl`, to test a handshake.

Invariant: records never pass through this context; they pass through librdkafka. No secret stays on a disk.
"""

import os
import ssl
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12

from aggregator.config.secrets import SecretRef
from aggregator.errors import ConfigError
from aggregator.kafka.probes.listener import Certificate
from aggregator.regular_files import read_bytes

_OWN = ("ssl.certificate.location", "ssl.certificate.pem", "ssl.keystore.location")
Options = Mapping[str, str | SecretRef]


def is_encrypted(client: Options) -> bool:
    """Whether a block asks for TLS."""
    return str(client.get("security.protocol", "plaintext")).lower().endswith("ssl")


def has_certificate(client: Options) -> bool:
    """Whether the client shows a certificate of its own."""
    return any(name in client for name in _OWN)


def context(client: Options) -> ssl.SSLContext:
    """The context of a handshake by this block.

    Raises:
        ConfigError: a file cannot be read, or does not hold what its setting says.
    """
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname = _text(client, "ssl.endpoint.identification.algorithm", "https").lower() == "https"
    if _text(client, "enable.ssl.certificate.verification", "true").lower() not in ("true", "t", "1"):
        made.check_hostname = False
        made.verify_mode = ssl.CERT_NONE
    _load_authorities(made, client)
    if has_certificate(client):
        with _refused_as_setting(next(name for name in _OWN if name in client)), _certificate_files(client) as files:
            made.load_cert_chain(*files, password=_text(client, "ssl.key.password"))
    return made


def blind_context() -> ssl.SSLContext:
    """A handshake that believes anything: to see what is shown, never to send anything over it."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname = False
    made.verify_mode = ssl.CERT_NONE
    return made


def own_certificate(client: Options) -> Certificate | None:
    """The certificate that the client shows; None where it shows none.

    Raises:
        ConfigError: it cannot be read.
    """
    if not has_certificate(client):
        return None
    name = next(name for name in _OWN if name in client)
    with _refused_as_setting(name), _certificate_files(client) as (path, _):
        return certificate_of(x509.load_pem_x509_certificate(read_bytes(path)))


def certificate_of(certificate: x509.Certificate) -> Certificate:
    """Read the names, the dates and the issuer of a certificate."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        shown = tuple(str(name.value) for name in names)
    except (x509.ExtensionNotFound, ValueError):
        shown = ()
    return Certificate(
        certificate.subject.rfc4514_string(),
        certificate.issuer.rfc4514_string(),
        shown,
        int(certificate.not_valid_before_utc.timestamp() * 1000),
        int(certificate.not_valid_after_utc.timestamp() * 1000),
    )


def certificates(encoded: Iterable[bytes]) -> tuple[Certificate, ...]:
    """A chain in DER; what cannot be read is left out."""
    found = []
    for one in encoded:
        try:
            found.append(certificate_of(x509.load_der_x509_certificate(one)))
        except ValueError:
            continue
    return tuple(found)


def _load_authorities(made: ssl.SSLContext, client: Options) -> None:
    if "ssl.ca.pem" in client:
        with _refused_as_setting("ssl.ca.pem"):
            made.load_verify_locations(cadata=_text(client, "ssl.ca.pem"))
    elif place := _text(client, "ssl.ca.location"):
        with _refused_as_setting("ssl.ca.location"):
            made.load_verify_locations(**{"capath" if Path(place).is_dir() else "cafile": place})
    else:
        made.load_default_certs()


@contextmanager
def _certificate_files(client: Options) -> Iterator[tuple[str, str | None]]:
    """Paths of certificate and key; what is no file of its own lies in memory as long as the block lasts."""
    if "ssl.keystore.location" in client:
        store = read_bytes(_text(client, "ssl.keystore.location"))
        password = _text(client, "ssl.keystore.password").encode() or None
        key, certificate, more = pkcs12.load_key_and_certificates(store, password)
        if certificate is None or key is None:
            raise ValueError("it holds no certificate with a key")
        chain = b"".join(one.public_bytes(Encoding.PEM) for one in (certificate, *more))
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        with _in_memory(chain) as first, _in_memory(private) as second:
            yield first, second
        return
    with (
        _in_memory(_text(client, "ssl.certificate.pem").encode()) as certificate_pem,
        _in_memory(_text(client, "ssl.key.pem").encode()) as key_pem,
    ):
        key_place = _text(client, "ssl.key.location") or (key_pem if "ssl.key.pem" in client else None)
        yield _text(client, "ssl.certificate.location") or certificate_pem, key_place


@contextmanager
def _in_memory(content: bytes) -> Iterator[str]:
    """A file that no disk holds, where the system has such files; else one of this user alone, as long as it takes."""
    if not hasattr(os, "memfd_create"):
        with NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            yield file.name
        return
    descriptor = os.memfd_create("aggregator-certificate")
    try:
        os.write(descriptor, content)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


@contextmanager
def _refused_as_setting(name: str) -> Iterator[None]:
    """What a library says of a file's content is not repeated: it may quote it."""
    try:
        yield
    except OSError as error:
        if isinstance(error, ssl.SSLError) and error.reason == "KEY_VALUES_MISMATCH":
            raise ConfigError(
                f"ssl.key.location: the key does not belong to the certificate of `{name}`",
                hint="give both from one renewal: the key of `ssl.key.location` and the certificate are a pair",
            ) from None
        why = (
            error.strerror if error.errno and not isinstance(error, ssl.SSLError) else "holds nothing that TLS can use"
        )
        raise ConfigError(f"{name}: {why}", hint=f"correct `{name}`") from None
    except (ValueError, TypeError):
        raise ConfigError(f"{name}: cannot be read, or its password is wrong", hint=f"correct `{name}`") from None


def _text(client: Options, name: str, default: str = "") -> str:
    value = client.get(name, default)
    return value.resolve() if isinstance(value, SecretRef) else value
