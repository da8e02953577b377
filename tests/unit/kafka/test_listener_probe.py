"""One address, step by step: each thing that can stop a connection is told by its own name, over real sockets."""

import errno
import socket
import ssl
import struct
import threading
import time
from contextlib import contextmanager

import pytest

from aggregator.errors import ConfigError
from aggregator.kafka.client.address import Address
from aggregator.kafka.probes.listener import Obstacle
from aggregator.kafka.probes.listener_probe import probe
from aggregator.kafka.probes.tls import context, own_certificate
from tests.authority import Authority

LOOPBACK = "127.0.0.1"
VERSIONS = {3: 13, 18: 4, 22: 5}


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@contextmanager
def serving(answer, encryption=None):
    """A server on loopback that gives each connection to `answer`; yields its address."""
    with socket.create_server((LOOPBACK, 0)) as server:
        server.settimeout(0.02)
        over = threading.Event()

        def serve():
            while not over.is_set():
                try:
                    line, _ = server.accept()
                except TimeoutError:
                    continue
                line.settimeout(2)
                with line:
                    try:
                        if encryption is None:
                            answer(line)
                        else:
                            with encryption.wrap_socket(line, server_side=True) as secured:
                                answer(secured)
                    except OSError:
                        pass

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield Address(LOOPBACK, server.getsockname()[1])
        finally:
            over.set()
            thread.join()


def kafka(mechanisms=None):
    """Answers as a broker does before it knows who asks."""

    def answer(line):
        while head := line.recv(4):
            (length,) = struct.unpack(">i", head)
            request, _, number = struct.unpack(">hhi", line.recv(length)[:8])
            if request == 18:
                body = struct.pack(">hi", 0, len(VERSIONS))
                body += b"".join(struct.pack(">hhh", key, 0, highest) for key, highest in VERSIONS.items())
            elif mechanisms is None:
                body = struct.pack(">hi", 34, 0)
            else:
                body = struct.pack(">hi", 33, len(mechanisms))
                body += b"".join(struct.pack(">h", len(one)) + one.encode() for one in mechanisms)
            line.sendall(struct.pack(">ii", len(body) + 4, number) + body)

    return answer


def server_side(certificate, authority=None):
    """A server's TLS; with an authority it asks clients for certificates."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(certificate)
    if authority is not None:
        made.verify_mode = ssl.CERT_REQUIRED
        made.load_verify_locations(authority.path)
    return made


def trusting(authority, **more):
    return {"security.protocol": "SSL", "ssl.ca.location": str(authority.path)} | {
        name.replace("_", "."): value for name, value in more.items()
    }


def looked(address, client=None, timeout_s=2.0):
    return probe(address, client or {}, context(client) if client else None, timeout_s=timeout_s)


@pytest.mark.parametrize("mechanisms", [None, ("PLAIN", "SCRAM-SHA-256")])
def test_what_speaks_kafka_is_told_with_its_versions_and_ways_to_sign_in(mechanisms):
    """Nobody signs in is another answer than any way to sign in."""
    with serving(kafka(mechanisms)) as address:
        found = looked(address)
    assert (found.obstacle, found.versions, found.mechanisms) == (None, VERSIONS, mechanisms)


def test_a_name_that_nobody_knows_is_no_refused_port():
    """The first two steps: name, then port."""
    assert looked(Address("broker.invalid", 9092)).obstacle in (Obstacle.UNKNOWN_NAME, Obstacle.NAME_SILENT)
    assert looked(Address("a" * 70 + ".example", 9092)).obstacle is Obstacle.UNKNOWN_NAME
    with socket.create_server((LOOPBACK, 0)) as server:
        free = server.getsockname()[1]
    assert looked(Address(LOOPBACK, free)).obstacle is Obstacle.REFUSED


def test_a_look_up_that_hangs_is_waited_for_no_longer_than_asked(monkeypatch):
    """The system's own look-up knows no bound."""
    over = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_a, **_k: over.wait(5) and [])
    began = time.monotonic()
    assert looked(Address("slow.example", 9092), timeout_s=0.2).obstacle is Obstacle.NAME_SILENT
    over.set()
    assert time.monotonic() - began < 2


@pytest.mark.parametrize(
    ("error", "obstacle"),
    [
        (OSError(errno.ENETUNREACH, "x"), Obstacle.NO_ROUTE),
        (OSError(errno.EHOSTUNREACH, "x"), Obstacle.NO_ROUTE),
        (TimeoutError(), Obstacle.SILENT_ROUTE),
        (ConnectionRefusedError(errno.ECONNREFUSED, "x"), Obstacle.REFUSED),
    ],
)
def test_a_way_that_is_not_there_is_no_port_that_is_closed(monkeypatch, error, obstacle):
    """The kernel's answers to a connection, which no test can ask a network for."""

    def connect(_line, _place):
        raise error

    monkeypatch.setattr(socket.socket, "connect", connect, raising=False)
    assert looked(Address(LOOPBACK, 9)).obstacle is obstacle


@pytest.mark.parametrize(
    "answer",
    [
        lambda line: line.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
        lambda line: line.close(),
        lambda line: line.sendall(struct.pack(">ii", 4, 1)),
        lambda line: line.sendall(struct.pack(">iihi", 10, 1, 0, 2**30)),
        lambda line: line.sendall(struct.pack(">i", -5)),
    ],
)
def test_what_is_no_broker_is_told_so(answer):
    """An HTTP server, a closed door, answers that lie about their length."""
    with serving(answer) as address:
        assert looked(address).obstacle is Obstacle.NOT_KAFKA


