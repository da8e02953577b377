"""A strip with real registries in folders and a real key in a file."""

import io
import json
import shutil
import sys
import time
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

import fastavro
import pytest

from aggregator.config.secrets import key_ring
from aggregator.privacy.batch.strip import Batch
from aggregator.privacy.kernel.factory import topic_strip
from aggregator.privacy.kernel.strip import KernelStrip
from aggregator.privacy.policy.file import parse_policy
from aggregator.schema.registries import open_registry
from aggregator.schema.registry import Registry
from aggregator.schema.wire import frame, split
from tests.reference.reference import ReferenceStrip
from tests.unit.privacy.corpus import unwrapped
from tests.unit.privacy.foreign import install

KEY = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
TODAY = date(2026, 11, 1)


@dataclass
class Lab:
    """Registers schemas, encodes records, strips them, and decodes what comes out."""

    root: Path
    keys: dict
    made: object = staticmethod(topic_strip)
    edge: Registry = field(init=False)
    central: Registry = field(init=False)

    def __post_init__(self):
        self.edge = open_registry(f"directory:{self.root / 'edge'}")
        self.central = open_registry(f"directory:{self.root / 'central'}")

    def forget(self):
        """Central as it was at the beginning: what comes next follows no earlier schema."""
        shutil.rmtree(self.root / "central", ignore_errors=True)
        self.central = open_registry(f"directory:{self.root / 'central'}")

    def value(self, schema, record, subject="orders-value"):
        """A framed value under a schema that the edge's registry knows."""
        schema_id = self.edge.register(subject, json.dumps(schema))
        return frame(schema_id, self.body(schema, record))

    @staticmethod
    def body(schema, record):
        """A record's bytes."""
        out = io.BytesIO()
        fastavro.schemaless_writer(out, fastavro.parse_schema(unwrapped(json.loads(json.dumps(schema)))), record)
        return out.getvalue()

    def topic(self, policy, topic="orders", today=TODAY, central="eu.orders"):
        """The strip of one topic under a policy's text."""
        return self.made(
            policy=parse_policy(policy) if isinstance(policy, str) else policy,
            edge_topic=topic,
            central_topic=central,
            edge_registry=self.edge,
            central_registry=self.central,
            key_rings=self.keys,
            now_s=time.monotonic,
            today=lambda: today,
        )

    def strip(self, policy, schema, *records, **options):
        """Strip records of one schema, without keys and headers."""
        values = [self.value(schema, record) for record in records]
        return self.topic(policy, **options).strip(Batch([None] * len(values), values, [None] * len(values)))

    def decoded(self, value, *, logical=True):
        """What a stock reader makes of a central value: the derived schema and the record.

        Without logical types where values lie outside of what Python's have.
        """
        schema_id, body = split(value)
        text = self.central.schema(schema_id)
        schema = json.loads(text if logical else text.replace("logicalType", "was"))
        reader = io.BytesIO(body)
        record = fastavro.schemaless_reader(reader, fastavro.parse_schema(schema), None, return_record_name=True)
        assert reader.read() == b""
        return schema, record

    def stripped(self, policy, schema, record, **options):
        """One record in, what a stock reader sees out."""
        out = self.strip(policy, schema, record, **options)
        assert out.rejected == {}
        return self.decoded(out.values[0])


@pytest.fixture(params=[ReferenceStrip, KernelStrip])
def both(lab, request):
    """The lab with one implementation after the other."""
    lab.made = request.param
    return lab


@pytest.fixture
def lab(tmp_path):
    (tmp_path / "key").write_text(KEY)
    return Lab(tmp_path, {"customer": key_ring(f"file:{tmp_path / 'key'}")})


@pytest.fixture(scope="module")
def foreign(tmp_path_factory):
    """Custom operators that fail are installed."""
    folder = str(install(tmp_path_factory.mktemp("foreign")))
    sys.path.append(folder)
    yield
    sys.path.remove(folder)
    sys.modules.pop("failing_operators", None)
