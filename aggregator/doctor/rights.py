"""Checks whether the hub's principal may do what the hub does: finds missing rights, by cluster, topic and name.

Invariant: pure. A right is called missing only if the cluster says so. For a topic that exists, the source is the list
of operations that the cluster allows the hub. For a transactional id it is the id's coordinator. For topics that do not
exist yet, and for ids that were not asked about, it is the authorizer's rules. The hub must have the right to read
these rules. They are also the source for groups, of which the hub itself has none. An id about which no source says
anything is named.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from shlex import quote

from aggregator.config.model import HubConfig
from aggregator.coordinates import HEARTBEATS
from aggregator.doctor.finding import Finding, failed, listed, ok, warning
from aggregator.kafka.probes.cluster_view import Acl, ClusterView, Topics
from aggregator.state.names import HubNames
from aggregator.state.rights import (
    ALTER,
    ALTER_CONFIGS,
    CONFIGS,
    CREATE,
    DESCRIBE,
    GROUP,
    READ,
    TAKEOVER,
    TOPIC,
    TRANSACTIONAL_ID,
    WRITE,
    Right,
    central_rights,
    edge_rights,
)

_NO_AUTHORIZER = ""
_ANYBODY = "User:*"
# The name of the cluster as a whole in the authorizer's rules.
_CLUSTER = "kafka-cluster"
# This key is present if somebody has set that setting; its value is not read.
_OPEN = "allow.everyone.if.no.acl.found"
_WHOLE = Right("cluster", "", False, (DESCRIBE,), "to tell what is missing")
# Each of these implies Describe.
_IMPLYING = {"DESCRIBE": ("READ", "WRITE", "DELETE", "ALTER"), "DESCRIBE_CONFIGS": ("ALTER_CONFIGS",)}
# The hub's words for operations, and those of Kafka's protocol.
_CALLED = {
    READ: "READ",
    WRITE: "WRITE",
    CREATE: "CREATE",
    DESCRIBE: "DESCRIBE",
    ALTER: "ALTER",
    CONFIGS: "DESCRIBE_CONFIGS",
    ALTER_CONFIGS: "ALTER_CONFIGS",
}


@dataclass(frozen=True, slots=True)
class Principal:
    """The hub's identity at a cluster.

    Attributes:
        name: The name, as `User:hub`; empty where only the cluster knows it.
        servers: Bootstrap servers for a command that grants rights.
        is_certain: The brokers call it so; they may have other names for certificates and Kerberos.
    """

    name: str
    servers: str
    is_certain: bool = True

    def grant(self, need: Right, operations: Iterable[str]) -> str:
        """The command that grants the operations of a right."""
        words = " ".join(f"--operation {one}" for one in operations)
        name = need.name or ("*" if need.kind == GROUP else "")
        who, what = self.name or "User:<the hub>", f"--{need.kind} {quote(name)}" if name else f"--{need.kind}"
        what += " --resource-pattern-type prefixed" if need.prefixed and need.name else ""
        return f"kafka-acls --bootstrap-server {self.servers} --add --allow-principal {quote(who)} {words} {what}"


def findings(
    cluster: str,
    principal: Principal,
    view: ClusterView,
    topics: Topics,
    needs: Iterable[Right],
    *,
    writable: Mapping[str, bool] | None = None,
) -> Iterator[Finding]:
    """A finding for each missing right, or one that says that none is missing.

    Args:
        cluster: The cluster's name.
        principal: The principal that we sign in as.
        view: The cluster's description of itself.
        topics: Topics that were asked for; those that are not there are in neither of its parts.
        needs: The hub's operations there, each resource name in full.
        writable: Transactional ids, as far as their coordinators say whether we may write under them.
    """
    well, known, unknown = True, 0, list[str]()
    for need in needs:
        if need.kind == TRANSACTIONAL_ID and need.name in (writable or {}):
            missing: tuple[str, ...] | None = () if (writable or {})[need.name] else need.operations
        else:
            missing = missing_operations(need, principal, view, topics)
        if missing is None:
            unknown += [need.name] if need.kind == TRANSACTIONAL_ID and not _answers(principal, view) else []
            continue
        known += 1
        if missing:
            well = False
            words, kind = " and ".join(missing), need.kind.replace("-", " ")
            what = f"{principal.name or 'the hub'} has no right to {words} on {kind} {need.name or '*'}: {need.why}"
            yield failed(cluster, "rights", what, principal.grant(need, missing))
    if unknown:
        well = False
        yield _unknown(cluster, principal, unknown)
    if well and known:
        yield ok(cluster, "rights", f"nothing that the cluster tells of is missing for {principal.name or 'the hub'}")


def _unknown(cluster: str, principal: Principal, ids: Iterable[str]) -> Finding:
    """Coordinators are asked only once it is sure that no running hub loses its id by that."""
    what = f"nobody tells whether {principal.name or 'the hub'} may write under the transactional ids {listed(ids)}"
    then = f"aggregator acls print --for {cluster}; or, so that it is told: {principal.grant(_WHOLE, (DESCRIBE,))}"
    return warning(cluster, "rights", what, then)


def _has_authorizer(view: ClusterView) -> bool:
    """Whether there is one, as far as is known."""
    return view.settings is None or view.settings.get("authorizer.class.name", _NO_AUTHORIZER) != _NO_AUTHORIZER


def _answers(principal: Principal, view: ClusterView) -> bool:
    """Whether the cluster's rules can be read, and say of us what we may do; without an authorizer there are none."""
    if not _has_authorizer(view):
        return True
    return view.acls is not None and view.settings is not None and bool(principal.name) and principal.is_certain


