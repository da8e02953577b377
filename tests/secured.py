"""Clusters with doors that are locked: TLS by an authority of our own, SCRAM, tokens and client certificates.

Invariant: whoever checks takes the plain listener and may do everything; a hub under test comes in by a locked door, as
`User:hub`, and may do what it was granted. Nothing is granted at first.
"""

import re
import shlex
from argparse import ArgumentParser
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from aggregator.sandbox.broker import Broker
from aggregator.sandbox.ports import LOOPBACK, free_ports
from aggregator.sandbox.sandbox import STATE_FILE, Sandbox
from aggregator.sandbox.state import SandboxState
from tests.authority import Authority
from tests.oauth import AUDIENCE, TokenServer
from tests.trial import settle

PASSWORD = "a-password-that-is-nowhere-else"
SECRET = "a-client-secret-that-is-nowhere-else"
_TOKEN_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
_SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
_VALIDATOR = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    # `CN=hub` is the same principal as the user `hub`.
    "ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/,DEFAULT",
}
# JVM option: Kafka reads keys of a token server from nowhere else.
ALLOWED_URLS = "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls"


@dataclass(frozen=True, slots=True)
class Doors:
    """Where a cluster of one broker can be entered."""

    sasl: int
    mutual: int


@dataclass(frozen=True, slots=True)
class Secured:
    """Clusters, their doors, and what opens them.

    Attributes:
        sandbox: The clusters by their plain listeners.
        doors: By the cluster's name.
        authority: Signed every certificate.
        tokens: Hands out tokens; None where no broker takes one.
        admins: Of those who may do everything; a client that is let go takes back its questions.
    """

    sandbox: Sandbox
    doors: Mapping[str, Doors]
    authority: Authority
    tokens: TokenServer | None
    admins: dict[str, AdminClient] = field(default_factory=dict)

    def admin(self, cluster: str) -> AdminClient:
        """Who may do everything."""
        if cluster not in self.admins:
            where = self.sandbox.central if cluster == "central" else self.sandbox.edges[cluster]
            self.admins[cluster] = AdminClient({"bootstrap.servers": where.bootstrap, "log_level": 3})
        return self.admins[cluster]

    def grant_everything(self, user: str = "hub") -> None:
        """All rights on all clusters."""
        kinds = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)
        every = [right(kind, "*", AclOperation.ALL, user=user) for kind in kinds]
        every.append(right(ResourceType.BROKER, "kafka-cluster", AclOperation.ALL, user=user))
        for cluster in self.doors:
            settle(self.admin(cluster).create_acls(every))

    def revoke_everything(self) -> None:
        """None of them."""
        every = AclBindingFilter(
            ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
        )
        for cluster in self.doors:
            settle(self.admin(cluster).delete_acls([every]))

    def entered(self, cluster: str, how: str, folder: Path) -> dict[str, object]:
        """`bootstrap_servers` and `client` of a configuration: by `scram`, `token` or `mutual`.

        Args:
            cluster: Its name.
            how: The door.
            folder: Gets the files with secrets and keys, which the caller may replace.
        """
        doors, trust = self.doors[cluster], {"ssl.ca.location": str(self.authority.path)}
        if how == "mutual":
            certificate, key = self.authority.issue("hub")
            for path in (certificate, key):
                (folder / path.name).write_bytes(path.read_bytes())
            own = {"ssl.certificate.location": "hub.crt", "ssl.key.location": "hub.key"}
            return _by(doors.mutual, {"security.protocol": "SSL", **trust, **own})
        if how == "scram":
            (folder / f"{cluster}.password").write_text(PASSWORD)
            own = {
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.username": "hub",
                "sasl.password": f"file:{cluster}.password",
            }
        else:
            (folder / "client.secret").write_text(SECRET)
            own = {
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.client.id": "hub",
                "sasl.oauthbearer.client.secret": "file:client.secret",
                "sasl.oauthbearer.token.endpoint.url": self.tokens.tokens,
                "sasl.oauthbearer.scope": "hub",
                "https.ca.location": str(self.authority.path),
            }
        return _by(doors.sasl, {"security.protocol": "SASL_SSL", **trust, **own})

    def lead(self, trial, how: Mapping[str, str]) -> None:
        """Let a trial's hub enter each of these clusters by a door."""
        for cluster, door in how.items():
            section = trial.settings["central"] if cluster == "central" else trial.settings["edges"][cluster]
            section |= self.entered(cluster, door, trial.folder)
        trial.write()

    def give_password(self, cluster: str, password: str) -> None:
        """The password of `hub`, from now on."""
        scram = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        change = UserScramCredentialUpsertion("hub", scram, password.encode())
        settle(self.admin(cluster).alter_user_scram_credentials([change]))


