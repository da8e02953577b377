"""The gate between staging and commit. It audits what was staged, and then publishes, diverts or holds it.

Invariant: only audited records are committed, and records that cannot be evaluated are held. A held range is named
together with the rules that hold it. It is not audited again all the time while it is held and its suites are
unchanged.
"""

import logging
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from aggregator.config.model import HubConfig
from aggregator.config.suites import Suite, SuiteFaults, load_suite
from aggregator.coordinates import CentralPartition, OffsetRange
from aggregator.errors import ConfigError, HoldError, in_one_line
from aggregator.lake.columns.columns import FIXED_COLUMNS, merge_schemas
from aggregator.lake.cycle.commit import Commit, CommitResult, split_by_fit
from aggregator.lake.cycle.ranges import CommittableOutcomes, Span, StagingOutcome, TableHold
from aggregator.lake.quality import validation
from aggregator.lake.quality.dataframes import FILE, ROW, read_staged
from aggregator.lake.quality.diversion import Diverted, divert
from aggregator.lake.quality.publication import Published
from aggregator.lake.quality.quarantine import Quarantine, SplitOutcome
from aggregator.lake.quality.split import Split, marked
from aggregator.lake.quality.verdict_log import (
    CommitAudit,
    RuleCount,
    append_audit,
    append_commit,
    append_completion,
    range_of,
    read,
    unrecorded_commit,
)
from aggregator.lake.quality.verdicts import RuleFinding, Verdict, diverting, judge
from aggregator.lake.storage.files import StagedFile
from aggregator.lake.storage.folder import Folder
from aggregator.lake.storage.staging import discard
from aggregator.lake.tables.port import CommitConflict, TableHandle, Tables
from aggregator.state.releases import Release

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The audit of the same records may pass later, when the cause of a failure is gone (a disk, an executor).
AGAIN_S = 300.0
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Hold:
    """A hold: the offsets at which it began, and the time until which they are not audited again."""

    starts: Mapping[object, int]
    held: tuple[TableHold, ...]
    until: float


@dataclass(frozen=True, slots=True)
class _Vetted:
    """Describes the result of an audit of staged outcomes.

    Attributes:
        audit: The audit; None if there was nothing to audit.
        splits: Outcomes cut into the rows that the table gets, and the rows that the quarantine gets.
        spans: Spans of the outcomes that fit the table.
        unfit: Reasons why the other outcomes do not fit.
        held: Reasons why nothing may be committed.
    """

    audit: CommitAudit | None
    splits: list[SplitOutcome]
    spans: list[Span]
    unfit: tuple[TableHold, ...]
    held: tuple[TableHold, ...]


