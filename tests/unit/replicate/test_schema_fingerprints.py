"""A schema id that means something else than before: held by name, whoever rebuilt the registry, and opened by name."""

import json
import random
import time

import pytest
from msgspec import structs

from aggregator.coordinates import EdgePartition
from aggregator.errors import HoldError
from aggregator.kafka.native.chunk import Chunk
from aggregator.kafka.readers.log_record import LogRecord
from aggregator.machine_clock import utc_today
from aggregator.privacy.batch.strip import FoundSchema
from aggregator.privacy.kernel.strip import KernelStrip
from aggregator.privacy.policy.file import parse_policy
from aggregator.replicate.epoch.plan import plan_flows
from aggregator.replicate.flow.flow import Flow, FlowPlan
from aggregator.replicate.flow.limits import TopicLimits
from aggregator.replicate.flow.schema_fingerprints import checked_fingerprints
from aggregator.replicate.identity.cycles import Cycles
from aggregator.replicate.slot.delivery import Delivery, DeliveryPlan
from aggregator.schema.memory import MemoryRegistry
from aggregator.schema.registries import open_registry
from aggregator.schema.wire import frame
from aggregator.state.ledger import LedgerRecord, decode
from tests.unit.replicate.plan_inputs import CONFIG, FLOW, ORDERS, SETTINGS, SNAPSHOTS
from tests.unit.schema.double import RegistryDouble

SOURCE = EdgePartition("eu", "orders", 0)
CANARY = "canary_m3Wq8"


def schema(*names, tags=()):
    """A record's text."""
    return json.dumps({"type": "record", "name": "R", "fields": [
        {"name": name, "type": "string", **({"confluent:tags": ["PII"]} if name in tags else {})} for name in names
    ]})  # fmt: skip


class _Log:
    """A transaction in memory."""

    def __init__(self):
        self.values = []

    def produce_all(self, _topic, _partition, records):
        """Whole records."""
        self.values += [value for _, value, *_ in records]


@pytest.fixture
def double():
    """An edge's registry."""
    made = RegistryDouble()
    yield made
    made.close()


class Hub:
    """One flow over epochs and restarts: its ledger record lasts, and a worker's registry while it runs."""

    def __init__(self, double):
        self.address = double.address
        self.registry, self.central = open_registry(double.address), MemoryRegistry()
        self.entry, self.offset, self.log = LedgerRecord(0, "id", 0, 1, 0), 0, _Log()

    def restart(self):
        """Another process: what the registry said is forgotten, the ledger record is read."""
        self.registry = open_registry(self.address)
        self.entry = decode(LogRecord(0, 0, "eu/orders/0", self.entry.encode()), "h.ledger")

    def epoch(self, *values, topic="default: keep", place="value", fingerprints=()):
        """Deliver in a fresh epoch."""
        self.registry.refresh()
        strip = KernelStrip(
            policy=parse_policy(f"policy: p\nversion: 1\ntags: {{PII: drop}}\ntopics: {{orders: {{{topic}}}}}\n"),
            edge_topic="orders", central_topic="eu.orders", edge_registry=self.registry,
            central_registry=self.central, key_rings={}, today=utc_today, now_s=time.monotonic,
        )  # fmt: skip
        plan = FlowPlan(
            SOURCE,
            self.entry,
            is_new_position=False,
            central_topic="eu.orders",
            by_key=False,
            limits=TopicLimits(10_000),
            fingerprints=fingerprints,
        )
        flow, size = Flow(plan, self.entry, persisted=True), len(values)
        keys, contents = (list(values), [None] * size) if place == "key" else ([None] * size, list(values))
        offsets = list(range(self.offset, self.offset + size))
        chunk = Chunk("orders", 0, keys, contents, [None] * size, [0] * size, offsets)
        Delivery(DeliveryPlan("h", "dead", Cycles("h"), None), lambda _: strip, lambda *_: None).deliver(
            self.log, flow, chunk, lambda: None, now_ms=1_700_000_000_000
        )
        self.entry, self.offset = flow.cursor.entry, self.offset + size


def text(*words):
    """A record of strings."""
    return b"".join(bytes([2 * len(word)]) + word.encode() for word in words)


