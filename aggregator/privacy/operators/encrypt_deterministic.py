"""`encrypt_deterministic`: a value becomes an envelope that the key's owner can open, always the same one.

Invariant: an envelope belongs to one topic and path, and equal values of one place have equal envelopes.
"""

from typing import Literal

from aggregator.config.subkeys import Purpose
from aggregator.privacy.fields.leaf import Leaf
from aggregator.privacy.operators import encryption, envelope
from aggregator.privacy.operators.descriptor import Descriptor, KeyRings, Operator, PrivacyClass


class EncryptDeterministic(encryption.Sealing):
    """The value becomes an AES-256-SIV envelope, always the same one; a key of 64 bytes."""

    operator: Literal["encrypt_deterministic"] = "encrypt_deterministic"


def build(rule: EncryptDeterministic, leaf: Leaf, key_rings: KeyRings, context: str) -> Operator:
    """Build the operator that encrypts the values of one place deterministically.

    Raises:
        ConfigError: the key is not configured, cannot be read, or has another length than its cipher's.
    """
    place = bytes.fromhex(context)
    head, key = encryption.head_and_key(rule, key_rings, envelope.SIV, Purpose.SIV, envelope.SIV_KEY_BYTES)
    return encryption.sealed(leaf, lambda plain: head + envelope.seal_siv(key, plain, place))


ENCRYPT_DETERMINISTIC = Descriptor(
    parameters=EncryptDeterministic,
    strongest=PrivacyClass.REVERSIBLE,
    result=encryption.result,
    build=build,
    context=encryption.context,
    is_sampled=False,
    is_injective=True,
    key_bytes=envelope.SIV_KEY_BYTES,
)
