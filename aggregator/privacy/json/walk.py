"""Follows an allow list through one JSON value, twice: first to collect operators' inputs, then to build the output.

Invariant: both passes make the same calls in the same order. The output holds kept parts and operators' results only.
"""

import math
import struct
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from aggregator.privacy.batch.column import Counts, TooMuch
from aggregator.privacy.batch.tally import NULL
from aggregator.privacy.fields.leaf import Shown
from aggregator.privacy.fields.raw_values import Raw
from aggregator.privacy.json.allowlist import JsonPlace, Member, PlaceRule
from aggregator.privacy.json.text import Json
from aggregator.privacy.plan.plan import Call, Row
from aggregator.privacy.plan.side_inputs import entity
from aggregator.schema.avro import Kind

_DOUBLE = struct.Struct("<d")
_DROPPED = object()
# What lies in a list is not one value: whether there is none cannot be said either. It is known by its identity.
INDEFINITE = float("nan")
_KINDS = {dict: "object", list: "array", str: "string", int: "integer", float: "number", bool: "boolean"}


def at_path(value: Json, steps: tuple[str, ...]) -> Shown | None:
    """The value at a path as others see it; None for null and for nothing, `INDEFINITE` where a list is on the way."""
    for step in steps:
        if isinstance(value, list):
            return INDEFINITE
        value = value.get(step) if isinstance(value, dict) else None
    return math.nan if isinstance(value, dict | list) else value  # present, but not comparable


class _Walk(ABC):
    """Follows an allow list through a value once."""

    def left(self, value: Json, place: JsonPlace, beside: Mapping[str, Shown]) -> Any:
        """The rest of a whole value; null if nothing is left."""
        made = self._left(value, place, beside)
        return None if made is _DROPPED else made

    @abstractmethod
    def met(self, decision: PlaceRule) -> None:
        """Note the decision on a value that is no null."""

    @abstractmethod
    def asked(self, decision: PlaceRule, call: Call, raw: Raw) -> Any:
        """The operator's result for a raw value of this call."""

    @abstractmethod
    def named(self, made: dict[str, Any], name: str, member: Member) -> str:
        """The name under which a member stays."""

    def _left(self, value: Json, place: JsonPlace, beside: Mapping[str, Shown]) -> Any:
        if isinstance(value, dict) and place.opens_object:
            return self._object(value, place, beside)
        if isinstance(value, list) and place.opens_array:
            item = place.item()
            return [made for part in value if (made := self._left(part, item, beside)) is not _DROPPED]
        decision = place.decision_for(NULL if value is None else _KINDS[type(value)])
        self.met(decision)
        if decision.is_dropped:
            return _DROPPED
        return value if decision.call is None else self._changed(value, decision, decision.call, beside)

    def _object(self, value: dict[str, Any], place: JsonPlace, beside: Mapping[str, Shown]) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for name, part in value.items():
            member = place.member(name)
            if member.name is not None and member.name.is_dropped:
                self.met(member.name)
                continue
            inner = self._left(part, member.place, beside)
            if inner is not _DROPPED:
                made[self.named(made, name, member)] = inner
        return made

    def _changed(self, value: Json, decision: PlaceRule, call: Call, beside: Mapping[str, Shown]) -> Any:
        raw = _raw(value)
        return self.asked(decision, call, (raw, entity(beside.get(call.other_field))) if call.other_field else raw)


class InputCollector(_Walk):
    """Collects what operators must see, and counts what is there."""

    def __init__(self) -> None:
        self.wanted: dict[Call, set[Raw]] = defaultdict(set)
        self.seen: Counter[Row] = Counter()

    def met(self, decision: PlaceRule) -> None:
        """Count one value of this place."""
        self.seen[decision.row] += 1

    def asked(self, _decision: PlaceRule, call: Call, raw: Raw) -> Any:
        """Note that the operator has to see this value."""
        self.wanted[call].add(raw)

    def named(self, _made: dict[str, Any], name: str, member: Member) -> str:
        """Names that are data are met, and perhaps asked for."""
        if member.name is not None:
            self.met(member.name)
            if member.name.call is not None:
                self.wanted[member.name.call].add(name.encode())
        return name


class OutputBuilder(_Walk):
    """Builds what is left of one record.

    Args:
        results: What the operators made of what was collected.
        room: Characters that may be made of it.

    Attributes:
        counts: What was removed and changed.
        failed: Leaves without a result; if there are any, what was built is worth nothing.
        is_merged: Whether two names became one; the same.
        made: Characters that the operators made of it.
    """

    def __init__(self, results: Mapping[Call, Mapping[Raw, Raw]], room: int) -> None:
        self._results = results
        self._room = room
        self.counts: Counts = Counter()
        self.failed: set[Row] = set()
        self.is_merged = False
        self.made = 0

    def met(self, decision: PlaceRule) -> None:
        """Count a value that is dropped."""
        if decision.is_dropped and decision.row.type != NULL:
            self.counts[decision.row.path or ".", "drop"] += 1

    def asked(self, decision: PlaceRule, call: Call, raw: Raw) -> Any:
        """The operator's result for a value."""
        found = self._results[call].get(raw)
        value = None if found is None else _value(call, found)
        if found is None or (isinstance(value, float) and not math.isfinite(value)):
            self.failed.add(decision.row)
            return None
        self.counts[decision.row.path or ".", decision.row.operator] += 1
        self.made += len(value) if isinstance(value, str) else 0
        if self.made > self._room:
            raise TooMuch
        return value

    def named(self, made: dict[str, Any], name: str, member: Member) -> str:
        """The name as it is, or its token; never one that is there already."""
        decision = member.name
        if decision is not None and decision.call is not None:
            name = str(self.asked(decision, decision.call, name.encode()))
        self.is_merged |= name in made
        return name


def _raw(value: Json) -> Raw:
    """A value as operators' memory knows it."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bool):
        return bytes([value])
    return _DOUBLE.pack(value) if isinstance(value, float) else value


def _value(call: Call, raw: Raw) -> Json:
    """Convert an operator's result to JSON."""
    if call.result.nullable:
        return None
    if call.result.kind is Kind.STRING:
        return str(raw, "utf-8")
    if call.result.kind is Kind.DOUBLE:
        number: float = _DOUBLE.unpack(raw)[0]
        return number
    value: Json = raw
    return value
