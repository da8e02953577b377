"""Transforms record keys with one deterministic operator; keys are Avro by wire format, or have a declared format.

The declared format is text, integers, bytes or JSON.
Invariant: equal keys stay equal, and unequal keys stay unequal within their format, because order and compaction depend
on them. A key that does not match its format is rejected, never passed.
"""

import contextlib
import itertools
import json
import struct
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from functools import partial

import numpy as np

from aggregator.bytes_column import BytesColumn
from aggregator.config.secrets import KeyRing
from aggregator.errors import Reason
from aggregator.privacy.batch.column import Counts, ResultColumn, joined, refused
from aggregator.privacy.batch.guard import Malformed
from aggregator.privacy.batch.key_tally import PATH, KeyTally, key_path
from aggregator.privacy.batch.strip import Rejection, ReportRow
from aggregator.privacy.fields.leaf import Value
from aggregator.privacy.ids.schema_ids import FramedValues, Groups
from aggregator.privacy.json.text import Json, read_json, write_json
from aggregator.privacy.operators import is_cacheable, tokenizer
from aggregator.privacy.operators.drop import Drop
from aggregator.privacy.policy.file import KeyFormat
from aggregator.privacy.policy.precedence import AppliedRule, Scope
from aggregator.privacy.policy.rules import key_name, most_restrictive
from aggregator.privacy.tokens.tokens import HmacTokenSpec
from aggregator.privacy.topic.programs import Program, Programs
from aggregator.schema.wire import GLUE_MAGIC, MAGIC, is_glue_framed

# Tokens of many keys at once; None where one of them has to be looked at alone.
TokensOf = Callable[[BytesColumn], BytesColumn | None]
_LONG = struct.Struct(">q")
_LONG_LIMIT = 2**63


class KeyStripper:
    """Transforms the keys of one topic.

    Args:
        scope: What the policy says; its rules are `keep`, `drop` or `pseudonymize`.
        key_format: Declared format; None: Avro if the wire says so, else text.
        programs: For Avro keys.
        key_rings: Key rings by name.
        tokens_of: What makes tokens of many keys at once, from what they are made of; None: nothing does.
    """

    def __init__(
        self,
        scope: Scope,
        key_format: KeyFormat | None,
        programs: Programs,
        key_rings: Mapping[str, KeyRing],
        tokens_of: Callable[[HmacTokenSpec], TokensOf | None] = lambda _: None,
    ) -> None:
        # Of several patterns' rules; once one of them has ended, nothing of a key is left.
        self._rule = most_restrictive([one.rule for one in scope.rules])
        self._scope = scope
        self._key_format = key_format
        self._programs = programs
        self._decision = AppliedRule(Drop(), "")
        self._tally = KeyTally()
        self._tokenizer = tokenizer(self._rule, key_rings)
        token_spec = self._tokenizer.of_hex if self._tokenizer else None
        if token_spec and key_format == "bytes":
            token_spec = token_spec._replace(normalize="none")
        self._tokens = tokens_of(token_spec) if token_spec else None

    def begin(self, today: date) -> None:
        """Begin a new batch on a day."""
        self._programs.begin(today)
        self._decision = self._scope.decide_whole(today)

    def report(self) -> list[ReportRow]:
        """The rows of the report on all keys so far."""
        return list(self._tally.rows(self._programs.report()))

    def prepare(self, contents: Sequence[bytes | None]) -> Callable[[], ResultColumn]:
        """What strips the keys of the batch that was begun; None stays None, and is what a dropped key becomes.

        Raises:
            RetryError: a registry does not answer.
        """
        keys = BytesColumn.of(contents)
        is_read = not isinstance(self._decision.rule, Drop) and keys.count(None) < len(keys)
        if is_read and (self._key_format == "avro" or (self._key_format is None and _may_be_framed(keys))):
            batch = FramedValues(keys)
            groups = batch.groups()
            return partial(self._by_wire, keys, batch, groups, self._programs.programs(groups))
        return partial(self._unframed, keys)

    def _unframed(self, keys: BytesColumn) -> ResultColumn:
        """Keys of which none may be Avro, or of which nothing is left."""
        missing = keys.count(None)
        self._tally.missing(self._decision, missing)
        if missing == len(keys):
            return ResultColumn(keys)
        if isinstance(self._decision.rule, Drop):
            self._tally.met(self._decision, self._key_format or "any", len(keys) - missing)
            return _alike(keys, ResultColumn(BytesColumn.empty(len(keys))), "drop")
        return self._plain(keys)

    def _by_wire(
        self, keys: BytesColumn, batch: FramedValues, groups: Groups, programs: Mapping[int, Program | Rejection]
    ) -> ResultColumn:
        """Keys that may be Avro: those that are not, and need not be, are plain."""
        self._tally.missing(self._decision, keys.count(None))
        parts = []
        for schema_id, members in groups.members.items():
            program = programs[schema_id]
            if not isinstance(program, Rejection):
                parts.append((members, _of_key(program.strip(batch, members), schema_id)))
            else:
                # A number that no registry knows is four bytes of the key.
                named = None if program.reason is Reason.UNKNOWN_SCHEMA else schema_id
                parts.append(refused(members, Rejection(Reason.BAD_KEY, named)))
        rest = groups.unframed
        is_foreign = np.ones(len(rest), bool)
        if self._key_format is None:
            whole = keys.tolist()
            is_foreign = np.fromiter((is_glue_framed(whole[place] or b"") for place in rest), bool, len(rest))
        parts.append(refused(rest[is_foreign], Rejection(Reason.BAD_KEY)))
        bad = sum(len(part.rejected) for _, part in parts)
        self._tally.met(self._decision, "avro", bad, bad)
        if self._key_format is None:
            text = rest[~is_foreign]
            parts.append((text, self._plain(BytesColumn.of([whole[place] for place in text.tolist()]))))
        return joined(len(keys), parts)

    def _plain(self, cells: BytesColumn) -> ResultColumn:
        """Keys in their declared format, each distinct one once."""
        if self._tokenizer is None and self._key_format in (None, "string") and cells.are_text():
            self._tally.met(self._decision, "string", len(cells) - cells.count(None), 0)
            return ResultColumn(cells)
        if self._tokens and (
            self._key_format == "bytes" or (self._key_format in (None, "string") and cells.are_text())
        ):
            tokens = self._tokens(cells)
            if tokens is not None:
                self._tally.met(self._decision, self._key_format or "string", len(cells) - cells.count(None), 0)
                return _alike(cells, ResultColumn(tokens), self._rule.operator)
        keys = cells.tolist()
        values: dict[bytes, Value] = {}
        distinct = {key for key in set(keys) if key is not None}
        read = _READ[self._key_format or "string"]
        for key in distinct:
            with contextlib.suppress(ValueError, RecursionError, Malformed):
                values[key] = read(key)
        made: dict[bytes | None, bytes] = {key: key for key in values}
        if self._tokenizer is not None:
            answers = self._tokenizer.tokens(list(values.values()))
            made = {key: _written(token, self._key_format) for key, token in zip(values, answers, strict=True)}
        column = ResultColumn([made.get(key) for key in keys])
        if len(made) < len(distinct):
            bad = [place for place, key in enumerate(keys) if key is not None and key not in made]
            column.rejected = dict.fromkeys(bad, Rejection(Reason.BAD_KEY))
        self._tally.met(
            self._decision, self._key_format or "string", len(keys) - keys.count(None), len(column.rejected)
        )
        return column if self._tokenizer is None else _alike(cells, column, self._rule.operator)


