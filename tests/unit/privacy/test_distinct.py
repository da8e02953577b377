"""The memory of operators: each distinct value is worked out once, and the memory stays small."""

from hypothesis import given
from hypothesis import strategies as st

from aggregator.privacy.batch.distinct import CAPACITY, LONGEST_BYTES, OperatorCache
from aggregator.privacy.fields.leaf import Leaf
from aggregator.privacy.operators.pseudonymize import Pseudonymize
from aggregator.privacy.plan.plan import Call
from aggregator.schema.avro import Kind

TEXT = Leaf(Kind.STRING)


def counted(seen):
    """An operator on raw bytes that notes what it was asked, and fails for values with an x."""

    def operator(raws):
        seen.extend(raws)
        if any(b"x" in raw for raw in raws):
            raise ValueError("x")
        return [raw[::-1] for raw in raws]

    return OperatorCache(Call(Pseudonymize(key="k", domain="d"), TEXT, TEXT), lambda values: values, operator)


@given(st.lists(st.sets(st.binary(max_size=4), max_size=8).map(list), max_size=5))
def test_answers_are_the_operators_own(batches):
    """In order, over batches, empty results included; None for exactly the values that it fails for."""
    distinct = counted([])
    for raws in batches:
        assert distinct.answers(raws) == [None if b"x" in raw else raw[::-1] for raw in raws]


def test_a_value_is_worked_out_once_over_batches():
    """The second batch asks only for what is new."""
    seen = []
    distinct = counted(seen)
    distinct.answers([b"a", b"b"])
    distinct.answers([b"b", b"c"])
    assert seen.count(b"b") == 1


def test_long_values_are_not_kept():
    """Memory is bounded by bytes: free text is worked out anew, and its answers stay right."""
    seen = []
    distinct = counted(seen)
    long = b"l" * (LONGEST_BYTES + 1) + b"1"
    assert distinct.answers([b"s", long]) == [b"s", long[::-1]]
    assert distinct.answers([long, b"s"]) == [long[::-1], b"s"]
    assert (seen.count(long), seen.count(b"s")) == (2, 1)


def test_the_memory_forgets_before_it_grows_too_large():
    """Never more than its capacity."""
    distinct = counted([])
    for first in range(0, 3 * CAPACITY, CAPACITY // 2):
        distinct.answers([b"%d" % number for number in range(first, first + CAPACITY // 2)])
        assert len(distinct._known) <= CAPACITY


def test_what_never_comes_again_is_remembered_in_samples():
    """A field of unique values costs no memory; once its values do repeat, all of them are remembered."""
    seen = []
    distinct = counted(seen)
    batches = [[b"%d-%d" % (batch, number) for number in range(1600)] for batch in range(4)]
    for raws in batches:
        distinct.answers(raws)
    assert len(distinct._known) == 1600 + 3 * 100
    for _ in range(3):
        seen.clear()
        distinct.answers(batches[-1])
    assert seen == []