def test_a_controller_is_no_broker():
    """It greets clients, and knows no request for metadata: it takes votes, and no questions of theirs."""

    def controller(line):
        line.recv(4096)
        body = struct.pack(">ihi", 1, 0, 2) + struct.pack(">hhh", 1, 0, 17) + struct.pack(">hhh", 52, 0, 2)
        line.sendall(struct.pack(">i", len(body)) + body)

    with serving(controller) as address:
        assert probe(address, {}, None, timeout_s=2).obstacle is Obstacle.CONTROLLER


def test_a_key_of_another_certificate_is_told_so(authority):
    """Both can be read, and do not belong together."""
    certificate, _ = authority.issue("first")
    _, key = authority.issue("second")
    client = {"security.protocol": "SSL", "ssl.certificate.location": str(certificate), "ssl.key.location": str(key)}
    with pytest.raises(ConfigError, match=r"ssl\.key\.location: the key does not belong to the certificate"):
        context(client | {"ssl.ca.location": str(authority.path)})


@pytest.mark.slow
def test_a_broker_that_hangs_is_silent(authority):
    """Its kernel takes the connection, and nobody answers; with TLS, too."""
    with socket.create_server((LOOPBACK, 0)) as server:
        address = Address(LOOPBACK, server.getsockname()[1])
        assert looked(address, timeout_s=0.2).obstacle is Obstacle.SILENT
        assert looked(address, trusting(authority), timeout_s=0.2).obstacle is Obstacle.SILENT


def test_a_believed_certificate_lets_the_greeting_through(authority):
    """The chain is told: names and the end of its time."""
    with serving(kafka(("PLAIN",)), server_side(authority.sign("right", "127.0.0.1", ends_in=10))) as address:
        found = looked(address, trusting(authority))
    assert (found.obstacle, found.mechanisms) == (None, ("PLAIN",))
    assert found.chain[0].names == ("127.0.0.1",)
    assert abs(found.chain[0].until_ms / 1000 - time.time() - 10 * 86_400) < 100


@pytest.mark.parametrize(
    ("signed", "obstacle"),
    [
        ({"ends_in": -0.5}, Obstacle.EXPIRED),
        ({"begins_in": 2}, Obstacle.NOT_YET_VALID),
        ({"hosts": ("other.example",)}, Obstacle.OTHER_HOST),
        ({"foreign": True}, Obstacle.UNTRUSTED),
    ],
)
def test_a_certificate_that_is_not_believed_is_told_with_why(authority, tmp_path, signed, obstacle):
    """Old, early, of another host, of another authority; what it says of itself is shown all the same."""
    signed = dict(signed)
    signer = Authority(tmp_path, "Another Authority") if signed.pop("foreign", False) else authority
    certificate = signer.sign(f"bad-{obstacle}", *signed.pop("hosts", ()), **signed)
    with serving(kafka(), server_side(certificate)) as address:
        found = looked(address, trusting(authority))
        assert (found.obstacle, len(found.chain)) == (obstacle, 1)
        unchecked = {"enable.ssl.certificate.verification": "false"}
        assert looked(address, trusting(authority) | unchecked).obstacle is None


def test_a_listener_that_speaks_otherwise_is_told_so(authority):
    """TLS asked of plain text, and plain text of TLS."""
    with serving(kafka()) as address:
        assert looked(address, trusting(authority)).obstacle is Obstacle.SPEAKS_PLAIN
    with serving(kafka(), server_side(authority.sign("tls"))) as address:
        assert looked(address).obstacle is Obstacle.SPEAKS_TLS


def test_a_listener_that_wants_a_certificate_is_told_so(authority, tmp_path):
    """None shown, one that it does not believe, and the right one."""
    own = str(authority.sign("client"))
    foreign = str(Authority(tmp_path, "Another Authority").sign("client"))
    with serving(kafka(), server_side(authority.sign("strict"), authority)) as address:
        assert looked(address, trusting(authority)).obstacle is Obstacle.WANTS_CERTIFICATE
        shown = trusting(authority, ssl_certificate_location=foreign, ssl_key_location=foreign)
        assert looked(address, shown).obstacle is Obstacle.REFUSES_CERTIFICATE
        shown = trusting(authority, ssl_certificate_location=own, ssl_key_location=own)
        assert looked(address, shown).obstacle is None


@pytest.mark.parametrize(
    "client",
    [
        {"ssl.ca.location": "/nowhere/ca.pem"},
        {"ssl.ca.location": __file__},
        {"ssl.certificate.location": "/nowhere/client.pem"},
        {"ssl.certificate.location": __file__},
        {"ssl.keystore.location": __file__, "ssl.keystore.password": "x"},
        {"ssl.ca.pem": "no certificate"},
    ],
)
def test_a_file_that_tls_cannot_use_is_named(client):
    """The setting is named; nothing of what is in the file."""
    with pytest.raises(ConfigError) as refused:
        context({"security.protocol": "SSL"} | client)
    assert next(iter(client)) in refused.value.message


def test_the_own_certificate_is_told(authority):
    """What the client shows has an end, too; without one there is nothing to tell."""
    own = str(authority.sign("client", ends_in=3))
    shown = own_certificate(trusting(authority, ssl_certificate_location=own, ssl_key_location=own))
    assert shown is not None
    assert shown.subject == "CN=client"
    assert own_certificate(trusting(authority)) is None
