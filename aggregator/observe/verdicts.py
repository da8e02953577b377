"""The answer of an audit: per flow what was compared, what explains a difference, and what is wrong.

Invariant: a flow is OK only if it was compared and every difference is explained; whatever was found is named with its
exact offsets. The JSON names and the exit codes are a contract.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from aggregator.coordinates import EdgePartition, OffsetRange
from aggregator.observe.gaps import KnownGap
from aggregator.observe.late import Restate
from aggregator.observe.tally import Finding, Sums

EXIT_MISSING = 5
EXIT_STRANGE = 1
EXIT_NOT_ASKED = 4
NOTHING = OffsetRange(0, 0)


@dataclass(frozen=True, slots=True)
class Selection:
    """Which flows, and which part of them by the records' timestamps; None is everything."""

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
        incarnation: The present one.
        offsets: What was compared, at the edge.
        not_yet: Offsets at the edge after the ledger's position.
        sums: Counts and hashes.
        suppressed: Absent records that the ledger's count of suppressed ones explains, by number.
        in_lake: Whether the flow feeds a table.
        gaps: Those of the flow, whatever became of them.
        findings: What is wrong.
        restates: Of its rows in the lake.
        trouble: Why it could not be audited; empty otherwise.
    """

    source: EdgePartition
    incarnation: int
    offsets: OffsetRange = NOTHING
    not_yet: int = 0
    sums: Sums = field(default_factory=Sums)
    suppressed: int = 0
    in_lake: bool = False
    gaps: tuple[KnownGap, ...] = ()
    findings: tuple[Finding, ...] = ()
    restates: tuple[Restate, ...] = ()
    trouble: str = ""

    @property
    def verdict(self) -> str:
        """`ok`, `not asked`, or the worst kind of what was found."""
        kinds = {finding.kind for finding in self.findings}
        for kind in ("missing", "doubled", "unexplained"):
            if kind in kinds:
                return kind
        return "not asked" if self.trouble else "ok"

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
        }


@dataclass(frozen=True, slots=True)
class Strangers:
    """Records in a central topic of ours whose origin is none of our flows; `offsets` are central's."""

    topic: str
    partition: int
    offsets: tuple[OffsetRange, ...]


@dataclass(frozen=True, slots=True)
class Audit:
    """The whole answer."""

    hub: str
    flows: tuple[FlowAudit, ...]
    strangers: tuple[Strangers, ...]

    @property
    def exit_code(self) -> int:
        """5 when something is missing, 1 when something is doubled or unexplained, 4 when something was not asked."""
        verdicts = {flow.verdict for flow in self.flows}
        if "missing" in verdicts:
            return EXIT_MISSING
        if self.strangers or verdicts & {"doubled", "unexplained"}:
            return EXIT_STRANGE
        return EXIT_NOT_ASKED if "not asked" in verdicts else 0

    def plain(self) -> dict[str, Any]:
        """The contract of `-o json`."""
        return {
            "hub": self.hub,
            "ok": self.exit_code == 0,
            "flows": [flow.plain() for flow in self.flows],
            "strangers": [
                {"topic": one.topic, "partition": one.partition, "offsets": _pairs(one.offsets)}
                for one in self.strangers
            ],
        }


def plain_finding(finding: Finding) -> dict[str, Any]:
    """One finding as plain data."""
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
