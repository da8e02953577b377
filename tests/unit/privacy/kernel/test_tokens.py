"""Tokens that the machine makes are those that Python makes, byte for byte, and that HMAC-SHA-256 is (RFC 2104)."""

import hashlib
import hmac
import pickle
import struct
import typing

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.bytes_column import BytesColumn
from aggregator.privacy import operators
from aggregator.privacy.batch.strip import Batch
from aggregator.privacy.fields.leaf import INTEGERS, Leaf
from aggregator.privacy.fields.raw_values import value_of
from aggregator.privacy.kernel.machine import NO_BYTES
from aggregator.privacy.kernel.tokens import NOTHING, KeyTokens, TokenCalls
from aggregator.privacy.operators.pseudonymize import Pseudonymize
from aggregator.privacy.tokens import tokens as tokens_module
from aggregator.privacy.tokens.sha256 import functions
from aggregator.privacy.tokens.tokens import Normalize, Tokenizer
from aggregator.schema.avro import Kind, Logical
from tests.unit.privacy.kernel.differential import KEYS as KEY_RINGS

KEYS = st.binary(min_size=1, max_size=200)
NORMAL = st.sampled_from(["none", "trim", "casefold", "email"])
TEXT, BYTES, FIXED, LONG = Leaf(Kind.STRING), Leaf(Kind.BYTES), Leaf(Kind.FIXED, size=16), Leaf(Kind.LONG)
UUID_TEXT = Leaf(Kind.STRING, Logical("uuid"))
LEAVES = [TEXT, UUID_TEXT, BYTES, FIXED, Leaf(Kind.FIXED, Logical("uuid"), 16), LONG, Leaf(Kind.INT)]
SPACES = "".join(map(chr, (*range(9, 14), *range(28, 33))))
ASCII = st.text(st.characters(max_codepoint=127), max_size=300) | st.text("aZ@" + SPACES, max_size=20)
TEXTS = ASCII | st.text(max_size=20)
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.sampled_from([0, 9, 10, -1, 2**63 - 1, -(2**63)])


def made_by(calls, values):
    """The tokens of (call, value); None for what is left to Python."""
    data, spans = b"", []
    for call, value in values:
        if isinstance(value, int):
            spans.append((call, value, NO_BYTES))
        else:
            spans.append((call, len(data), len(value)))
            data += value
    out = TokenCalls(calls).of(np.frombuffer(data, np.uint8), np.array(spans, np.int64).reshape(-1))
    texts = [out.made[start : start + size].tobytes() for _, start, size in out.rows.tolist()]
    assert sum(map(len, texts)) == len(out.made)
    return [None if which == NOTHING else texts[which] for which in out.which.tolist()]


def test_this_interpreter_shows_them():
    """Else everything below would be left to Python, and prove nothing."""
    assert functions() is not None


@given(KEYS, st.text(max_size=100), st.integers(1, 255), st.lists(st.binary(max_size=300), max_size=5))
def test_it_is_hmac(key, domain, version, values):
    """By the standard library, for keys on both sides of a block's length."""
    made = made_by([Tokenizer(key, version, domain).of_hex], [(0, value) for value in values])
    begin = struct.pack(">I", len(domain.encode())) + domain.encode()
    macs = [hmac.new(key, begin + value, hashlib.sha256).hexdigest() for value in values]
    assert made == [f"v{version}_{mac[:32]}".encode() for mac in macs]


@given(NORMAL, st.lists(TEXTS, max_size=8), st.lists(NUMBERS, max_size=4))
def test_it_is_what_python_makes(how, texts, numbers):
    """Of every text that it takes, normalised or not, and of every number; no ASCII of common length is left."""
    tokenizer = Tokenizer(b"k" * 32, 7, "mail", how)
    values = [*texts, *numbers]
    raws = [value.encode() if isinstance(value, str) else value for value in values]
    made = made_by([tokenizer.of_hex], [(0, raw) for raw in raws])
    for value, token in zip(values, made, strict=True):
        is_left = how != "none" and isinstance(value, str) and not (value.isascii() and len(value) <= 256)
        assert token == (None if is_left else tokenizer.hex_tokens([value])[0])


