"""The memory over batches: what it finds is what the operator made of that value, and it stays within its budget."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.privacy.batch.distinct import LONGEST_BYTES, OperatorCache
from aggregator.privacy.fields.leaf import Leaf
from aggregator.privacy.kernel.machine import NO_BYTES, SPAN
from aggregator.privacy.kernel.memory import NOTHING, MemoryBudget, ResultCache
from aggregator.privacy.kernel.output import FAILED, FORM, LENGTH, NUMERIC, PREFIXED, START
from aggregator.privacy.operators.pseudonymize import Pseudonymize
from aggregator.privacy.plan.plan import Call
from aggregator.schema.avro import Kind

TEXT = Leaf(Kind.STRING)
VALUES = st.one_of(
    st.sampled_from([b"", b"a", b"b" * 8, b"b" * 9, b"b" * 8 + b"\0"]), st.binary(max_size=20), st.integers(-3, 3)
)


def operator(domain: str, capacity: int = 1) -> OperatorCache:
    return OperatorCache(Call(Pseudonymize(key="k", domain=domain), TEXT, TEXT), list, capacity=capacity)


def laid_out(values):
    """A batch of (operator call, value), as the scan leaves it."""
    data, spans = bytearray(), []
    for call, value in values:
        spans.append((call, value, NO_BYTES) if isinstance(value, int) else (call, len(data), len(value)))
        data += b"" if isinstance(value, int) else value
    return np.frombuffer(bytes(data), np.uint8), np.array(spans, np.int64).reshape(-1)


def unknown(spans):
    """That no span's result is known."""
    return np.full(len(spans) // SPAN, NOTHING, np.int64)


def result(call: int, value) -> bytes | int:
    """Another one for every operator and value."""
    return 10 * value + call if isinstance(value, int) else b"%d:" % call + value[::-1]


def made_of(values):
    """Results of a batch, as `results` has them."""
    rows, made = [], b""
    for call, value in values:
        answer = result(call, value)
        rows.append((NUMERIC, answer, 0) if isinstance(answer, int) else (PREFIXED, len(made), len(answer)))
        made += b"" if isinstance(answer, int) else answer
    return np.array(rows, np.int64).reshape(-1, 3), np.frombuffer(made, np.uint8)


def found(memory, numbers, values):
    """What is recalled of each value, None where nothing is."""
    data, spans = laid_out(values)
    recalled = memory.recall(data, spans, unknown(spans), numbers)
    rows = iter(recalled.rows.tolist())
    answers = []
    for entry in recalled.found.tolist():
        row = next(rows) if entry != NOTHING else None
        if row is None or row[FORM] == NUMERIC:
            answers.append(row and row[START])
        else:
            answers.append(recalled.made[row[START] : row[START] + row[LENGTH]].tobytes())
    return answers


def remember(memory, numbers, values):
    data, spans = laid_out(values)
    memory.remember(data, spans, numbers, *made_of(values))


@given(st.lists(st.lists(st.tuples(st.integers(0, 2), VALUES), unique=True, max_size=12), max_size=6))
def test_what_is_found_is_what_was_made_of_it(batches):
    """Over batches and operators: every value that was kept, with its own operator's result, and no other."""
    memory = ResultCache(MemoryBudget())
    numbers = memory.numbers([operator(domain) for domain in "abc"])
    known = set()
    for values in batches:
        expected = [result(*at) if at in known else None for at in values]
        assert found(memory, numbers, values) == expected
        fresh = [at for at in values if at not in known]
        remember(memory, numbers, fresh)
        known |= set(fresh)


@pytest.mark.slow
def test_it_grows_and_keeps_what_it_has():
    """Many times its first size; a value is lost only where the search for a place would be long."""
    memory = ResultCache(MemoryBudget())
    numbers = memory.numbers([operator("a")])
    values = [(0, b"customer-%d" % n) for n in range(50_000)]
    for start in range(0, len(values), 700):
        remember(memory, numbers, values[start : start + 700])
    answers = found(memory, numbers, values)
    assert sum(answer is None for answer in answers) < len(values) / 1000
    assert all(answer in (None, result(*at)) for answer, at in zip(answers, values, strict=True))


@pytest.mark.slow
def test_several_memories_share_a_budget():
    """A memory that may not grow forgets instead, and what it keeps afterwards is right."""
    budget = MemoryBudget(400_000)
    memories = [ResultCache(budget) for _ in range(3)]
    numbers = [memory.numbers([operator("a")]) for memory in memories]
    for start in range(0, 20_000, 500):
        values = [(0, b"v%d" % n) for n in range(start, start + 500)]
        for memory, own in zip(memories, numbers, strict=True):
            remember(memory, own, values)
            assert all(a in (None, result(*at)) for a, at in zip(found(memory, own, values), values, strict=True))
    assert budget.left >= 0
    assert sum(memory.size for memory in memories) <= 400_000 + sum(ResultCache(MemoryBudget()).size for _ in memories)


@pytest.mark.parametrize("why", ["failed", "long value", "long result", "operator"])
def test_what_must_not_be_kept_is_asked_again(why):
    """A failure, free text, and what an operator makes anew every time."""
    memory = ResultCache(MemoryBudget())
    numbers = memory.numbers([operator("a", capacity=0 if why == "operator" else 1)])
    value = b"x" * (LONGEST_BYTES + 1 if why == "long value" else 5)
    data, spans = laid_out([(0, value)])
    size = LONGEST_BYTES + 1 if why == "long result" else 3
    rows = np.array([(FAILED if why == "failed" else PREFIXED, 0, size)], np.int64)
    memory.remember(data, spans, numbers, rows, np.zeros(size, np.uint8))
    assert memory.recall(data, spans, unknown(spans), numbers).found.tolist() == [NOTHING]


def test_looks_are_no_operators():
    """Spans that only show a value have numbers behind the calls', and no results."""
    memory = ResultCache(MemoryBudget())
    numbers = memory.numbers([operator("a")])
    data, spans = laid_out([(0, b"v"), (1, b"v")])
    remember(memory, numbers, [(0, b"v")])
    assert (memory.recall(data, spans, unknown(spans), numbers).found == NOTHING).tolist() == [False, True]