def other_versions(scope: Scope, key_rings: Mapping[str, KeyRing]) -> Iterator[dict[str, KeyRing]]:
    """The key rings as they are while another of their listed versions is the current one, in every combination.

    Args:
        scope: What the policy says of record keys; selects the keys on which what is left of one depends.
        key_rings: Key rings by name.
    """
    rules = [*(one.rule for one in scope.rules), *scope.tags.values()]
    names = sorted({key_name(rule) for rule in rules if is_cacheable(rule)} & key_rings.keys())
    versions = [[version for version, _ in key_rings[name].versions] for name in names]
    for chosen in itertools.product(*versions):
        rings = {name: replace(key_rings[name], current=version) for name, version in zip(names, chosen, strict=True)}
        if any(rings[name].current != key_rings[name].current for name in names):
            yield {**key_rings, **rings}


def _may_be_framed(keys: BytesColumn) -> bool:
    """Whether a key may begin as a serialiser's frame; a look at each costs more than one at all of them in a row."""
    return bool(np.isin(keys.firsts, (MAGIC[0], GLUE_MAGIC[0])).any())


def _alike(keys: BytesColumn, column: ResultColumn, operator: str) -> ResultColumn:
    """A column in which the operator is counted once for every key that there is."""

    def counts_of(places: Collection[int]) -> Counts:
        count = len(places) if keys.nulls is None else sum(not keys.nulls[place] for place in places)
        return Counter({(PATH, operator): count} if count else {})

    count = len(keys) - keys.count(None) - len(column.rejected)
    column.counts = Counter({(PATH, operator): count} if count else {})
    column.counts_of = counts_of
    return column


def _of_key(column: ResultColumn, schema_id: int) -> ResultColumn:
    """Turn a program's results for values into results for keys."""

    def renamed(counts: Counts) -> Counts:
        return Counter({(key_path(path), operator): count for (path, operator), count in counts.items()})

    rejected = dict.fromkeys(column.rejected, Rejection(Reason.BAD_KEY, schema_id))
    return ResultColumn(
        column.contents, rejected, renamed(column.counts), lambda places: renamed(column.counts_of(places))
    )


def _json(key: bytes) -> Value:
    """A text or an integer is its value; anything else is its text in one form, because names in it are data too."""
    value = _by_meaning(read_json(key))
    if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    return write_json(value).decode()


def _by_meaning(value: Json) -> Json:
    """Numbers without a fraction are integers, at any depth: JSON has one kind of number (RFC 8259, section 6)."""
    if isinstance(value, dict):
        return {name: _by_meaning(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_by_meaning(item) for item in value]
    if isinstance(value, float) and value.is_integer() and -_LONG_LIMIT <= value < _LONG_LIMIT:
        return int(value)
    return value


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


def _written(token: Value, key_format: KeyFormat | None) -> bytes:
    if isinstance(token, bytes):
        return token
    return json.dumps(token).encode() if key_format == "json" else str(token).encode()
