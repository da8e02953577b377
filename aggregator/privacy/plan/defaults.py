"""Makes neutral defaults for changed fields whose writer schema had a default.

Invariant: a default is made of the derived type alone, so that no value of the writer's schema travels. Without these
defaults, a field that writers may lawfully add could not be added to the derived schema.
"""

from typing import Any

from aggregator.schema.avro import Missing

_ZERO_UUID = "00000000-0000-0000-0000-000000000000"
_EMPTY: dict[str, Any] = {
    "null": None,
    "boolean": False,
    "int": 0,
    "long": 0,
    "float": 0.0,
    "double": 0.0,
    "bytes": "",
    "string": "",
    "array": [],
    "map": {},
}
# A longer default would only swell the schema.
_FIXED_BYTES = 64


def empty_default(shape: Any) -> Any:
    """The empty value of a derived type as its JSON default; MISSING for records and types that are named elsewhere."""
    if isinstance(shape, list):
        return empty_default(shape[0])
    if isinstance(shape, str):
        return _EMPTY.get(shape, Missing.MISSING)
    match shape:
        case {"type": "enum", "symbols": [first, *_]}:
            empty = first
        case {"type": "fixed", "size": int(size)}:
            empty = "\0" * size if size <= _FIXED_BYTES else Missing.MISSING
        case {"logicalType": "decimal"}:
            empty = "\0"  # no bytes at all are no number
        case {"logicalType": "uuid"}:
            empty = _ZERO_UUID
        case _:
            empty = _EMPTY.get(shape["type"], Missing.MISSING)
    return empty
