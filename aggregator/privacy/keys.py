"""Record keys: Avro by wire format, or text, integers, bytes and JSON by declaration; one deterministic operator.

Invariant: equal keys stay equal and unequal ones unequal within their format, because order and compaction rest on
them; a key that is not what its format says is rejected, never passed.
"""

import json
import struct
from collections.abc import Callable, Mapping
from datetime import date

from aggregator.config.secrets import KeyRing
from aggregator.errors import DeadLetterError, Reason
from aggregator.privacy.leaf import Value
from aggregator.privacy.operators.pseudonymize import tokenizer
from aggregator.privacy.policy import KeyFormat
from aggregator.privacy.programs import Outcome, Program, Programs
from aggregator.privacy.rules import AnyRule, Drop, Keep, Pseudonymize
from aggregator.privacy.strip import Rejection
from aggregator.schema.wire import split

# Counted under this path; no field can be called so.
PATH = "@key"
_LONG = struct.Struct(">q")
_SCALARS = (str, int)


class Keys:
    """Transforms the keys of one topic.

    Args:
        rule: `keep`, `drop` or `pseudonymize`.
        form: Declared format; None: Avro if the wire says so and the id is known, else text.
        programs: For Avro keys.
        keys: Key rings by name.
    """

    def __init__(self, rule: AnyRule, form: KeyFormat | None, programs: Programs, keys: Mapping[str, KeyRing]) -> None:
        self._rule = rule
        self._form = form
        self._programs = programs
        self._drops = True
        self._token = tokenizer(rule, keys).token if isinstance(rule, Pseudonymize) else None

    def begin(self, today: date) -> None:
        """A new batch."""
        self._programs.begin(today)
        expired = isinstance(self._rule, Keep) and self._rule.expired(today)
        self._drops = expired or isinstance(self._rule, Drop)

    def transform(self, key: bytes | None) -> Outcome:
        """One key; None stays None, and is what a dropped key becomes.

        Raises:
            RetryError: a registry does not answer.
        """
        if key is None:
            return Outcome()
        if self._drops:
            return Outcome(counts={(PATH, "drop"): 1})
        avro = self._avro(key) if self._form in (None, "avro") else None
        if avro is not None:
            return avro
        try:
            value = _READ[self._form or "string"](key)
        except (ValueError, RecursionError):
            return Outcome(rejection=Rejection(Reason.BAD_KEY))
        if self._token is None:
            return Outcome(key)
        return Outcome(_written(self._token(value), self._form), counts={(PATH, self._rule.operator): 1})

    def _avro(self, key: bytes) -> Outcome | None:
        """The outcome of an Avro key; None when it is none and need not be one."""
        try:
            schema_id, body = split(key)
        except DeadLetterError:
            return Outcome(rejection=Rejection(Reason.BAD_KEY)) if self._form == "avro" else None
        program = self._programs.program(schema_id)
        if not isinstance(program, Program):
            if self._form is None and program.reason is Reason.UNKNOWN_SCHEMA:
                return None
            return Outcome(rejection=Rejection(Reason.BAD_KEY, schema_id))
        (outcome,) = program.strip([body])
        if outcome.rejection is not None:
            return Outcome(rejection=Rejection(Reason.BAD_KEY, schema_id))
        counts = {(_path(path), operator): count for (path, operator), count in outcome.counts.items()}
        return outcome._replace(counts=counts)


def _path(inner: str) -> str:
    return PATH if inner == "." else f"{PATH}.{inner}"


def _json(key: bytes) -> Value:
    """A scalar is its value; anything else is its canonical text as a whole, because names in it are data too."""
    value = json.loads(key.decode())
    if isinstance(value, _SCALARS) and not isinstance(value, bool):
        return value
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _long(key: bytes) -> Value:
    if len(key) != _LONG.size:
        raise ValueError("not eight bytes")
    number: int = _LONG.unpack(key)[0]
    return number


_READ: dict[str, Callable[[bytes], Value]] = {
    "string": lambda key: key.decode(),
    "long": _long,
    "bytes": lambda key: key,
    "json": _json,
}


def _written(token: Value, form: KeyFormat | None) -> bytes:
    if isinstance(token, bytes):
        return token
    return json.dumps(token).encode() if form == "json" else str(token).encode()
