"""A finding: one thing that was checked, its state, and how to mend it.

Invariant: a finding that is not OK says what to do next, as a command or a setting. The fields are a contract with
scripts.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from aggregator.count_text import format_first

# The value of `cluster` for a finding about this machine. No edge can have a name with a space.
MACHINE = "this machine"
_MAX_NAMES = 4


class CheckState(StrEnum):
    """The state of what was checked. `warning`: it works today. `failed`: it does not work, or loses something."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Finding:
    """Describes the result of one check.

    Attributes:
        cluster: `central`, an edge's name, or `this machine`.
        check: The subject of the check, in one word.
        state: The state that was found.
        what: The same in a sentence, with its cause.
        next: The command or the setting that mends it; empty where nothing is to be done.
    """

    cluster: str
    check: str
    state: CheckState
    what: str
    next: str = ""


def ok(cluster: str, check: str, what: str) -> Finding:
    """A finding that asks for nothing to be done."""
    return Finding(cluster, check, CheckState.OK, what)


def warning(cluster: str, check: str, what: str, then: str) -> Finding:
    """A finding about something that works today and may not later."""
    return Finding(cluster, check, CheckState.WARNING, what, then)


def failed(cluster: str, check: str, what: str, then: str) -> Finding:
    """A finding about something that does not work, or loses something."""
    return Finding(cluster, check, CheckState.FAILED, what, then)


def listed(names: Iterable[object]) -> str:
    """Names in a sentence; of many the first few."""
    return format_first(sorted(map(str, names)), _MAX_NAMES)