class QualityGate:
    """The quality gate of one table.

    Args:
        name: The table.
        suites: Its rules.
        spark: A session whose executors reach the lake.
        tables: The format.
        lake: The folder that the tables lie in.
        clock: Seconds since 1970.
    """

    def __init__(
        self,
        name: str,
        suites: Sequence[Suite],
        spark: "SparkSession",
        tables: Tables,
        lake: Folder,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._name = name
        self._suites = suites
        self._rules = [rule for suite in suites for rule in suite.rules]
        self._views = {name: path for suite in suites for name, path in suite.views.items()}
        self._diverts = any(suite.diverts for suite in suites)
        self._spark = spark
        self._tables = tables
        self._lake = lake
        self._clock = clock
        self._quarantine = Quarantine(tables, lake, name)
        self._hold: _Hold | None = None
        self._settled = False
        validation.check(name, self._rules)

    def repair_verdicts(self, handle: TableHandle | None, positions: Mapping[CentralPartition, int]) -> None:
        """Once in a gate: write down the commit that the former process made, if a crash kept it from saying so.

        Args:
            handle: The table's, None before its first commit.
            positions: Its next offsets.

        Raises:
            TableUnavailable: the folder of verdicts cannot be read or written.
        """
        if self._settled:
            return
        reached = {(one.topic, one.partition): offset for one, offset in positions.items()}
        last = unrecorded_commit(read(self._lake, self._name, days=1), reached) if handle else None
        if last and handle:
            append_commit(self._lake, replace(last, version=handle.version, commit_s=0.0))
        self._settled = True

    def still_held(self, spans: Sequence[Span]) -> tuple[TableHold, ...]:
        """The hold that these spans would meet again; empty when they are to be staged and audited."""
        hold = self._hold
        if hold is None or self._clock() > hold.until or hold.starts != _starts(spans):
            return ()
        return hold.held

    def publish(
        self,
        handle: TableHandle | None,
        outcomes: Sequence[StagingOutcome],
        *,
        force: bool,
        release: Release | None = None,
    ) -> Published:
        """Audit staged outcomes and commit what may be seen.

        Args:
            handle: The table's, whose positions the outcomes were planned from.
            outcomes: In the order of the plan.
            force: Commit positions that moved over nothing but markers, too.
            release: Somebody's word that all of this may pass, whatever the audit says.

        Raises:
            RetryError: Spark or the storage does not answer.
            HoldError: the quarantine cannot take the table's columns.
        """
        self._hold = None
        vetted = self._vet(handle, outcomes, release)
        audit = vetted.audit
        if audit and audit.verdict is Verdict.HOLD:
            self._hold = _Hold(_starts(vetted.spans), vetted.held, self._clock() + AGAIN_S)
            nothing = CommitResult(None, {}, CommittableOutcomes((), {}, ()))
            return _published(nothing, (*vetted.unfit, *vetted.held), audit, 0.0)
        begun = time.monotonic()
        result = self._commit(handle, vetted.splits, force=force)
        if audit and result.version is not None:
            audit = replace(audit, version=result.version, commit_s=time.monotonic() - begun)
            append_commit(self._lake, audit)
        return _published(result, vetted.unfit, audit, time.monotonic() - begun)

    def audit_replacement(
        self,
        handle: TableHandle,
        outcomes: Sequence[StagingOutcome],
        limits: Mapping[CentralPartition, OffsetRange],
    ) -> list[StagingOutcome]:
        """Audit rows that replace others in the table, as any commit; rows that fail go into the quarantine here.

        A second call for the same rows decides nothing anew.

        Args:
            handle: The table's.
            outcomes: Staged in the table's folder.
            limits: All that the central topics of these rows hold.

        Returns:
            The outcomes that the table may commit.

        Raises:
            HoldError: the rows must not be seen; says which rules they fail.
            RetryError: Spark or the storage does not answer, or another process decides the same rows now.
        """
        if self._diverts and self._quarantine.pending({}, limits):
            return self._quarantine.restage_accepted(outcomes)
        vetted = self._vet(handle, outcomes)
        if vetted.held or vetted.unfit:
            reasons = "; ".join(in_one_line(str(one)) for one in (*vetted.unfit, *vetted.held))
            raise HoldError(f"table {self._name}: {reasons}", hint="aggregator lake quality shows what each rule found")
        accepted = [split.accepted for split in vetted.splits]
        if not self._diverts:
            return accepted
        _, taken = self._quarantine.divert(vetted.splits)
        if len(taken) < len(accepted):
            self._discard(taken)
            raise CommitConflict(f"table {self._quarantine.name}: another process decides the same rows")
        return taken

    def record_commit(self, version: int, outcomes: Sequence[StagingOutcome]) -> None:
        """Add to the verdict that the admitted rows are in the table.

        Raises:
            TableUnavailable: the folder of verdicts cannot be written.
        """
        ranges = [range_of(one.span) for outcome in outcomes for one in outcome.reached]
        append_completion(self._lake, self._name, version, ranges, now_s=self._clock())

    def _vet(
        self, handle: TableHandle | None, outcomes: Sequence[StagingOutcome], release: Release | None = None
    ) -> _Vetted:
        """Audit outcomes and cut them; the verdict is on disk when this returns, and what is held is removed."""
        schema = handle.schema() if handle else self._tables.narrowed(FIXED_COLUMNS)
        columns, fitting, unfit = split_by_fit(schema, outcomes, self._tables.promotes)
        self._discard([outcome for outcome in outcomes if outcome not in fitting])
        audit, findings = self._audit(fitting, columns)
        splits = [SplitOutcome(outcome, StagingOutcome(outcome.reached, ())) for outcome in fitting]
        if audit and audit.verdict is Verdict.DIVERT:
            try:
                audit, findings, splits = self._divert(audit, findings, fitting, columns)
            except HoldError:  # the refusal is repeated, so files must not pile up
                self._discard(fitting)
                raise
        if audit and audit.verdict is Verdict.HOLD and release:
            audit = replace(audit, verdict=Verdict.RELEASE, released_by=release.by, reason=release.reason)
            splits = [SplitOutcome(outcome, StagingOutcome(outcome.reached, ())) for outcome in fitting]
        if audit:
            append_audit(self._lake, audit)
        for one in findings:
            if not one.passed:
                log.warning("table %s: %s: %s", self._name, audit.verdict if audit else "", one)
        spans = [one.span for outcome in fitting for one in outcome.reached]
        held: tuple[TableHold, ...] = ()
        if audit and audit.verdict is Verdict.HOLD:
            self._discard(fitting)
            held = _held(spans, findings)
        return _Vetted(audit, splits, spans, unfit, held)

    def _audit(
        self, outcomes: Sequence[StagingOutcome], columns: pa.Schema
    ) -> tuple[CommitAudit | None, list[RuleFinding]]:
        files = _files(outcomes)
        if not files:
            return None, []
        begun = time.monotonic()
        frame = read_staged(self._spark, self._lake / self._name, files, columns).drop(FILE, ROW)
        findings = validation.validate(frame, self._rules, self._views)
        audit = CommitAudit(
            id=uuid.uuid4().hex,
            at_ms=int(self._clock() * 1000),
            table=self._name,
            verdict=judge(findings),
            rows=sum(file.rows for file in files),
            diverted=0,
            ranges=tuple(range_of(one.span) for outcome in outcomes for one in outcome.reached),
            suites={suite.name: suite.fingerprint for suite in self._suites},
            rules=tuple(map(RuleCount.of, findings)),
            audit_s=time.monotonic() - begun,
        )
        return audit, findings

    def _divert(
        self, audit: CommitAudit, findings: list[RuleFinding], outcomes: Sequence[StagingOutcome], columns: pa.Schema
    ) -> tuple[CommitAudit, list[RuleFinding], list[SplitOutcome]]:
        """Cut the failing records out; a hold where their number is not the one that was found."""
        begun = time.monotonic()
        failed = diverting(findings)
        files = _files(outcomes)
        handle = self._tables.open(self._quarantine.name)
        wanted = marked(columns)
        if handle is not None:
            wanted = merge_schemas(handle.schema(), wanted, self._tables.promotes)
        ids = {one.span.partition.topic: one.span.partition.topic_id for outcome in outcomes for one in outcome.reached}
        folder = self._lake / self._name
        split = Split(folder, self._quarantine.folder, wanted.serialize().to_pybytes(), ids)
        frame = read_staged(self._spark, folder, files, columns)
        diverted = divert(frame, [one.rule for one in failed], self._views, files, split)
        wrong = [one for one in failed if diverted.counts.get(one.rule.name, 0) != one.unexpected]
        seconds = audit.audit_s + time.monotonic() - begun
        if wrong:
            diverted.drop(split)
            note = "its condition finds another number of failing values than Great Expectations"
            mismatched_findings = [replace(one, raised=True, note=note) if one in wrong else one for one in findings]
            rules = tuple(map(RuleCount.of, mismatched_findings))
            return replace(audit, verdict=Verdict.HOLD, rules=rules, audit_s=seconds), mismatched_findings, []
        discard(folder, [file.path for file in files if file.path in diverted.halves])
        splits = _split(outcomes, diverted)
        rows = sum(file.rows for split in splits for file in split.quarantined.files)
        return replace(audit, diverted=rows, audit_s=seconds), findings, splits

    def _commit(self, handle: TableHandle | None, splits: Sequence[SplitOutcome], *, force: bool) -> CommitResult:
        """Commit through the quarantine, if there is one; else as for a table without a gate."""
        if self._diverts:
            return self._quarantine.publish(handle, splits, force=force)
        outcomes = [split.accepted for split in splits]
        return Commit(self._tables, self._name, outcomes, force).run(handle)

    def _discard(self, outcomes: Sequence[StagingOutcome]) -> None:
        discard(self._lake / self._name, [file.path for file in _files(outcomes)])


def open_gates(
    config: HubConfig, spark: "SparkSession", tables: Tables, *, clock: Callable[[], float] = time.time
) -> dict[str, QualityGate]:
    """The gates of every table that has suites.

    Raises:
        ConfigError: a suite cannot be used.
    """
    assert config.lake is not None
    gates = {}
    for name, table in config.lake.tables.items():
        if table.quality:
            try:
                suites = [load_suite(one.suite, one.on_failure) for one in table.quality]
            except SuiteFaults as error:
                place = f"lake.tables.{name}.quality: {error}"
                raise ConfigError(place, hint="aggregator config lint tells every fault") from None
            gates[name] = QualityGate(name, suites, spark, tables, tables.folder, clock=clock)
    return gates


def _published(
    result: CommitResult, held: tuple[TableHold, ...], audit: CommitAudit | None, commit_s: float
) -> Published:
    if audit is None:
        return Published(result, held, commit_s=commit_s)
    diverted = 0 if result.version is None else audit.diverted
    return Published(result, held, audit.verdict, diverted, audit.audit_s, commit_s)


def _held(spans: Sequence[Span], findings: Sequence[RuleFinding]) -> tuple[TableHold, ...]:
    why = "; ".join(str(one) for one in findings if not one.passed and (one.raised or one.rule.action == "hold"))
    return tuple(
        TableHold(one.partition, f"offsets {one.offsets.start} to {one.offsets.end - 1}: {why}") for one in spans
    )


def _split(outcomes: Sequence[StagingOutcome], diverted: Diverted) -> list[SplitOutcome]:
    splits = []
    for outcome in outcomes:
        cut = [diverted.halves.get(file.path, ((file,), ())) for file in outcome.files]
        accepted, quarantined = (tuple(file for parts in cut for file in parts[side]) for side in (0, 1))
        splits.append(
            SplitOutcome(StagingOutcome(outcome.reached, accepted), StagingOutcome(outcome.reached, quarantined))
        )
    return splits


def _files(outcomes: Sequence[StagingOutcome]) -> list[StagedFile]:
    return [file for outcome in outcomes for file in outcome.files]


def _starts(spans: Sequence[Span]) -> dict[object, int]:
    starts: dict[object, int] = {}
    for span in spans:
        starts[span.partition] = min(span.offsets.start, starts.get(span.partition, span.offsets.start))
    return starts
