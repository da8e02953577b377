"""A broker with one listener for each thing that can be wrong with a listener, and settings that a hub cannot use.

Invariant: who plants and checks takes its plain listener, where everything is allowed.
"""

from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from aggregator.sandbox.broker import Broker
from aggregator.sandbox.classes import kafka_of
from aggregator.sandbox.jars import ensure_jars, kafka
from aggregator.sandbox.java import find_java
from aggregator.sandbox.ports import LOOPBACK, free_ports
from aggregator.sandbox.releases import KAFKA_VERSION, release
from aggregator.sandbox.state import new_cluster_id
from tests.authority import Authority
from tests.trial import settle

PASSWORD = "a-password-that-is-nowhere-else"
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
# Names of listeners: what is right, and what is wrong in one way each.
SECURED = ("right", "expired", "foreign", "host", "soon")
LISTENERS = (*SECURED, "mutual", "sasl", "lost")


@dataclass
class Faulty:
    """The broker: ports by listener, and who signed its certificates."""

    broker: Broker
    ports: dict[str, int]
    authority: Authority
    admin: AdminClient

    def address(self, listener: str) -> str:
        return f"{LOOPBACK}:{self.ports[listener]}"

    def create(self, topic: str, **config: str) -> None:
        settle(self.admin.create_topics([NewTopic(topic, 1, config=config)]))

    def allow(self, kind: ResourceType, name: str, *operations: AclOperation, prefix: bool = False) -> None:
        """Give the principal `hub` rights."""
        pattern = ResourcePatternType.PREFIXED if prefix else ResourcePatternType.LITERAL
        rules = [AclBinding(kind, name, pattern, "User:hub", "*", one, AclPermissionType.ALLOW) for one in operations]
        settle(self.admin.create_acls(rules))

    def client(self, **more: str) -> dict[str, str]:
        """A `client:` block that signs in at the listener `sasl`."""
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "hub",
            "sasl.password": "env:FAULTY_PASSWORD",
            "ssl.ca.location": str(self.authority.path),
        } | {name.replace("_", "."): value for name, value in more.items()}

    def tls(self) -> dict[str, str]:
        """A `client:` block that asks for TLS alone."""
        return {"security.protocol": "SSL", "ssl.ca.location": str(self.authority.path)}


@contextmanager
def faulty(folder: Path, settings: dict[str, str]):
    """The broker, started; ended with the block."""
    folder.mkdir(parents=True)
    port, controller, *free = free_ports(2 + len(LISTENERS) + 1)
    ports, lost = dict(zip(LISTENERS, free, strict=False)), free[-1]
    authority, other = Authority(folder), Authority(folder, "Another Authority")
    certificates = {
        "right": authority.sign("right"),
        "expired": authority.sign("expired", ends_in=-0.1),
        "foreign": other.sign("foreign"),
        "host": authority.sign("host", "broker.example"),
        "soon": authority.sign("soon", ends_in=5),
        "mutual": authority.sign("mutual"),
        "sasl": authority.sign("sasl"),
    }
    protocols = dict.fromkeys((*SECURED, "mutual"), "SSL") | {"sasl": "SASL_SSL", "lost": "PLAINTEXT"}
    own = {"PLAINTEXT": port, "CONTROLLER": controller} | {name.upper(): at for name, at in ports.items()}
    shown = own | {"LOST": lost}
    more = {
        "listeners": ",".join(f"{name}://{LOOPBACK}:{at}" for name, at in own.items()),
        "advertised.listeners": ",".join(f"{name}://{LOOPBACK}:{at}" for name, at in shown.items()),
        "listener.security.protocol.map": ",".join(
            ["PLAINTEXT:PLAINTEXT", "CONTROLLER:PLAINTEXT", *(f"{n.upper()}:{p}" for n, p in protocols.items())]
        ),
        "listener.name.sasl.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl.plain.sasl.jaas.config": f'{MODULE} required user_hub="{PASSWORD}";',
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.mutual.ssl.truststore.type": "PEM",
        "listener.name.mutual.ssl.truststore.location": str(authority.path),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    for name, path in certificates.items():
        more |= {
            f"listener.name.{name}.ssl.keystore.type": "PEM",
            f"listener.name.{name}.ssl.keystore.location": str(path),
        }
    newest = release(KAFKA_VERSION)
    program = kafka_of(newest, find_java(), ensure_jars(kafka(newest)))
    broker = Broker("faulty", folder / "broker", 1, port, (controller,), new_cluster_id(), program, more | settings)
    broker.start()
    try:
        yield Faulty(broker, ports, authority, AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 2}))
    finally:
        broker.stop()
