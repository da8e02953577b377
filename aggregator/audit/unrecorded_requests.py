"""Finds requests that a hub carries out although the chain of decisions has no record of them.

Invariant: pure. A person who may write requests could leave out the decision. So the chain is searched for a record of
each request. These are gaps that were passed over, pauses of edges, new clusters of edges, released ranges and
backfills. What the protocol itself decides (a recreated topic, a gap of heartbeats) needs no record.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from aggregator.backfill.backfill_state import Backfill
from aggregator.config.patterns import full_matches
from aggregator.coordinates import HEARTBEATS
from aggregator.state.decisions import ChainLink, DecisionKind
from aggregator.state.gap import GapDecision, GapKind
from aggregator.state.gap_rules import SkipRule, skip_rule
from aggregator.state.pauses import Pause
from aggregator.state.releases import Release
from aggregator.state.requests import Requests


class Requested(NamedTuple):
    """Holds the requests that a hub carries out.

    Attributes:
        requests: Requests about gaps and edges.
        releases: Releases of held ranges of the lake.
        backfills: Backfills, which write beside the live flows.
    """

    requests: Requests = Requests()
    releases: Sequence[Release] = ()
    backfills: Sequence[Backfill] = ()


def unrecorded(links: Sequence[ChainLink], requested: Requested) -> Iterator[str]:
    """One sentence for each request without its decision.

    Args:
        links: Links of the chain.
        requested: Read before the chain, because a decision is on record before it is a request.
    """
    yield from _gaps(links, requested.requests.decisions)
    yield from _edges(links, requested.requests.pauses.values())
    named = {link.about for link in links if link.kind is DecisionKind.CLUSTER}
    for word in requested.requests.acceptances.values():
        if word.about not in named:
            name = f"edge {word.edge}" if word.edge else "central"
            yield f"{name} is cluster {word.cluster_id} from now on, by {word.by} (claimed)"
    passed = {link.about for link in links if link.kind is DecisionKind.RELEASE}
    for release in requested.releases:
        if release.key not in passed:
            yield f"{release.key} is let pass by {release.by} (claimed)"
    yield from _backfills(links, requested.backfills)


def _gaps(links: Sequence[ChainLink], decisions: Iterable[GapDecision]) -> Iterator[str]:
    accepted = {link.about for link in links if link.kind is DecisionKind.GAP}
    rules = [word for link in links if (word := skip_rule(link)) is not None and word.skips]
    for decision in decisions:
        if decision.key not in accepted and not _is_of_a_rule(decision, rules):
            yield f"{decision.key} is accepted by {decision.by} (claimed)"


def _edges(links: Sequence[ChainLink], pauses: Iterable[Pause]) -> Iterator[str]:
    words = {link.about: link for link in links if link.kind in (DecisionKind.PAUSE, DecisionKind.RESUME)}
    asked = {pause.edge: pause for pause in pauses}
    for pause in asked.values():
        if not _is_that(pause, words.get(pause.edge)):
            yield f"edge {pause.edge} is {'paused' if pause.paused else 'resumed'} by {pause.by} (claimed)"
    for edge in sorted(edge for edge, link in words.items() if link.kind is DecisionKind.PAUSE and edge not in asked):
        yield f"edge {edge} was paused, and goes on"


def _backfills(links: Sequence[ChainLink], backfills: Iterable[Backfill]) -> Iterator[str]:
    words = {link.about: link for link in links if link.kind in (DecisionKind.BACKFILL, DecisionKind.CANCEL)}
    asked = {link.about for link in links if link.kind is DecisionKind.BACKFILL}
    for one in backfills:
        id_, cancelled = one.plan.id, one.cancelled
        if id_ not in asked:
            yield f"backfill {id_} is asked for by {one.started.by} (claimed)"
        elif cancelled is not None and (words[id_].kind, words[id_].by) != (DecisionKind.CANCEL, cancelled.by):
            yield f"backfill {id_} is cancelled by {cancelled.by} (claimed)"
        elif cancelled is None and words[id_].kind is DecisionKind.CANCEL:
            yield f"backfill {id_} was cancelled, and goes on"


def _is_of_a_rule(decision: GapDecision, rules: Iterable[SkipRule]) -> bool:
    if not decision.automatic:
        return False
    source = decision.source
    if decision.gap.kind is GapKind.RECREATED or source.topic == HEARTBEATS:
        return True
    return any(_speaks_of(word, source.edge, source.topic) for word in rules)


def _speaks_of(word: SkipRule, edge: str, topic: str) -> bool:
    """A pattern that RE2 refuses speaks of nothing; anybody may have written it."""
    if word.edges is not None and edge not in word.edges:
        return False
    try:
        return full_matches(word.match, [topic])[0]
    except ValueError:
        return False


def _is_that(pause: Pause, link: ChainLink | None) -> bool:
    """Whether the newest word on record is the one that holds."""
    if link is None:
        return False
    return ((link.kind is DecisionKind.PAUSE), link.by, link.reason) == (pause.paused, pause.by, pause.reason)
