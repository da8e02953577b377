"""Parameters of the operators with a key; `key` names an entry of `keys:` in the hub's configuration."""

from typing import Literal

from aggregator.privacy.parameters.model import Model, Name

Normalize = Literal["none", "trim", "casefold", "email", "e164", "digits"]
Encode = Literal["hex", "base64url", "uuid", "bytes"]


class Pseudonymize(Model):
    """The value becomes a keyed token; tokens of one domain can be joined."""

    operator: Literal["pseudonymize"] = "pseudonymize"
    key: Name
    domain: Name
    normalize: Normalize = "none"
    encode: Encode = "hex"


class Encrypt(Model):
    """The value becomes an AES-256-GCM envelope, another one in every batch; a key of 32 bytes."""

    operator: Literal["encrypt"] = "encrypt"
    key: Name


class EncryptDeterministic(Model):
    """The value becomes an AES-256-SIV envelope, always the same one; a key of 64 bytes."""

    operator: Literal["encrypt_deterministic"] = "encrypt_deterministic"
    key: Name
