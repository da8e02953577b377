"""The leak corpus and the fail-closed matrix through real brokers, once: edge, central, lake; then all is searched.

One hub, one `run --drain`: every shape as value, as key and as header at once; every cell of the matrix that real
traffic can make; tags beside a schema, in versions before it and behind aliases; a registry that is away on the other
edge.
"""

import json
import os
import shutil
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property

import pytest
from confluent_kafka import Producer

from aggregator.errors import Reason
from aggregator.schema.wire import frame
from tests.canary import recognised, text_traces, traces
from tests.leaks import MARKS, assert_no_canary, messages, places, records, segments
from tests.trial import HEADERS, Trial
from tests.unit.privacy.cells import CELLS, GOOD, TEXT, encoded, good
from tests.unit.privacy.corpus import body_of, plain_shapes, schema_of, shapes
from tests.unit.privacy.delivered import LIMIT_BYTES
from tests.unit.privacy.exposure import CANARY
from tests.unit.privacy.foreign import install
from tests.unit.privacy.kernel.drawing import MemoryRegistry
from tests.unit.privacy.scenarios import KEEP, TOKEN
from tests.unit.schema.double import RegistryDouble

pytestmark = pytest.mark.brokers

# One mark per place, so that a finding says where it came from; `CANARY` is in the cells.
VALUE, KEY, HEADER, KEPT = "canary_v8Kq1", "canary_b6Xd4", "canary_o2Ns6", "canary_kept_Tz5"
# A type change is a schema that central refuses: the flow is held, in a topic of its own.
SHARED_CELLS = [cell for cell in CELLS if cell.fault != "type change"]
CELL_TOPIC = {policy: f"cells{number}" for number, policy in enumerate(dict.fromkeys(c.policy for c in SHARED_CELLS))}
DROPPED, TOKENS, INHERITED = "dropped", "tokens", "inherited"
# Each shape is the only version of a subject of its own.
OPENS = 'subjects: {"shape-.*": "one subject for each shape"}'
# Per policy file: what happens to the tag, and to the topics.
POLICIES = {
    "drop.yaml": (
        "drop",
        {
            DROPPED: "key: keep, headers: [traceparent], fields: {kept: keep}",
            "open": f"fields: {{kept: {KEEP}}}",
            "changed": f"fields: {{kept: keep, token: {TOKEN}}}",
            "away": "fields: {kept: keep}",
            "left-out": f"fields: {{kept: keep}}, drop_record: [{{field: token, equals: {CANARY}}}]",
            INHERITED: "key: keep, default: keep",
            "text": f"value_format: text, value: {TOKEN}",
            "bytes": "value_format: bytes",
            "undeclared": "default: keep",
            **{name: policy for policy, name in CELL_TOPIC.items()},
        },
    ),
    "tokens.yaml": (TOKEN, {TOKENS: f"key: {TOKEN}, headers: [traceparent], default: keep"}),
}
IN_LAKE = (DROPPED, "open", "cells0")


