"""`scrub_text` and its detectors."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from aggregator.privacy.operators.checks import Mod97, passes_luhn
from tests.growth import grows_linearly
from tests.unit.privacy.operators.single import one, rule

ALL = rule("scrub_text")
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"


@pytest.mark.parametrize(
    ("text", "scrubbed"),
    [
        ("Write to jane.doe+x@example.com.", "Write to [EMAIL]."),
        ("<jane@example.com>,joe\uff20example.com; ok", "<[EMAIL]>,[EMAIL]; ok"),
        ("@jane said: 5 @ 3", "@jane said: 5 @ 3"),
        ("Call +49 (0) 30 123-4567 or 030/7654321!", "Call [PHONE] or [PHONE]!"),
        ("(030) 1234567 and ٠٣٠١٢٣٤٥٦٧", "[PHONE] and [PHONE]"),
        ("room 12, 3 bags, 110", "room 12, 3 bags, 110"),
        ("card 4111 1111 1111 1111 12/27 ok", "card [CARD] 12/27 ok"),
        ("x4111111111111111y", "x[CARD]y"),
        ("pay 4111-1111-1111-1111", "pay [CARD]"),
        ("DE 89 3704 0044 0532 0130 00", "[IBAN]"),
        ("GB-82-WEST-1234-5698-7654-32", "[IBAN]"),
        ("GB82   WEST   1234   5698   7654   32", "[IBAN]"),
        ("IBAN DE89 3704 0044 0532 0130 00 please", "IBAN [IBAN] please"),
        ("AB12 GB82WEST12345698765432.", "AB12 [IBAN]."),
        ("from 192.0.2.17:8080 and [2001:db8::1]", "from [IP]:8080 and [[IP]]"),
        ("ip:10.0.0.1 inet addr:8.8.8.8 cafe10.0.0.1 feed:10.0.0.1:80", "ip:[IP] inet addr:[IP] cafe[IP] feed:[IP]:80"),
        ("ip:2001:db8::1 src:2001:db8::1, fe80::1%eth0", "ip:[IP] src:[IP], [IP]%eth0"),
        ("10.0.0.1:10.0.0.2 \uff11\uff10.0.0.1 1.2.3.4.5 foo::bad", "[IP]:[IP] [IP] 1.2.3.4.5 foo::bad"),
        ("at 12:30 std::abc v1.2.3", "at 12:30 std::abc v1.2.3"),
        (f"Bearer {JWT}.", "Bearer [JWT]."),
        ("jane&#64;example.com; joe&#x40;x.example, eve&commat;x.example", "[EMAIL]; [EMAIL], [EMAIL]"),
        ("a%2540x.example b%252540x.example &amp;#64; c&amp;#064;x.example", "[EMAIL] [EMAIL] &amp;#64; [EMAIL]"),
        ("x & y &#65; z; R&D", "x & y &#65; z; R&D"),
        ("4111,1111,1111,1111 and 4111\n1111\r\n1111\u20281111", "[CARD] and [CARD]"),
        ("DE89,3704\n0044 0532, 0130\r\n00", "[IBAN]"),
        ("030\n123\r\n4567 and 030, 123, 4567", "[PHONE] and [PHONE]"),
        ("2026-11-25 10:00 and 2026-11-25T10:00:01.123456Z,", "2026-11-25 10:00 and 2026-11-25T10:00:01.123456Z,"),
        ("[2026-11-25 23:59:59,999+01:00] 030 1234567", "[2026-11-25 23:59:59,999+01:00] [PHONE]"),
        ("2026-11-25 24:00 +2026-11-25 10:00", "[PHONE]:00 [PHONE]:00"),
        ("030 2026-11-25 10:00 and 2026-13-25 10:00", "[PHONE]:00 and [PHONE]:00"),
        (
            "2026-11-25 10:00:01,501234567; 2026-11-25 10:00,5012345",
            "2026-11-25 10:00:01,[PHONE]; 2026-11-25 10:00,[PHONE]",
        ),
        ("/pay?q=%204111111111111111&n=1", "/pay?q=%20[CARD]&n=1"),
        ("c=4111+1111+1111+1111&p=0170+123+4567", "c=[CARD]&p=[PHONE]"),
        ("c=4111%201111%25201111%C2%A01111&a=1", "c=[CARD]&a=1"),
        ("?ip=%2010.1.2.3&x=%E2%80%8910.1.2.3", "?ip=%20[IP]&x=%E2%80%89[IP]"),
        ("%34%31%31%31 1111 1111 1111 and 0170&nbsp;123&#160;4567", "[CARD] and [PHONE]"),
        (r"jane\u0040example.com 0170\u00a0123\u202f4567 \ud83d 1", r"[EMAIL] [PHONE] \ud83d 1"),
        ("\uff08\uff10\uff13\uff09\uff11\uff12\uff13\uff14\uff0f\uff15\uff16\uff17\uff18", "[PHONE]"),
        ("DE\uff18\uff19 3704 0044 0532 0130 00", "[IBAN]"),
        ("4111\u202c1111\u200e1111\u00ad1111, 030\u30fb1234\u30fb567", "[CARD], [PHONE]"),
        ("@jane@example.com %40joe@example.com eve@example.com@ @@x@y.example", "[EMAIL] [EMAIL] [EMAIL] [EMAIL]"),
        ("r&amp;d@x.example jane@(at work)x.example", "[EMAIL] [EMAIL]x.example"),
        (r"4111\t1111\n1111\r\n1111 and 0170\/123\/4567", "[CARD] and [PHONE]"),
        ("4111&shy;1111&ndash;1111&Tab;1111 4111&nbsp1111&#0000000160;1111&#x00A0;1111", "[CARD] [CARD]"),
        (r"4111\u0026nbsp;1111%26nbsp%3B1111&#37;201111", "[CARD]"),
        (r"0170\u0020123%25204567 4111\\u00201111\u0025201111%5Cu00201111", "[PHONE] [CARD]"),
        ("4\ufe0f\u20e3111\u034f1111\u28001111\u31641111", "[CARD]"),
        ("10.\u200b1.2.3 2001:\u00addb8::1 GB8\ufeff2 WEST 1234 5698 7654 32", "[IP] [IP] [IBAN]"),
        ('"jane\u2060 doe"@x.example 192.168&shy;.0.1 1\ufe0f\u20e30\ufe0f\u20e3.1.2.3', "[EMAIL] [IP] [IP]"),
        ("\u5730\u57402001:db8::1\u5df2 caf\u00e9::1", "\u5730\u5740[IP]\u5df2 caf\u00e9[IP]"),
        (
            "family \U0001f469\u200d\U0001f467 \u0645\u06cc\u200c\u062e",
            "family \U0001f469\u200d\U0001f467 \u0645\u06cc\u200c\u062e",
        ),
        ("id 7c0e1234-567a-41d3-9a0c-49170123456b, ok", "id 7c0e1234-567a-41d3-9a0c-49170123456b, ok"),
        (
            "deadbeef-0000-4000-8000-491701234567; 7c0e1234-5678-41d3-9a0c-4917012345",
            "deadbeef-[PHONE]; 7c0e[PHONE]d3-9a0c-[PHONE]",
        ),
        ("100%20 %zz %25 &amp; \\u12 &#; R&D", "100%20 %zz %25 &amp; \\u12 &#; R&D"),
        ("", ""),
        ("Żółć", "Żółć"),
    ],
)
def test_what_is_found(text, scrubbed):
    """Each detector's finds, between other text, in other scripts, with neighbours; and what is left alone."""
    assert one(ALL, text) == scrubbed


