"""The expected result of a policy fixture, and its comparison with the actual result.

Invariant: `record` is the whole record. Anything beyond it is a mismatch, so that a field that begins to pass is found.
A mismatch names its path. Values are only in separate fields, which are shown on request.
"""

import json
from collections.abc import Iterator
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator

from aggregator.config.closed_model import Model
from aggregator.errors import Reason
from aggregator.privacy.batch.strip import Stripped
from aggregator.privacy.fields.value_format import ValueFormat
from aggregator.privacy.review.value_reader import read_value, text_of
from aggregator.schema.plain_json import leaves
from aggregator.schema.registry import Registry


def _nothing(value: Any) -> Any:
    return {} if value is None else value


HeaderTexts = Annotated[dict[str, str], BeforeValidator(_nothing), Field(default_factory=dict)]


class Expectation(Model):
    """What must become of a record: delivered with exactly this, rejected, or suppressed.

    Attributes:
        key: Text of the key; None: no key.
        headers: Exactly these.
        record: The whole value; None: a tombstone.
        rejected: Reason code of the dead letter.
        suppressed: Removed by a `drop_record` rule.
    """

    key: str | None = None
    headers: HeaderTexts
    record: Any = None
    rejected: Reason | None = None
    suppressed: bool = False

    @model_validator(mode="after")
    def one_fate(self) -> Self:
        """Refuse an expectation that does not name exactly one fate of the record."""
        delivered = {"key", "headers", "record"} & self.model_fields_set
        if bool(delivered) + (self.rejected is not None) + self.suppressed != 1:
            raise ValueError("expect `rejected`, or `suppressed: true`, or `record` with `key` and `headers`")
        return self


class Mismatch(Model):
    """Describes one failed expectation.

    Attributes:
        path: `record.customer.email`, `key`, `headers.x`, or `fate`.
        why: What is wrong, without a value.
        expected: JSON of what was expected, or empty.
        found: JSON of what came out, or empty.
    """

    path: str
    why: str
    expected: str = ""
    found: str = ""


def mismatches(
    expect: Expectation, stripped: Stripped, central: Registry, value_format: ValueFormat
) -> Iterator[Mismatch]:
    """The differences between the expectation and the one record of a batch.

    Args:
        expect: The expected result.
        stripped: The actual result.
        central: Knows the derived schema.
        value_format: The format of the value.
    """
    wanted = f"rejected: {expect.rejected}" if expect.rejected else "suppressed" if expect.suppressed else "delivered"
    rejection = stripped.rejected.get(0)
    fate = f"rejected: {rejection.reason}" if rejection else "suppressed" if 0 in stripped.suppressed else "delivered"
    if fate != wanted:
        yield Mismatch(path="fate", why=f"expected {wanted}, was {fate}")
    elif fate == "delivered":
        key = stripped.keys[0]
        yield from _differing("key", expect.key, None if key is None else text_of(key))
        headers = {name: text_of(text or b"") for name, text in stripped.headers[0]}
        yield from _differing("headers", expect.headers, headers)
        value = stripped.values[0]
        yield from _differing(
            "record", expect.record, None if value is None else read_value(value, value_format, central)
        )


def _differing(place: str, wanted: Any, found: Any) -> Iterator[Mismatch]:
    """One mismatch per leaf that is too many, too few, or another."""
    expected, there = (dict(leaves(side, place)) if side != {} else {} for side in (wanted, found))
    for path in [*expected, *(path for path in there if path not in expected)]:
        if path not in there:
            yield Mismatch(path=path, why="is expected, and is not there", expected=_json(expected[path]))
        elif path not in expected:
            yield Mismatch(path=path, why="is there, and is not expected", found=_json(there[path]))
        elif not _alike(expected[path], there[path]):
            both = {"expected": _json(expected[path]), "found": _json(there[path])}
            yield Mismatch(path=path, why="is another value than expected", **both)


def _alike(wanted: Any, found: Any) -> bool:
    """YAML is read as text, so numbers and words are compared as what they mean."""
    if not isinstance(wanted, str):
        return bool(wanted == found)
    if found is None or isinstance(found, bool):
        return wanted == json.dumps(found)
    if isinstance(found, int | float) and "_" not in wanted:  # which Python alone writes in numbers
        try:
            return float(wanted) == found if isinstance(found, float) else int(wanted) == found
        except ValueError:
            return False
    return bool(wanted == found)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
