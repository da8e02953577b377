"""Checks whether a cluster is what the hub needs: its identity, version and clock, and at central transactions and
replication.

Invariant: pure. What a cluster does not tell is no finding.
"""

from collections.abc import Iterable, Iterator, Mapping
from shlex import quote

from aggregator.coordinates import CENTRAL
from aggregator.count_text import format_count
from aggregator.doctor.finding import Finding, failed, listed, ok, warning
from aggregator.kafka.cluster.topic_spec import TopicSpec
from aggregator.kafka.probes.cluster_view import ClusterView, ProbedTopic
from aggregator.kafka.probes.listener import Listener

_METADATA, _FETCH = 3, 1
# The first version of Metadata with topic ids (KIP-516). They tell a recreated topic from the former one.
_WITH_TOPIC_IDS = 10
# The first version of Fetch that came with each release.
_RELEASES = {12: "2.7", 13: "3.1", 15: "3.5", 16: "3.7", 17: "3.9", 18: "4.1"}
_OLDEST = "2.8"
# A heartbeat that waits for its broker is written ten seconds after its time at most. A larger difference is clock
# skew.
_SKEW_MS = 30_000
_NONE_YET = "none of the hub's own topics is there yet; the first run creates them"
_TRANSACTION_STATE = "__transaction_state"


def identity(
    views: Mapping[str, ClusterView], elsewhere: Mapping[str, Mapping[str, str]], former_ids: Mapping[str, str]
) -> Iterator[Finding]:
    """Whether each name stands for one cluster, each cluster for one name, and each name for the one that it led to.

    Args:
        views: Views by cluster.
        elsewhere: Addresses of `bootstrap_servers` that lead to a cluster of another id, by cluster.
        former_ids: Former id, by cluster, for each name whose cluster now answers with another id.
    """
    known = {name: view for name, view in views.items() if view.cluster_id}
    for cluster, view in known.items():
        twins = [other for other, seen in known.items() if other != cluster and seen.cluster_id == view.cluster_id]
        foreign = elsewhere.get(cluster, {})
        if foreign:
            others = listed(f"{address} to {one}" for address, one in foreign.items())
            what = f"`bootstrap_servers` lead to several clusters: one is {view.cluster_id}, but {others}"
            yield failed(
                cluster, "id", what, f"write only addresses of one cluster into `bootstrap_servers` of {cluster}"
            )
        if twins and cluster != CENTRAL:
            what = f"is the same cluster as {listed(twins)} ({view.cluster_id}): its records would be delivered twice"
            then = f"correct `bootstrap_servers` of {cluster}, or of {listed(twins)}"
            yield failed(cluster, "id", f"{cluster} {what}", then)
        elif cluster in former_ids:
            former_id = former_ids[cluster] or "one without an id"
            what = f"leads to cluster {view.cluster_id}, and its name stood for {former_id}"
            result = "a hub does not start" if cluster == CENTRAL else "nothing of it is read"
            then = (
                f"correct `bootstrap_servers` of {cluster}; or, if this is the one from now on: aggregator edge accept"
            )
            yield failed(cluster, "id", f"{what}: {result}", f'{then} {cluster} --reason "…"')
        elif not foreign:
            yield ok(cluster, "id", f"is cluster {view.cluster_id}")


def version(cluster: str, listeners: tuple[Listener, ...]) -> Iterator[Finding]:
    """Whether the brokers are new enough, as far as they were greeted."""
    greeted = [one for one in listeners if one.versions]
    old = [one.address for one in greeted if one.versions.get(_METADATA, 0) < _WITH_TOPIC_IDS]
    if old:
        what = (
            f"{listed(old)} is older than Kafka {_OLDEST} and knows no topic ids, by which a recreated topic is found"
        )
        yield failed(cluster, "version", what, f"upgrade the brokers to Kafka {_OLDEST} or newer")
    elif greeted:
        releases = sorted({release(one.versions) for one in greeted})
        yield ok(cluster, "version", f"speaks as Kafka {' and '.join(releases)} or newer does")


def release(versions: Mapping[int, int]) -> str:
    """The newest release of which a broker shows that it has what came with it."""
    known = [name for fetch, name in _RELEASES.items() if fetch <= versions.get(_FETCH, 0)]
    return known[-1] if known else _OLDEST


def clock(cluster: str, skew_ms: int | None, ahead_ms: int | None) -> Iterator[Finding]:
    """Whether a cluster's clock goes as those of the others.

    Args:
        cluster: Name of the cluster.
        skew_ms: The cluster's clock minus the clock of the newest heartbeat's writer; None without a heartbeat.
        ahead_ms: The cluster's newest timestamp minus this machine's present; None if it stamped nothing.
    """
    found = [one for one in (skew_ms, ahead_ms) if one is not None]
    then = f"set the clocks of the brokers of {cluster} by NTP: chronyc tracking"
    if skew_ms is not None and abs(skew_ms) > _SKEW_MS:
        way = "ahead of" if skew_ms > 0 else "behind"
        yield warning(
            cluster, "clock", f"its clock is {abs(skew_ms) // 1000} s {way} that of its heartbeats' writer", then
        )
    elif ahead_ms is not None and ahead_ms > _SKEW_MS:
        what = f"its newest stamp is {ahead_ms // 1000} s ahead of this machine's clock"
        yield warning(cluster, "clock", what, f"{then}; and that of this machine")
    elif found:
        yield ok(cluster, "clock", "its stamps and the clock of its heartbeats' writer agree within 30 s")


