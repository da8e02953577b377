"""The control topic's fold."""

import pytest

from aggregator.errors import FatalError
from aggregator.kafka.readers.log_record import LogRecord
from aggregator.kafka.readers.typed_decoder import DamagedRecords
from aggregator.state.control import (
    ControlState,
    Epoch,
    KeyCheck,
    Lease,
    NamedCluster,
    Pace,
    Target,
    UndecidedRange,
    encode,
    fold,
    readable_fold,
)
from tests.growth import cpu_s


def logged(*entries):
    return [LogRecord(0, offset, *encode(entry)) for offset, entry in enumerate(entries)]


def test_the_last_record_of_each_key_counts():
    """Epoch, lease and end fold independently, in log order."""
    first, second = Epoch(0, 2, 2, "a"), Epoch(1, 1, 2, "b")
    records = logged(first, Lease("a", 1), 0, second, Lease("b", 5, released=True))
    state = fold(ControlState(), records, "h.control")
    assert state == ControlState(second, Lease("b", 5, released=True), ended=0)
    assert state.epoch_number == 1


def test_the_end_of_an_epoch_that_was_never_opened_ends_none():
    """Else each epoch up to that one would be over before it begins, and the hub would open them without end."""
    state = fold(ControlState(), logged(Epoch(3, 1, 1, "a"), 1_000_000), "h.control")
    assert (state.epoch_number, state.ended, state.foreign_end) == (3, -1, 1_000_000)
    state = fold(state, logged(3), "h.control")
    assert (state.ended, state.foreign_end) == (3, 1_000_000), "the hub's own counts as ever"
    compacted = fold(ControlState(), logged(3, Epoch(4, 1, 1, "a")), "h.control")
    assert (compacted.epoch_number, compacted.ended) == (4, -1)
    assert compacted.foreign_end < compacted.epoch_number, "not worth a warning"


@pytest.mark.parametrize(
    "entry",
    [
        Epoch(2**63, 1, 1, "a"),
        Epoch(-1, 1, 1, "a"),
        Epoch(1, 10_000, 1, "a"),
        Epoch(1, 1, 10_000_000, "a"),
        Lease("a", 2**63),
        2**63,
        Pace(1, 1e300),
        KeyCheck("customer", 2**40, "c"),
        UndecidedRange("t", 0, -1, 2**63),
        UndecidedRange("t", 2**31, 0, 1),
    ],
)
def test_a_number_that_no_hub_writes_is_damage(entry):
    """Such an epoch would have ten million ids fenced, or could not be counted on."""
    with pytest.raises(FatalError, match=r"h\.control offset 0: the control record .* is damaged"):
        fold(ControlState(), logged(entry), "h.control")


def test_an_empty_topic_has_no_epoch():
    """Before the first start the newest epoch is -1, so that the first one is 0."""
    assert fold(ControlState(), [], "h.control").epoch_number == -1


@pytest.mark.parametrize("value", [b"?", b"{}", b'{"epoch":Infinity}', b'{"epoch":"1"}'])
@pytest.mark.parametrize("key", ["epoch", "lease", "end", "pace"])
def test_a_damaged_control_record_is_refused_by_name(key, value):
    """Whatever is wrong with it; a key that nobody knows is passed over."""
    with pytest.raises(FatalError, match=f"h.control offset 7: the control record {key} is damaged"):
        fold(ControlState(), [LogRecord(0, 7, key, value)], "h.control")
    assert fold(ControlState(), [LogRecord(0, 7, "other", value)], "h.control") == ControlState()


@pytest.mark.parametrize("value", [b"?", b"{}", b'{"topic":"t","partition":0,"start":Infinity,"end":1}'])
@pytest.mark.parametrize("key", ["undecided/", "undecided/t", "undecided/t/x", "undecided/t/-1", "target/x", "key/"])
def test_a_damaged_note_is_refused_by_name(key, value):
    """Until a tombstone takes it away, whatever its key says."""
    foreign = LogRecord(0, 7, key, value)
    with pytest.raises(FatalError, match=f"h.control offset 7: the control record {key} is damaged"):
        fold(ControlState(), [foreign], "h.control")
    assert fold(ControlState(), [foreign, LogRecord(0, 8, key, None)], "h.control") == ControlState()