@dataclass
class Pipeline:
    """A hub that ran once, and what was given to it.

    Attributes:
        trial: The hub.
        registry: Of edge eu, behind an address.
        edge: Ids and texts of the shapes.
        said: All that its commands printed.
        produced: What must become of each record of a topic, in order: a dead letter's reason, `suppressed`, `held`, or
            None for what arrives.
        records: What was produced: topic, key, value, headers.
    """

    trial: Trial
    registry: RegistryDouble
    edge: MemoryRegistry = field(default_factory=MemoryRegistry)
    said: str = ""
    produced: dict[str, list] = field(default_factory=dict)
    records: list[tuple] = field(default_factory=list)

    def topic(self, name: str) -> str:
        """The edge topic of a name."""
        return f"{name}-{self.trial.mark}"

    def add(self, name: str, key, value, headers=None, reason=None) -> None:
        """One more record for the edge."""
        self.records.append((self.topic(name), key, value, headers))
        self.produced.setdefault(self.topic(name), []).append(reason)

    def write(self) -> None:
        """Configuration, policies and the edge's schemas."""
        trial, rules = self.trial, []
        for file, (tag, topics) in POLICIES.items():
            lines = [f"  {self.topic(name)}: {{{policy}, {OPENS}}}" for name, policy in topics.items()]
            head = [f"policy: {file.removesuffix('.yaml')}", "version: 1", f"tags: {{PII: {tag}}}", "topics:"]
            (trial.folder / file).write_text("\n".join([*head, *lines, ""]))
            rule = {"policy": file, "central_config": {"max.message.bytes": str(LIMIT_BYTES)}}
            in_lake = [self.topic(name) for name in topics if name in IN_LAKE]
            others = [self.topic(name) for name in topics if name not in IN_LAKE]
            rules += [{"match": "|".join(in_lake), "lake": "{topic}", **rule}] if in_lake else []
            rules += [{"match": "|".join(others), **rule}]
        trial.settings["topics"] = rules
        trial.settings["edges"]["eu"]["schemas"] = self.registry.address
        trial.settings["edges"]["us"]["schemas"] = "directory:not-there"
        trial.settings["replication"] = {"drain_patience": "20s", "slots": 1, "schema_patience": "1s"}
        trial.write()
        shutil.rmtree(trial.folder / "schemas")
        for number, schema in enumerate(self.edge.texts, 1):
            self.registry.add(f"shape-{number}", schema, schema_id=number)

    @staticmethod
    def send(cluster, records, compression="lz4") -> None:
        """Produce to a cluster."""
        failures = []
        options = {
            "bootstrap.servers": cluster.bootstrap,
            "linger.ms": 20,
            "compression.type": compression,
            "log_level": 0,
        }
        producer = Producer(options)
        for topic, key, value, headers in records:
            producer.produce(topic, value, key, 0, headers=headers, on_delivery=lambda error, _: failures.append(error))
        assert producer.flush(30) == 0
        assert not any(failures)

    @cached_property
    def central(self) -> list:
        """All committed messages of the hub's central topics."""
        return list(messages(self.trial))

    @property
    def ledger(self) -> dict[tuple[str, str, int], dict]:
        """Last ledger record of each flow."""
        last = {}
        for message in self.central:
            if message.topic() == f"{self.trial.hub}.ledger":
                edge, topic, partition = message.key().decode().split("/")
                last[edge, topic, int(partition)] = json.loads(message.value())
        return last

    @property
    def letters(self) -> list[dict]:
        """Dead letters."""
        return [json.loads(m.value()) for m in self.central if m.topic() == f"{self.trial.hub}.dead-letters"]

    @property
    def delivered(self) -> Counter:
        """Records at central, by the flow that their `hub.origin` names."""
        headers = [dict(message.headers() or ()) for message in self.central]
        origins = [found["hub.origin"].decode().split("/") for found in headers if "hub.origin" in found]
        return Counter((edge, topic, int(partition)) for _, edge, topic, partition, *_ in origins)


def _corpus(pipe: Pipeline) -> None:
    """Every shape, with a canary of its own in value, key and headers of one record; and as a token in another one."""
    shown = {canary: shapes(canary) for canary in (VALUE, KEY, HEADER)}
    for number, name in enumerate(shown[VALUE]):
        made = [
            _framed(pipe, shown[canary][name], canary, f"{place}{number}", shared=place == "value")
            for canary, place in ((VALUE, "value"), (KEY, "key"), (HEADER, "header"))
        ]
        headers = [("secret", made[2]), (HEADER, b"1"), ("traceparent", b"00-1")]
        pipe.add(DROPPED, made[1], made[0], headers)
        pipe.add(
            TOKENS, KEY.encode(), _framed(pipe, shown[VALUE][name], VALUE, f"token{number}", shared=False), headers
        )


def _whole(pipe: Pipeline) -> None:
    """Values without parts, declared and not; a text that is none is a dead letter as well."""
    for shape in plain_shapes(VALUE).values():
        headers = [("secret", shape.value), ("traceparent", b"00-1")]
        pipe.add(shape.form, KEY.encode(), shape.value, headers)
        # Two of them begin as a frame of schema 1 does, and are no value of it.
        reason = Reason.UNDECODABLE if shape.value[:5] == frame(1, b"") else Reason.WRONG_MAGIC
        pipe.add("undeclared", KEY.encode(), shape.value, headers, reason)
    pipe.add("text", None, b"\xff" + VALUE.encode(), reason=Reason.UNDECODABLE)