def bindings(printed: str) -> list[AclBinding]:
    """What `kafka-acls` would make of these commands, by its own rules."""
    made = []
    parser = ArgumentParser("kafka-acls", exit_on_error=False)
    for option in ("--bootstrap-server", "--allow-principal"):
        parser.add_argument(option, required=True)
    parser.add_argument("--add", action="store_true", required=True)
    parser.add_argument("--operation", action="append", default=[])
    parser.add_argument("--resource-pattern-type", choices=["literal", "prefixed"], default="literal")
    for option in _KINDS:
        parser.add_argument(f"--{option}", action="append", default=[])
    for line in printed.splitlines():
        program, *words = shlex.split(line, comments=True) or [""]
        if not program:
            continue
        assert program == "kafka-acls"
        told = parser.parse_args(words)
        user = told.allow_principal.removeprefix("User:")
        prefix = told.resource_pattern_type == "prefixed"
        for option, kind in _KINDS.items():
            for name in vars(told)[option.replace("-", "_")]:
                operations = [AclOperation[re.sub(r"(?<=[a-z])(?=[A-Z])", "_", one).upper()] for one in told.operation]
                made += [right(kind, name, operation, user=user, prefix=prefix) for operation in operations]
    return made


_KINDS = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional-id": ResourceType.TRANSACTIONAL_ID,
}


def exactly(acl: AclBinding) -> AclBindingFilter:
    """A filter for this one."""
    return AclBindingFilter(
        acl.restype, acl.name, acl.resource_pattern_type, acl.principal, acl.host, acl.operation, acl.permission_type
    )


def right(kind: ResourceType, name: str, operation: AclOperation, *, user: str = "hub", prefix=False) -> AclBinding:
    """That somebody may do something."""
    pattern = ResourcePatternType.PREFIXED if prefix else ResourcePatternType.LITERAL
    return AclBinding(kind, name, pattern, f"User:{user}", "*", operation, AclPermissionType.ALLOW)


def _by(port: int, client: dict[str, str]) -> dict[str, object]:
    return {"bootstrap_servers": f"{LOOPBACK}:{port}", "client": client}


def _settings(broker: Broker, doors: Doors, pem: Path, authority: Authority, tokens) -> dict[str, str]:
    plain = f"PLAINTEXT://{broker.bootstrap},CONTROLLER://{LOOPBACK}:{broker.controller_port}"
    listeners = f"{plain},LOGIN://{LOOPBACK}:{doors.sasl},MUTUAL://{LOOPBACK}:{doors.mutual}"
    told = {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,LOGIN:SASL_SSL,MUTUAL:SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(pem),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.path),
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.login.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.login.scram-sha-512.sasl.jaas.config": f"{_SCRAM_MODULE} required;",
        **AUTHORIZER,
    }
    if tokens is None:
        return told
    trust = f'ssl.truststore.type="PEM" ssl.truststore.location="{authority.path}"'
    own = "listener.name.login.oauthbearer"
    return told | {
        "listener.name.login.sasl.enabled.mechanisms": "SCRAM-SHA-512,OAUTHBEARER",
        f"{own}.sasl.jaas.config": f'{_TOKEN_MODULE} required unsecuredLoginStringClaim_sub="broker" {trust};',
        f"{own}.sasl.server.callback.handler.class": _VALIDATOR,
        f"{own}.sasl.oauthbearer.jwks.endpoint.url": tokens.keys,
        f"{own}.sasl.oauthbearer.expected.audience": AUDIENCE,
        f"{own}.sasl.oauthbearer.expected.issuer": tokens.issuer,
    }


@contextmanager
def secured(
    folder: Path,
    authority: Authority,
    edges: tuple[str, ...] = ("eu",),
    tokens: TokenServer | None = None,
    session_s: int = 3600,
):
    """Central and edges with locked doors; ended with the block.

    Args:
        folder: Of the clusters.
        authority: Signs the brokers' certificates.
        edges: Names of the edges.
        tokens: A server whose tokens the brokers take.
        session_s: A connection lives no longer, nor than its token, unless the client signs in again.
    """
    state = SandboxState.fresh(edges)
    folder.mkdir(parents=True, exist_ok=True)
    state.write(folder / STATE_FILE)
    known = Sandbox.load(folder)
    taken = [port for broker in known.brokers for port in (broker.port, *broker.quorum)]
    free = iter(free_ports(2 * len(known.brokers), taken=taken))
    pem = authority.bundle("broker")
    settings, doors = {}, {}
    for broker in known.brokers:
        doors[broker.name] = Doors(next(free), next(free))
        session = {"listener.name.login.connections.max.reauth.ms": str(session_s * 1000)}
        settings[broker.name] = _settings(broker, doors[broker.name], pem, authority, tokens) | session
    sandbox = Sandbox.up(folder, edges, settings=settings)
    try:
        made = Secured(sandbox, doors, authority, tokens)
        for cluster in doors:
            made.give_password(cluster, PASSWORD)
        yield made
        made.admins.clear()
    finally:
        sandbox.down()
