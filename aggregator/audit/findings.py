"""Holds the answer of an audit: for each flow what was compared, what explains a difference, what is wrong, and what
was left out.

Invariant: a flow is OK only if it was compared and every difference is explained. Every finding is named with its exact
offsets, and every omission with its reason. The JSON names and the exit codes are a contract.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from aggregator.audit.backfills import Restate
from aggregator.audit.omissions import CENTRAL, EDGE, FLOW, LAKE, Omission
from aggregator.audit.tally import AuditFinding, Sums
from aggregator.coordinates import EdgePartition, OffsetRange
from aggregator.errors import ExitCode
from aggregator.observe.gaps import KnownGap

NOTHING = OffsetRange(0, 0)
NOT_ASKED, NOT_COMPARED, EQUAL = "not asked", "not compared", "equal"
_WORST_FIRST = ("missing", "doubled", "unexplained")


@dataclass(frozen=True, slots=True)
class Selection:
    """Selects flows, and a part of them by the records' timestamps. An attribute that is None selects everything."""

    edge: str | None = None
    topic: str | None = None
    partition: int | None = None
    since: datetime | None = None
    until: datetime | None = None

    def takes(self, source: EdgePartition) -> bool:
        """Whether a flow is asked for."""
        asked = (self.edge, self.topic, self.partition)
        return all(want in (None, have) for want, have in zip(asked, source, strict=True))


@dataclass(frozen=True, slots=True)
class FlowAudit:
    """What was found about one flow.

    Attributes:
        source: The flow.
        incarnation: The present incarnation.
        offsets: Compared offsets at the edge.
        not_yet: Offsets at the edge after the ledger's position.
        sums: Counts and hashes.
        suppressed: Absent records that the ledger's count of suppressed ones explains, by number.
        in_lake: Whether the flow feeds a table.
        gaps: Gaps of the flow, decided or open.
        findings: What is wrong.
        restates: Restates of its rows, as far as its table has them.
        trouble: Why it could not be audited; empty otherwise.
        omissions: Parts of the flow that were not compared.
    """

    source: EdgePartition
    incarnation: int
    offsets: OffsetRange = NOTHING
    not_yet: int = 0
    sums: Sums = field(default_factory=Sums)
    suppressed: int = 0
    in_lake: bool = False
    gaps: tuple[KnownGap, ...] = ()
    findings: tuple[AuditFinding, ...] = ()
    restates: tuple[Restate, ...] = ()
    trouble: str = ""
    omissions: tuple[Omission, ...] = ()

    @property
    def verdict(self) -> str:
        """`ok`, `not asked`, `not compared`, or the worst kind of what was found."""
        kinds = {finding.kind for finding in self.findings}
        for kind in _WORST_FIRST:
            if kind in kinds:
                return kind
        if self.trouble:
            return NOT_ASKED
        return NOT_COMPARED if self.waits or self.says_nothing else "ok"

    @property
    def waits(self) -> bool:
        """Whether something was not compared that can be."""
        return bool(self.trouble) or any(not one.final for one in self.omissions)

    @property
    def says_nothing(self) -> bool:
        """Whether nothing was compared although there was, or had been, something."""
        return bool(self.trouble) or (not len(self.offsets) and any(one.place != LAKE for one in self.omissions))

    def part(self, place: str) -> str:
        """`equal`, `not compared`, or the worst kind of what was found at one place: `edge`, `central`, `lake`."""
        kinds = {finding.kind for finding in self.findings if finding.place == place}
        for kind in _WORST_FIRST:
            if kind in kinds:
                return kind
        here = [one for one in self.omissions if one.place in (place, FLOW)]
        there = {CENTRAL: self.sums.central, LAKE: self.sums.lake if self.in_lake else 0}
        # Two empty places do not count as equal: nobody can tell what was there before.
        absent = self.says_nothing or (place == LAKE and not self.in_lake) or (here and there.get(place, 1) == 0)
        return NOT_COMPARED if absent or any(not one.final for one in here) else EQUAL

    def plain(self) -> dict[str, Any]:
        """The contract of `-o json`; ranges are [start, end)."""
        sums = self.sums
        lake = {"records": sums.lake, "not_yet": sums.not_in_lake_yet, "hash": _hex(sums.hashes["lake"])}
        return {
            "edge": self.source.edge,
            "topic": self.source.topic,
            "partition": self.source.partition,
            "incarnation": self.incarnation,
            "from": self.offsets.start,
            "to": self.offsets.end,
            "not_yet": self.not_yet,
            "at_edge": {"records": sums.edge, "hash": _hex(sums.hashes["edge"])},
            "at_central": {"records": sums.central, "hash": _hex(sums.hashes["central"])},
            "in_lake": lake if self.in_lake else None,
            "explained": {
                "dead_letters": sums.dead,
                "suppressed": self.suppressed,
                "expired_at_central": sums.expired,
                "compacted_at_central": sums.compacted,
                "never_read": sums.never_read,
                "taken_out_by_restates": sums.restated,
            },
            "restates": [one.plain() for one in self.restates],
            "gaps": [gap.plain() for gap in self.gaps],
            "findings": [plain_finding(finding) for finding in self.findings],
            "trouble": self.trouble or None,
            "verdict": self.verdict,
            "parts": {place: self.part(place) for place in (EDGE, CENTRAL, LAKE)},
            "not_compared": [one.plain() for one in self.omissions],
        }


