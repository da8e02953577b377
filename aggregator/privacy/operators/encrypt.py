"""`encrypt`: a value becomes an envelope that the key's owner can open, a different one in every batch.

Invariant: an envelope belongs to one topic and path. Within one batch, equal values of one place share an envelope.
"""

import os
from collections.abc import Callable
from typing import Literal

from aggregator.config.subkeys import Purpose
from aggregator.privacy.fields.leaf import Leaf
from aggregator.privacy.operators import encryption, envelope
from aggregator.privacy.operators.descriptor import Descriptor, KeyRings, Operator, PrivacyClass


class Encrypt(encryption.Sealing):
    """The value becomes an AES-256-GCM envelope, another one in every batch; a key of 32 bytes."""

    operator: Literal["encrypt"] = "encrypt"


def build(
    rule: Encrypt, leaf: Leaf, key_rings: KeyRings, context: str, nonces: Callable[[int], bytes] = os.urandom
) -> Operator:
    """Build the operator that encrypts the values of one place.

    Args:
        rule: The rule, which names the key.
        leaf: Type of the values.
        key_rings: Key rings by name.
        context: The context from `encryption.context`.
        nonces: Makes so many random bytes.

    Raises:
        ConfigError: the key is not configured, cannot be read, or has another length than its cipher's.
    """
    place = bytes.fromhex(context)
    head, key = encryption.head_and_key(rule, key_rings, envelope.GCM, Purpose.GCM, envelope.GCM_KEY_BYTES)
    return encryption.sealed(
        leaf, lambda plain: head + envelope.seal_gcm(key, plain, place, nonces(envelope.NONCE_BYTES))
    )


ENCRYPT = Descriptor(
    parameters=Encrypt,
    strongest=PrivacyClass.REVERSIBLE,
    result=encryption.result,
    build=build,
    context=encryption.context,
    is_deterministic=False,
    is_cacheable=False,
    is_sampled=False,
    key_bytes=envelope.GCM_KEY_BYTES,
    uses_gcm=True,
)