def _framed(pipe: Pipeline, shape, canary: str, name: str, *, shared: bool) -> bytes:
    text = json.dumps(schema_of(shape, canary, name=name, field=f"x_{name}"))
    return frame(pipe.edge.register("edge", text), body_of(shape, canary, field=f"x_{name}", shared=shared))


def _inherited(pipe: Pipeline) -> None:
    """What no text tags: beside the schema, in an earlier version, behind an alias; in values, and in keys."""
    tags = {"confluent:tags": ["PII"]}

    def order(*fields):
        shapes = [{"name": name, "type": "string", **more} for name, more in fields]
        return json.dumps({"type": "record", "name": "Order", "fields": shapes})

    for part, mark in (("value", VALUE), ("key", KEY)):
        subject, count = f"{pipe.topic(INHERITED)}-{part}", 10_000 if part == "value" else 20_000
        body = b"".join(bytes([2 * len(text)]) + text.encode() for text in (mark, "kept"))
        pipe.registry.add(subject, order(("mail", tags), ("kept", {})), schema_id=count)
        later = [
            (order(("mail", {}), ("kept", {})), None),
            (order(("contact", {"aliases": ["mail"]}), ("kept", {})), None),
            (order(("who", {"aliases": ["contact"]}), ("kept", {})), {}),
            (order(("ssn", {}), ("kept", {})), {"**.ssn": ["PII"]}),
            (order(("number", {"aliases": ["ssn"]}), ("kept", {})), None),
        ]
        for at, (text, beside) in enumerate(later, count + 1):
            pipe.registry.add(subject, text, schema_id=at, tags=beside)
            framed = frame(at, body)
            pipe.add(INHERITED, framed if part == "key" else None, framed if part == "value" else None)


def _cells(pipe: Pipeline) -> None:
    for cell in SHARED_CELLS:
        parts = {"value": None, "key": None, cell.place: cell.content(pipe.edge)}
        if cell.place == "key":
            parts["value"] = None if "custom" in cell.policy else good(pipe.edge)
        pipe.add(CELL_TOPIC[cell.policy], parts["key"], parts["value"], list(cell.headers), cell.reason)


@pytest.fixture(scope="module")
def registry():
    """The registry of edge eu, over real sockets."""
    made = RegistryDouble()
    yield made
    made.close()


@pytest.fixture(scope="module")
def pipe(clusters, registry, tmp_path_factory):
    """A hub after its run."""
    folder = tmp_path_factory.mktemp("leaks")
    pipe = Pipeline(Trial(clusters, folder), registry)
    _corpus(pipe)
    _inherited(pipe)
    _cells(pipe)
    _whole(pipe)
    pipe.add("open", None, good(pipe.edge, KEPT))
    broken = json.loads(json.dumps(GOOD).replace('"kept", "type": "string"', '"kept", "type": "int"'))
    pipe.add("changed", None, good(pipe.edge))
    pipe.add("changed", None, encoded(pipe.edge, broken, b"\2" + TEXT), reason="held")
    pipe.add("left-out", None, good(pipe.edge), reason="suppressed")
    pipe.add("left-out", None, encoded(pipe.edge, GOOD, b"\2k\2t"))
    pipe.add("left-out", None, good(pipe.edge), reason="suppressed")
    pipe.add("away", None, good(pipe.edge, CANARY), reason="held")
    pipe.write()
    for topic in pipe.produced:
        pipe.trial.create("us" if topic.startswith("away") else "eu", 2, topic=topic)
    for edge, cluster in clusters.edges.items():
        pipe.send(cluster, [one for one in pipe.records if one[0].startswith("away") is (edge == "us")])
    path = os.environ.get("PYTHONPATH", "")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(install(folder / "foreign")), *filter(None, [path])]))
        done = pipe.trial.run("run", "--drain")
    pipe.said = done.stdout + done.stderr
    (folder / "run.log").write_text(pipe.said)
    assert done.returncode == 4, pipe.said[-4000:]
    return pipe