def test_check_digits_decide():
    """A row of digits that fails its check is no card and no IBAN."""
    assert one(rule("scrub_text", detectors=["card"]), "4111 1111 1111 1112") == "4111 1111 1111 1112"
    assert one(rule("scrub_text", detectors=["iban"]), "DE88370400440532013000") == "DE88370400440532013000"


def test_only_the_named_detectors_look():
    """Order and repetition of the names do not matter."""
    made = rule("scrub_text", detectors=["ip", "email", "ip"])
    assert made == rule("scrub_text", detectors=["email", "ip"])
    assert one(made, "jane@example.com 192.0.2.1 030 1234567") == "[EMAIL] [IP] 030 1234567"
    with pytest.raises(ValidationError):
        rule("scrub_text", detectors=["name"])
    with pytest.raises(ValidationError):
        rule("scrub_text", detectors=[])


@pytest.mark.parametrize("digits", ["4111111111111111", "378282246310005", "79927398713", "0"])
def test_luhn_vectors(digits):
    """Known good numbers; with any one digit changed they are bad."""
    assert passes_luhn(digits)
    for place, digit in enumerate(digits):
        assert not passes_luhn(f"{digits[:place]}{(int(digit) + 1) % 10}{digits[place + 1 :]}")


@pytest.mark.parametrize(
    "iban", ["DE89370400440532013000", "GB82WEST12345698765432", "NO9386011117947", "gb29nwbk60161331926819"]
)
def test_iban_vectors(iban):
    """Published examples; with the last two signs swapped they are bad."""
    assert _passes_mod97(iban)
    swapped = iban[:-2] + iban[:-3:-1]
    assert swapped == iban or not _passes_mod97(swapped)


