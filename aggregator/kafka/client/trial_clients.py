"""This module makes trial clients that never connect, to find settings that contradict each other or the hub's own.

Invariant: a trial client has no connection, no secrets and no files. It knows no broker and signs in as nobody.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from aggregator.config.document import ConfigFault, Place
from aggregator.config.librdkafka import ALIASES, IDENTITY
from aggregator.config.model import ClusterConfig, HubConfig
from aggregator.config.secrets import SecretRef
from aggregator.config.transport import properties
from aggregator.kafka.client import clients
from aggregator.kafka.client.clients import Role

_NAME = re.compile(r"[a-z]+(?:\.[a-z]+)+")


def unmakeable(config: HubConfig) -> Iterator[ConfigFault]:
    """What keeps clients of a configuration from being made, in librdkafka's words, at the setting that they name."""
    yield from _of(config.central, ("central",), config, None)
    for name, edge in config.edges.items():
        yield from _of(edge, ("edges", name), config, edge.rate_limit)


def _of(cluster: ClusterConfig, place: Place, config: HubConfig, rate: int | None) -> Iterator[ConfigFault]:
    nobody = _anonymous(cluster)
    buffer_bytes = config.replication.fetch_buffer
    reading = [{}] if rate is None else [{}, clients.slow_fetch(rate)]
    tried: list[tuple[Role, Callable[[dict[str, Any]], Any], dict[str, Any]]] = [
        *((Role.CONSUMER, Consumer, clients.reading_options(nobody, buffer_bytes, one)) for one in reading),
        (Role.PRODUCER, Producer, clients.writing_options(nobody, "tried", config.replication.commit_bytes, {})),
        (Role.ADMIN, AdminClient, clients.connection_options(nobody, Role.ADMIN)),
    ]
    reported = set()
    for role, make, options in tried:
        del options["bootstrap.servers"]
        try:
            made = make(options | {"log_level": 0})
        except KafkaException as refused:
            words = refused.args[0].str()
            if (role, words) not in reported:
                reported.add((role, words))
                yield ConfigFault(_place(cluster, place, role, words), f"no {role} can be made of it: {words}")
        else:
            if role is Role.CONSUMER:
                made.close()


def _anonymous(cluster: ClusterConfig) -> ClusterConfig:
    """The configuration of the cluster for a client that does not sign in."""
    blocks = {"client": properties(cluster.client)} | {role.value: getattr(cluster, role.value) for role in Role}
    plain = {
        block: {name: value for name, value in of_block.items() if not isinstance(value, SecretRef)}
        for block, of_block in blocks.items()
    }
    plain["client"] = {name: value for name, value in plain["client"].items() if name not in IDENTITY}
    return cluster.model_copy(update=plain | {"msk_iam": None})


def _place(cluster: ClusterConfig, place: Place, role: Role, words: str) -> Place:
    """The first setting of the file that the words name; the cluster where they name none."""
    for said in _NAME.findall(words):
        for block in (role.value, "client"):
            for name in getattr(cluster, block):
                if ALIASES.get(name, name) == said:
                    return (*place, block, name)
    return place
