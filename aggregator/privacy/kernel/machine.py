"""The machine runs a compiled program over the bytes of a whole batch, and writes what is left of it.

`scan` reads every byte once. It leaves a tape of the kept parts, the spans that operators must see, and a verdict per
record. Then Python calls the operators. `assemble` writes the output from the tape.

Invariants: nothing is read outside a record or written outside a row. Work is bounded by the number of bytes and by the
guard's limits. A refused record leaves no trace on tape, spans and counters.
"""

import numpy as np

from aggregator.bytes_column import Bytes, Integers
from aggregator.jit import BYTES, INTEGERS, NUMBER, Number, compiled, inlined, inlined_early, unowned
from aggregator.privacy.batch.guard import MAXIMUM_DEPTH, MAXIMUM_WEIGHTLESS
from aggregator.privacy.kernel import tape as tapes
from aggregator.privacy.kernel.decoder import REFUSED, is_padded, leaves, number
from aggregator.privacy.kernel.intrinsics import item
from aggregator.privacy.kernel.opcodes import (
    ARGUMENT,
    COUNTER,
    DEPTH,
    KEPT,
    LAST_COUNTED,
    LAST_LOOK,
    LAST_VALUE,
    SHOWN,
    STRIDE,
    WEIGHT,
    Op,
)
from aggregator.privacy.kernel.tape import kept, put, renumbered

# Verdicts on a record.
GOOD, UNDECODABLE, TOO_DEEP, OPERATOR_FAILED = range(4)
_WALKING = -1
# The stack: the record's remaining allowance of weightless items, then three integers per array, map or routine.
_LEFT = 0
_BOTTOM = 1
_FRAME = 3
STACK = _BOTTOM + _FRAME * (MAXIMUM_DEPTH + 2)
# The fields of a frame: the items left and the end of their block, or a routine's return address and its call depth.
_ITEMS, _LIMIT, _PATCH = -3, -2, -1
_NO_LIMIT = -1
# The limit of a block whose size is impossible, because no item ends there.
_NEVER = 0
# A span is the number of its asker, and either (start, length) of its bytes or (number, NO_BYTES).
SPAN = 3
NO_BYTES = -1
_INT_BYTES, _LONG_BYTES = 5, 10


@inlined
def _head(
    code: Integers, pc: Number, data: Bytes, at: Number, end: Number, stack: Integers
) -> tuple[Number, Number, Number]:
    """The head of an array's next block: number of items, position after it, and where the block must end."""
    count, after = number(data, at, end, np.int64(_LONG_BYTES))
    limit = np.int64(_NO_LIMIT)
    if after >= 0 and count < 0:
        count = -count
        size, after = number(data, after, end, np.int64(_LONG_BYTES))
        limit = after + size if 0 <= size <= end - after else np.int64(_NEVER)
    if after >= 0 and count != 0:
        if item(code, pc + WEIGHT):
            stack[_LEFT] -= count
        if count < 0 or stack[_LEFT] < 0 or (count > end - after and not item(code, pc + WEIGHT)):
            after = np.int64(REFUSED)
    return count, after, limit


@inlined
def _block(
    code: Integers, pc: Number, data: Bytes, at: Number, end: Number, run: Number, tape: Integers, entries: Number,
    stack: Integers, top: Number, counters: Integers, weight: Number,
) -> tuple[Number, Number, Number]:  # fmt: skip
    """Go from one block to the next: position, where keeping goes on, number of entries."""
    if stack[top + _LIMIT] != _NO_LIMIT and stack[top + _LIMIT] != at:
        return np.int64(REFUSED), run, entries
    count, after, limit = _head(code, pc, data, at, end, stack)
    if after >= 0:
        counters[np.uint64(item(code, pc + COUNTER))] += weight * count
    if after < 0 or not item(code, pc + KEPT):
        pass
    elif count == 0:
        if is_padded(data, at, after):
            entries, run = renumbered(tape, entries, run, at, np.int64(0)), after
    elif stack[top + _PATCH] < 0:
        entries, run = renumbered(tape, entries, run, at, count), after
        stack[top + _PATCH] = entries - 1
    else:
        entries, run = kept(tape, entries, run, at), after
        place = 2 * stack[top + _PATCH]
        if place < tape.size:
            tape[place] += count
    stack[top + _ITEMS] = count
    stack[top + _LIMIT] = limit
    return after, run, entries


