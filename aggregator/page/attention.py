"""Lists what needs a person's attention, the worst first, each with its next step.

Invariant: pure. Every entry comes from the snapshot. The list is empty when nothing needs a person.
"""

import re
import shlex
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from aggregator.coordinates import EdgePartition, format_flows
from aggregator.lake.quality.verdicts import Verdict
from aggregator.observe.hub_status import EdgeStatus, Trouble
from aggregator.observe.snapshot import Snapshot
from aggregator.page.states import Badge, badge_of, badness
from aggregator.replicate.flow.cursor import HoldReason
from aggregator.replicate.flow.gaps import accept_command, sentence
from aggregator.state.lake_holds import format_places, group_by_reason

_HELD = Badge("Held", "stalled", "bad")
_WAITS = Badge("Waits", "lagging", "warn")
_GAP = Badge("Gap", "losing", "bad")
_LAKE = Badge("Lake", "stalled", "bad")
_QUALITY = Badge("Quality", "losing", "bad")
_CLUSTER = Badge("Cluster", "stalled", "bad")
_THREAD = Badge("Thread", "stalled", "bad")
_POLICY = Badge("Policy", "stalled", "bad")
# The runbook for a held flow, where its sentence does not say it all.
_RUNBOOKS: Mapping[str, str] = {
    HoldReason.UNDECIDED: "undecided-transaction.md",
    HoldReason.INCOMPATIBLE: "changed-policy.md",
    HoldReason.CLUSTER: "another-cluster.md",
}


class Need(NamedTuple):
    """One thing that needs a person's attention.

    Attributes:
        badge: Kind of the need.
        what: An edge, a flow, a table.
        why: Reason in a sentence.
        next: A command as it can be typed, or nothing.
        edge: Edge whose page says more; empty for none.
        runbook: File in `docs/runbooks`; empty for none.
    """

    badge: Badge
    what: str
    why: str
    next: str = ""
    edge: str = ""
    runbook: str = ""


def needs(seen: Snapshot) -> tuple[Need, ...]:
    """Everything that needs a person's attention."""
    return (
        *_threads(seen),
        *_policies(seen),
        *_clusters(seen),
        *_edges(seen),
        *_gaps(seen),
        *_flows(seen),
        *_lake(seen),
    )


def needs_somebody(edge: EdgeStatus) -> bool:
    """Whether somebody has to look at an edge; a maintenance window and a pause are known already."""
    return badness(edge.state) > 0 and not edge.maintenance


def _threads(seen: Snapshot) -> Iterator[Need]:
    for one in seen.status.threads:
        if not one.is_well:
            yield Need(_THREAD, f"thread {one.name}", f"{one.condition.value}: {one.error}", "aggregator status")


def _policies(seen: Snapshot) -> Iterator[Need]:
    for one in seen.status.objections:
        why = f"refused, so that the hub goes by its former ones: {one}"
        yield Need(_POLICY, "changed policies", why, "aggregator status --problems", runbook="changed-policy.md")


def _clusters(seen: Snapshot) -> Iterator[Need]:
    for one in seen.status.clusters:
        if one.why:
            accept = f'aggregator edge accept {one.name} --reason "…"'
            yield Need(_CLUSTER, one.name, one.why, accept, edge=one.name, runbook="another-cluster.md")


def _edges(seen: Snapshot) -> Iterator[Need]:
    for edge in sorted(seen.status.edges, key=lambda one: -badness(one.state)):
        if needs_somebody(edge):
            command = edge.remedy.command if edge.remedy else f"aggregator status --problems --edge {edge.edge}"
            yield Need(badge_of(edge.state), edge.edge, edge.reason, command, edge.edge, "edge-not-up.md")


def _gaps(seen: Snapshot) -> Iterator[Need]:
    for gap in seen.status.gaps:
        source = gap.source
        command = accept_command(source.edge, source.topic, source.partition)
        why = f"{sentence(gap.gap, gap.position.next_offset)}. The flow waits for your decision."
        yield Need(_GAP, str(source), why, command, source.edge, "accepted-gap.md")


def _flows(seen: Snapshot) -> Iterator[Need]:
    """One need for all flows of an edge that stand for the same reason, those without any position among them."""
    found: dict[tuple[str, Trouble], list[EdgePartition]] = defaultdict(list)
    flows = {flow.source: flow for flow in seen.status.flows}
    for source, flow in flows.items():
        if flow.trouble and flow.gap is None:
            found[source.edge, Trouble(flow.trouble, flow.held)].append(source)
    for source, still in seen.refused.items():
        if source not in flows:
            found[source.edge, Trouble.of_held(still)].append(source)
    for (edge, trouble), sources in found.items():
        what = format_flows(sources)
        badge, topic = (_HELD if trouble.held else _WAITS), re.escape(sources[0].topic)
        why = trouble.text.partition("\n")[0].removeprefix("held, ")
        command = f"aggregator status --problems --edge {edge} --topic {shlex.quote(topic)} --partitions"
        yield Need(badge, what, why, command, edge, _RUNBOOKS.get(trouble.held, ""))


def _lake(seen: Snapshot) -> Iterator[Need]:
    for table in seen.status.lake:
        if table.problem:
            yield Need(_LAKE, table.table, table.problem, "aggregator lake status")
        elif table.verdict == Verdict.HOLD:
            release = f'aggregator lake release {table.table} --reason "…"'
            why = "the quality gate holds its next commit"
            yield Need(_QUALITY, table.table, why, release, runbook="held-table.md")
        else:
            for holds, reason in group_by_reason(table.held):
                why = reason.partition("\n")[0]
                yield Need(_LAKE, format_places(holds), why, "aggregator lake status", runbook="held-table.md")
