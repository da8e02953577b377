"""The formats of a topic's values, for policies, plans and tables."""

from enum import StrEnum


class ValueFormat(StrEnum):
    """A format that a policy can name as `value_format`; what strips it is chosen in `privacy.topic.values`."""

    AVRO = "avro"
    JSON = "json"
    TEXT = "text"
    BYTES = "bytes"

    @property
    def has_schema(self) -> bool:
        """Whether each value names its schema, so that fields and tags are known before the first record."""
        return self is ValueFormat.AVRO

    @property
    def has_fields(self) -> bool:
        """Whether a value has parts that paths name; else one rule, `value:`, is about all of it."""
        return self in (ValueFormat.AVRO, ValueFormat.JSON)

    @property
    def spoken(self) -> str:
        """The format's name as it stands within a sentence."""
        return self.upper() if self is ValueFormat.JSON else "Avro" if self.has_schema else self.value
