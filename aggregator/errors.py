"""The error tree: the family of an error is the action that it asks for, and each says where and what to do next.

    AggregatorError
    ├── RetryError            try again with backoff; nothing is decided
    │   ├── Unreachable           a broker or a registry does not answer
    │   │   ├── TokenRefused          schema/tokens.py: the token server refuses the registry's client
    │   │   ├── AnswerPending         schema/registry.py: a registry was asked, and its answer is not there yet
    │   │   └── SchemaIdsPending      privacy/batch/strip.py: a batch names schema ids that are waited for
    │   │       └── SchemaIdsUnasked      privacy/batch/strip.py: and nothing is known of one yet
    │   ├── TransactionAborted    the broker refused the transaction definitely; rewind and go on
    │   ├── OutcomeUnknown        a commit or abort without a definite answer; discard the producer
    │   ├── LimitsChanged         replicate/slot/planned_limits.py: a central topic takes something else than planned
    │   ├── CommitConflict        lake/tables/port.py: another writer committed to the table first
    │   ├── TableUnavailable      lake/tables/port.py: a table's storage or catalogue does not answer
    │   └── JobLost               lake/cycle/job.py: Spark could not run the job of one table alone
    ├── DeadLetterError       this one record cannot be delivered; the rest goes on
    │   └── UnknownSchema         schema/registry.py: the registry answers, and has no schema of this id
    ├── HoldError             stop this flow or edge, keep the others, report it
    │   ├── GoneSchema            schema/registry.py: the registry had a schema of this id, and has none any more
    │   ├── IncompatibleSchema    schema/registry.py: readers of a derived schema cannot read what is in the topic
    │   ├── ForeignCluster        replicate/discovery/edge_watch.py: another cluster answers for an edge
    │   ├── MirrorMakerRuns       replicate/epoch/takeover.py: a worker of MirrorMaker 2 is in its group
    │   └── RecordHeld            lake/columns/decode.py: a table cannot take a record; it says which
    └── ExitError             the process ends; `exit_code` is the contract with supervisors
        ├── ConfigError           78: the configuration cannot be used
        ├── AnotherHub            6: another hub runs or took over
        ├── Fenced                an id of ours was taken by a newer producer
        └── FatalError            1: everything else

A class that names a module is defined there. Every error says what the reader can do next: by `hint`, or by its class.

Invariant: no error carries a payload, a key or a secret; coordinates, sizes and reason codes only. Its text is
printable, whatever a cluster or a registry put into it, and begins a new line only where its writer says so.
"""

import traceback
from collections.abc import Sequence
from enum import IntEnum, StrEnum
from pathlib import Path

from aggregator.escapes import visible


class ExitCode(IntEnum):
    """What the process ends with; a contract with supervisors and scripts."""

    DONE = 0
    FAILED = 1
    PENDING = 3
    HELD = 4
    DATA_LOSS = 5
    ANOTHER_HUB = 6
    CONFIG = 78
    INTERRUPTED = 130


class Reason(StrEnum):
    """Why a record became a dead letter; the codes are a contract with whoever reads the dead-letter topic."""

    WRONG_MAGIC = "wrong_magic"
    UNKNOWN_SCHEMA = "unknown_schema"
    UNDECODABLE = "undecodable"
    TOO_DEEP = "too_deep"
    TOO_LARGE = "too_large"
    REFUSED_TIMESTAMP = "refused_timestamp"
    BAD_KEY = "bad_key"
    OPERATOR_FAILED = "operator_failed"
    BAD_HEARTBEAT = "bad_heartbeat"
    SCHEMA_REFUSED = "schema_refused"
    UNDECIDED = "undecided"
    UNPROVEN_CYCLE = "unproven_cycle"
    CHAIN_TOO_LONG = "chain_too_long"


# Stands between what happened and what the reader can do, in an error's own text.
NEXT = "\n  next: "