@pytest.mark.parametrize("entry", [Epoch(4, 1, 1, "a"), Lease("a", 7), Pace(4, 1.0)])
def test_a_damaged_record_is_mended_by_the_next_one_of_its_key(entry):
    """By the driver's, or by whoever writes again what was there, or by a tombstone, which says nothing.

    But by no tombstone of an epoch: after it the log is compacted, and epochs would begin at 0 again.
    """
    key, value = encode(entry)
    bad, good = LogRecord(0, 1, key, b"?"), LogRecord(0, 2, key, value)
    expected = fold(ControlState(), [good], "h.control")
    assert fold(ControlState(), [good, bad, good], "h.control") == expected
    tombstone = LogRecord(0, 2, key, None)
    if key != "epoch":
        assert fold(ControlState(), [good, bad, tombstone], "h.control") == expected
        assert fold(ControlState(), [bad, tombstone], "h.control") == ControlState()
    for records in ([good, bad], [good, bad, tombstone], [tombstone])[: 3 if key == "epoch" else 1]:
        with pytest.raises(FatalError, match=f"offset .: the control record {key} is damaged") as refusal:
            fold(ControlState(), records, "h.control")
        assert ("a tombstone does not replace it" in refusal.value.hint) == (key == "epoch")
        assert "once more" in refusal.value.hint


def test_a_damaged_record_takes_none_of_its_batch_with_it():
    """Whoever follows the log is told once, and goes on with what came beside it."""
    records = [*logged(Epoch(7, 1, 1, "a"), NamedCluster("eu", "id")), LogRecord(0, 9, "lease", b"?")]
    damaged = DamagedRecords()
    state = readable_fold(ControlState(), records, "h.control", damaged)
    assert (state.epoch_number, state.clusters) == (7, {"eu": "id"})
    state = readable_fold(state, [], "h.control", damaged)
    with pytest.raises(FatalError, match="offset 9: the control record lease is damaged"):
        damaged.require_none()
    later = LogRecord(0, 10, *encode(Lease("a", 5)))
    assert readable_fold(state, [later], "h.control", damaged).lease == Lease("a", 5)
    damaged.require_none()


@pytest.mark.parametrize(
    ("entry", "key"),
    [
        (Target("eu", "orders", "eu.orders"), "target/us/orders/us.orders"),
        (Target("eu", "orders", "eu.orders", by_key=True), "target/eu/orders/eu.orders"),
        (KeyCheck("customer", 2, "c"), "key/customer/1"),
        (NamedCluster("eu", "id"), "cluster/us"),
        (UndecidedRange("t", 0, 5, 9), "undecided/t/1"),
    ],
)
def test_a_record_of_another_name_is_refused(entry, key):
    """What a key takes back later is what its record says; both are the hub's own, so they always agree."""
    with pytest.raises(FatalError, match=f"h.control offset 7: the control record {key} is damaged"):
        fold(ControlState(), [LogRecord(0, 7, key, encode(entry)[1])], "h.control")


def test_a_note_is_taken_back_by_a_tombstone_of_its_key():
    """Others stay."""
    kept, settled = UndecidedRange("t", 0, 5, 9), UndecidedRange("t", 11, 5, 9)
    state = fold(ControlState(), logged(kept, settled), "h.control")
    assert set(state.undecided) == {("t", 0), ("t", 11)}
    assert set(fold(state, [LogRecord(0, 2, settled.key, None)], "h.control").undecided) == {("t", 0)}
    assert set(state.undecided) == {("t", 0), ("t", 11)}


@pytest.mark.slow
@pytest.mark.search
@pytest.mark.parametrize(
    "entry",
    [
        lambda n: Target("eu", f"t{n}", f"eu.t{n}"),
        lambda n: KeyCheck("customer", n, "c"),
        lambda n: NamedCluster(f"e{n}", "id"),
        lambda n: UndecidedRange("t", n, 5, 9),
    ],
)
def test_a_record_costs_the_same_whatever_is_known(entry):
    """A hub of 10,000 topics notes each of them; no record copies what all earlier ones said."""
    many, again = (logged(*(entry(n * kinds) for n in range(10_000))) for kinds in (1, 0))
    bound_s = 4 * cpu_s(lambda: fold(ControlState(), again, "h.control")) + 0.05
    assert cpu_s(lambda: fold(ControlState(), many, "h.control"), enough_s=bound_s) < bound_s
