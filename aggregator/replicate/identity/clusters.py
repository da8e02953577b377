"""This module checks that every name in the configuration still stands for the same cluster as before.

Invariant: pure but for a lock. Records of an edge are planned only while three conditions hold. Its cluster is the one
that the name has stood for; the cluster has no other name; and the cluster is not central. Any other cluster is foreign
until a person decides that it is the new one. The first id of a name is accepted as it comes. A cluster without an id
cannot be compared, and status says so.
"""

import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

from aggregator.config.model import HubConfig
from aggregator.errors import ConfigError
from aggregator.state.cluster_acceptances import ClusterAcceptance
from aggregator.state.control import NamedCluster

# The control topic keeps central's id under an empty edge name.
KEY_OF_CENTRAL = ""


class ClusterIds(NamedTuple):
    """Ids of central and, by name, of edges; empty where a cluster tells none."""

    central: str = ""
    edges: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class KnownClusters:
    """Holds the cluster ids for which the names have stood.

    Attributes:
        kept: Ids by edge, from the control topic; that of central under `CENTRAL`.
        acceptances: What people decided, by edge: the newest word.
    """

    kept: Mapping[str, str]
    acceptances: Mapping[str, ClusterAcceptance]

    def stands_for(self, name: str) -> str | None:
        """The id of a name, by a person's word or else by what was seen; None: nobody knows yet."""
        said = self.acceptances.get(name)
        return self.kept.get(name) if said is None else said.cluster_id

    @classmethod
    def of(cls, config: HubConfig, kept: Mapping[str, str], acceptances: Mapping[str, ClusterAcceptance]) -> Self:
        """What is known of the names of a configuration; a name that it has no more stands for nothing."""
        names = {KEY_OF_CENTRAL, *config.edges}
        return cls(
            {name: one for name, one in kept.items() if name in names},
            {name: one for name, one in acceptances.items() if name in names},
        )

    def accepts(self, name: str, shown: str) -> bool:
        """Whether a name may stand for this id: nothing is known of it, it is what is known, or a person says so."""
        kept, said = self.kept.get(name), self.acceptances.get(name)
        return kept is None or kept == shown or (said is not None and said.cluster_id == shown)


def refuse_duplicate_clusters(central: str, shown: Mapping[str, str]) -> None:
    """Refuse a configuration in which one cluster stands under two names.

    Args:
        central: Its id.
        shown: Ids of the edges that answer.

    Raises:
        ConfigError: names each pair.
    """
    found = list(_twins(central, shown))
    if found:
        raise ConfigError(found, hint="correct `bootstrap_servers` of one of them; aggregator doctor shows every id")


def _twins(central: str, shown: Mapping[str, str]) -> Iterator[str]:
    seen = {central: "central"} if central else {}
    for edge, one in shown.items():
        if one and one in seen:
            what = "its records would come back to where they are" if one == central else "each record would come twice"
            yield f"edge {edge} and {seen[one]} are the same cluster ({one}): {what}"
        elif one:
            seen[one] = f"edge {edge}"


def refuse_central(central: str, known: KnownClusters) -> None:
    """Refuse a central whose topics of this hub were written at another cluster: a copy has other offsets and ids.

    Raises:
        ConfigError: names both.
    """
    if not known.accepts(KEY_OF_CENTRAL, central):
        before = known.kept[KEY_OF_CENTRAL]
        raise ConfigError(
            f"central is {_named(central)}, and what it has of this hub was written at {_named(before)}:"
            " a copy of a central is not the central that the positions speak of",
            hint="correct `central.bootstrap_servers`; if it is the same one under a new id: aggregator edge accept"
            ' central --reason "…"',
        )


def foreign_cluster(edge: str, shown: str, known: KnownClusters, central: str, others: Mapping[str, str]) -> str:
    """Why the cluster that answers for an edge is not read; empty if it may be.

    Args:
        edge: Its name.
        shown: The id that it tells.
        known: Clusters for which the names have stood.
        central: Id of central.
        others: Ids of the other edges, as far as they are read.
    """
    if shown and shown == central:
        return f"edge {edge} leads to central itself ({shown}): correct its `bootstrap_servers`"
    elsewhere = {name: known.stands_for(name) for name in {*known.kept, *known.acceptances} - {KEY_OF_CENTRAL}} | dict(
        others
    )
    twin = next((other for other, one in sorted(elsewhere.items()) if other != edge and one and one == shown), "")
    if twin and twin not in others and not known.accepts(edge, shown):
        twin = ""  # the cause is that its name stood for another cluster
    if twin:
        return f"edge {edge} leads to the cluster of edge {twin} ({shown}): correct `bootstrap_servers` of one of them"
    if known.accepts(edge, shown):
        return ""
    before = known.kept[edge]
    owner = next((other for other, one in known.kept.items() if one and one == shown and other != edge), None)
    whose = "" if owner is None else f", that of {f'edge {owner}' if owner else 'central'}"
    return (
        f"edge {edge} leads to {_named(shown)}{whose}, and its name stood for {_named(before)}: correct its"
        f" `bootstrap_servers`, or say that it is the new cluster: aggregator edge accept {edge}"
        ' --reason "…"'
    )


