"""Decides which subjects of a registry the schemas of a topic may come from.

Invariant: an id counts only under a subject of its topic: `<topic>-value` or `<topic>-key` (TopicNameStrategy), or
`<topic>-<record>` (TopicRecordNameStrategy). Other users of the registry can therefore decide nothing about the topic
by registering a schema. The topic's policy may open a further subject, with a reason. Pure.
Source: https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

from aggregator.count_text import format_first
from aggregator.errors import HoldError
from aggregator.privacy.batch.strip import FoundSchema
from aggregator.schema.avro import FULL_NAME
from aggregator.schema.registry import SchemaOrigin

Part = Literal["key", "value"]
_SHOWN = 3


class Subjects(NamedTuple):
    """The subjects of one topic's keys, or of its values.

    Attributes:
        topic: Edge topic.
        part: Which of the two.
        opens: Whether the policy opens a further subject.
        opened: The patterns by which it does so.
        reissued: `key/<id>` or `value/<id>` to the fingerprint of what the policy lets it mean.
    """

    topic: str
    part: Part
    opens: Callable[[str], bool]
    opened: tuple[tuple[str, ...], ...] = ()
    reissued: Mapping[str, str] = MappingProxyType({})

    def may_own(self, subject: str) -> bool:
        """Whether a subject is one of the topic's for some record, whose name `key` and `value` look like."""
        topic, _, record = subject.rpartition("-")
        return (topic == self.topic and FULL_NAME.fullmatch(record) is not None) or self.opens(subject)

    def meaning(self, origin: SchemaOrigin, subject: str, fingerprint: str) -> tuple[str, FoundSchema]:
        """What an id is called in the memory of a flow, and what it means."""
        name = f"{self.part}/{origin.name}"
        return name, FoundSchema(fingerprint, subject, self.reissued.get(name) == fingerprint)

    def bound(self, origin: SchemaOrigin, record: str) -> list[str]:
        """The subjects of the topic that have an id.

        Args:
            origin: Where the registry has it.
            record: Full name of its record; empty where it is none.

        Raises:
            HoldError: none has it.
        """
        own = {f"{self.topic}-{self.part}", *([f"{self.topic}-{record}"] if record else [])}
        # A subject of another context of the registry has its qualified name here, and ids of its own.
        near = [subject for subject in sorted(origin.versions) if not subject.startswith(":.")]
        found = [subject for subject in near if subject in own or self.opens(subject)]
        if found:
            return found
        others = sorted(origin.versions)
        raise HoldError(
            f"schema id {origin.name} is no {self.part} schema of topic {self.topic}: the registry has it under "
            f"{format_first(others, _SHOWN) or 'no subject'}, and the topic's subjects are {', '.join(sorted(own))}",
            hint=f"register the schema under {self.topic}-{self.part} if it is the topic's; if producers name subjects "
            f"otherwise (RecordNameStrategy), open them in the policy, under the topic: subjects: "
            f'{{"{others[0] if others else "<subject>"}": "<reason>"}}; if the records are wrong, see '
            f"docs/runbooks/poisoned-producer.md",
        )
