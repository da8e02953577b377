"""The interface (port) of value formats: an implementation strips the values of one topic in one format."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import date
from typing import Protocol

from aggregator.config.secrets import KeyRing
from aggregator.privacy.batch.column import ResultColumn
from aggregator.privacy.batch.strip import FoundSchema, ReportRow
from aggregator.privacy.fields.value_format import ValueFormat
from aggregator.privacy.json.allowlist import AllowList
from aggregator.privacy.json.values import JsonValues
from aggregator.privacy.policy.file import Policy
from aggregator.privacy.policy.precedence import AppliedRule, Scope, json_scope, schemaless_scope, value_scope
from aggregator.privacy.tokens.tokens import HmacTokenSpec
from aggregator.privacy.topic.keys import TokensOf
from aggregator.privacy.topic.plain_values import PlainValues, whole_decision
from aggregator.privacy.topic.programs import Programs


class ValueStripper(Protocol):
    """Strips the values of one topic, batch by batch."""

    @property
    def batch_schemas(self) -> Mapping[str, FoundSchema]:
        """Name of each schema that the batch had to what it means; empty where a format has no schemas."""

    def begin(self, today: date) -> None:
        """Begin a batch: what was unknown may be known by now, and what was open may have expired."""

    def prepare(self, values: Sequence[bytes | None]) -> Callable[[], ResultColumn]:
        """A function that strips the values of the batch that was begun. Nothing is counted before it is called.

        Raises:
            RetryError: a registry does not answer.
            HoldError: central refuses the derived schema, or an id has two meanings or none for this topic.
            ConfigError: a key cannot be read.
        """

    def report(self) -> Collection[ReportRow]:
        """Every place that was met so far, and what became of the values there."""


def values_of(
    policy: Policy,
    topic: str,
    key_rings: Mapping[str, KeyRing],
    programs: Callable[[Scope], Programs],
    tokens_of: Callable[[HmacTokenSpec], TokensOf | None],
) -> ValueStripper:
    """What strips the values of an edge topic, in the format that the policy says.

    Args:
        policy: The policy to apply.
        topic: Edge topic.
        key_rings: Key rings by name.
        programs: Makes what strips values by their schemas.
        tokens_of: What makes tokens of many whole values at once; None: nothing does.
    """
    match policy.view(topic).value_format:
        case ValueFormat.AVRO:
            return programs(value_scope(policy, topic))
        case ValueFormat.JSON:
            return JsonValues(json_scope(value_scope(policy, topic)), key_rings)
        case ValueFormat.TEXT | ValueFormat.BYTES as value_format:
            return PlainValues(value_format, schemaless_scope(policy, topic), key_rings, tokens_of)


def schemaless_decisions(policy: Policy, topic: str, today: date) -> Iterator[tuple[str, AppliedRule]]:
    """The decision at each path that the policy writes for values without a schema; of a whole one, with no path.

    Args:
        policy: The policy to explain.
        topic: Edge topic, whose values have no schema.
        today: Decides what has expired.
    """
    value_format = policy.view(topic).value_format
    if value_format.has_fields:
        yield from AllowList(json_scope(value_scope(policy, topic)), today).explained()
    else:
        yield "", whole_decision(value_format, schemaless_scope(policy, topic), today)