@dataclass(frozen=True, slots=True)
class UnknownOrigins:
    """Records in a central topic of the hub whose origin is no flow of the hub. `offsets` are central's."""

    topic: str
    partition: int
    offsets: tuple[OffsetRange, ...]


@dataclass(frozen=True, slots=True)
class Audit:
    """Holds the complete answer of an audit.

    Attributes:
        hub: The hub's name.
        flows: What was found about each flow.
        unknown_origins: Number of unknown origins in all central topics that were read.
        omissions: What was not compared beside flows, by what it is about: an edge, a table, the selection.
    """

    hub: str
    flows: tuple[FlowAudit, ...]
    unknown_origins: tuple[UnknownOrigins, ...]
    omissions: tuple[tuple[str, Omission], ...] = ()

    @property
    def exit_code(self) -> ExitCode:
        """5 when something is missing, 1 when something is doubled or unexplained, 4 when something was not compared.

        What can never be compared leaves the code alone, unless nothing is left beside it.
        """
        verdicts = {flow.verdict for flow in self.flows}
        if "missing" in verdicts:
            return ExitCode.DATA_LOSS
        if self.unknown_origins or verdicts & {"doubled", "unexplained"}:
            return ExitCode.FAILED
        waits = any(flow.waits for flow in self.flows) or any(not one.final for _, one in self.omissions)
        nothing = bool(self.flows) and all(flow.says_nothing for flow in self.flows)
        return ExitCode.HELD if waits or nothing else ExitCode.DONE

    @property
    def is_whole(self) -> bool:
        """Whether all of everything was compared."""
        return not self.omissions and not any(flow.trouble or flow.omissions for flow in self.flows)

    def plain(self) -> dict[str, Any]:
        """The JSON object that `-o json` promises for an audit."""
        return {
            "hub": self.hub,
            "ok": self.exit_code == 0,
            "flows": [flow.plain() for flow in self.flows],
            "strangers": [
                {"topic": one.topic, "partition": one.partition, "offsets": _pairs(one.offsets)}
                for one in self.unknown_origins
            ],
            "not_compared": [{"about": about} | one.plain() for about, one in self.omissions],
        }


def plain_finding(finding: AuditFinding) -> dict[str, Any]:
    """One finding as plain data for JSON."""
    return {
        "kind": finding.kind,
        "place": finding.place,
        "incarnation": finding.incarnation,
        "records": finding.records,
        "offsets": _pairs(finding.offsets),
        "note": finding.note or None,
    }


def _pairs(offsets: Sequence[OffsetRange]) -> list[list[int]]:
    return [[one.start, one.end] for one in offsets]


def _hex(number: int) -> str:
    return f"{number:032x}"
