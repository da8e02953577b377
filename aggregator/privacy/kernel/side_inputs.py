"""Collects values that are used beside others: what each path held, and pairs for operators that see a second value.

Invariant: a record has at most one such span per path. The values of a path are therefore one row, with a number per
record.
"""

from collections.abc import Container, Mapping, Sequence

import numpy as np

from aggregator.bytes_column import Bytes, BytesColumn, Integers
from aggregator.privacy.batch.column import ABSENT, NOWHERE, SideValues
from aggregator.privacy.fields.leaf import Shown
from aggregator.privacy.fields.raw_values import Raw
from aggregator.privacy.kernel.machine import NO_BYTES
from aggregator.privacy.kernel.spans import gather
from aggregator.privacy.plan.plan import SideInput
from aggregator.privacy.plan.side_inputs import entity, shown


def side_values(
    data: Bytes,
    spans: Integers,
    which: Integers,
    spans_to: Integers,
    inputs: Mapping[int, SideInput],
    uncomparable: Container[str],
) -> dict[str, SideValues]:
    """The values that the batch has at the path of each side input.

    Args:
        data: The bytes of the batch.
        spans: `SPAN` integers per row; the first is the operator call, or a number of `inputs`.
        which: For each span the number of its distinct value.
        spans_to: For each record where its spans end, after a first 0.
        inputs: The side inputs by their numbers.
        uncomparable: Paths at which something may stand that is no value to compare: without one, nobody knows.
    """
    paths = {
        one.path: SideValues(np.full(len(spans_to) - 1, NOWHERE if one.path in uncomparable else ABSENT, np.int64), [])
        for one in inputs.values()
    }
    for number, one in inputs.items():
        members = np.flatnonzero(spans[:, 0] == number)
        _, first, codes = np.unique(which[members], return_index=True, return_inverse=True)
        found = paths[one.path]
        found.codes[records_of(spans_to, members)] = codes + len(found.values)
        raws = raws_of_spans(data, spans[members[first]])
        values: list[Shown] = [*found.values, *(shown(one.leaf, raw) for raw in raws)]
        paths[one.path] = SideValues(found.codes, values)
    return paths


def paired(
    data: Bytes, spans: Integers, which: Integers, members: Integers, beside: SideValues | None, records: Integers
) -> tuple[list[Raw], Integers]:
    """What an operator is asked for that sees another value beside each of its own.

    Args:
        data: The batch.
        spans: As above.
        which: As above.
        members: The operator's spans.
        beside: What it sees; None where the schema has no such field.
        records: The record of each of the members.

    Returns:
        Each pair once, and for each of the members the number of its pair.
    """
    seen = np.full(len(members), ABSENT, np.int64) if beside is None else np.maximum(beside.codes[records], ABSENT)
    width = 1 if beside is None else len(beside.values) + 1
    _, first, numbers = np.unique(which[members] * width + seen + 1, return_index=True, return_inverse=True)
    raws = raws_of_spans(data, spans[members[first]])
    entities = [None] if beside is None else [*map(entity, beside.values), None]
    others = [entities[code] for code in seen[first].tolist()]  # the last entry is for an absent value
    return list(zip(raws, others, strict=True)), numbers


def records_of(spans_to: Integers, spans: Integers) -> Integers:
    """The record that each span is in."""
    found: Integers = np.searchsorted(spans_to[1:], spans, side="right")
    return found


def raws_of_spans(data: Bytes, spans: Integers) -> Sequence[Raw]:
    """Values of spans of one type, as operators know them."""
    if not len(spans):
        return []
    if spans[0, 2] == NO_BYTES:
        numbers: list[Raw] = spans[:, 1].tolist()
        return numbers
    starts, lengths = np.ascontiguousarray(spans[:, 1]), np.ascontiguousarray(spans[:, 2])
    out, ends = np.empty(int(lengths.sum()), np.uint8), np.empty(len(spans) + 1, np.int64)
    gather(data, starts, lengths, len(spans), out, ends)
    return BytesColumn(out, ends).tolist()
