"""Keeps the history of verdicts: JSON lines in `<table>__quality/<day>.jsonl` beside the table. Lines are appended and
never changed.

Invariant: a verdict's line is on disk before its commit is made, so every published commit has a verdict. A second line
records the commit. Lines hold only names, counts and times. After a crash between the two lines the range is audited
again, and the verdict without a commit does not count.
"""

import json
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

from aggregator.config.lake_model import QUALITY
from aggregator.lake.cycle.ranges import Span
from aggregator.lake.quality.verdicts import RuleFinding, Verdict
from aggregator.lake.storage.folder import Folder
from aggregator.lake.tables.storage_errors import storage_errors

_AUDITED, _COMMITTED, _COMPLETED = "audited", "committed", "completed"
_DAY = len("2026-01-01")
_WRITER = uuid.uuid4().hex[:8]  # in an object store no two writers share a file
Range = tuple[str, int, int, int]


@dataclass(frozen=True, slots=True)
class RuleCount:
    """What one rule found: see `Finding`."""

    rule: str
    type: str
    column: str
    view: str
    action: str
    passed: bool
    raised: bool
    evaluated: int | None
    unexpected: int | None
    note: str = ""

    @classmethod
    def of(cls, finding: RuleFinding) -> "RuleCount":
        """Make a count from a finding, without the rule's arguments."""
        rule = finding.rule
        return cls(
            rule.name,
            rule.type,
            rule.column,
            rule.view,
            rule.action,
            finding.passed,
            finding.raised,
            finding.evaluated,
            finding.unexpected,
            finding.note,
        )


@dataclass(frozen=True, slots=True)
class CommitAudit:
    """Records the audit of one commit.

    Attributes:
        id: The id of this audit.
        at_ms: When it was made, in milliseconds since 1970.
        table: The table's name.
        verdict: The verdict on the commit.
        rows: Records that were staged, tombstones included.
        diverted: Records that went into the quarantine.
        ranges: Central topic, partition, start and end offset.
        suites: Fingerprint by name.
        rules: What each rule found.
        audit_s: What the gate took, in seconds.
        commit_s: What the commits took; None where none came about.
        version: The table's version that holds them, likewise.
        released_by: Whose word let it pass; empty where nobody's was needed.
        reason: The reason that was given for it, likewise.
    """

    id: str
    at_ms: int
    table: str
    verdict: Verdict
    rows: int
    diverted: int
    ranges: tuple[Range, ...]
    suites: Mapping[str, str]
    rules: tuple[RuleCount, ...]
    audit_s: float
    commit_s: float | None = None
    version: int | None = None
    released_by: str = ""
    reason: str = ""

    def plain(self) -> dict[str, Any]:
        """The audit as plain data for JSON."""
        return asdict(self) | {"verdict": self.verdict.value}


@dataclass(frozen=True, slots=True)
class AuditTotals:
    """Sums over audits, for metrics.

    Attributes:
        verdicts: Commits by verdict.
        diverted: Records in the quarantine.
        audit_s: Seconds of the gate.
        commit_s: Seconds of the commits beside it.
        unexpected: Failed values by rule.
        raised: By rule, how often it could not be evaluated.
        failed: By rule, the commits that it failed or could not be evaluated for.
    """

    verdicts: Mapping[str, int]
    diverted: int
    audit_s: float
    commit_s: float
    unexpected: Mapping[str, int]
    raised: Mapping[str, int]
    failed: Mapping[str, int]


def range_of(span: Span) -> Range:
    """Convert a span to a range of the history."""
    return (span.partition.topic, span.partition.partition, span.offsets.start, span.offsets.end)


def append_audit(lake: Folder, audit: CommitAudit) -> None:
    """Write a verdict, to the disk.

    Raises:
        TableUnavailable: the folder cannot be written.
    """
    _append(lake, audit.table, audit.at_ms, {"event": _AUDITED, **audit.plain()})


def append_commit(lake: Folder, audit: CommitAudit) -> None:
    """Write what became of an audited commit, whose `version` and `commit_s` are known now.

    Raises:
        TableUnavailable: the folder cannot be written.
    """
    entry = {"event": _COMMITTED, "id": audit.id, "table": audit.table, "version": audit.version}
    _append(lake, audit.table, audit.at_ms, entry | {"commit_s": audit.commit_s})


def append_completion(lake: Folder, table: str, version: int, ranges: Sequence[Range], *, now_s: float) -> None:
    """Write that a range which an earlier audit decided is in the table by now.

    Raises:
        TableUnavailable: the folder cannot be written.
    """
    _append(lake, table, int(now_s * 1000), {"event": _COMPLETED, "table": table, "version": version, "ranges": ranges})


