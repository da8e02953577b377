"""This module describes one address of a cluster: how far a connection to it comes, and what stops it there.

Invariant: values only. No socket is opened here. `listener_probe.py` opens them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from aggregator.kafka.client.address import Address


class Obstacle(StrEnum):
    """The obstacles that stop a connection, in the order in which it meets them."""

    UNKNOWN_NAME = "unknown_name"
    NAME_SILENT = "name_silent"
    NO_ROUTE = "no_route"
    SILENT_ROUTE = "silent_route"
    REFUSED = "refused"
    UNTRUSTED = "untrusted"
    EXPIRED = "expired"
    NOT_YET_VALID = "not_yet_valid"
    OTHER_HOST = "other_host"
    SPEAKS_PLAIN = "speaks_plain"
    SPEAKS_TLS = "speaks_tls"
    WANTS_CERTIFICATE = "wants_certificate"
    REFUSES_CERTIFICATE = "refuses_certificate"
    TLS_FAILED = "tls_failed"
    CONTROLLER = "controller"
    NOT_KAFKA = "not_kafka"
    SILENT = "silent"


class Certificate(NamedTuple):
    """The contents of a certificate; times are in ms since 1970."""

    subject: str
    issuer: str
    names: tuple[str, ...]
    from_ms: int
    until_ms: int


@dataclass(frozen=True, slots=True)
class Listener:
    """How far a connection to one address came.

    Attributes:
        address: The address.
        obstacle: Obstacle that stopped the connection; None: it speaks Kafka.
        detail: The system's or the library's own words for that; may be empty.
        chain: Certificates that it showed, its own first; empty without TLS.
        versions: Highest version of each request that it takes, by the request's number in Kafka's protocol.
        mechanisms: How one may sign in there, empty where it does not tell; None: nobody signs in.
    """

    address: Address
    obstacle: Obstacle | None = None
    detail: str = ""
    chain: tuple[Certificate, ...] = ()
    versions: Mapping[int, int] = field(default_factory=dict)
    mechanisms: tuple[str, ...] | None = None