def transactions(view: ClusterView, state: ProbedTopic | None, timeout_ms: int) -> Iterator[Finding]:
    """Whether central takes the hub's transactions.

    Args:
        view: Central's description of itself.
        state: The transaction state topic; None if it does not exist yet, or is not shown.
        timeout_ms: Timeout that the hub requests.
    """
    settings = view.settings
    if settings is None:
        return
    brokers, well = len(view.brokers), True
    longest = _number(settings, "transaction.max.timeout.ms")
    if longest is not None and longest < timeout_ms:
        well = False
        what = f"transaction.max.timeout.ms is {longest}, and the hub asks for {timeout_ms}: no transaction begins"
        then = f"set transaction.max.timeout.ms={timeout_ms} or more on the brokers; Kafka's default is 900000"
        yield failed(CENTRAL, "transactions", what, then)
    factor, least = (_number(settings, f"transaction.state.log.{name}") for name in ("replication.factor", "min.isr"))
    if state is None and factor is not None and factor > brokers:
        well = False
        what = f"transaction.state.log.replication.factor is {factor}, with {brokers} brokers: no transaction begins"
        then = f"start {factor - brokers} more, or set transaction.state.log.replication.factor={brokers}"
        yield failed(CENTRAL, "transactions", what, then)
    in_sync = brokers if state is None else state.in_sync
    if state is not None and state.settings is not None:
        least = _number(state.settings, "min.insync.replicas")
    if least is not None and least > in_sync:
        well = False
        what = f"{_TRANSACTION_STATE} needs {least} replicas in sync, and has {in_sync}: transactions wait"
        then = f"start the brokers that are away, or set transaction.state.log.min.isr={max(1, in_sync)} on all of them"
        yield failed(CENTRAL, "transactions", what, then)
    if well:
        yield ok(CENTRAL, "transactions", f"transactions of {timeout_ms // 1000} s are taken")


def replication(
    view: ClusterView, configured: int, topics: Mapping[str, ProbedTopic], servers: str
) -> Iterator[Finding]:
    """Whether topics can be made as they are to be, and written as they are.

    Args:
        view: Central's description of itself.
        configured: `replication_factor`; -1: as the brokers have it.
        topics: Topics of the hub, and those that it delivers to, as far as they are there.
        servers: Bootstrap servers for a suggested command.
    """
    brokers, well = len(view.brokers), True
    factor, name = configured, "`replication_factor`"
    if configured < 0 and view.settings is not None:
        factor, name = _number(view.settings, "default.replication.factor") or 1, "default.replication.factor"
    least = _number(view.settings or {}, "min.insync.replicas") or 1
    if factor > brokers:
        well = False
        what = f"{name} is {factor}, and there are {brokers} brokers: no topic can be created"
        yield failed(
            CENTRAL, "replication", what, f"start the brokers that are away, or set {name} to {brokers} at most"
        )
    elif 0 < factor < least:
        well = False
        what = f"min.insync.replicas is {least}, and new topics get {factor} replicas: nothing can be written to them"
        then = f"set `replication_factor: {least}` or more in hub.yaml, or min.insync.replicas={factor} on the brokers"
        yield failed(CENTRAL, "replication", what, then)
    elif factor == 1 and brokers > 1:
        well = False
        what = (
            f"new topics get one replica, with {brokers} brokers: one that is lost takes records and positions with it"
        )
        yield warning(CENTRAL, "replication", what, f"set `replication_factor: {min(3, brokers)}` in hub.yaml")
    for topic, seen in sorted(topics.items()):
        needs = _number(seen.settings or {}, "min.insync.replicas") or 1
        if seen.in_sync < needs:
            well = False
            yield failed(CENTRAL, "replication", *_too_few(topic, seen, needs, servers))
    if well and factor > 0:
        yield ok(CENTRAL, "replication", f"{factor} replicas on {brokers} brokers, of which {least} must be in sync")


def own_topics(topics: Mapping[str, ProbedTopic], specs: Iterable[TopicSpec], servers: str) -> Iterator[Finding]:
    """Whether what the hub keeps in Kafka is kept as it must be.

    Args:
        topics: Existing topics.
        specs: Specifications by which the hub creates its own topics.
        servers: Bootstrap servers for a suggested command.
    """
    well, seen = True, 0
    for spec in specs:
        there = topics[spec.name].settings if spec.name in topics else None
        seen += there is not None
        wrong = {name: value for name, value in spec.settings.items() if there is not None and there.get(name) != value}
        if wrong and there is not None:
            well = False
            settings = ", ".join(f"{name}={there.get(name)}" for name in wrong)
            what = f"{spec.name} has {settings}: what the hub keeps there would be lost, or kept too long"
            given = ",".join(f"{name}={value}" for name, value in wrong.items())
            then = f"kafka-configs --bootstrap-server {servers} --alter --entity-type topics"
            then += f" --entity-name {quote(spec.name)} --add-config {quote(given)}"
            yield failed(CENTRAL, "topics", what, then)
    if well:
        yield ok(
            CENTRAL, "topics", f"{format_count(seen, 'topic')} of the hub's own, as they must be" if seen else _NONE_YET
        )


def _too_few(topic: str, seen: ProbedTopic, needs: int, servers: str) -> tuple[str, str]:
    what = f"{topic} needs {needs} replicas in sync, and has {seen.in_sync} of {seen.replicas}: nothing can be written"
    if seen.replicas >= needs:
        return what, "start the brokers that are away"
    return what, (
        f"kafka-configs --bootstrap-server {servers} --alter --entity-type topics --entity-name {quote(topic)}"
        f" --add-config min.insync.replicas={seen.replicas}"
    )


def _number(settings: Mapping[str, str], name: str) -> int | None:
    text = settings.get(name, "")
    return int(text) if text.lstrip("-").isdecimal() else None