def read(lake: Folder, table: str, *, days: int | None = None) -> list[CommitAudit]:
    """Audits of one table, the oldest first; a line that a crash cut short is passed over.

    Args:
        lake: The folder that the tables lie in.
        table: The table's name.
        days: So many of the newest days that have any; None for all.

    Raises:
        TableUnavailable: a file cannot be read.
    """
    folder = lake / f"{table}{QUALITY}"
    with storage_errors(folder, hint="check the rights on the folder"):
        names = sorted(one.name for one in folder.entries() if one.name.endswith(".jsonl"))
        newest = sorted({name[:_DAY] for name in names})[0 if days is None else -days :]
        texts = [folder.read(name).decode(errors="replace") for name in names if name[:_DAY] in newest]
    found: dict[str, CommitAudit] = {}
    for entry in sorted(filter(None, (_parsed(line) for text in texts for line in text.split("\n"))), key=_order):
        _note(found, entry)
    return list(found.values())


def unrecorded_commit(audits: Sequence[CommitAudit], reached: Mapping[tuple[str, int], int]) -> CommitAudit | None:
    """The newest audit, if its commit succeeded but a crash prevented the line that records it.

    Args:
        audits: The oldest first.
        reached: The table's next offset by central topic and partition.
    """
    last = audits[-1] if audits else None
    if last is None or last.version is not None or last.verdict is Verdict.HOLD:
        return None
    return last if all(reached.get((topic, part)) == end for topic, part, _, end in last.ranges) else None


def _order(entry: Mapping[str, Any]) -> tuple[bool, int]:
    """Audits by their time, then what became of them: in an object store each writer has files of its own."""
    return entry["event"] != _AUDITED, entry.get("at_ms", 0)


def _note(found: dict[str, CommitAudit], entry: Mapping[str, Any]) -> None:
    if entry["event"] == _AUDITED:
        found[entry["id"]] = _audit(entry)
    elif entry["event"] == _COMMITTED and entry["id"] in found:
        found[entry["id"]] = replace(found[entry["id"]], version=entry["version"], commit_s=entry["commit_s"])
    elif entry["event"] == _COMPLETED:
        ranges = set(map(tuple, entry["ranges"]))
        for audit in reversed(found.values()):
            if audit.version is None and audit.verdict is not Verdict.HOLD and ranges & set(audit.ranges):
                found[audit.id] = replace(audit, version=entry["version"])
                break


def totals(audits: Iterable[CommitAudit]) -> AuditTotals:
    """Sum audits up; those that a crash left without a commit count with their time alone."""
    verdicts: Counter[str] = Counter()
    unexpected: Counter[str] = Counter()
    raised: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    diverted, audit_s, commit_s = 0, 0.0, 0.0
    for one in audits:
        audit_s += one.audit_s
        if one.version is None and one.verdict is not Verdict.HOLD:
            continue
        verdicts[one.verdict.value] += 1
        diverted += one.diverted
        commit_s += one.commit_s or 0.0
        for rule in one.rules:
            unexpected[rule.rule] += rule.unexpected or 0
            raised[rule.rule] += rule.raised
            failed[rule.rule] += not rule.passed
    return AuditTotals(dict(verdicts), diverted, audit_s, commit_s, dict(unexpected), dict(raised), dict(failed))


def _append(lake: Folder, table: str, at_ms: int, entry: Mapping[str, Any]) -> None:
    folder = lake / f"{table}{QUALITY}"
    # An object store takes only whole files. A file covers an hour, so that rewriting it stays cheap.
    name = f"{datetime.fromtimestamp(at_ms / 1000, UTC):{'%Y-%m-%d' if folder.on_disk else f'%Y-%m-%dT%H-{_WRITER}'}}"
    line = json.dumps(entry, ensure_ascii=False).encode() + b"\n"
    with storage_errors(folder):
        folder.append(f"{name}.jsonl", line)


def _parsed(line: str) -> Mapping[str, Any] | None:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    events = (_AUDITED, _COMMITTED, _COMPLETED)
    return entry if isinstance(entry, dict) and entry.get("event") in events else None


def _audit(entry: Mapping[str, Any]) -> CommitAudit:
    fields = {name: entry[name] for name in CommitAudit.__slots__ if name in entry}
    fields |= {"verdict": Verdict(entry["verdict"]), "ranges": tuple(map(tuple, entry["ranges"]))}
    return CommitAudit(**fields | {"rules": tuple(RuleCount(**rule) for rule in entry["rules"])})
