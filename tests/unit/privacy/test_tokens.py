"""Tokens: fixed for ever once released."""

import base64
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.privacy.fields.leaf import Leaf
from aggregator.privacy.operators import pseudonymize
from aggregator.privacy.operators.pseudonymize import Pseudonymize
from aggregator.privacy.tokens.tokens import Tokenizer, normalized
from aggregator.schema.avro import Kind, Logical

KEY = base64.b64decode("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=")


@pytest.mark.parametrize(
    ("domain", "value", "encode", "token"),
    [
        ("email", "jane@example.com", "hex", "v1_e409a6c32823606afd415163ebb7ad53"),
        ("email", "jane@example.com", "uuid", "e409a6c3-2823-806a-bd41-5163ebb7ad53"),
        ("customer", 42, "base64url", "v1_GKl5afVUdW6AXfEbjdD80A"),
        ("customer", "42", "base64url", "v1_GKl5afVUdW6AXfEbjdD80A"),
        ("doc", "Żółć", "bytes", bytes.fromhex("0138d36e1484633208327866da8d1d5c0d")),
    ],
)
def test_vectors(domain, value, encode, token):
    """The released vectors; a number and its text are one identifier."""
    assert Tokenizer(KEY, 1, domain, encode=encode).token(value) == token


def test_version_is_in_the_token():
    """A token names its key's version, but for the uuid encoding."""
    assert Tokenizer(KEY, 17, "email").token("x").startswith("v17_")
    assert Tokenizer(KEY, 17, "email", encode="bytes").token("x")[0] == 17
    for version in (0, 256):
        with pytest.raises(ValueError, match="1 to 255"):
            Tokenizer(KEY, version, "email")


def test_key_is_not_kept():
    """Neither the repr nor an attribute shows the key."""
    tokenizer = Tokenizer(KEY, 1, "email")
    assert "material" not in repr(tokenizer)
    assert tokenizer.material == b""


@given(st.text(), st.text(min_size=1), st.text(min_size=1))
def test_domains_are_separate(value, one, other):
    """Other domain, other token, even where domain and value could be cut elsewhere."""
    first, second = Tokenizer(KEY, 1, one), Tokenizer(KEY, 1, other)
    assert (first.token(value) == second.token(value)) is (one == other)
    assert first.token(value) != Tokenizer(KEY, 1, one + "x").token(value[1:])


@given(st.text())
def test_uuid_tokens_are_version_8(value):
    """RFC 9562: version 8, variant 10."""
    token = uuid.UUID(str(Tokenizer(KEY, 1, "d", encode="uuid").token(value)))
    assert (token.version, token.variant) == (8, uuid.RFC_4122)


@pytest.mark.parametrize(
    ("how", "spellings", "canonical"),
    [
        ("none", [" Jane "], " Jane "),
        ("trim", [" Jane ", "Jane\n"], "Jane"),
        ("casefold", ["STRASSE", "straße"], "strasse"),
        ("casefold", ["É", "e\u0301"], "é"),
        ("email", [" Jane@Example.COM ", "jane@example.com"], "jane@example.com"),
        ("e164", ["+49 (30) 123-45", "0049 30 123 45", "+٤٩3012345"], "+493012345"),
        ("digits", ["4111 1111-1111", "411111111111"], "411111111111"),
        ("digits", [" abc ", "abc"], "abc"),
    ],
)
def test_spellings_become_one(how, spellings, canonical):
    """What a normalisation makes one; where nothing would be left the text stays itself."""
    assert {normalized(spelling, how) for spelling in spellings} == {canonical}


@given(st.text(), st.sampled_from(["none", "trim", "casefold", "email", "e164", "digits"]))
def test_normalisation_is_idempotent(value, how):
    """A canonical value is canonical, so that re-running over tokens' sources changes nothing."""
    once = normalized(value, how)
    assert normalized(once, how) == once


def test_uuid_in_every_type_is_one_identifier(lab):
    """A uuid as text of any case, and as sixteen bytes, gives one token."""
    rule = Pseudonymize(key="customer", domain="d")
    value = uuid.UUID("E409A6C3-2823-806A-BD41-5163EBB7AD53")
    text = pseudonymize.build(rule, Leaf(Kind.STRING, Logical("uuid")), lab.keys)
    fixed = pseudonymize.build(rule, Leaf(Kind.FIXED, Logical("uuid"), 16), lab.keys)
    tokens = {*text([str(value), str(value).upper()]), *fixed([value.bytes])}
    assert tokens == {Tokenizer(KEY, 1, "d").token(str(value))}
