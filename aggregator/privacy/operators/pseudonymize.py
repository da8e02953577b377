"""`pseudonymize`: a keyed token of the value; see `tokens` for the exact bytes.

Invariant: one identifier gives one token whatever type carries it. Booleans, floating point numbers and nothing-types
are not identifiers and are not taken.
"""

import uuid
from collections.abc import Callable, Mapping, Sequence

from aggregator.config.secrets import KeyRing
from aggregator.errors import ConfigError
from aggregator.privacy.plan.leaf import INTEGERS, Leaf, Value
from aggregator.privacy.policy.rules import Encode, Normalize, Pseudonymize
from aggregator.privacy.tokens import Tokenizer
from aggregator.schema.avro import Kind, Logical

_TAKEN = INTEGERS | {Kind.STRING, Kind.BYTES, Kind.FIXED, Kind.ENUM}
_UUID_BYTES = 16


def encoded_type(encode: Encode) -> Leaf:
    """The type of a token."""
    if encode == "bytes":
        return Leaf(Kind.BYTES)
    return Leaf(Kind.STRING, Logical("uuid") if encode == "uuid" else None)


def result(rule: Pseudonymize, leaf: Leaf) -> Leaf | None:
    """String, uuid or bytes, as the rule encodes."""
    return encoded_type(rule.encode) if leaf.kind in _TAKEN else None


def tokenizer(rule: Pseudonymize, keys: Mapping[str, KeyRing]) -> Tokenizer:
    """The rule's tokenizer under the current version of its key.

    Raises:
        ConfigError: the key is not configured, or its reference can not be read.
    """
    return keyed(rule.key, keys, rule.domain, rule.normalize, rule.encode)


def keyed(
    name: str, keys: Mapping[str, KeyRing], domain: str, normalize: Normalize = "none", encode: Encode = "hex"
) -> Tokenizer:
    """A tokenizer under the current version of a key.

    Raises:
        ConfigError: as `tokenizer`.
    """
    ring = keys.get(name)
    if ring is None:
        raise ConfigError(f"key {name} is not configured", hint=f"add `{name}:` under `keys:`")
    try:
        return Tokenizer(ring.material(name), ring.current, domain, normalize, encode)
    except ValueError as error:
        raise ConfigError(f"key {name}: {error}", hint="number the versions of a key from 1 to 255") from None


def build(
    rule: Pseudonymize, leaf: Leaf, keys: Mapping[str, KeyRing]
) -> Callable[[Sequence[Value]], list[Value | None]]:
    """Tokens for values of one leaf type."""
    made = tokenizer(rule, keys)
    return lambda values: [*made.tokens(_canonical(leaf, values))]


def build_raw(
    rule: Pseudonymize, leaf: Leaf, keys: Mapping[str, KeyRing]
) -> Callable[[Sequence[Value]], list[bytes]] | None:
    """The same tokens as the bytes of their text, where that is quicker."""
    if rule.encode != "hex":
        return None
    made = tokenizer(rule, keys)
    return lambda values: made.hex_tokens(_canonical(leaf, values))


def reads_bytes(rule: Pseudonymize, leaf: Leaf) -> bool:
    """Whether the bytes of a text are as good as the text: they are its canonical form then."""
    return rule.normalize == "none" and not leaf.is_uuid


def _canonical(leaf: Leaf, values: Sequence[Value]) -> Sequence[Value]:
    return [_uuid_text(value) for value in values] if leaf.is_uuid else values


def _uuid_text(value: Value) -> Value:
    """Lower-case text, from text or from the sixteen bytes of a fixed."""
    if isinstance(value, bytes):
        return str(uuid.UUID(bytes=value)) if len(value) == _UUID_BYTES else value
    return str(value).lower()
