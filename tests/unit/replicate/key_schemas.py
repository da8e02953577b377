"""Schemas of keys and values with a pseudonym, and a strip for them."""

import time

from aggregator.machine_clock import utc_today
from aggregator.privacy.policy.file import parse_policy
from aggregator.schema.memory import MemoryRegistry
from tests.reference.reference import ReferenceStrip

SCHEMA = '{"type":"record","name":"R","fields":[{"name":"id","type":"long"}]}'


KEY_SCHEMA = '{"type":"record","name":"K","fields":[{"name":"id","type":"string"}]}'


POLICY = """
policy: p
version: 1
topics:
  orders:
    key: {pseudonymize: {key: customer, domain: customer, encode: %s}}%s
    fields: {id: keep}
"""


def strip_of(keys, encode="hex", key_format=""):
    """A strip whose keys are tokens, and the ids of a value's and a key's schema."""
    edge, central = MemoryRegistry(), MemoryRegistry()
    ids = edge.register("orders-value", SCHEMA), edge.register("orders-key", KEY_SCHEMA)
    policy = parse_policy(POLICY % (encode, f"\n    format: {key_format}" if key_format else ""))
    made = ReferenceStrip(
        policy=policy, edge_topic="orders", central_topic="eu.orders", edge_registry=edge, central_registry=central,
        key_rings=keys, today=utc_today, now_s=time.monotonic,
    )  # fmt: skip
    return made, *ids
