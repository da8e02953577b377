"""This module describes a cluster as it shows itself to the hub's principal: id, brokers, settings and rights.

Invariant: values only. No client is imported here. A value that could not be asked for is None, and never an empty
answer.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from aggregator.kafka.client.address import Address


class Acl(NamedTuple):
    """One rule of a cluster's authorizer; words as Kafka writes them, in capitals."""

    kind: str
    name: str
    is_prefix: bool
    principal: str
    host: str
    operation: str
    allows: bool


@dataclass(frozen=True, slots=True)
class ClusterView:
    """Holds what a cluster shows to our principal.

    Attributes:
        cluster_id: Id that Kafka drew; empty if only its brokers' addresses are known.
        brokers: Where each says that it is reached, by its number.
        settings: Of the broker that was asked; None: it does not tell.
        rights: What we may do with the cluster as a whole; None: it does not tell.
        acls: All rules of its authorizer; None: it does not tell.
    """

    cluster_id: str
    brokers: Mapping[int, Address]
    settings: Mapping[str, str] | None = None
    rights: frozenset[str] | None = None
    acls: tuple[Acl, ...] | None = None


@dataclass(frozen=True, slots=True)
class ProbedTopic:
    """Holds what a cluster tells about one topic.

    Attributes:
        partitions: Number of its partitions.
        replicas: Fewest replicas of a partition.
        in_sync: Fewest replicas in sync of a partition.
        leaderless: Partitions that no broker leads.
        rights: What we may do with it; None: it does not tell.
        settings: Effective ones; None: it does not tell.
    """

    partitions: int
    replicas: int
    in_sync: int
    leaderless: tuple[int, ...] = ()
    rights: frozenset[str] | None = None
    settings: Mapping[str, str] | None = None


class SignInResult(NamedTuple):
    """Describes how an attempt to sign in ended.

    Attributes:
        code: Kafka's name of what went wrong; empty: nothing.
        detail: The client's own words for it.
        view: What is known without further questions.
    """

    code: str = ""
    detail: str = ""
    view: ClusterView | None = None


@dataclass(frozen=True, slots=True)
class Topics:
    """Holds topics of a cluster, and why the cluster did not describe others that exist: Kafka's name of the error."""

    views: Mapping[str, ProbedTopic] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)

    @property
    def denied(self) -> frozenset[str]:
        """The topics that it did not describe for want of a right."""
        return frozenset(name for name, error in self.refused.items() if "AUTHORIZATION" in error)