@inlined
def _entered(code: Integers, pc: Number, base: Number, stack: Integers) -> Number:
    """The verdict on entering a container."""
    if base + item(code, pc + DEPTH) >= MAXIMUM_DEPTH:
        return TOO_DEEP
    stack[_LEFT] -= item(code, pc + WEIGHT)
    return _WALKING if stack[_LEFT] >= 0 else UNDECODABLE


@inlined
def _asked(
    code: Integers, pc: Number, op: Number, data: Bytes, mark: Number, at: Number, tape: Integers, entries: Number,
    spans: Integers, seen: Number,
) -> tuple[Number, Number]:  # fmt: skip
    """Remember what an operator must see, and where its result stands: the new numbers of entries and spans."""
    if op == Op.COUNT:
        return entries, seen
    if op == Op.CONSTANT:
        if item(code, pc + SHOWN):
            entries = put(tape, entries, item(code, pc + ARGUMENT), tapes.CONSTANT)
        return entries, seen
    if SPAN * (seen + 1) <= spans.size:
        spans[SPAN * seen] = item(code, pc + ARGUMENT)
        is_number = op == Op.NUMBER_SPAN or op == Op.NUMBER_LOOK  # noqa: PLR1714 - the machine has no sets
        spans[SPAN * seen + 1] = number(data, mark, at, np.int64(_LONG_BYTES))[0] if is_number else mark
        spans[SPAN * seen + 2] = NO_BYTES if is_number else at - mark
    if item(code, pc + SHOWN):
        entries = put(tape, entries, seen, tapes.SPAN)
    return entries, seen + 1


@inlined
def _pushed(stack: Integers, top: Number, first: Number, second: Number, third: Number) -> Number:
    """Push three integers onto the stack, and return its new top."""
    stack[top], stack[top + 1], stack[top + 2] = first, second, third
    return top + _FRAME


@inlined
def _chosen(
    code: Integers, pc: Number, branches: Integers, data: Bytes, at: Number, end: Number, run: Number, tape: Integers,
    entries: Number, counters: Integers, weight: Number,
) -> tuple[Number, Number, Number, Number]:  # fmt: skip
    """Go into a branch of a union: its first instruction, position, where keeping goes on, number of entries."""
    branch, after = number(data, at, end, np.int64(_INT_BYTES))
    if after < 0 or branch < 0 or branch >= item(code, pc + WEIGHT):
        return pc, np.int64(REFUSED), run, entries
    counters[np.uint64(item(code, pc + COUNTER) + branch)] += weight
    row = item(code, pc + ARGUMENT) + 2 * branch
    if item(code, pc + KEPT) and (item(branches, row + 1) != branch or is_padded(data, at, after)):
        entries, run = renumbered(tape, entries, run, at, item(branches, row + 1)), after
    return item(branches, row), after, run, entries