def test_calls_have_kinds_of_their_own():
    """Key, version and domain are the call's; what makes no tokens, or is behind the calls, has none."""
    ours, theirs = Tokenizer(b"a" * 32, 1, "x"), Tokenizer(b"b" * 40, 22, "y", "email")
    made = made_by([ours.of_hex, None, theirs.of_hex], [(0, b"v"), (1, b"v"), (2, b" V"), (3, b"v"), (0, 5)])
    assert made == [ours.hex_tokens(["v"])[0], None, theirs.hex_tokens(["v"])[0], None, ours.hex_tokens([5])[0]]


@given(st.data())
def test_it_is_what_the_operator_makes(data):
    """Of every type and normalisation that the operator leaves to it; signs, symbols and uuids of bytes included."""
    leaf = data.draw(st.sampled_from(LEAVES))
    how = data.draw(st.sampled_from(typing.get_args(Normalize)))
    rule = Pseudonymize(key="customer", domain="d", normalize=how)
    raw = NUMBERS if leaf.kind in INTEGERS else st.binary(min_size=16, max_size=16)
    if leaf.kind is Kind.STRING:
        raw = TEXTS.map(str.encode) | st.uuids().map(str).map(str.upper).map(str.encode)
    raws = data.draw(st.lists(raw, max_size=5))
    token_spec = operators.token_spec(rule, leaf, KEY_RINGS)
    made = [None] * len(raws) if token_spec is None else made_by([token_spec], [(0, one) for one in raws])
    expected = operators.build(rule, leaf, KEY_RINGS)([value_of(leaf, one) for one in raws])
    assert all(token in (None, text.encode()) for token, text in zip(made, expected, strict=True))


@pytest.mark.parametrize("leaf", [TEXT, UUID_TEXT, BYTES, FIXED, LONG])
def test_the_operator_leaves_it_the_common_types(leaf):
    """Else the test above would compare nothing."""
    assert operators.token_spec(Pseudonymize(key="customer", domain="d"), leaf, KEY_RINGS) is not None


@pytest.mark.parametrize("how", ["e164", "digits"])
def test_what_it_cannot_normalise_is_left(how):
    """A text that is no hexadecimal number keeps its bytes, too."""
    assert not TokenCalls([Tokenizer(b"k" * 32, 1, "d", how).of_hex])
    assert Tokenizer(b"k" * 32, 1, "d", encode="uuid").of_hex is None


@given(st.lists(st.none() | st.binary(max_size=20), max_size=10), st.integers(0, 3))
def test_keys(cells, first):
    """Wherever they lie in their memory; a missing one stays missing."""
    tokenizer = Tokenizer(b"k" * 32, 1, "d")
    keys = BytesColumn.of(cells)[first:]
    expected = [None if cell is None else tokenizer.hex_tokens([cell])[0] for cell in cells[first:]]
    assert KeyTokens(tokenizer.of_hex).of(keys).tolist() == expected


def test_one_key_that_is_left_leaves_all():
    """Python then makes each distinct one once."""
    tokens = KeyTokens(Tokenizer(b"k" * 32, 1, "d", "casefold").of_hex)
    assert tokens.of(BytesColumn.of([b"a", "é".encode()])) is None


def test_nothing_tells_the_key():
    """Neither the key nor what tokens are made of is in a text form."""
    token_spec = Tokenizer(b"secret-material-of-a-key", 1, "d").of_hex
    assert "secret" not in repr(token_spec)
    assert repr(token_spec.states)[2:20] not in repr(token_spec)
    with pytest.raises(TypeError, match="does not leave the process"):
        pickle.dumps(token_spec)


def test_an_interpreter_that_shows_none(monkeypatch, both):
    """`cryptography` makes the same tokens."""
    token = "{pseudonymize: {key: customer, domain: d}}"
    policy = f"policy: p\nversion: 1\ntopics: {{orders: {{key: {token}, fields: {{name: {token}}}}}}}\n"
    schema = {"type": "record", "name": "R", "fields": [{"name": "name", "type": "string"}]}
    batch = [both.value(schema, {"name": name}) for name in ("a", "b", "a")]

    def outcome():
        out = both.topic(policy).strip(Batch([b"x", b"y", b"x"], batch, [None] * 3))
        return list(out.keys), list(out.values)

    shown = outcome()
    monkeypatch.setattr(tokens_module, "hmac_states", lambda *_: None)
    assert outcome() == shown