def _passes_mod97(iban):
    return Mod97(iban).passes(0, len(iban))


@given(st.text(alphabet=string.ascii_letters + string.digits, min_size=5, max_size=70), st.data())
def test_any_part_of_a_row_has_the_check_of_its_number(row, data):
    """Beside ISO 13616 as it is written: the first four signs go to the end, letters become numbers."""
    start = data.draw(st.integers(0, len(row) - 5))
    end = data.draw(st.integers(start + 5, len(row)))
    part = row[start:end]
    number = "".join(str(int(sign, 36)) for sign in part[4:] + part[:4])
    assert Mod97(row).passes(start, end) == (int(number) % 97 == 1)


@given(st.integers(0, 2), st.text(alphabet="0123456789", min_size=8, max_size=28), st.text(alphabet="aB3", max_size=9))
def test_a_right_check_is_told_wherever_it_stands(country, account, before):
    """Check digits as the standard makes them: 98 less the remainder."""
    country = ("DE", "gb", "No")[country]
    digits = "".join(str(int(sign, 36)) for sign in f"{account}{country}00")
    iban = f"{country}{98 - int(digits) % 97:02d}{account}"
    assert Mod97(before + iban).passes(len(before), len(before + iban))


SECRETS = [
    "jane@example.com",
    "+49 30 1234567",
    "4111 1111 1111 1111",
    "DE89 3704 0044 0532 0130 00",
    "192.0.2.17",
    JWT,
]


@given(
    st.text(alphabet="abc xyz,;!?\n", max_size=20),
    st.sampled_from(SECRETS),
    st.text(alphabet="abc ,;!?\n", max_size=20),
)
def test_secrets_between_words_are_found(before, secret, after):
    """Whatever words stand around: nothing of the secret is left, and scrubbing twice is scrubbing once."""
    scrubbed = one(ALL, f"{before} {secret} {after}")
    assert not any(part in scrubbed for part in (secret, secret[:6], secret[-6:]))
    assert one(ALL, scrubbed) == scrubbed


@given(st.text(alphabet="aeyJ0149:.@+-() /٣DEé[]", max_size=40))
def test_any_text_is_scrubbed(text):
    """No text makes a detector fail, and marks stay whole."""
    assert isinstance(one(ALL, text), str)


@pytest.mark.slow
@pytest.mark.parametrize("piece", ["a", "1", "1 ", "a@", "1.", ":", "eyJ.", "DE89 ", "+", "é", "1111 "])
def test_detectors_take_linear_time(piece):
    """Fifty thousand signs of what each of them looks for."""
    assert grows_linearly(lambda signs: one(ALL, piece * (signs // len(piece))), 12_500)
