"""What a slot relies on of its ports, held by the simulated clusters and by real brokers alike.

The protocol is searched on the simulation: a rule of Kafka's that the simulation keeps otherwise would be searched for
nothing.
"""

import random

import pytest

from aggregator.coordinates import EdgePartition, OffsetRange
from aggregator.errors import Fenced, OutcomeUnknown, TransactionAborted
from aggregator.kafka.readers.codes import RefusalKind
from aggregator.kafka.readers.reader_events import FaultKind, StartPosition
from aggregator.state.ledger import LedgerRecord
from tests.ports import Brokers, Simulated
from tests.trial import incompressible

LONG = incompressible(5000)


@pytest.fixture(params=["simulated", pytest.param("brokers", marks=pytest.mark.brokers)])
def world(request):
    """One implementation; the seed of a simulated one is printed."""
    if request.param == "brokers":
        made = Brokers(request.getfixturevalue("clusters"))
    else:
        seed = random.SystemRandom().randrange(2**32)
        print(f"SEED={seed}")
        made = Simulated(seed)
    yield made
    made.close()


def contract(body):
    """A test whose body runs in the world, among its own steps."""

    def test(world):
        world.play(lambda: body(world))

    test.__doc__ = body.__doc__
    return test


def opened(world):
    """A writer of the slot's, with the id taken."""
    writer = world.ports.open_writer()
    writer.open()
    return writer


def settled(world, partition=0):
    """Wait until every marker of a partition of central is written; its log."""
    at = (world.central, partition)
    for _ in range(500):
        found = world.ports.read_undecided([at]).get(at)
        if found is not None and not len(found):
            return found
        world.ports.sleep(0.02)
    raise AssertionError(f"{at} stays undecided")


@contract
def test_a_transaction_is_visible_whole_and_only_when_it_is_committed(world):
    """Rule C: records, letters and positions come together."""
    writer = opened(world)
    writer.begin()
    for partition in (0, 1, 0):
        writer.produce(world.central, b"k", b"v", partition=partition)
    assert world.visible(0) == world.visible(1) == []
    writer.commit()
    settled(world, 0), settled(world, 1)
    assert (world.visible(0), world.visible(1)) == ([b"v"] * 2, [b"v"])


@contract
def test_an_aborted_transaction_is_never_visible_and_the_next_one_is(world):
    """Rule E: the slot rewinds and goes on with the same producer."""
    writer = opened(world)
    for end, value in ((writer.abort, b"aborted"), (writer.commit, b"committed")):
        writer.begin()
        writer.produce(world.central, b"k", value, partition=0)
        end()
    settled(world)
    assert world.visible(0) == [b"committed"]


@contract
def test_who_takes_an_id_fences_whoever_had_it(world):
    """Rule B: what the one before has open is aborted before `open` answers, and its commit is refused as fenced."""
    before, after = opened(world), world.ports.open_writer()
    before.begin()
    before.produce(world.central, b"k", b"before", partition=0)
    after.open()
    assert not len(settled(world))
    with pytest.raises(Fenced):
        before.commit()
    after.begin()
    after.produce(world.central, b"k", b"after", partition=0)
    after.commit()
    settled(world)
    assert world.visible(0) == [b"after"]


@contract
def test_an_open_transaction_holds_back_what_is_committed_behind_it(world):
    """Topics merged at central share one last stable offset."""
    other, writer = world.other_writer(), opened(world)
    other.open()
    other.begin()
    other.produce(world.central, b"k", b"other", partition=0)
    writer.begin()
    writer.produce(world.central, b"k", b"own", partition=0)
    writer.commit()
    assert world.visible(0) == []
    assert world.ports.read_undecided([(world.central, 0)])[world.central, 0].start == 0
    other.commit()
    settled(world)
    assert world.visible(0) == [b"other", b"own"]


@contract
def test_a_transaction_within_a_transaction_has_no_definite_answer(world):
    """A writer in a state that nobody thought of is discarded."""
    writer = opened(world)
    writer.begin()
    with pytest.raises(OutcomeUnknown):
        writer.begin()


@contract
def test_touched_are_the_partitions_of_the_newest_transaction(world):
    """The gate asks about these before the next one."""
    writer = opened(world)
    writer.begin()
    writer.produce(world.central, b"k", b"v", partition=0)
    writer.produce(world.central, b"k", b"v", partition=-1)
    assert writer.touched == {(world.central, 0), (world.central, -1)}
    writer.commit()
    writer.begin()
    assert writer.touched == set()
    writer.produce(world.central, b"k", b"v", partition=2)
    assert writer.touched == {(world.central, 2)}
    writer.commit()


@contract
def test_acknowledged_is_an_offset_that_the_log_has(world):
    """Of the newest batch: an end at or below it was told by somebody who lags."""
    writer = opened(world)
    assert writer.acknowledged((world.central, 0)) is None
    writer.begin()
    for _ in range(5):
        writer.produce(world.central, b"k", b"v", partition=0)
    writer.commit()
    assert writer.acknowledged((world.central, 0)) in range(5)
    assert writer.acknowledged((world.central, 1)) is None
    assert settled(world).start == 6, "five records and a marker"


@contract
def test_what_central_refuses_for_good_is_named_and_the_writer_goes_on(world):
    """The flow that wrote it is held, with the topic and the reason."""
    writer = opened(world)
    writer.begin()
    world.refuse()
    writer.produce(world.central, b"k", LONG, partition=0)
    with pytest.raises(TransactionAborted):
        writer.commit()
    (refusal,) = writer.refusals()
    assert (refusal.topic, refusal.partition) == (world.central, 0)
    assert isinstance(refusal.kind, RefusalKind)
    writer.abort()
    world.accept()
    for _ in range(2):  # librdkafka counts on behind what was refused: the broker may refuse once more
        writer.begin()
        writer.produce(world.central, b"k", b"short", partition=0)
        try:
            writer.commit()
        except TransactionAborted:
            assert not writer.refusals()
            writer.abort()
        else:
            break
    settled(world)
    assert world.visible(0) == [b"short"]


