"""Common code of both encrypting operators: the types that can be sealed, their result types, and the key.

Invariant: text and whole numbers (as decimal text) become base64url text. Bytes and floating point numbers (as on the
wire) become bytes. A key is refused if its length is not the cipher's.
"""

import base64
from collections.abc import Callable, Sequence
from datetime import date

from aggregator.config.secrets import ring_of
from aggregator.config.subkeys import Purpose, subkey
from aggregator.errors import ConfigError
from aggregator.privacy.fields.field_types import Name
from aggregator.privacy.fields.leaf import INTEGERS, Leaf, Value
from aggregator.privacy.operators import envelope
from aggregator.privacy.operators.descriptor import KeyRings, Operator
from aggregator.privacy.operators.parameters import Parameters
from aggregator.privacy.tokens.tokens import canonical
from aggregator.schema.avro import Kind

_AS_TEXT = INTEGERS | {Kind.STRING, Kind.ENUM}
_AS_BYTES = frozenset((Kind.BYTES, Kind.FIXED, Kind.FLOAT, Kind.DOUBLE))


class Sealing(Parameters):
    """What both ciphers take: a key, of exactly the cipher's length."""

    key: Name


def result(_rule: Parameters, leaf: Leaf) -> Leaf | None:
    """Text or bytes; a boolean has two values and no secret to keep."""
    if leaf.kind in _AS_TEXT:
        return Leaf(Kind.STRING)
    return Leaf(Kind.BYTES) if leaf.kind in _AS_BYTES else None


def context(_rule: Parameters, topic: str, path: str, _today: date) -> str:
    """The place that the envelopes belong to."""
    return envelope.aad(topic, path).hex()


def sealed(leaf: Leaf, seal: Callable[[bytes], bytes]) -> Operator:
    """Envelopes for values of one leaf, from what seals one."""
    is_text = leaf.kind in _AS_TEXT

    def envelopes(values: Sequence[Value]) -> list[Value | None]:
        made = (seal(canonical(value)) for value in values)
        return [base64.urlsafe_b64encode(item).rstrip(b"=").decode() if is_text else item for item in made]

    return envelopes


def head_and_key(rule: Sealing, key_rings: KeyRings, cipher: int, purpose: Purpose, wanted: int) -> tuple[bytes, bytes]:
    """What precedes every envelope of a rule, and the sub-key that seals them.

    Args:
        rule: Names the key.
        key_rings: Key rings by name.
        cipher: The envelope's number of it.
        purpose: Of the sub-key.
        wanted: Bytes that the key must have.

    Raises:
        ConfigError: the key is not configured, cannot be read, or has another length.
    """
    ring = ring_of(rule.key, key_rings)
    key = ring.material(rule.key)
    if len(key) != wanted:
        raise ConfigError(
            f"key {rule.key} has {len(key)} bytes; {rule.operator} takes exactly {wanted}",
            hint=f"openssl rand -base64 {wanted}",
        )
    return envelope.head(cipher, ring.current, rule.key), subkey(key, purpose)