@inlined_early
def _walk(  # noqa: C901, PLR0912, PLR0915 - one branch per instruction
    code: Integers, branches: Integers, data: Bytes, at: Number, end: Number, weight: Number, broken: Integers,
    tape: Integers, entries: Number, spans: Integers, seen: Number, counters: Integers, stack: Integers,
) -> tuple[Number, Number, Number]:  # fmt: skip
    """Follow the program over one record: the verdict, and the new numbers of entries and spans."""
    pc, base, top, run = np.int64(0), np.int64(0), np.int64(_BOTTOM), at
    mark, verdict, failed = at, _WALKING, False
    while verdict == _WALKING:
        op = item(code, pc)
        here, pc = pc, pc + STRIDE
        if op <= LAST_VALUE:
            pc, at, after, mark, head = leaves(code, here, data, at, end)
            if after < 0:
                verdict = UNDECODABLE
            elif after > at:
                value = number(data, at, end, np.int64(_LONG_BYTES))[0]
                entries, run = renumbered(tape, entries, run, at, value), head
                pc += STRIDE
            at = after
        elif op <= LAST_COUNTED:
            entries, seen = _asked(code, here, op, data, mark, at, tape, entries, spans, seen)
            failed |= op == Op.CONSTANT and item(broken, item(code, here + ARGUMENT)) != 0
            if item(code, here + COUNTER) >= 0:
                counters[item(code, here + COUNTER)] += weight
            run = at if op > LAST_LOOK else run
        elif op == Op.CUT:
            entries = kept(tape, entries, run, at)
        elif op == Op.RESUME:
            run = at
        elif op == Op.UNION:
            pc, at, run, entries = _chosen(code, here, branches, data, at, end, run, tape, entries, counters, weight)
            verdict = _WALKING if at >= 0 else UNDECODABLE
        elif op == Op.JUMP:
            pc = item(code, here + ARGUMENT)
        elif op == Op.NEXT:
            stack[top + _ITEMS] -= 1
            if stack[top + _ITEMS] <= 0:
                at, run, entries = _block(code, here, data, at, end, run, tape, entries, stack, top, counters, weight)
            if at < 0:
                verdict = UNDECODABLE
            elif stack[top + _ITEMS] > 0:
                pc = item(code, here + ARGUMENT)
            else:
                top -= _FRAME
        elif op == Op.ENTER:
            verdict = _entered(code, here, base, stack)
        elif op == Op.BLOCKS:
            top = _pushed(stack, top, np.int64(1), np.int64(_NO_LIMIT), np.int64(-1))
            pc = item(code, here + ARGUMENT)
        elif op == Op.CALL:
            top = _pushed(stack, top, pc, base, np.int64(0))
            pc, base = item(code, here + ARGUMENT), base + item(code, here + DEPTH)
        elif op == Op.RETURN:
            pc, base = stack[top - _FRAME], stack[top - _FRAME + 1]
            top -= _FRAME
        else:
            entries = kept(tape, entries, run, at)
            verdict = UNDECODABLE if at != end else OPERATOR_FAILED if failed else GOOD
    return verdict, entries, seen


@compiled(NUMBER, INTEGERS, INTEGERS, BYTES, *[INTEGERS] * 10, NUMBER)
def scan(
    code: Integers, branches: Integers, data: Bytes, starts: Integers, ends: Integers, broken: Integers,
    tape: Integers, spans: Integers, stack: Integers, counters: Integers, verdicts: Integers, entries_to: Integers,
    spans_to: Integers, first: int,
) -> int:  # fmt: skip
    """Read records of one schema.

    Args:
        code: The program.
        branches: Its table of branches.
        data: The batch.
        starts: The start of each record in the data.
        ends: The end of each record in the data.
        broken: By operator call, whether its constant is missing.
        tape: Gets the entries.
        spans: Gets the spans.
        stack: Scratch; `STACK` integers.
        counters: Grow by what was removed and changed, and by what unions and arrays held.
        verdicts: One per record.
        entries_to: For each record, and one place further on, where its entries end; the first is 0.
        spans_to: The same for spans.
        first: The first record to read.

    Returns:
        The good record that found no room on tape or spans, to go on with when there is as much as it wrote into
        `entries_to` and `spans_to`; else the number of records.
    """
    code, branches, data, stack = unowned(code), unowned(branches), unowned(data), unowned(stack)
    broken, tape, spans, counters = unowned(broken), unowned(tape), unowned(spans), unowned(counters)
    record, weight = first, np.int64(1)
    while record < starts.size:
        entries, seen = entries_to[record], spans_to[record]
        stack[_LEFT] = MAXIMUM_WEIGHTLESS
        at, end = starts[record], ends[record]
        verdict, more_entries, more_seen = _walk(
            code, branches, data, at, end, weight, broken, tape, entries, spans, seen, counters, stack
        )
        is_full = 2 * more_entries > tape.size or SPAN * more_seen > spans.size
        if verdict == GOOD and not is_full and weight > 0:
            entries, seen = more_entries, more_seen
        elif weight > 0:  # the same walk again subtracts its counts
            weight = np.int64(-1)
            continue
        elif is_full and verdict == GOOD:
            entries_to[record + 1], spans_to[record + 1] = more_entries, more_seen
            return record
        weight = np.int64(1)
        verdicts[record] = verdict
        record += 1
        entries_to[record], spans_to[record] = entries, seen
    return record