@pytest.mark.parametrize("restarted", [False, True], ids=["running", "restarted"])
@pytest.mark.parametrize("part", ["value", "key"])
@pytest.mark.slow
def test_a_rebuilt_registry_holds_the_flow(double, part, restarted):
    """The id decodes and nothing of it is tagged any more: the reason names id, topic, subject and the next step."""
    subject, topic = f"orders-{part}", "key: keep, default: keep"
    number = double.add(subject, schema("ssn", "kept", tags=["ssn"]), schema_id=7)
    hub, value = Hub(double), frame(number, text(CANARY, "yes"))
    hub.epoch(value, topic=topic, place=part)
    double.rebuild()
    double.add(subject, schema("ssn", "kept"), schema_id=7)
    if restarted:
        hub.restart()
    with pytest.raises(HoldError, match=rf"schema id 7, a {part} schema of topic orders \(subject {subject}\)") as held:
        hub.epoch(value, topic=topic, place=part)
    assert "restore the registry" in held.value.hint
    assert f"reissued: {{{part}/7: " in held.value.hint
    assert all(CANARY.encode() not in one for one in hub.log.values if one)


def test_what_one_partition_has_met_holds_for_all_of_its_topic(double):
    """A flow that never met the id does not take a rebuilt registry's word; what one of them took is enough."""
    double.add("orders-value", schema("ssn", "kept", tags=["ssn"]), schema_id=7)
    first, value = Hub(double), frame(7, text(CANARY, "yes"))
    first.epoch(value)
    double.rebuild()
    double.add("orders-value", schema("ssn", "kept"), schema_id=7)
    ledger = {FLOW: structs.replace(first.entry, topic_id=ORDERS.topic_id)}
    flows = plan_flows(CONFIG, ledger, SNAPSHOTS, SETTINGS, epoch=2, drain=False, now_ms=0)
    found = {plan.source: plan for placed in flows.by_slot.values() for plan in placed}
    assert found["eu", "orders", 0].fingerprints == found["eu", "orders", 1].fingerprints == first.entry.schemas
    assert found["eu", "heartbeats", 0].fingerprints == ()
    second = Hub(double)
    with pytest.raises(HoldError, match="than when another partition delivered under it") as held:
        second.epoch(value, fingerprints=found["eu", "orders", 1].fingerprints)
    assert second.log.values == []
    said = held.value.hint.partition('fingerprint: "')[2][:16]
    topic = f'default: keep, reissued: {{value/7: {{fingerprint: "{said}", reason: rebuilt}}}}'
    second.epoch(value, topic=topic, fingerprints=first.entry.schemas)
    third = Hub(double)
    third.epoch(value, fingerprints=(*first.entry.schemas, *second.entry.schemas))
    second.epoch(value, fingerprints=first.entry.schemas)


def test_a_tag_that_was_lost_with_an_older_version_holds_the_flow(double):
    """The id is what it was, and what it inherited is gone."""
    double.add("orders-value", schema("ssn", "kept", tags=["ssn"]), schema_id=6)
    double.add("orders-value", schema("ssn", "kept"), schema_id=7)
    hub, value = Hub(double), frame(7, text(CANARY, "yes"))
    hub.epoch(value)
    double.rebuild()
    double.add("orders-value", schema("ssn", "kept"), schema_id=7)
    hub.restart()
    with pytest.raises(HoldError, match="is another schema, or has other tags"):
        hub.epoch(value)


def test_a_registry_rebuilt_as_it_was_holds_nothing(double):
    """The same versions under the same ids mean the same."""
    hub, value = Hub(double), frame(7, text(CANARY, "yes"))
    for _ in range(2):
        double.rebuild()
        double.add("orders-value", schema("ssn", "kept", tags=["ssn"]), schema_id=6)
        double.add("orders-value", schema("ssn", "kept"), schema_id=7)
        hub.epoch(value)
        hub.restart()
    assert len(hub.log.values) == 2