def test_no_canary_is_anywhere(pipe):
    """I5: segments, lake, Delta log, dead letters, ledger, control, telemetry, logs, status: in no encoding."""
    marks = (VALUE, KEY, HEADER, CANARY)
    wanted = {trace: f"{mark}: {name}" for mark in marks for trace, name in traces(mark).items()}
    searched = assert_no_canary(pipe.trial, said=pipe.said, traces=wanted)
    assert searched > 200_000, "hardly anything was searched"


def test_what_is_kept_is_found_in_every_place(pipe):
    """A search that never fails proves nothing: the kept text is in the segment, in the topic, and in the lake."""
    shown = {place.name.split(" ")[0] for place in places(pipe.trial) if KEPT.encode() in place.data}
    assert {"segment", "record", "columns"} <= shown


def test_an_unstripped_copy_is_found(pipe, clusters, tmp_path):
    """The same records beside the hub, compressed and not, and each encoding by itself: the search names them all."""
    other = Trial(clusters, tmp_path)
    other.create("central", 1)
    encodings = text_traces(VALUE)
    raw = [(other.topic, key, value, headers) for _, key, value, headers in pipe.records]
    raw += [(other.topic, None, other.value(1), HEADERS)]
    for part, compression in ((raw, "zstd"), ([(other.topic, None, trace, None) for trace in encodings], "none")):
        pipe.send(clusters.central, part, compression)
    wanted = {trace: f"{mark}: {name}" for mark in (VALUE, KEY, HEADER, *MARKS) for trace, name in traces(mark).items()}
    in_segments, in_records = (
        {name for place in found for name in recognised(place.data, wanted)}
        for found in (segments(other), records(other))
    )
    assert {f"{VALUE}: {name}" for name in encodings.values()} <= in_segments & in_records
    assert {f"{mark}: text: UTF-8" for mark in (VALUE, KEY, HEADER, *MARKS)} <= in_records


def test_every_fault_is_a_dead_letter_with_its_coordinates(pipe):
    """Each cell of the matrix: its reason at its offset, and everything else delivered; no worker died."""
    told = {(one["edge"], one["topic"], one["partition"], one["offset"]): one["reason"] for one in pipe.letters}
    expected = {
        ("eu", topic, 0, offset): reason
        for topic, reasons in pipe.produced.items()
        for offset, reason in enumerate(reasons)
        if isinstance(reason, Reason)
    }
    assert told == expected
    assert set(expected.values()) == {cell.reason for cell in SHARED_CELLS} - {None}


def test_what_is_held_is_named(pipe):
    """A registry that is away and a schema that central refuses hold their flow alone; both are named."""
    for flow, why in ((f"us/{pipe.topic('away')}/0", "not-there"), (f"eu/{pipe.topic('changed')}/0", "string -> int")):
        (line,) = [line for line in pipe.said.split("held: ") if line.startswith(flow)]
        assert why in line
        edge, topic, _ = flow.split("/")
        assert pipe.delivered[edge, topic, 0] == pipe.produced[topic].index("held")


def test_every_record_is_accounted_for(pipe):
    """Conservation: consumed = delivered + dead + suppressed in every flow, by the ledger and by counting."""
    letters = Counter((one["edge"], one["topic"], one["partition"]) for one in pipe.letters)
    for topic, reasons in pipe.produced.items():
        edge = "us" if topic.startswith("away") else "eu"
        for partition, there in enumerate((len(reasons), 0)):
            at, held = (edge, topic, partition), there and "held" in reasons
            flow = pipe.ledger[at]
            assert flow["next_offset"] == flow["delivered"] + flow["dead"] + flow["suppressed"]
            assert (flow["delivered"], flow["dead"]) == (pipe.delivered[at], letters[at])
            assert flow["suppressed"] == (reasons.count("suppressed") if there else 0)
            assert flow["next_offset"] == (reasons.index("held") if held else there)
