"""May the hub's principal do what the hub does: which right is missing, by cluster, topic and name.

Invariant: pure. Says what is missing only where the cluster tells it: of a topic that is there, by the operations that
the cluster allows us; of what is not there yet, and of transactional ids, by the authorizer's rules, where we may read
them. No group is asked for: the hub uses none.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from aggregator.doctor.finding import Finding, failed, ok
from aggregator.kafka.cluster_view import Acl, ClusterView, Topics

_NO_AUTHORIZER = ""
_ANYBODY = "User:*"
# Each of these implies Describe.
_IMPLYING = {"DESCRIBE": ("READ", "WRITE", "DELETE", "ALTER"), "DESCRIBE_CONFIGS": ("ALTER_CONFIGS",)}
_WORDS = {
    "READ": "Read",
    "WRITE": "Write",
    "DESCRIBE_CONFIGS": "DescribeConfigs",
    "CREATE": "Create",
    "DESCRIBE": "Describe",
}


@dataclass(frozen=True, slots=True)
class Need:
    """A right that the hub needs.

    Attributes:
        kind: TOPIC or TRANSACTIONAL_ID.
        name: Of the topic, or of the id.
        operations: Names as in Kafka's protocol.
        purpose: What for, in words.
        is_made: The hub creates it where it is not there.
    """

    kind: str
    name: str
    operations: tuple[str, ...]
    purpose: str
    is_made: bool = False


@dataclass(frozen=True, slots=True)
class Principal:
    """Who the hub is at a cluster.

    Attributes:
        name: As `User:hub`; empty where only the cluster knows it.
        servers: Where a command that gives it rights connects.
        is_certain: The brokers call it so; they may have other names for certificates and Kerberos.
    """

    name: str
    servers: str
    is_certain: bool = True

    def grant(self, need: Need, operations: Iterable[str]) -> str:
        """The command that gives rights."""
        kind = "--topic" if need.kind == "TOPIC" else "--transactional-id"
        words = " ".join(f"--operation {_WORDS.get(one, one)}" for one in operations)
        who = self.name or "User:<the hub's>"
        return (
            f"kafka-acls --bootstrap-server {self.servers} --add --allow-principal '{who}' {words} {kind} '{need.name}'"
        )


def findings(
    cluster: str, principal: Principal, view: ClusterView, topics: Topics, needs: Iterable[Need]
) -> Iterator[Finding]:
    """What is missing.

    Args:
        cluster: Its name.
        principal: Who we are there.
        view: What the cluster tells of itself.
        topics: Topics that were asked for; those that are not there are in neither of its parts.
        needs: What the hub does there.
    """
    well, told = True, 0
    for need in needs:
        missing = _missing(need, principal, view, topics)
        if missing is None:
            continue
        told += 1
        if missing:
            well = False
            words = " and ".join(_WORDS.get(one, one) for one in missing)
            kind = "topic" if need.kind == "TOPIC" else "transactional id"
            what = f"{principal.name or 'the hub'} has no right to {words} on {kind} {need.name}: {need.purpose}"
            yield failed(cluster, "rights", what, principal.grant(need, missing))
    if well and told:
        yield ok(cluster, "rights", f"nothing that the cluster tells of is missing for {principal.name or 'the hub'}")


def _missing(need: Need, principal: Principal, view: ClusterView, topics: Topics) -> tuple[str, ...] | None:
    """Operations that we may not do; None where nobody tells."""
    if need.kind != "TOPIC":
        return _by_rules(need.operations, need, principal, view)
    shown = topics.views.get(need.name)
    if shown is not None:
        rights = shown.rights
        return None if rights is None else tuple(one for one in need.operations if not _among(one, rights))
    fresh = need.is_made and "CREATE" not in (view.rights or ())
    operations = ("CREATE", *need.operations) if fresh else need.operations
    if "AUTHORIZATION" in topics.refused.get(need.name, ""):
        return operations
    return None if need.name in topics.refused else _by_rules(operations, need, principal, view)


def _among(operation: str, rights: frozenset[str]) -> bool:
    return bool(rights & {operation, "ALL", *_IMPLYING.get(operation, ())})


def _by_rules(
    operations: tuple[str, ...], need: Need, principal: Principal, view: ClusterView
) -> tuple[str, ...] | None:
    """What no rule of the authorizer gives us; None where it has none, or where they do not say it of us."""
    settings = view.settings
    if view.acls is None or settings is None or not principal.name or not principal.is_certain:
        return None
    if settings.get("authorizer.class.name", _NO_AUTHORIZER) == _NO_AUTHORIZER:
        return None
    if principal.name in settings.get("super.users", "").split(";"):
        return None
    if settings.get("allow.everyone.if.no.acl.found") == "true":
        return None
    return tuple(one for one in operations if not allowed(view.acls, principal.name, need.kind, need.name, one))


def allowed(acls: Iterable[Acl], principal: str, kind: str, name: str, operation: str) -> bool:
    """Whether rules allow an operation: one that denies it beats all that allow it."""
    about = [
        rule
        for rule in acls
        if rule.kind == kind
        and rule.principal in (principal, _ANYBODY)
        and (name.startswith(rule.name) if rule.is_prefix else rule.name in (name, "*"))
    ]
    wide = {operation, "ALL"}
    if any(not rule.allows and rule.operation in wide and rule.host == "*" for rule in about):
        return False
    enough = wide | set(_IMPLYING.get(operation, ()))
    return any(rule.allows and rule.operation in enough for rule in about)


def edge_needs(wanted: Iterable[str], *, heartbeats: str) -> list[Need]:
    """What the hub does at an edge.

    Args:
        wanted: Topics that are replicated, without the heartbeats.
        heartbeats: Name of the topic of the beats that the hub writes; empty: it writes none.
    """
    needs = [Need("TOPIC", name, ("READ", "DESCRIBE_CONFIGS"), "it is replicated") for name in sorted(wanted)]
    if heartbeats:
        needs.append(Need("TOPIC", heartbeats, ("READ", "WRITE"), "the hub writes its beats there", is_made=True))
    return needs


def central_needs(own: Iterable[str], targets: Iterable[str], ids: Iterable[str]) -> list[Need]:
    """What the hub does at central.

    Args:
        own: Topics of the hub itself.
        targets: Topics that records are delivered to.
        ids: Transactional ids.
    """
    return [
        *(
            Need("TOPIC", name, ("READ", "WRITE"), "the hub keeps its state there", is_made=True)
            for name in sorted(own)
        ),
        *(
            Need("TOPIC", name, ("READ", "WRITE", "DESCRIBE_CONFIGS"), "records are delivered there", is_made=True)
            for name in sorted(targets)
        ),
        *(Need("TRANSACTIONAL_ID", one, ("WRITE",), "records are delivered under it") for one in sorted(ids)),
    ]