def test_an_id_that_a_running_hub_knew_and_that_is_gone_is_held(double):
    """Nothing becomes a dead letter because a registry lost its memory under a running hub."""
    double.add("orders-value", schema("kept"), schema_id=7)
    hub, value = Hub(double), frame(7, text("yes"))
    hub.epoch(value)
    double.rebuild()
    with pytest.raises(HoldError, match=r"schema id 7 was in .* is not there any more"):
        hub.epoch(value)


@pytest.mark.parametrize("fault", ["drop", 503])
@pytest.mark.slow
def test_a_registry_that_is_away_holds_no_known_id(double, fault):
    """What is known counts on while nobody answers, over epochs."""
    double.add("orders-value", schema("kept"), schema_id=7)
    hub, value = Hub(double), frame(7, text("yes"))
    hub.epoch(value)
    double.fault = fault
    for _ in range(2):
        hub.epoch(value)
    assert len(hub.log.values) == 3


def test_the_policy_accepts_a_meaning_by_its_fingerprint(double):
    """Whoever knows that the records are written under the new schema says so, with the reason; no other one passes."""
    double.add("orders-value", schema("a"), schema_id=7)
    hub = Hub(double)
    hub.epoch(frame(7, text("x")))
    double.rebuild()
    double.add("orders-value", schema("b", "a"), schema_id=7)
    value = frame(7, text("y", "x"))
    with pytest.raises(HoldError) as held:
        hub.epoch(value)
    said = held.value.hint.partition('fingerprint: "')[2][:16]
    other = "0" * 16
    for fingerprint in (other, said):
        topic = f'default: keep, reissued: {{value/7: {{fingerprint: "{fingerprint}", reason: rebuilt}}}}'
        if fingerprint == other:
            with pytest.raises(HoldError):
                hub.epoch(value, topic=topic)
        else:
            hub.epoch(value, topic=topic)
    hub.restart()
    hub.epoch(value)
    assert len(hub.log.values) == 3


@pytest.mark.parametrize("_turn", range(5))
def test_the_memory_is_bounded_and_keeps_the_newest(_turn):
    """Property: what was met lately is remembered as it was; nothing that differs passes unaccepted."""
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    draw, known, truth = random.Random(seed), (), {}
    for _ in range(500):
        name = f"value/{draw.randrange(60)}"
        meaning = FoundSchema(draw.choice(["a", "b"]), "s", draw.random() < 0.3)
        if truth.get(name, meaning.fingerprint) != meaning.fingerprint and not meaning.accepted:
            with pytest.raises(HoldError):
                checked_fingerprints(known, {name: meaning}, SOURCE)
            continue
        known, truth[name] = checked_fingerprints(known, {name: meaning}, SOURCE), meaning.fingerprint
    assert dict(known) == truth
    for number in range(1000):
        known = checked_fingerprints(known, {f"key/{number}": FoundSchema("c", "s", accepted=False)}, SOURCE)
    assert len(known) == 128
    assert known[-1] == ("key/999", "c")
    assert checked_fingerprints(known, {"key/999": FoundSchema("c", "s", accepted=False)}, SOURCE) is known


class _Asked:
    """A strip that knows whose records it is given."""

    logs = ()

    def strip(self, batch):
        """Nothing is decided."""
        self.logs = *self.logs, batch.source_partition
        raise HoldError("nothing is delivered here", hint="see the logs")


def test_two_edges_of_one_registry_are_two_askers():
    """Their topics and partitions have equal names: what one of them asks about must wait in no lane of the other."""
    strip = _Asked()
    delivery = Delivery(DeliveryPlan("h", "dead", Cycles("h"), None), lambda _: strip, lambda *_: None)
    for edge, partition in (("eu", 0), ("us", 0), ("us", 1)):
        entry, source = LedgerRecord(0, "id", 0, 1, 0), EdgePartition(edge, "orders", partition)
        plan = FlowPlan(
            source, entry, is_new_position=False, central_topic="eu.orders", by_key=False, limits=TopicLimits(10_000)
        )
        chunk = Chunk("orders", partition, [None], [b"v"], [None], [0], [0])
        with pytest.raises(HoldError):
            delivery.deliver(_Log(), Flow(plan, entry, persisted=True), chunk, lambda: None, now_ms=0)
    assert len(set(strip.logs)) == 3