@contract
def test_the_ledger_is_read_to_its_end(world):
    """Rule D: what was committed a moment ago is there, though its marker is on its way."""
    source, writer = EdgePartition(world.edge, world.topic, 0), opened(world)
    for offset in range(1, 6):
        writer.begin()
        entry = LedgerRecord(0, "id", offset, epoch=0, slot=0)
        writer.produce(world.names.ledger, str(source), entry.encode(), partition=0)
        writer.commit()
        assert world.ports.read_ledger()[source].next_offset == offset


def polled(reader, upto):
    """Poll until every partition was read to this offset: values, offsets and leader epochs by partition, and ends."""
    values, offsets, epochs, ends = {}, {}, {}, {}
    for _ in range(300):
        found = reader.poll(100, 0.05)
        assert not found.faults
        for chunk in found.chunks:
            values.setdefault(chunk.partition, []).extend(chunk.values)
            offsets.setdefault(chunk.partition, []).extend(chunk.offsets)
            epochs[chunk.partition] = chunk.leader_epoch
        ends |= {partition: end for (_, partition), end in found.ends.items()}
        if upto.items() <= ends.items():
            return {p: [None if v is None else bytes(v) for v in some] for p, some in values.items()}, offsets, epochs
    raise AssertionError(f"read to {ends} of {upto}")


@contract
def test_a_partition_is_read_from_its_start_in_order_and_to_its_end(world):
    """Every record from there on, once, with the leader epoch; nothing of a partition that was not asked for."""
    written = world.append(0, 7)
    world.append(1, 3)
    reader = world.ports.open_reader(world.edge)
    reader.assign({(world.topic, 0): StartPosition(2)})
    values, offsets, epochs = polled(reader, {0: 7})
    assert (values, {p: list(some) for p, some in offsets.items()}) == ({0: written[2:]}, {0: [2, 3, 4, 5, 6]})
    assert epochs[0] == reader.leader_epoch((world.topic, 0))
    reader.close()


@contract
def test_a_rewind_brings_the_same_again(world):
    """What an aborted transaction had is read again, and what was fetched ahead of it is not taken for it."""
    written, at = world.append(0, 9), (world.topic, 0)
    reader = world.ports.open_reader(world.edge)
    for start in (0, 4, 0):
        reader.assign({at: StartPosition(start)})
        assert polled(reader, {0: 9})[0] == {0: written[start:]}
    reader.close()


@contract
def test_the_end_lies_behind_markers(world):
    """Else a flow behind an aborted transaction would have lag for ever."""
    world.append(0, 2)
    world.append_marker(0)
    reader = world.ports.open_reader(world.edge)
    for _ in range(500):  # its marker comes a moment after the answer
        log = reader.log_range((world.topic, 0))
        if log.end > 2:
            break
        world.ports.sleep(0.02)
    reader.assign({(world.topic, 0): StartPosition(0)})
    values, _, _ = polled(reader, {0: log.end})
    assert log.end > len(values[0]) == 2
    reader.close()


@contract
def test_a_released_partition_is_silent_until_it_is_started_again(world):
    """The others go on."""
    reader, ats = world.ports.open_reader(world.edge), [(world.topic, 0), (world.topic, 1)]
    first = [world.append(at, 2) for at in (0, 1)]
    reader.assign({at: StartPosition(0) for at in ats})
    assert polled(reader, {0: 2, 1: 2})[0] == dict(enumerate(first))
    reader.incremental_unassign(ats[0])
    second = [world.append(at, 2) for at in (0, 1)]
    assert polled(reader, {1: 4})[0] == {1: second[1]}
    reader.incremental_assign(ats[0], StartPosition(1))
    assert polled(reader, {0: 4})[0] == {0: [first[0][1], *second[0]]}
    reader.close()


@pytest.mark.parametrize("offset", [1, 50])
def test_a_position_that_the_log_does_not_have_is_a_fault(world, offset):
    """Below the start, and beyond the end: never a reset to what is there."""

    def body():
        world.append(0, 5)
        world.append(1, 1)
        world.delete_before(0, 3)
        reader, at = world.ports.open_reader(world.edge), (world.topic, 0)
        assert reader.log_range(at) == OffsetRange(3, 5)
        reader.assign({at: StartPosition(offset), (world.topic, 1): StartPosition(0)})
        faults, others = [], 0
        for _ in range(300):
            found = reader.poll(100, 0.05)
            faults += found.faults
            others += sum(len(chunk.values) for chunk in found.chunks if chunk.partition == 1)
            assert not [chunk for chunk in found.chunks if chunk.partition == 0]
            if faults and others:
                break
        assert {(fault.at, fault.kind) for fault in faults} == {(at, FaultKind.POSITION_LOST)}
        assert others == 1
        reader.close()

    world.play(body)


@contract
def test_a_topic_that_was_created_again_has_another_id(world):
    """Ask long enough: a broker may hear of it later."""
    asker = world.ports.open_topic_ids(world.edge)

    def shown():
        for number in range(100):
            asker.ask(number, [world.topic], -1)
            for _ in range(100):
                answer = asker.answer(0.05)
                if answer is not None and answer.number == number and not answer.code:
                    return answer.topics[world.topic].topic_id
        raise AssertionError("no answer")

    first = shown()
    assert shown() == first
    world.recreate()
    for _ in range(100):
        if shown() != first:
            break
        world.ports.sleep(0.1)
    else:
        raise AssertionError("the id has not changed")
    asker.close()
