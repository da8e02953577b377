"""The port of a value format: what strips the values of one topic, whatever they are written in."""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import date
from typing import Protocol

from aggregator.config.secrets import KeyRing
from aggregator.privacy.column import Column
from aggregator.privacy.json.values import JsonValues
from aggregator.privacy.policy.precedence import Scope, json_scope
from aggregator.privacy.policy.value_format import ValueFormat
from aggregator.privacy.programs import Programs
from aggregator.privacy.strip import Meaning, ReportRow


class Values(Protocol):
    """Strips the values of one topic, batch by batch."""

    @property
    def met(self) -> Mapping[str, Meaning]:
        """Name of each schema that the batch had to what it means; empty where a format has no schemas."""

    def begin(self, today: date) -> None:
        """Begin a batch: what was unknown may be known by now, and what was open may have expired."""

    def open(self, values: Sequence[bytes | None]) -> Callable[[], Column]:
        """Make what strips the values of the batch that was begun; until it is called, nothing of them counts.

        Raises:
            RetryError: a registry does not answer.
            HoldError: central refuses the derived schema, or an id has two meanings or none for this topic.
            ConfigError: a key cannot be read.
        """

    def report(self) -> Collection[ReportRow]:
        """Every place that was met so far, and what became of the values there."""


def values_of(
    form: ValueFormat, scope: Scope, keys: Mapping[str, KeyRing], programs: Callable[[Scope], Programs]
) -> Values:
    """What strips values of this format.

    Args:
        form: How they are written.
        scope: What the policy says of them.
        keys: Key rings by name.
        programs: Makes what strips values by their schemas.
    """
    match form:
        case ValueFormat.AVRO:
            return programs(scope)
        case ValueFormat.JSON:
            return JsonValues(json_scope(scope), keys)
