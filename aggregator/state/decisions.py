"""The decisions topic records who decided what, when and why, as a chain of hashes.

    hash = SHA-256(canonical JSON of the link without its hash); each link holds the hash of the one before

Invariant: the topic is only appended to, under one transactional id. A link is made only when all links before it are
known, so two simultaneous decisions follow each other. A decision is written here before it takes effect. `by` is the
name that a person gave. `principal` is the name that the client signed in as, according to its own configuration.
"""

import hashlib
import json
import secrets
import time
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any

from msgspec import Struct, structs

from aggregator.backoff import Backoff
from aggregator.config.model import ClusterConfig, HubConfig
from aggregator.errors import Fenced, OutcomeUnknown, TransactionAborted, Unreachable
from aggregator.escapes import recordable
from aggregator.kafka.client.principal import principal_of
from aggregator.kafka.cluster import topics
from aggregator.kafka.cluster.topic_spec import TopicSpec
from aggregator.kafka.readers.log import read_to_end
from aggregator.kafka.readers.log_record import LogRecord
from aggregator.kafka.readers.typed_decoder import CorruptRecord, Count, Moment, TypedDecoder
from aggregator.kafka.writers.writer import TransactionalWriter
from aggregator.state.names import HubNames

VERSION = 1
# Stands for the hash of the link before the first one.
BEGINNING = "0" * 64
SETTINGS = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
_ATTEMPTS = 10
# Two processes that decide at the same moment abort each other's transaction.
_PAUSES = Backoff(first_s=0.2, most_s=2.0)


class DecisionKind(StrEnum):
    """Names the kinds of decisions."""

    PAUSE = "pause"
    RESUME = "resume"
    GAP = "gap"
    RELEASE = "release"
    BACKFILL = "backfill"
    CANCEL = "cancel"
    POLICY = "policy"
    CLUSTER = "cluster"


class NewDecision(Struct, frozen=True):
    """One decision, before it becomes a link of the chain.

    Attributes:
        kind: Kind of the decision.
        about: Subject of the decision: an edge, a gap, a range, a backfill, a policy.
        by: Who decided, in his own words.
        at_ms: Time of the decision, by the clock of whoever decided.
        reason: Why, in his own words.
    """

    kind: DecisionKind
    about: str
    by: str
    at_ms: Moment
    reason: str = ""


class ChainLink(Struct, frozen=True, tag_field="v", tag=VERSION):
    """One record of the topic; `number` counts from 1."""

    number: Count
    previous: str
    kind: DecisionKind
    about: str
    by: str
    principal: str
    at_ms: Moment
    reason: str
    hash: str = ""

    @property
    def sealed(self) -> str:
        """The hash that the link must have."""
        body = {name: getattr(self, name) for name in self.__struct_fields__ if name != "hash"} | {"v": VERSION}
        return hashlib.sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).hexdigest()

    def plain(self) -> dict[str, Any]:
        """The link as plain data for JSON, under the names of its fields."""
        return {name: getattr(self, name) for name in self.__struct_fields__} | {"v": VERSION}

    def encode(self) -> bytes:
        """Encode the link as the value of its record."""
        return json.dumps(self.plain(), sort_keys=True).encode()


_LINKS = TypedDecoder(ChainLink)


def decode(record: LogRecord) -> ChainLink | None:
    """Decode a link, or return None if the record is none."""
    try:
        return _LINKS.decode(record.value)
    except CorruptRecord:
        return None


def link_id(link: ChainLink | None) -> tuple[int, str]:
    """The place of a link in the chain, its number and hash; for None, the beginning."""
    return (link.number, link.hash) if link else (0, BEGINNING)


def previous_link_id(link: ChainLink) -> tuple[int, str]:
    """The place that a link says it stands behind."""
    return link.number - 1, link.previous


