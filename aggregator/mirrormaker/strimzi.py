"""Reads Strimzi's `KafkaMirrorMaker2` in both versions of its format: clusters with mirrors, or a target with sources.

Invariant: every leaf of the document is a key of its own. Secrets of Kubernetes are named but never fetched.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from aggregator.config.document import Place
from aggregator.mirrormaker.dedicated import is_enabled, setting_of_flow, tell_enabled
from aggregator.mirrormaker.result import FileKey
from aggregator.mirrormaker.scoped_settings import Mirror, ScopedSetting, role_of
from aggregator.mirrormaker.sign_in import CA, CERTIFICATE, KEY

_KUBERNETES = "says how MirrorMaker runs on Kubernetes"
_WORKER = "of Connect's workers, which the hub does not have"
_PATTERNS = {
    "topicsPattern": "topics",
    "topicsExcludePattern": "topics.exclude",
    "topicsBlacklistPattern": "topics.exclude",
    "groupsPattern": "groups",
    "groupsExcludePattern": "groups.exclude",
    "groupsBlacklistPattern": "groups.exclude",
}
_CONNECTORS = ("sourceConnector", "checkpointConnector", "heartbeatConnector")
_MECHANISMS = {
    "plain": "PLAIN",
    "scram-sha-256": "SCRAM-SHA-256",
    "scram-sha-512": "SCRAM-SHA-512",
    "oauth": "OAUTHBEARER",
}
_STANDS = "the connector stands still there; the hub reads this edge once it runs (`aggregator edge pause` holds it)"
_OF_WORKERS = ("groupId", "configStorageTopic", "offsetStorageTopic", "statusStorageTopic")
# Fields of Strimzi's `authentication`, with the property that each is translated to.
_SIGN_IN = {
    "username": "sasl.username",
    "clientId": "sasl.oauthbearer.client.id",
    "tokenEndpointUri": "sasl.oauthbearer.token.endpoint.url",
    "scope": "sasl.oauthbearer.scope",
}
_SECRETS = {"passwordSecret": "sasl.password", "clientSecret": "sasl.oauthbearer.client.secret"}
Leaves = Mapping[Place, FileKey]


def take_apart(data: Mapping[str, Any], leaves: Leaves) -> Mirror:
    """Sort every leaf by the cluster, the flow and the client that it speaks of.

    Args:
        data: The document; its leaves are text, None, or empty sections.
        leaves: Each leaf's place and what stands there.
    """
    mirror = Mirror("Strimzi's KafkaMirrorMaker2", keys_are_places=True)
    spec = _section(data.get("spec"))
    reader = _Reader(mirror, leaves)
    for index, cluster in enumerate(_list(spec.get("clusters"))):
        reader.cluster(_section(cluster), ("spec", "clusters", index))
    target = reader.cluster(_section(spec.get("target")), ("spec", "target")) if "target" in spec else ""
    for index, one in enumerate(_list(spec.get("mirrors"))):
        reader.mirror(_section(one), ("spec", "mirrors", index), target)
    reader.rest()
    return mirror


class _Reader:
    """Walks a document and reports each leaf once."""

    def __init__(self, mirror: Mirror, leaves: Leaves) -> None:
        self._mirror = mirror
        self._leaves = leaves
        self._taken: set[Place] = set()
        self._under: dict[Place, list[Place]] = {}
        for place in leaves:
            for length in range(len(place)):
                self._under.setdefault(place[:length], []).append(place)

    def cluster(self, cluster: Mapping[str, Any], place: Place) -> str:
        """Read how to reach one cluster, and return its alias."""
        alias = str(cluster.get("alias") or "")
        if alias and alias not in self._mirror.clusters:
            self._mirror.clusters.append(alias)
        self._mapped((*place, "alias"), "edges, central")
        self._piece((*place, "bootstrapServers"), "bootstrap.servers", alias)
        for name in _OF_WORKERS:
            self._not_applicable((*place, name), _WORKER)
        self._config((*place, "config"), alias)
        has_tls = self._tls(cluster, place, alias)
        self._authentication(_section(cluster.get("authentication")), place, alias, has_tls=has_tls)
        return alias

    def mirror(self, one: Mapping[str, Any], place: Place, target: str) -> None:
        """Read one flow: its clusters, its selection, and its connectors."""
        source = str(one.get("sourceCluster") or "")
        if "source" in one:
            source = self.cluster(_section(one["source"]), (*place, "source"))
        target = str(one.get("targetCluster") or "") or target
        config = _section(_section(one.get("sourceConnector")).get("config"))
        if (
            "sourceConnector" in one
            and is_enabled(str(config.get("enabled", True)))
            and source in self._mirror.clusters
            and target in self._mirror.clusters
            and (source, target) not in self._mirror.flows
        ):
            self._mirror.flows.append((source, target))
        for name in ("sourceCluster", "targetCluster"):
            self._mapped((*place, name), "edges, central")
        for field, name in _PATTERNS.items():
            self._piece((*place, field), name, "", (source, target))
        for connector in _CONNECTORS:
            copies = connector == "sourceConnector"
            self._piece((*place, connector, "tasksMax"), "tasks.max", "", (source, target))
            for field, stands in (("pause", ("true",)), ("state", ("paused", "stopped"))):
                if copies and str(_section(one.get(connector)).get(field)).lower() in stands:
                    self._not_applicable((*place, connector, field), _STANDS)
            for found, name in self._below((*place, connector, "config")):
                entry = self._take(found)
                if name == "enabled":
                    tell_enabled(self._mirror, entry, copies=copies)
                else:
                    self._mirror.scoped_settings.append(setting_of_flow(entry, name, source, target, of_records=copies))

    def rest(self) -> None:
        """Note that the leaves that are left do not apply to a hub."""
        for place, entry in self._leaves.items():
            if place not in self._taken:
                self._mirror.fates.not_applicable(entry, _KUBERNETES)

    def _tls(self, cluster: Mapping[str, Any], place: Place, alias: str) -> bool:
        """Whether it is spoken; certificates of version v1 also stand beside it."""
        tls = (*place, "tls")
        for where in ((*tls, "trustedCertificates"), (*place, "trustedCertificates")):
            listed = _list(
                _section(cluster.get("tls")).get("trustedCertificates")
                if where[:-1] == tls
                else cluster.get("trustedCertificates")
            )
            for index, one in enumerate(listed):
                certificate = _section(one)
                key = str(certificate.get("certificate") or certificate.get("pattern") or "")
                self._secret((*where, index), CA, alias, str(certificate.get("secretName") or ""), key)
        return "tls" in cluster or "trustedCertificates" in cluster

    def _authentication(self, found: Mapping[str, Any], place: Place, alias: str, *, has_tls: bool) -> None:
        place = (*place, "authentication")
        kind = str(found.get("type") or "")
        if kind == "custom":
            self._config((*place, "config"), alias)
        self._protocol(kind, place, alias, has_tls=has_tls)
        for field, name in _SIGN_IN.items():
            self._piece((*place, field), name, alias)
        for field, name in _SECRETS.items():
            secret = _section(found.get(field))
            key = str(secret.get("password") or secret.get("key") or "")
            self._secret((*place, field), name, alias, str(secret.get("secretName") or ""), key)
        both = _section(found.get("certificateAndKey"))
        for field, name in (("certificate", CERTIFICATE), ("key", KEY)):
            at = (*place, "certificateAndKey", field)
            if at in self._leaves:
                value = f"{both.get('secretName') or ''}\n{both.get(field) or ''}"
                self._piece(at, name, alias, value=value)
                self._piece((*place, "certificateAndKey", "secretName"), name, alias, value=value)

    def _protocol(self, kind: str, place: Place, alias: str, *, has_tls: bool) -> None:
        """Record the settings that require TLS and signing in."""
        signs_in, at = kind in _MECHANISMS, (*place, "type")
        protocol = ("SASL_" if signs_in else "") + ("SSL" if has_tls or kind == "tls" else "PLAINTEXT")
        if kind and not signs_in and kind != "tls":
            why = "its `config` says how" if kind == "custom" else "is a way to sign in that the hub does not have"
            self._not_applicable(at, why)
        tls = (*place[:-1], "tls")
        leaves = [
            one for one in (at, tls, (*tls, "trustedCertificates")) if one in self._leaves and one not in self._taken
        ]
        if protocol != "PLAINTEXT" and kind != "custom":
            for leaf in leaves:
                self._piece(leaf, "security.protocol", alias, value=protocol)
            if not leaves and (near := next(self._near(place[:-1]), None)) is not None:
                self._mirror.scoped_settings.append(ScopedSetting(near, "security.protocol", protocol, alias))
        if signs_in and at in self._leaves:
            self._mirror.scoped_settings.append(
                ScopedSetting(self._leaves[at], "sasl.mechanism", _MECHANISMS[kind], alias)
            )

    def _secret(self, place: Place, name: str, alias: str, secret: str, key: str) -> None:
        """A secret of Kubernetes: its name is a key, and so is the name within it."""
        value = f"{secret}\n{key}" if name == CA else f"${{secrets:{secret}:{key}}}"
        if (*place, "secretName") in self._leaves:
            for leaf, _ in self._below(place):
                self._piece(leaf, name, alias, value=value)

    def _config(self, place: Place, alias: str) -> None:
        for found, written in self._below(place):
            role, name = role_of(written)
            entry = self._take(found)
            self._mirror.scoped_settings.append(ScopedSetting(entry, name, entry.value, alias, role))

    def _below(self, place: Place) -> Iterator[tuple[Place, str]]:
        """Leaves below a section that nobody took, each with its name there."""
        for found in self._under.get(place, ()):
            if found not in self._taken:
                yield found, ".".join(map(str, found[len(place) :]))

    def _near(self, place: Place) -> Iterator[FileKey]:
        for name in ("tls", "trustedCertificates", "bootstrapServers", "alias"):
            at = (*place, name)
            yield from (self._leaves[found] for found in (at, *self._under.get(at, ())) if found in self._leaves)

    def _take(self, place: Place) -> FileKey:
        self._taken.add(place)
        return self._leaves[place]

    def _piece(
        self, place: Place, name: str, alias: str, flow: tuple[str, str] = ("", ""), value: str | None = None
    ) -> None:
        if place in self._leaves:
            entry = self._take(place)
            given = entry.value if value is None else value
            self._mirror.scoped_settings.append(ScopedSetting(entry, name, given, alias, "", *flow))

    def _mapped(self, place: Place, to: str) -> None:
        if place in self._leaves:
            self._mirror.fates.mapped(self._take(place), to)

    def _not_applicable(self, place: Place, why: str) -> None:
        if place in self._leaves:
            self._mirror.fates.not_applicable(self._take(place), why)


def _section(found: Any) -> Mapping[str, Any]:
    return found if isinstance(found, Mapping) else {}


def _list(found: Any) -> Sequence[Any]:
    return found if isinstance(found, list) else []