# What a broker or a registry says of itself may be of any length.
_LONGEST_LINE = 4000
# The next step where a cluster, or one of its brokers, does not answer.
ASK_DOCTOR = "aggregator doctor tells what keeps it from answering"


def _bounded(text: str) -> str:
    """Text that may be shown, its end left out where it is too long for anybody to read."""
    shown = visible(text)
    if len(shown) <= _LONGEST_LINE:
        return shown
    told = f"… ({len(shown):,} characters)"
    return shown[: _LONGEST_LINE - len(told)] + told  # as long as the bound: another process makes the error anew


class AggregatorError(Exception):
    """Is the root of the error tree.

    Args:
        message: What happened, naming the thing and where it is; several lines as a sequence.
        hint: What the reader should do next; one sentence.
    """

    exit_code = ExitCode.FAILED

    def __init__(self, message: str | Sequence[str], *, hint: str = "") -> None:
        lines = (message,) if isinstance(message, str) else message
        self.message = "\n".join(map(_bounded, lines))
        self.hint = _bounded(hint)
        super().__init__(self.message)

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines of the message."""
        return tuple(self.message.split("\n"))

    def __reduce__(self) -> tuple[object, ...]:
        """Cross process borders whole: Spark pickles what a task raises."""
        return _rebuild, (type(self), self.lines, self.hint, dict(self.__dict__))

    def __str__(self) -> str:
        return f"{self.message}{NEXT}{self.hint}" if self.hint else self.message


def in_one_line(told: str) -> str:
    """An error's own text, `str` of it, where it has to stand in one line of a table or of a log."""
    return told.replace(NEXT, "; next: ")


def kind_and_place(error: BaseException, *, frames: int = 1, caller: str = "") -> str:
    """Describe a foreign error without its text, which may quote a record: its kind, and where it was raised.

    Args:
        error: The error.
        frames: How many places to name at most, the innermost last.
        caller: A file whose own frames are not named.
    """
    passed = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != caller][-frames:]
    places = " > ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in passed)
    return f"{type(error).__name__} at {places}" if places else type(error).__name__


def _rebuild(kind: type[AggregatorError], lines: Sequence[str], hint: str, state: dict[str, object]) -> AggregatorError:
    error = kind.__new__(kind)
    AggregatorError.__init__(error, lines, hint=hint)
    error.__dict__.update(state)
    return error


class RetryError(AggregatorError):
    """Family: try again with backoff."""


class Unreachable(RetryError):
    """A broker or a registry does not answer."""


class TransactionAborted(RetryError):
    """The broker refused the transaction, definitely; the producer stays usable after an abort."""


class OutcomeUnknown(RetryError):
    """A commit or abort got no definite answer; only a new producer's fencing decides it (protocol, rule F)."""


class DeadLetterError(AggregatorError):
    """Family: this record cannot be delivered.

    Args:
        reason: The code written into the dead letter.
        message: For logs; never the payload.
        schema_id: Writer schema id, when the record showed one.
    """

    def __init__(self, reason: Reason, message: str, *, schema_id: int | None = None, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.reason = reason
        self.schema_id = schema_id


class HoldError(AggregatorError):
    """Family: stop this flow or edge and report it; the others go on. `--drain` ends with 4 for it, 5 for a gap."""

    exit_code = ExitCode.HELD


class ExitError(AggregatorError):
    """Family: the process ends with `exit_code`."""


class ConfigError(ExitError):
    """The configuration cannot be used; the message lists every fault with file and line."""

    exit_code = ExitCode.CONFIG


class AnotherHub(ExitError):
    """Another hub of this name runs, or took over."""

    exit_code = ExitCode.ANOTHER_HUB


class Fenced(ExitError):
    """A newer producer took this transactional id."""

    def __init__(
        self, message: str, *, hint: str = "start it again, unless another hub of this name is meant to run"
    ) -> None:
        super().__init__(message, hint=hint)


class FatalError(ExitError):
    """Anything that ends the process and has no code of its own."""