def acceptance_fault(
    asked: ClusterAcceptance, known: KnownClusters, central: str, shown: Mapping[str, str | None]
) -> str:
    """Why a name cannot stand for a cluster, whatever a person says; empty if it can.

    Args:
        asked: What the person says.
        known: Clusters for which the names have stood.
        central: Id of central.
        shown: Ids by edge, as they answer.
    """
    if asked.edge == KEY_OF_CENTRAL:
        return ""
    then = replace(known, acceptances={**known.acceptances, asked.edge: asked})
    read = {name: one for name, one in shown.items() if one and name != asked.edge and known.accepts(name, one)}
    return foreign_cluster(asked.edge, asked.cluster_id, then, central, read)


def _named(cluster_id: str) -> str:
    return f"cluster {cluster_id}" if cluster_id else "a cluster that tells no id"


class Identity(NamedTuple):
    """The cluster that answers under a name.

    Attributes:
        name: `central`, or an edge's.
        cluster_id: Id that the cluster tells; empty: it tells none; None: nobody answers.
        known: Id for which the name has stood; None if there is none yet.
        why: Reason why the cluster is not read; empty: it is, or would be.
    """

    name: str
    cluster_id: str | None
    known: str | None
    why: str = ""

    @property
    def sentence(self) -> str:
        """What is to be said of it; empty where nothing is."""
        if self.cluster_id == "" and not self.why:
            return "it tells no cluster id: nothing shows another cluster in its place, or the same under two names"
        return self.why


def identities(central: str, shown: Mapping[str, str | None], known: KnownClusters) -> tuple[Identity, ...]:
    """The identity of the cluster under every name.

    Args:
        central: The cluster id of central.
        shown: Ids by edge; None: it does not answer.
        known: What the names have stood for.
    """
    read: dict[str, str] = {}
    found = [Identity("central", central, known.kept.get(KEY_OF_CENTRAL))]
    for edge, one in shown.items():
        why = "" if one is None else foreign_cluster(edge, one, known, central, read)
        found.append(Identity(edge, one, known.kept.get(edge), why))
        if one is not None and not why:
            read[edge] = one
    return tuple(found)


class ClusterGuard:
    """Judges the cluster that answers for each edge, for all watches of a process; `learn` must be called first.

    Attributes:
        central: Id of central; empty where it tells none.
    """

    def __init__(self) -> None:
        self.central = ""
        self._known = KnownClusters({}, {})
        self._read: dict[str, str] = {}  # ids of the edges that may be read
        self._first: dict[str, str] = {}  # ids that this process saw first; they count even before central keeps them
        self._lock = threading.Lock()

    def judge(self, edge: str, shown: str) -> str:
        """Why an edge that tells this id is not read; see `foreign_cluster`. Called at every look at it."""
        with self._lock:
            known = replace(self._known, kept={**self._first, **self._known.kept})
            why = foreign_cluster(edge, shown, known, self.central, self._read)
            if why:
                self._read.pop(edge, None)
            else:
                self._read[edge] = shown
                self._first.setdefault(edge, shown)
            return why

    def is_known(self, edge: str) -> bool:
        """Whether an edge's own cluster answered last."""
        with self._lock:
            return edge in self._read

    def learn(self, central: str, known: KnownClusters) -> None:
        """Learn which clusters the names stand for now."""
        with self._lock:
            self.central, self._known = central, known

    def accept(self, acceptances: Mapping[str, ClusterAcceptance]) -> list[ClusterAcceptance]:
        """What people have decided since; those of it that are new."""
        with self._lock:
            fresh = [one for edge, one in acceptances.items() if self._known.acceptances.get(edge) != one]
            self._known = replace(self._known, acceptances={**self._known.acceptances, **acceptances})
            return fresh

    def keep(self, published: Iterable[NamedCluster]) -> None:
        """Keep the clusters whose records were published to central."""
        with self._lock:
            now = {one.edge: one.cluster_id for one in published}
            self._known = replace(self._known, kept={**self._known.kept, **now})

    def unpublished_clusters(self) -> list[NamedCluster]:
        """A record for each cluster that is read and not kept yet, or kept otherwise."""
        with self._lock:
            found = {KEY_OF_CENTRAL: self.central, **self._read}
            return [NamedCluster(name, one) for name, one in found.items() if self._known.kept.get(name) != one]

    @property
    def ids(self) -> ClusterIds:
        """The ids of the clusters that are read now."""
        with self._lock:
            return ClusterIds(self.central, dict(self._read))
