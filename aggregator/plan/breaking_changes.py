"""Finds what a new version of a policy would break: derived schemas that are not compatible with those of the present
version.

Invariant: pure. The newest schema of each subject is judged, as it is before a record flows.
"""

from collections.abc import Iterator, Sequence
from datetime import date
from typing import NamedTuple

from aggregator.errors import DeadLetterError, HoldError
from aggregator.privacy.plan.compile import compile_plan
from aggregator.privacy.policy.file import Policy
from aggregator.privacy.policy.precedence import key_scope, value_scope
from aggregator.privacy.review.diff import WriterSchema
from aggregator.schema.avro import parse
from aggregator.schema.compatibility import differences, may_follow


class Break(NamedTuple):
    """A derived schema that a running hub would refuse, so that its flows are held.

    Attributes:
        topic: Edge topic.
        part: `value` or `key`.
        changes: Fields that came (`+`), left (`-`) or changed (`~`).
    """

    topic: str
    part: str
    changes: tuple[str, ...]


def breaking_changes(old: Policy, new: Policy, schemas: Sequence[WriterSchema], today: date) -> Iterator[Break]:
    """The topics that a hub would hold once it goes by the new policy.

    Args:
        old: The policy in force.
        new: The next one.
        schemas: Writers' schemas, the versions of each subject in their order.
        today: Decides which `keep` has expired.
    """
    for (topic, part), writer in {(one.topic, one.part): one for one in schemas}.items():
        if part == "value" and not (
            old.view(topic).value_format.has_schema and new.view(topic).value_format.has_schema
        ):
            continue
        scope = key_scope if part == "key" else value_scope
        try:
            before, after = (compile_plan(writer.text, scope(policy, topic), today) for policy in (old, new))
            if before.dropped or after.dropped or may_follow(after.schema, before.schema):
                continue
            yield Break(topic, part, tuple(differences(parse(before.schema), parse(after.schema))))
        except (DeadLetterError, HoldError):
            continue  # a schema that is refused under either policy is reported as such
