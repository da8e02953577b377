"""This module records what the upkeep of the lake's tables did, one record per table in the topic of edge states.

Invariant: the process that runs the lake writes these records. They contain names, counts and times, and no content of
a record.
"""

import json
from dataclasses import asdict, dataclass
from typing import Annotated

from msgspec import Meta, Struct, structs

from aggregator.kafka.readers.typed_decoder import Count, Moment, TypedDecoder

PREFIX = "upkeep/"
VERSION = 1
# The longest problem text that is kept, so that a record stays small.
_LONGEST = 600


@dataclass(frozen=True, slots=True)
class TableUpkeep:
    """The upkeep of one table so far; times are by the clock of the machine that did it.

    Attributes:
        compacted_ms: When files were last rewritten, in milliseconds since 1970; None where none ever were.
        rewritten: How many small files were, in all of its upkeep.
        written: How many larger ones they became.
        vacuumed_ms: When old versions were last forgotten.
        removed: Files that only those named, in all of its upkeep.
        problem: Why it cannot be kept up, else empty.
    """

    compacted_ms: int | None = None
    rewritten: int = 0
    written: int = 0
    vacuumed_ms: int | None = None
    removed: int = 0
    problem: str = ""

    def plain(self) -> dict[str, object]:
        """The JSON object that `-o json` promises for a table's upkeep."""
        return asdict(self)


def upkeep_record(table: str, done: TableUpkeep) -> tuple[str, bytes]:
    """Encode the upkeep of a table as key and value of its record."""
    body = {"v": VERSION, **asdict(done), "problem": done.problem[:_LONGEST]}
    return f"{PREFIX}{table}", json.dumps(body, separators=(",", ":")).encode()


class _Upkeep(Struct, tag_field="v", tag=VERSION):
    compacted_ms: Moment | None = None
    rewritten: Count = 0
    written: Count = 0
    vacuumed_ms: Moment | None = None
    removed: Count = 0
    problem: Annotated[str, Meta(max_length=_LONGEST)] = ""


_UPKEEP = TypedDecoder(_Upkeep)


def decode_upkeep(value: bytes) -> TableUpkeep:
    """Read `upkeep_record`'s value.

    Raises:
        CorruptRecord: it is none.
    """
    return TableUpkeep(**structs.asdict(_UPKEEP.decode(value)))
