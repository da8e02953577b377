"""A certificate authority of our own: certificates and keys as PEM, for brokers, clients and servers on loopback."""

import datetime as dt
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID

_DAY = dt.timedelta(days=1)


class Authority:
    """Signs what it is asked for; its own certificate is `ca.pem` in its folder."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        basic = x509.BasicConstraints(ca=True, path_length=0)
        self._certificate = self._signed(self._name, self._key, (basic,))
        self.path = folder / "ca.pem"
        self.path.write_bytes(self._certificate.public_bytes(Encoding.PEM))

    def issue(self, name: str, *, days: float = 1) -> tuple[Path, Path]:
        """A certificate for `CN=<name>` and loopback, and its key: paths of `<name>.crt` and `<name>.key`."""
        certificate, key = self._issued(name, days)
        cert_path, key_path = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        cert_path.write_bytes(certificate.public_bytes(Encoding.PEM))
        key_path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return cert_path, key_path

    def bundle(self, name: str) -> Path:
        """Key and chain in one PEM file, as Kafka takes a keystore."""
        cert_path, key_path = self.issue(name)
        path = self.folder / f"{name}.pem"
        path.write_bytes(key_path.read_bytes() + cert_path.read_bytes() + self.path.read_bytes())
        return path

    def keystore(self, name: str, password: str) -> Path:
        """The same as PKCS #12."""
        certificate, key = self._issued(name, 1)
        path = self.folder / f"{name}.p12"
        sealed = BestAvailableEncryption(password.encode())
        path.write_bytes(pkcs12.serialize_key_and_certificates(name.encode(), key, certificate, None, sealed))
        return path

    def _issued(self, name: str, days: float) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
        key = ec.generate_private_key(ec.SECP256R1())
        loopback = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        names = x509.SubjectAlternativeName([loopback, x509.DNSName("localhost")])
        return self._signed(_named(name), key, (names,), days=days), key

    def _signed(self, subject: x509.Name, key, extensions, *, days: float = 1) -> x509.Certificate:
        now = dt.datetime.now(dt.UTC)
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(self._name).public_key(key.public_key())
        builder = builder.serial_number(x509.random_serial_number()).not_valid_before(now - _DAY)
        builder = builder.not_valid_after(now + days * _DAY)
        for extension in extensions:
            builder = builder.add_extension(extension, critical=isinstance(extension, x509.BasicConstraints))
        return builder.sign(self._key, hashes.SHA256())


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
