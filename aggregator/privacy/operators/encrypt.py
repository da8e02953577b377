"""`encrypt` and `encrypt_deterministic`: a value in an envelope that the key's owner can open.

Invariant: an envelope belongs to one topic and path. Deterministic: equal values of one place have equal envelopes.
Not deterministic: another envelope in every batch; within one batch equal values of one place share theirs. Text and
whole numbers (as decimal text) become base64url text, bytes and floating point numbers (as on the wire) become bytes.
"""

import base64
import os
from collections.abc import Callable, Mapping, Sequence

from aggregator.config.secrets import KeyRing
from aggregator.config.subkeys import Purpose, subkey
from aggregator.errors import ConfigError
from aggregator.privacy.operators import envelope
from aggregator.privacy.plan.leaf import INTEGERS, Leaf, Value
from aggregator.privacy.policy.rules import Encrypt, EncryptDeterministic
from aggregator.privacy.tokens import canonical
from aggregator.schema.avro import Kind

_AS_TEXT = INTEGERS | {Kind.STRING, Kind.ENUM}
_AS_BYTES = frozenset((Kind.BYTES, Kind.FIXED, Kind.FLOAT, Kind.DOUBLE))


def result(leaf: Leaf) -> Leaf | None:
    """Text or bytes; a boolean has two values and no secret to keep."""
    if leaf.kind in _AS_TEXT:
        return Leaf(Kind.STRING)
    return Leaf(Kind.BYTES) if leaf.kind in _AS_BYTES else None


def build(
    rule: Encrypt | EncryptDeterministic,
    leaf: Leaf,
    keys: Mapping[str, KeyRing],
    place: bytes,
    nonces: Callable[[int], bytes] = os.urandom,
) -> Callable[[Sequence[Value]], list[Value | None]]:
    """Envelopes for values of one place.

    Args:
        rule: Names the key.
        leaf: Type of the values.
        keys: Key rings by name.
        place: From `envelope.aad`.
        nonces: Makes so many random bytes.

    Raises:
        ConfigError: the key is not configured, can not be read, or has another length than its cipher's.
    """
    seal = _sealer(rule, keys, place, nonces)
    is_text = leaf.kind in _AS_TEXT

    def sealed(values: Sequence[Value]) -> list[Value | None]:
        made = (seal(canonical(value)) for value in values)
        return [base64.urlsafe_b64encode(item).rstrip(b"=").decode() if is_text else item for item in made]

    return sealed


def _sealer(
    rule: Encrypt | EncryptDeterministic, keys: Mapping[str, KeyRing], place: bytes, nonces: Callable[[int], bytes]
) -> Callable[[bytes], bytes]:
    ring = keys.get(rule.key)
    if ring is None:
        raise ConfigError(f"key {rule.key} is not configured", hint=f"add `{rule.key}:` under `keys:`")
    key = ring.material(rule.key)
    is_siv = isinstance(rule, EncryptDeterministic)
    wanted = envelope.SIV_KEY_BYTES if is_siv else envelope.GCM_KEY_BYTES
    if len(key) != wanted:
        raise ConfigError(
            f"key {rule.key} has {len(key)} bytes; {rule.operator} takes exactly {wanted}",
            hint=f"openssl rand -base64 {wanted}",
        )
    head = envelope.head(envelope.SIV if is_siv else envelope.GCM, ring.current, rule.key)
    key = subkey(key, Purpose.SIV if is_siv else Purpose.GCM)
    if is_siv:
        return lambda plain: head + envelope.seal_siv(key, plain, place)
    return lambda plain: head + envelope.seal_gcm(key, plain, place, nonces(envelope.NONCE_BYTES))
