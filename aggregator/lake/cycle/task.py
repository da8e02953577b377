"""The Spark task of the lake: reads a few spans of central, decodes them, stages Parquet files, and returns what it
staged.

Invariant: only references travel to an executor. Only file names, counts and the hub's own error texts come back. A
span that cannot go on is reported, and keeps the records before that point. A retried task stages again under new file
names, and no commit names the files of the first attempt.
"""

import base64
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from aggregator.config.model import ClusterConfig
from aggregator.config.secrets import SecretRef
from aggregator.coordinates import CentralPartition, OffsetRange
from aggregator.engine.archives import forget_archives
from aggregator.engine.collector import gc_disabled
from aggregator.engine.worker_log import show_warnings
from aggregator.errors import HoldError, RetryError, kind_and_place
from aggregator.kafka.readers.committed_reader import CommittedReader, CommittedRecords
from aggregator.lake.columns.columns import FIXED_COLUMNS, arrow_schema, initial_schema
from aggregator.lake.columns.decode import BatchDecoder, RecordHeld, newest_schema, record_held
from aggregator.lake.cycle.ranges import Span, SpanProgress, StagingOutcome
from aggregator.lake.storage.files import StagedFile, StagingWriter
from aggregator.lake.storage.folder import Folder
from aggregator.lake.tables.port import Tables
from aggregator.lake.tables.storage_errors import storage_errors
from aggregator.schema.registries import open_registry
from aggregator.schema.registry import Registry

# Tasks that one process runs one after the other: each is the number of a table, and the task's number in its plan.
TaskGroup = tuple[tuple[int, int], ...]
PIECE_BYTES = 4 * 1024 * 1024  # of keys and values, decoded at a time; a larger piece falls out of the CPU's cache


@dataclass(frozen=True)
class StagingPlan:
    """Holds what every task of one table's cycle needs, and the tasks. It is pickled into the Spark job.

    Args:
        name: Table name.
        folder: The table's folder, which every executor reaches.
        central: Where to read; secrets are references.
        registry: Central registry's reference.
        tables: The format, for its types.
        columns: The table's Arrow schema, serialised; None before the first commit.
        tasks: Spans of task 0, 1, …
        partition_columns: Columns that the table is divided by.
        apart: Whether records that only tell of an edge's record that it was left out are staged apart, as in the
            topics of a restate.
        registry_client: How to connect to the registry; secrets are references.
    """

    name: str
    folder: Folder
    central: ClusterConfig
    registry: str
    tables: Tables
    columns: bytes | None
    tasks: tuple[tuple[Span, ...], ...]
    partition_columns: tuple[str, ...] = ()
    apart: bool = False
    piece_bytes: int = PIECE_BYTES
    registry_client: Mapping[str, str | SecretRef] = field(default_factory=dict)

    def stage(self, number: int) -> StagingOutcome:
        """Read the spans of task `number`, and stage their records as Parquet files.

        Raises:
            RetryError: central, the registry or the folder does not answer; nothing stays staged.
        """
        registry = open_registry(self.registry, self.registry_client)
        columns = self._begun(registry) if self.columns is None else pa.ipc.read_schema(pa.py_buffer(self.columns))
        # A reader of its own: a reader that changes its partitions first waits for the broker's answer about the former
        # ones.
        reader = CommittedReader(self.central, max_bytes=self.piece_bytes)
        stage = StagingWriter(
            self.folder, columns, promotes=self.tables.promotes, partition_columns=self.partition_columns
        )
        running = _Running(self, reader, BatchDecoder(registry.schema), stage, StagingWriter(self.folder, None))
        try:
            with storage_errors(f"table {self.name}: {self.folder}"), gc_disabled():
                reached = running.read(self.tasks[number])
                return StagingOutcome(reached, running.stage.close(), running.left_out.close())
        except BaseException:
            running.abandon()
            raise
        finally:
            reader.close()

    def _begun(self, registry: Registry) -> pa.Schema | None:
        """The columns of a new table whose topics have had values of several types in one of them.

        If the registry does not answer, the first record that needs it raises the error.
        """
        topics, versions = sorted({span.partition.topic for spans in self.tasks for span in spans}), list[str]()
        with suppress(RetryError):
            versions = [one.text for topic in topics for one in registry.versions(f"{topic}-value")]
        schemas = []
        for text in versions:
            with suppress(HoldError):  # a schema that no table can hold is reported with its first record
                schemas.append(self.tables.narrowed(arrow_schema(text)))
        return initial_schema(schemas, self.tables.promotes)


