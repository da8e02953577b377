"""`pseudonymize`: a value becomes a keyed token; `tokens` documents the exact bytes.

Invariant: one identifier gives one token, whatever type carries it. Booleans, floating point numbers and types that
hold nothing are not identifiers and are not accepted.
"""

from collections.abc import Sequence
from typing import Literal

from aggregator.config.secrets import ring_of
from aggregator.errors import ConfigError
from aggregator.privacy.fields.field_types import Name
from aggregator.privacy.fields.leaf import INTEGERS, Leaf, Value
from aggregator.privacy.operators.descriptor import Descriptor, KeyRings, Operator, PrivacyClass, RawOperator
from aggregator.privacy.operators.parameters import Parameters
from aggregator.privacy.tokens.tokens import Encode, HmacTokenSpec, Normalize, Tokenizer, uuid_text
from aggregator.schema.avro import Kind, Logical

_TAKEN = INTEGERS | {Kind.STRING, Kind.BYTES, Kind.FIXED, Kind.ENUM}
_UUID_BYTES = 16


class Pseudonymize(Parameters):
    """The value becomes a keyed token; tokens of one domain can be joined."""

    operator: Literal["pseudonymize"] = "pseudonymize"
    key: Name
    domain: Name
    normalize: Normalize = "none"
    encode: Encode = "hex"


def encoded_type(encode: Encode) -> Leaf:
    """The type of a token in an encoding."""
    if encode == "bytes":
        return Leaf(Kind.BYTES)
    return Leaf(Kind.STRING, Logical("uuid") if encode == "uuid" else None)


def result(rule: Pseudonymize, leaf: Leaf) -> Leaf | None:
    """String, uuid or bytes, as the rule encodes."""
    return encoded_type(rule.encode) if leaf.kind in _TAKEN else None


def tokenizer(rule: Pseudonymize, key_rings: KeyRings) -> Tokenizer:
    """The rule's tokenizer under the current version of its key.

    Raises:
        ConfigError: the key is not configured, or its reference cannot be read.
    """
    ring = ring_of(rule.key, key_rings)
    try:
        return Tokenizer(ring.material(rule.key), ring.current, rule.domain, rule.normalize, rule.encode)
    except ValueError as error:
        raise ConfigError(f"key {rule.key}: {error}", hint="number the versions of a key from 1 to 255") from None


def build(rule: Pseudonymize, leaf: Leaf, key_rings: KeyRings, *_: object) -> Operator:
    """Build the operator that replaces the values of a leaf type by tokens."""
    made = tokenizer(rule, key_rings)
    return lambda values: [*made.tokens(_canonical(leaf, values))]


def build_raw(rule: Pseudonymize, leaf: Leaf, key_rings: KeyRings) -> RawOperator | None:
    """Build a function that gives the tokens as the bytes of their text, where that is quicker."""
    if rule.encode != "hex":
        return None
    made = tokenizer(rule, key_rings)
    return lambda values: made.hex_tokens(_canonical(leaf, values))


def token_spec(rule: Pseudonymize, leaf: Leaf, key_rings: KeyRings) -> HmacTokenSpec | None:
    """What tokens of such values are made of where they lie: of a symbol, only its number lies there."""
    if leaf.kind is Kind.ENUM or (leaf.is_uuid and (leaf.kind is not Kind.STRING or rule.normalize != "none")):
        return None
    if leaf.kind in INTEGERS and rule.normalize in ("digits", "e164"):
        return None  # the sign of a number is no digit
    made = tokenizer(rule, key_rings).of_hex
    if made is None or leaf.kind is Kind.STRING:
        return made and made._replace(normalize="casefold" if leaf.is_uuid else rule.normalize)
    return made._replace(normalize="none")  # other numbers and bytes have one spelling


def reads_bytes(rule: Pseudonymize, leaf: Leaf) -> bool:
    """Whether the bytes of a text are as good as the text: they are its canonical form then."""
    return rule.normalize == "none" and not leaf.is_uuid


def _canonical(leaf: Leaf, values: Sequence[Value]) -> Sequence[Value]:
    return [_uuid_text(value) for value in values] if leaf.is_uuid else values


def _uuid_text(value: Value) -> Value:
    """Lower-case text, from text or from the sixteen bytes of a fixed."""
    if isinstance(value, bytes):
        return uuid_text(value) if len(value) == _UUID_BYTES else value
    return str(value).lower()


PSEUDONYMIZE = Descriptor(
    parameters=Pseudonymize,
    strongest=PrivacyClass.PSEUDONYMOUS,
    result=result,
    build=build,
    build_raw=build_raw,
    token_spec=token_spec,
    reads_bytes=reads_bytes,
    is_sampled=False,
    is_injective=True,
    tokenizer=tokenizer,
)
