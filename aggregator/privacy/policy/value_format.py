"""How the values of a topic are written, as far as a policy, a plan or a table must know it."""

from enum import StrEnum


class ValueFormat(StrEnum):
    """A format that a policy can name as `value_format`; what strips it is chosen in `privacy.values`."""

    AVRO = "avro"
    JSON = "json"

    @property
    def has_schema(self) -> bool:
        """Whether each value names its schema, so that fields and tags are known before the first record."""
        return self is ValueFormat.AVRO
