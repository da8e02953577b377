"""What each operator does to types and classes, said once more, without its code: one entry for each.

`laws` hold for the parameters that they name; `worst` are the parameters that make the operator work most, for the walk
over hostile input. What takes no value has neither; `custom` and `date_shift` have files of their own for their laws.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from aggregator.privacy.fields.leaf import Leaf
from aggregator.schema.avro import Kind, Logical

# Every type of leaf, with the Avro that it is.
LEAVES = {
    "boolean": (Leaf(Kind.BOOLEAN), "boolean"),
    "int": (Leaf(Kind.INT), "int"),
    "long": (Leaf(Kind.LONG), "long"),
    "float": (Leaf(Kind.FLOAT), "float"),
    "double": (Leaf(Kind.DOUBLE), "double"),
    "bytes": (Leaf(Kind.BYTES), "bytes"),
    "string": (Leaf(Kind.STRING), "string"),
    "uuid": (Leaf(Kind.STRING, Logical("uuid")), {"type": "string", "logicalType": "uuid"}),
    "enum": (Leaf(Kind.ENUM, symbols=("JANE", "JOE")), {"type": "enum", "name": "E", "symbols": ["JANE", "JOE"]}),
    "fixed": (Leaf(Kind.FIXED, size=4), {"type": "fixed", "name": "F", "size": 4}),
    "date": (Leaf(Kind.INT, Logical("date")), {"type": "int", "logicalType": "date"}),
    "time": (Leaf(Kind.LONG, Logical("time-micros")), {"type": "long", "logicalType": "time-micros"}),
    "timestamp": (Leaf(Kind.LONG, Logical("timestamp-millis")), {"type": "long", "logicalType": "timestamp-millis"}),
    "local timestamp": (
        Leaf(Kind.LONG, Logical("local-timestamp-micros")), {"type": "long", "logicalType": "local-timestamp-micros"}),
    "decimal": (
        Leaf(Kind.BYTES, Logical("decimal", 6, 2)),
        {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}),
    "fixed decimal": (
        Leaf(Kind.FIXED, Logical("decimal", 6, 2), 3),
        {"type": "fixed", "name": "D", "size": 3, "logicalType": "decimal", "precision": 6, "scale": 2}),
    "duration": (
        Leaf(Kind.FIXED, Logical("duration"), 12),
        {"type": "fixed", "name": "T", "size": 12, "logicalType": "duration"}),
}  # fmt: skip
ALL = set(LEAVES)
WORDS = {"string", "enum", "uuid"}
PLAIN_WHOLE = {"int", "long"}
NUMBERS = PLAIN_WHOLE | {"float", "double", "decimal", "fixed decimal"}
STAMPS = {"timestamp", "local timestamp"}
WHOLE = PLAIN_WHOLE | STAMPS | {"date", "time"}
RAW = {"bytes", "decimal", "fixed", "fixed decimal", "duration", "float", "double"}
KEY = {"key": "customer"}


class Law(NamedTuple):
    """Parameters, the class, the leaves that are taken, and the kind that is made of them (None: the same type)."""

    parameters: dict[str, Any]
    privacy_class: str
    taken: set[str]
    kind: str | None = "string"


class Expected(NamedTuple):
    """One operator.

    Attributes:
        laws: What holds for some parameters.
        worst: Parameters that make it work most.
        also: Leaves of a further kind that it takes with all its parameters, and the kind that it makes of them.
    """

    laws: tuple[Law, ...] = ()
    worst: tuple[dict[str, Any], ...] = ()
    also: Mapping[str, str] = MappingProxyType({})


ORACLE = {
    "drop": Expected(),
    "keep": Expected(),
    "nullify": Expected((Law({}, "irreversible", ALL, None),), ({},)),
    "redact": Expected((Law({}, "irreversible", ALL, None),), ({},)),
    "mask": Expected(
        (Law({"keep_last": 2}, "irreversible", WORDS | PLAIN_WHOLE),),
        ({"keep_first": 2, "keep_last": 2},),
    ),
    "mask_card": Expected((Law({}, "irreversible", WORDS | PLAIN_WHOLE),), ({"keep_first": 6},)),
    "mask_phone": Expected((Law({}, "irreversible", WORDS | PLAIN_WHOLE),), ({},)),
    "mask_postcode": Expected((Law({}, "irreversible", WORDS | PLAIN_WHOLE),), ({},)),
    "mask_email": Expected((Law({}, "irreversible", WORDS),), ({},)),
    "mask_ip": Expected((Law({}, "irreversible", WORDS),), ({},)),
    "mask_url": Expected((Law({}, "irreversible", WORDS),), ({},)),
    "pseudonymize": Expected(
        (Law({**KEY, "domain": "d"}, "pseudonymous", WORDS | WHOLE | RAW - {"float", "double"}),),
        tuple(
            {**KEY, "domain": "d", "normalize": how} for how in ("none", "trim", "casefold", "email", "e164", "digits")
        ),
    ),
    "date_shift": Expected(
        worst=tuple({**KEY, "entity": "x", "days": 30, "normalize": how} for how in ("none", "email")),
    ),
    "encrypt": Expected(
        (Law(KEY, "reversible", WORDS | WHOLE),),
        (KEY,),
        also=dict.fromkeys(RAW, "bytes"),
    ),
    "encrypt_deterministic": Expected(
        (Law({"key": "long"}, "reversible", WORDS | WHOLE),),
        ({"key": "wide"},),
        also=dict.fromkeys(RAW, "bytes"),
    ),
    "bucket": Expected(
        (
            Law({"size": 10}, "pseudonymous", NUMBERS),
            Law({"ranges": [0, 10]}, "irreversible", NUMBERS),
        ),
        ({"size": 1e-9}, {"size": 10}, {"ranges": [0, 1e18]}),
    ),
    "round": Expected(
        (
            Law({"digits": -1}, "pseudonymous", NUMBERS, None),
            Law({"digits": 1}, "clear", NUMBERS - PLAIN_WHOLE, None),
            Law({"digits": 2}, "clear", {"float", "double"}, None),
        ),
        ({"digits": -18}, {"digits": 2}),
    ),
    "truncate": Expected(
        (Law({"length": 3}, "clear", WORDS),),
        ({"length": 100_000}, {"length": 2}),
        also={"bytes": "bytes"},
    ),
    "date_truncate": Expected(
        (
            Law({"unit": "month"}, "irreversible", STAMPS | {"date"}, None),
            Law({"unit": "hour", "tz": "Europe/Berlin"}, "clear", STAMPS, None),
        ),
        ({"unit": "week"}, {"unit": "month", "tz": "Europe/Berlin"}),
    ),
    "age": Expected((Law({}, "irreversible", STAMPS | {"date"}, "int"),), ({},), also={"string": "string"}),
    "geo": Expected(
        (
            Law({"decimals": 1}, "irreversible", NUMBERS - PLAIN_WHOLE | {"string"}, None),
            Law({"geohash": 5}, "irreversible", {"string"}, None),
        ),
        ({"decimals": 6}, {"geohash": 9}),
    ),
    "lookup": Expected(
        (Law({"table": {"JANE": "f", "1": "one"}}, "reversible", WORDS | PLAIN_WHOLE),),
        ({"table": {"a": "b"}},),
    ),
    "custom": Expected(worst=({"name": "worst", "type": "string"},)),
    "regex_replace": Expected(
        (Law({"pattern": "[0-9]", "replacement": "#"}, "clear", WORDS),),
        (
            {"pattern": "(a|b|[a-c]+)*x?", "replacement": "\\1"},
            {"pattern": ".", "replacement": "x" * 1000},
            {"pattern": "(?s)(.*)", "replacement": "\\1" * 500},
        ),
    ),
    "scrub_text": Expected((Law({}, "clear", WORDS),), ({},)),
}
