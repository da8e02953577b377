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
    """Signs what it is asked for, also what is old or of another host; its own certificate is `path`."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        basic = x509.BasicConstraints(ca=True, path_length=0)
        self._certificate = self._signed(self._name, self._key, (basic,))
        self.path = folder / ("ca.pem" if name == "authority" else f"{name}.pem")
        self.path.write_bytes(self._certificate.public_bytes(Encoding.PEM))

    def issue(self, name: str, *, days: float = 1) -> tuple[Path, Path]:
        """A certificate for `CN=<name>` and loopback, and its key: paths of `<name>.crt` and `<name>.key`."""
        certificate, key = self._issued(name, ends_in=days)
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
        certificate, key = self._issued(name)
        path = self.folder / f"{name}.p12"
        sealed = BestAvailableEncryption(password.encode())
        path.write_bytes(pkcs12.serialize_key_and_certificates(name.encode(), key, certificate, None, sealed))
        return path

    def sign(self, name: str, *hosts: str, begins_in: float = -1, ends_in: float = 365) -> Path:
        """A file with key and certificate in PEM, and nothing else; times in days from now."""
        certificate, key = self._issued(name, *hosts, begins_in=begins_in, ends_in=ends_in)
        path = self.folder / f"{name}.pem"
        path.touch(0o600)
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        path.write_bytes(private + certificate.public_bytes(Encoding.PEM))
        return path

    def _issued(
        self, name: str, *hosts: str, begins_in: float = -1, ends_in: float = 1
    ) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName([_general(host) for host in hosts or ("127.0.0.1", "localhost")])
        return self._signed(_named(name), key, (names,), begins_in=begins_in, ends_in=ends_in), key

    def _signed(
        self, subject: x509.Name, key, extensions, *, begins_in: float = -1, ends_in: float = 1000
    ) -> x509.Certificate:
        now = dt.datetime.now(dt.UTC)
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(self._name).public_key(key.public_key())
        builder = builder.serial_number(x509.random_serial_number()).not_valid_before(now + begins_in * _DAY)
        builder = builder.not_valid_after(now + ends_in * _DAY)
        for extension in extensions:
            builder = builder.add_extension(extension, critical=isinstance(extension, x509.BasicConstraints))
        return builder.sign(self._key, hashes.SHA256())


def _general(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