def missing_operations(need: Right, principal: Principal, view: ClusterView, topics: Topics) -> tuple[str, ...] | None:
    """Operations that we may not do; None where nobody tells."""
    if need.kind != TOPIC:
        return _by_rules(need.operations, need, principal, view)
    shown = topics.views.get(need.name)
    there = tuple(one for one in need.operations if one != CREATE)
    if shown is not None:
        rights = shown.rights
        return None if rights is None else tuple(one for one in there if not _among(_CALLED[one], rights))
    operations = there if "CREATE" in (view.rights or ()) else need.operations
    if need.name in topics.denied:
        return operations
    return None if need.name in topics.refused else _by_rules(operations, need, principal, view)


def _among(operation: str, rights: frozenset[str]) -> bool:
    return bool(rights & {operation, "ALL", *_IMPLYING.get(operation, ())})


def _by_rules(
    operations: tuple[str, ...], need: Right, principal: Principal, view: ClusterView
) -> tuple[str, ...] | None:
    """The rights that no rule of the authorizer grants; None without rules, or if they do not cover the hub."""
    settings = view.settings
    if view.acls is None or settings is None or not _answers(principal, view):
        return None
    if not _has_authorizer(view) or _beyond_rules(principal, view):
        return None
    kind = need.kind.upper().replace("-", "_")
    if _OPEN in settings and not any(_is_about(rule, kind, need.name) for rule in view.acls):
        return None
    return tuple(one for one in operations if not allowed(view.acls, principal.name, kind, need.name, _CALLED[one]))


def _beyond_rules(principal: Principal, view: ClusterView) -> bool:
    """Whether we may do something with the cluster that no rule gives: as a super user, or as everybody may.

    A broker tells no value of `super.users`, nor of any other setting of its authorizer.
    """
    rules = view.acls or ()
    return any(
        not allowed(rules, principal.name, "BROKER", _CLUSTER, operation)
        for operation in (view.rights or frozenset()) - {"ALL"}
    )


def _is_about(rule: Acl, kind: str, name: str) -> bool:
    return rule.kind == kind and (name.startswith(rule.name) if rule.is_prefix else rule.name in (name, "*"))


def allowed(acls: Iterable[Acl], principal: str, kind: str, name: str, operation: str) -> bool:
    """Whether rules allow an operation: one that denies it beats all that allow it."""
    about = [rule for rule in acls if _is_about(rule, kind, name) and rule.principal in (principal, _ANYBODY)]
    wide = {operation, "ALL"}
    if any(not rule.allows and rule.operation in wide and rule.host == "*" for rule in about):
        return False
    enough = wide | set(_IMPLYING.get(operation, ()))
    return any(rule.allows and rule.operation in enough for rule in about)


def edge_needs(config: HubConfig, edge: str, wanted: Collection[str]) -> list[Right]:
    """The rights that the hub uses at an edge.

    Args:
        config: The hub's configuration.
        edge: The edge's name.
        wanted: Topics that are replicated, without the heartbeats.
    """
    topics = {*wanted, HEARTBEATS}
    return [one for one in edge_rights(config, edge, wanted) if one.kind == GROUP or one.name in topics]


def central_needs(config: HubConfig, wanted: Collection[str], asked: Collection[str]) -> list[Right]:
    """The rights that the hub uses at central.

    Args:
        config: The hub's configuration.
        wanted: Topics that are replicated from any edge, without the heartbeats.
        asked: Topics that the hub keeps or fills.
    """
    rights = central_rights(config, wanted)
    found = [one for one in rights if one.kind == GROUP or (not one.prefixed and one.kind != TOPIC)]
    found += [one for one in rights if one.kind == TOPIC and not one.prefixed and one.name in asked]
    ids = [HubNames(config.hub).slot_id(slot) for slot in range(config.replication.slots)]
    begun = [one for one in rights if one.prefixed and one.kind == TRANSACTIONAL_ID]
    slots = (one._replace(name=id_, prefixed=False) for one in begun if one.why != TAKEOVER for id_ in ids)
    tasks = (one._replace(name=f"{one.name}0", prefixed=False) for one in begun if one.why == TAKEOVER)
    return [*found, *slots, *tasks]


def mirrormaker_topics(config: HubConfig) -> set[str]:
    """Topics of MirrorMaker 2 that flows begin by."""
    return {one.name for one in central_rights(config) if one.kind == TOPIC and one.why == TAKEOVER}