def last_link(records: Iterable[LogRecord]) -> ChainLink | None:
    """The last link of the chain. Other records in the topic are passed over, so that they keep nobody from deciding.

    Where the topic's beginning was deleted, the chain begins at the first whole link. A link lies behind all links
    before it, so its number says how many offsets there are before it at least.
    """
    last: ChainLink | None = None
    for record in records:
        link = decode(record)
        if link is None:
            continue
        begins = last is None and 0 < link.number <= record.offset + 1
        if link.hash == link.sealed and (begins or previous_link_id(link) == link_id(last)):
            last = link
    return last


def links(decided: Iterable[NewDecision], last: ChainLink | None, principal: str) -> list[ChainLink]:
    """Decisions as links behind another one, or behind the beginning."""
    made: list[ChainLink] = []
    for one in decided:
        number, previous = link_id(made[-1] if made else last)
        link = ChainLink(number + 1, previous, one.kind, one.about, one.by, principal, one.at_ms, one.reason)
        made.append(structs.replace(link, hash=link.sealed))
    return made


def plan_append(
    records: Sequence[LogRecord], decided: Iterable[NewDecision], principal: str
) -> tuple[list[ChainLink], list[ChainLink]]:
    """Decisions that an attempt without an answer has written already, and links for the others.

    Args:
        records: Of the topic, in its order, written by anybody.
        decided: What is to be there.
        principal: As whom this client signs in.
    """
    known = {(one.kind, one.about, one.by, one.at_ms): one for one in map(decode, records) if one is not None}
    wanted = {(one.kind, one.about, one.by, one.at_ms): one for one in map(_recordable, decided)}
    there = [link for at, link in known.items() if at in wanted]
    left = [one for at, one in wanted.items() if at not in known]
    return there, links(left, last_link(records), recordable(principal))


def _recordable(one: NewDecision) -> NewDecision:
    return structs.replace(one, about=recordable(one.about), by=recordable(one.by), reason=recordable(one.reason))


def decisions_topic(names: HubNames) -> TopicSpec:
    """The topic, with the settings that keep it whole."""
    return TopicSpec(names.decisions, 1, SETTINGS)


def read_decisions(cluster: ClusterConfig, names: HubNames) -> list[LogRecord]:
    """Every record of the topic, in its order; none before the first decision.

    Raises:
        FatalError: an end that stays stuck.
        Unreachable: central does not answer.
    """
    return read_to_end(cluster, names.decisions, [0]) if topics.partition_count(cluster, names.decisions) else []


def append_decisions(config: HubConfig, decided: Sequence[NewDecision]) -> list[ChainLink]:
    """Append decisions and wait until central has them; the topic is made where there is none.

    Raises:
        FatalError: an end that stays stuck.
        Unreachable: central does not take them; nothing was decided then.
    """
    names = HubNames(config.hub)
    topics.ensure(config.central, [decisions_topic(names)], replication_factor=config.replication_factor)
    why = "no answer"
    for failures in range(1, _ATTEMPTS + 1):
        writer = TransactionalWriter(config.central, names.decisions)
        try:
            writer.open()  # fences others, so the end that is read next is final
            return _append(writer, config.central, names, decided)
        except (Fenced, TransactionAborted, OutcomeUnknown) as error:
            why = error.message
        finally:
            writer.close()
        time.sleep(_PAUSES.pause_s(failures, chance=secrets.SystemRandom().random()))
    raise Unreachable(
        f"{names.decisions} at {config.central.bootstrap_servers} did not take the decision: {why}",
        hint=f"check the broker, and the principal's right on the topic and the transactional id {names.decisions}",
    )


def _append(
    writer: TransactionalWriter, cluster: ClusterConfig, names: HubNames, decided: Sequence[NewDecision]
) -> list[ChainLink]:
    there, made = plan_append(read_decisions(cluster, names), decided, principal_of(cluster))
    if made:
        writer.begin()
        for link in made:
            writer.produce(names.decisions, link.kind.value, link.encode(), partition=0)
        writer.commit()
    return [*there, *made]
