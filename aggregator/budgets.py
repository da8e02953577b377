"""This module is the one table of bounds against hostile input: for a value, record, batch, schema or registry answer.

Invariant: anything that a producer at an edge can make large is bounded here, or costs time and memory in proportion to
its own bytes. Beyond a bound, the record is a dead letter, the value is redacted, or the flow waits. Other flows are
never stopped by it.
"""

from enum import StrEnum
from typing import NamedTuple

from aggregator.errors import Reason


class BudgetScope(StrEnum):
    """Names the things that a budget bounds."""

    VALUE = "value"
    RECORD = "record"
    BATCH = "batch"
    SCHEMA = "schema"
    ANSWER = "registry answer"


class Budget(NamedTuple):
    """Describes one bound.

    Attributes:
        of: The kind of thing that it bounds.
        limit: The largest number that is accepted.
        unit: The unit that is counted.
        beyond: Consequence of exceeding the limit: a dead letter's reason, or another action.
    """

    of: BudgetScope
    limit: int
    unit: str
    beyond: Reason | str


REDACTED, IN_PARTS, SHARED = "the value is redacted", "done in parts", "places share lines"
FORGED = "no cycle: it is delivered, and counted as forged"
IN_TURN = "the next ones are asked about after them"
WAITS, HELD = "the flow waits", "the flow is held"

# The slowest step of exact arithmetic grows with the square of the digits. No currency or sensor needs so many digits.
NUMBER_BYTES = Budget(BudgetScope.VALUE, 512, "bytes of a decimal under an operator", Reason.OPERATOR_FAILED)
NUMBER_SIGNS = Budget(
    BudgetScope.VALUE, 64, "characters of a number in JSON, or of one to be masked", "refused, or redacted"
)
# An identifier is short. Composing (normalising) a text takes up to a hundred times its memory for a moment.
NORMALIZED_SIGNS = Budget(BudgetScope.VALUE, 65_536, "characters of a text that is normalised", Reason.OPERATOR_FAILED)
# A host has 253 characters at most (RFC 1035); user, password and port stand beside it.
AUTHORITY_SIGNS = Budget(BudgetScope.VALUE, 1024, "characters of a URL's user, host and port", REDACTED)
# An alternative that fails at the end of a text is tried again behind each match, so time grows with the square.
MATCHED_BYTES = Budget(BudgetScope.VALUE, 65_536, "bytes of a text that regex_replace searches", REDACTED)
# Without a bound on a pattern's replacement, a short rule could make gigabytes of one long value.
GROWTH_BYTES = Budget(BudgetScope.VALUE, 65_536, "bytes that regex_replace makes beyond ten times the value", REDACTED)

# A C decoder's stack holds some thousand levels. A schema without recursion is never that deep.
DEPTH = Budget(BudgetScope.RECORD, 128, "levels of nesting", Reason.TOO_DEEP)
# Items without bytes (nulls, records without fields) cost time and memory, but a producer pays nothing for them.
WEIGHTLESS = Budget(BudgetScope.RECORD, 2048, "items without bytes", Reason.UNDECODABLE)
# Deflate can inflate one byte to a thousand. Records of text inflate a few times.
INFLATED_TIMES = Budget(
    BudgetScope.RECORD, 16, "times its bytes once it is inflated (AWS Glue); 16,384 bytes in any case", Reason.TOO_LARGE
)
# A hub writes one of each; an application that copies headers adds a few.
ORIGIN_HEADERS = Budget(BudgetScope.RECORD, 16, "headers `hub.origin`, and as many `hub.origin.mac`", FORGED)
# A value of one byte costs 190 bytes while operators process it. A part of a batch holds one record at least.
BATCH_VALUES = Budget(BudgetScope.BATCH, 131_072, "values that operators see at once", IN_PARTS)
ASKED_VALUES = Budget(
    BudgetScope.RECORD, BATCH_VALUES.limit, "values that operators or conditions see", Reason.TOO_LARGE
)
# An empty array in JSON takes thirty times the memory of its text.
JSON_PARTS = Budget(BudgetScope.RECORD, 131_072, "members and items of a JSON value", Reason.TOO_LARGE)

# A policy may replace values of one byte by a constant of a thousand characters.
MADE_BYTES = Budget(
    BudgetScope.BATCH, 67_108_864, "bytes made of its values, or four times theirs; alone: too_large", IN_PARTS
)
# Every batch may grow by this factor, as short identifiers do when tokens replace them.
TIMES_MADE = 4
BATCH_PLAIN_BYTES = Budget(
    BudgetScope.BATCH, 1_048_576, "bytes of values without a schema that are held at once", IN_PARTS
)
# Each may cost a question to a registry far away.
UNKNOWN_IDS = Budget(
    BudgetScope.BATCH, 64, "unknown schema ids that the registry is asked about one by one at once", IN_TURN
)