@dataclass
class _Running:
    plan: StagingPlan
    reader: CommittedReader
    decoding: BatchDecoder
    stage: StagingWriter
    left_out: StagingWriter

    def abandon(self) -> None:
        """Remove everything that was staged."""
        self.stage.abandon()
        self.left_out.abandon()

    def read(self, spans: tuple[Span, ...]) -> tuple[SpanProgress, ...]:
        """Stage the spans; where one cannot go on, everything before that record is staged, and the others go on."""
        ranges = {(span.partition.topic, span.partition.partition): span.offsets for span in spans}
        held: dict[tuple[str, int], RecordHeld] = {}
        next_offsets = {at: offsets.start for at, offsets in ranges.items()}
        for piece in self.reader.read(ranges):
            at = (piece.topic, piece.partition)
            if at in held:
                continue
            try:
                self._add(piece)
                next_offsets[at] = piece.offsets[-1] + 1 if len(piece) else next_offsets[at]
                if piece.held:
                    raise piece.held
            except RecordHeld as error:
                held[at] = error
            except HoldError as error:  # not about one record: the partition cannot be read on
                held[at] = RecordHeld(next_offsets[at], error.message, hint=error.hint)
        return tuple(
            SpanProgress(span, held[at].offset, str(held[at])) if at in held else SpanProgress(span, span.offsets.end)
            for at, span in zip(ranges, spans, strict=True)
        )

    def _add(self, piece: CommittedRecords) -> None:
        """Stage a piece, or what lies before the first record that the table cannot take.

        Raises:
            RecordHeld: there is such a record; it is the first of its schema where its schema is what does not fit.
        """
        if not len(piece):
            return
        try:
            rows = self.decoding.table(piece)
            notices = None
            if self.plan.apart and piece.left_out:
                which = np.isin(piece.offsets, list(piece.left_out))
                notices, rows = rows.filter(pa.array(which)), rows.filter(pa.array(~which))
            if rows.num_rows:
                self.stage.add(rows.cast(self.plan.tables.narrowed(rows.schema)))
            if notices is not None:
                self.left_out.add(notices.select(FIXED_COLUMNS.names))
        except RecordHeld as error:
            self._add(piece.before(error.offset))
            raise
        except HoldError as error:
            refused = newest_schema(piece)  # this record, or one before it, which is then the newest of the rest
            self._add(piece.before(piece.offsets[refused]))
            raise record_held(piece, refused, f"cannot be written: {error.message}", error.hint) from None


def run_tasks(
    plans: Sequence[StagingPlan], groups: Sequence[TaskGroup], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The body of `mapInArrow`: numbers of groups in, one row out per task with its outcome as JSON."""
    show_warnings()
    for batch in batches:
        for group in batch.column(0).to_pylist():
            for table, number in groups[group]:
                outcome = _encoded_outcome(plans[table], number)
                yield pa.RecordBatch.from_pydict({"table": [table], "number": [number], "outcome": [outcome]})
    forget_archives()


def _encoded_outcome(plan: StagingPlan, number: int) -> str:
    try:
        return encode_outcome(plan.stage(number))
    except RetryError as error:
        return json.dumps({"retry": [error.message, error.hint]})
    except Exception as error:  # noqa: BLE001 - a library's text may quote a value, so only the kind of error travels
        return json.dumps({"retry": [f"table {plan.name}: {kind_and_place(error)}", "report it with this line"]})


def encode_outcome(outcome: StagingOutcome) -> str:
    """An outcome as JSON, which is what Spark carries back."""
    return json.dumps(
        {
            "reached": [[*one.span.partition, *one.span.offsets, one.next_offset, one.held] for one in outcome.reached],
            "files": _plain(outcome.files),
            "left_out": _plain(outcome.left_out),
        }
    )


def _plain(files: Iterable[StagedFile]) -> list[dict[str, Any]]:
    return [file._asdict() | {"schema": base64.b64encode(file.schema).decode()} for file in files]


def decode_outcome(text: str) -> StagingOutcome:
    """Read `encode_outcome`'s JSON.

    Raises:
        RetryError: the task could not do its work.
    """
    body: dict[str, Any] = json.loads(text)
    if "retry" in body:
        message, hint = body["retry"]
        raise RetryError(message, hint=hint)
    reached = tuple(
        SpanProgress(Span(CentralPartition(topic, topic_id, partition), OffsetRange(start, end)), next_offset, held)
        for topic, topic_id, partition, start, end, next_offset, held in body["reached"]
    )
    return StagingOutcome(reached, _files(body["files"]), _files(body["left_out"]))


def _files(plain: Iterable[Mapping[str, Any]]) -> tuple[StagedFile, ...]:
    return tuple(
        StagedFile(
            **{
                **file,
                "schema": base64.b64decode(file["schema"]),
                "partition": tuple((name, value) for name, value in file["partition"]),
            }
        )
        for file in plain
    )
