"""Explains in words what stops a connection: the step at which it stops, the cause, and how to mend it.

Invariant: pure. Every obstacle has its row, and no two rows have the same text.
"""

from collections.abc import Mapping
from shlex import quote
from typing import NamedTuple

from aggregator.doctor.finding import listed
from aggregator.kafka.probes.listener import Listener, Obstacle
from aggregator.moments import iso

STEPS = ("name", "route", "port", "tls", "protocol")


class _Row(NamedTuple):
    """Texts with placeholders for what is known of the listener."""

    step: str
    what: str
    next: str


_ROWS: Mapping[Obstacle, _Row] = {
    Obstacle.UNKNOWN_NAME: _Row(
        "name", "no host has the name {host}{why}", "correct the name, or add it to DNS: getent hosts {host}"
    ),
    Obstacle.NAME_SILENT: _Row(
        "name", "no name server answers for {host}{why}", "see /etc/resolv.conf; try: getent hosts {host}"
    ),
    Obstacle.NO_ROUTE: _Row("route", "there is no way to {at}{why}", "see VPN and routes: ip route get {host}"),
    Obstacle.SILENT_ROUTE: _Row(
        "route",
        "{at} does not answer a connection: packets are lost on the way, as in a firewall",
        "open port {port} to {host} in firewalls and security groups",
    ),
    Obstacle.REFUSED: _Row(
        "port",
        "nobody listens at {at}{why}",
        "start the broker, or correct the port; on its host: ss -ltn | grep {port}",
    ),
    Obstacle.CONTROLLER: _Row(
        "protocol",
        "{at} is the listener of a KRaft controller, which answers no client's questions",
        "write the address of a broker's listener, one of its `listeners` that is not in `controller.listener.names`",
    ),
    Obstacle.NOT_KAFKA: _Row("protocol", "{at} does not speak Kafka{why}", "write the address of a Kafka listener"),
    Obstacle.SILENT: _Row(
        "protocol",
        "{at} takes connections and does not answer: the broker hangs, or something else listens there",
        "see the broker's log and its load; or write the address of a Kafka listener",
    ),
    Obstacle.UNTRUSTED: _Row(
        "tls",
        "the certificate of {at} is signed by {issuer}, for whom nothing here vouches{why}",
        "set `ssl.ca.location` in `client` to the file with that authority's certificate",
    ),
    Obstacle.EXPIRED: _Row(
        "tls",
        "a certificate of {at} has expired: {oldest}",
        "renew the broker's certificate (its `ssl.keystore.location`)",
    ),
    Obstacle.NOT_YET_VALID: _Row(
        "tls",
        "the certificate of {at} is not valid before {begins}",
        "see the clock of this machine (timedatectl), and the certificate",
    ),
    Obstacle.OTHER_HOST: _Row(
        "tls",
        "the certificate of {at} is for {names}, not for {host}",
        "write a name that the certificate holds, or give the broker a certificate with {host} in it",
    ),
    Obstacle.SPEAKS_PLAIN: _Row(
        "tls", "{at} speaks plain text, and `client` asks for TLS", "write the port of its TLS listener"
    ),
    Obstacle.SPEAKS_TLS: _Row(
        "tls",
        "{at} speaks TLS, and `client` asks for none",
        "set `security.protocol: SSL` in `client`, or SASL_SSL where one signs in",
    ),
    Obstacle.WANTS_CERTIFICATE: _Row(
        "tls",
        "{at} wants a certificate of its clients, and `client` has none{why}",
        "set `ssl.certificate.location` and `ssl.key.location` in `client`",
    ),
    Obstacle.REFUSES_CERTIFICATE: _Row(
        "tls",
        "{at} does not take the client's certificate{why}",
        "have it signed by an authority in the broker's `ssl.truststore.location`",
    ),
    Obstacle.TLS_FAILED: _Row(
        "tls",
        "{at} and this client find no common TLS{why}",
        "compare `ssl.enabled.protocols` and `ssl.cipher.suites` of the broker with this machine's policy",
    ),
}


def explained(one: Listener) -> tuple[str, str, str]:
    """The obstacle to a connection: the step, the state, and the remedy.

    Args:
        one: A listener with an obstacle.
    """
    assert one.obstacle is not None
    row = _ROWS[one.obstacle]
    shown = one.chain[0] if one.chain else None
    oldest = min(one.chain, key=lambda each: each.until_ms, default=None)
    known = {
        "at": one.address,
        "host": one.address.host,
        "port": one.address.port,
        "why": f" ({one.detail})" if one.detail else "",
        "issuer": shown.issuer if shown else "somebody",
        "begins": iso(shown.from_ms) if shown else "a later time",
        "names": listed(shown.names) if shown and shown.names else "no host at all",
        "oldest": f"{oldest.subject} on {iso(oldest.until_ms)}" if oldest else one.detail,
    }
    return row.step, row.what.format_map(known), row.next.format_map(known | {"host": quote(one.address.host)})