# A follower of a registry is seconds behind its leader. `replication.schema_patience` overrides this number.
LATE_SECONDS = Budget(BudgetScope.BATCH, 5, "seconds for all its unknown ids together", Reason.UNKNOWN_SCHEMA)

SCHEMA_CHARACTERS = Budget(BudgetScope.SCHEMA, 2_097_152, "characters, references included", Reason.SCHEMA_REFUSED)
SCHEMA_DEPTH = Budget(BudgetScope.SCHEMA, 100, "levels of nesting", Reason.SCHEMA_REFUSED)
SCHEMA_REFERENCES = Budget(BudgetScope.SCHEMA, 200, "schemas that it refers to", Reason.SCHEMA_REFUSED)
FIXED_BYTES = Budget(BudgetScope.SCHEMA, 2**24, "bytes of a fixed", Reason.SCHEMA_REFUSED)
DECIMAL_DIGITS = Budget(BudgetScope.SCHEMA, 1000, "digits of a decimal's precision or scale", Reason.SCHEMA_REFUSED)
# Columns of one table. Columnar readers are slow with thousands of columns, and Spark's own limits are lower.
TABLE_COLUMNS = Budget(BudgetScope.SCHEMA, 10_000, "columns of a lake table, inner ones counted", "the table is held")
# A type counts once for each way in which tags and rules reach it.
SCHEMA_NODES = Budget(BudgetScope.SCHEMA, 50_000, "types at places that rules tell apart", Reason.SCHEMA_REFUSED)
SCHEMA_LABELS = Budget(
    BudgetScope.SCHEMA, 8_388_608, "characters of paths, and tags, over all places", Reason.SCHEMA_REFUSED
)
# A tag at a place counts as this many characters.
LETTERS_OF_A_TAG = 8
# Each takes some forty bytes of memory; nobody gives a field more than a few.
SCHEMA_TAGS = Budget(BudgetScope.SCHEMA, 200_000, "tags, over all its fields and types", Reason.SCHEMA_REFUSED)
SCHEMA_STEPS = Budget(BudgetScope.SCHEMA, 2_000_000, "steps to tell types of one name apart", Reason.SCHEMA_REFUSED)
DEFAULT_STEPS = Budget(
    BudgetScope.SCHEMA, 100_000, "steps to see which defaults fit their fields", Reason.SCHEMA_REFUSED
)
# Each may cost a question to a registry far away, once.
SUBJECT_VERSIONS = Budget(BudgetScope.SCHEMA, 1_000, "versions of its subject, whose tags it inherits", HELD)
REFERENCED_VERSIONS = Budget(BudgetScope.SCHEMA, 4_000, "versions of what these refer to, whose tags it inherits", HELD)
# Two thousand versions of a wide schema are fewer.
HISTORY_CHARACTERS = Budget(
    BudgetScope.SCHEMA, 67_108_864, "characters of all these versions, and of the paths of tags beside them", HELD
)
HISTORY_STEPS = Budget(BudgetScope.SCHEMA, 40_000_000, "steps to find tags that are kept beside these versions", HELD)
# Places that have a report line of their own.
SCHEMA_PLACES = Budget(BudgetScope.SCHEMA, 20_000, "places in reports", SHARED)
JSON_PLACES = Budget(BudgetScope.SCHEMA, 5_000, "places of JSON values in reports", SHARED)

ANSWER_BYTES = Budget(BudgetScope.ANSWER, 8_388_608, "bytes, which are asked for uncompressed", WAITS)
ANSWER_SECONDS = Budget(BudgetScope.ANSWER, 20, "seconds in all", WAITS)

TABLE: tuple[Budget, ...] = (
    NUMBER_BYTES,
    NUMBER_SIGNS,
    NORMALIZED_SIGNS,
    AUTHORITY_SIGNS,
    MATCHED_BYTES,
    GROWTH_BYTES,
    DEPTH,
    WEIGHTLESS,
    ASKED_VALUES,
    JSON_PARTS,
    INFLATED_TIMES,
    ORIGIN_HEADERS,
    BATCH_VALUES,
    MADE_BYTES,
    BATCH_PLAIN_BYTES,
    UNKNOWN_IDS,
    LATE_SECONDS,
    SCHEMA_CHARACTERS,
    SCHEMA_DEPTH,
    TABLE_COLUMNS,
    SCHEMA_REFERENCES,
    FIXED_BYTES,
    DECIMAL_DIGITS,
    SCHEMA_NODES,
    SCHEMA_LABELS,
    SCHEMA_TAGS,
    SCHEMA_STEPS,
    DEFAULT_STEPS,
    SUBJECT_VERSIONS,
    REFERENCED_VERSIONS,
    HISTORY_CHARACTERS,
    HISTORY_STEPS,
    SCHEMA_PLACES,
    JSON_PLACES,
    ANSWER_BYTES,
    ANSWER_SECONDS,
)


def max_output_bytes(taken: int) -> int:
    """How many bytes may be made of a batch whose values have `taken` bytes."""
    return max(MADE_BYTES.limit, TIMES_MADE * taken)
