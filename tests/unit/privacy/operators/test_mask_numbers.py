"""`mask_phone`, `mask_card`, `mask_postcode`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.privacy.operators.single import LONG, one, rule

REDACTED = "[REDACTED]"


@pytest.mark.parametrize(
    ("value", "masked"),
    [
        ("+49 (30) 123-4567", "+** (**) ***-**67"),
        (" 030/1234567 ", "***/*****67"),
        ("+٤٩٣٠١٢٣٤٥", "+*******٤٥"),
        ("123456", REDACTED),
        ("1234567890123456", REDACTED),
        ("call 030 1234567", REDACTED),
        ("++4930123456", REDACTED),
        ("", REDACTED),
    ],
)
def test_phones(value, masked):
    """Seven to fifteen digits and their marks; anything else is redacted as a whole."""
    assert one(rule("mask_phone"), value) == masked


@pytest.mark.parametrize(
    ("value", "masked"),
    [
        ("4111 1111 1111 1111", "**** **** **** 1111"),
        ("378282246310005", "***********0005"),
        ("4111 1111 1111 1112", REDACTED),
        ("4111x1111x1111x1111", REDACTED),
        ("0000", REDACTED),
    ],
)
def test_cards(value, masked):
    """Twelve to nineteen digits with a good check digit; anything else is redacted as a whole."""
    assert one(rule("mask_card"), value) == masked


def test_a_card_shows_its_issuer_on_request():
    """At most six and four digits, as PCI DSS allows."""
    assert one(rule("mask_card", keep_first=6), "4111111111111111") == "411111******1111"
    assert one(rule("mask_card", keep_last=0), 4111111111111111, LONG) == "*" * 16


@pytest.mark.parametrize(
    ("value", "masked"),
    [
        ("SW1A 1AA", "SW** ***"),
        ("10115", "10***"),
        ("1017-AB", "10**-**"),
        ("Berlin", REDACTED),
        ("12", REDACTED),
        ("10115 Berlin Mitte", REDACTED),
    ],
)
def test_postcodes(value, masked):
    """Three to ten letters and digits, a digit among them."""
    assert one(rule("mask_postcode"), value) == masked


def test_keeping_all_keeps_nothing():
    """A postcode of three signs of which four were kept."""
    assert one(rule("mask_postcode", keep_first=4), "101") == "***"


@given(st.text(alphabet="0123456789 -+()./x٤"), st.sampled_from(["mask_phone", "mask_card", "mask_postcode"]))
def test_no_text_shows_more_than_is_kept(text, name):
    """At most four letters or digits of the input are left, whatever it is."""
    masked = one(rule(name), text)
    assert masked == REDACTED or sum(sign.isalnum() for sign in masked) <= 4
