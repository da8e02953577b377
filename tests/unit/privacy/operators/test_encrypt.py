"""`encrypt` and `encrypt_deterministic`: published vectors, envelopes, keys and their rotation."""

import base64
from itertools import count

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.cmac import CMAC
from hypothesis import given
from hypothesis import strategies as st

from aggregator.config.secrets import key_ring
from aggregator.errors import ConfigError
from aggregator.privacy.operators import encrypt, envelope
from tests.unit.privacy.operators.single import BYTES, DOUBLE, ENUM, LONG, TEXT, one, operator, rule

SHORT, LONG_KEY = bytes(range(32)), bytes(range(64))
# NIST: CAVP gcmEncryptExtIV256, and test cases 13, 14 and 16 of the GCM submission: key, nonce, plain, aad, sealed.
GCM_VECTORS = [
    ("00" * 32, "00" * 12, "", "", "530f8afbc74536b9a963b4f1c4cb738b"),
    ("00" * 32, "00" * 12, "00" * 16, "", "cea7403d4d606b6e074ec5d3baf39d18d0d1c8a799996bf0265b98b5d48ab919"),
    (
        "feffe9928665731c6d6a8f9467308308" * 2,
        "cafebabefacedbaddecaf888",
        (
            "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
            "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39"
        ),
        "feedfacedeadbeeffeedfacedeadbeefabaddad2",
        (
            "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa"
            "8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f66276fc6ece0f4e1768cddf8853bb2d551b"
        ),
    ),
    (
        "31bdadd96698c204aa9ce1448ea94ae1fb4a9a0b3c9d773b51bb1822666b8f22",
        "0d18e06c7c725ac9e362e1ce",
        "2db5168e932556f8089a0622981d017d",
        "",
        "fa4362189661d163fcd6a56d8bf0405ad636ac1bbedd5cc3ee727dc2ab4a9489",
    ),
    (
        "92e11dcdaa866f5ce790fd24501f92509aacf4cb8b1339d50c9c1240935dd08b",
        "ac93a1a6145299bde902f21a",
        "2d71bcfa914e4ac045b2aa60955fad24",
        "1e0889016f67601c8ebea4943bc23ad6",
        "8995ae2e6df3dbf96fac7b7137bae67feca5aa77d51d4a0a14d9c51e1da474ab",
    ),
]


@pytest.mark.parametrize(("key", "nonce", "plain", "place", "sealed"), GCM_VECTORS)
def test_gcm_vectors(key, nonce, plain, place, sealed):
    """NIST's vectors for AES-256-GCM."""
    key, nonce, plain, place = (bytes.fromhex(text) for text in (key, nonce, plain, place))
    assert envelope.seal_gcm(key, plain, place, nonce) == nonce + bytes.fromhex(sealed)


def test_siv_vector():
    """RFC 5297, appendix A.1, which has one component of associated data, as we do."""
    key = bytes.fromhex("fffefdfcfbfaf9f8f7f6f5f4f3f2f1f0f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff")
    place = bytes.fromhex("101112131415161718191a1b1c1d1e1f2021222324252627")
    sealed = envelope.seal_siv(key, bytes.fromhex("112233445566778899aabbccddee"), place)
    assert sealed.hex() == "85632d07c6e8f37f950acd320a2ecc9340c02b9690c4dc04daef7f6afe5c"


def _cmac(key, data):
    made = CMAC(algorithms.AES(key))
    made.update(data)
    return made.finalize()


def _doubled(block):
    number = int.from_bytes(block) << 1
    return (number & (1 << 128) - 1 ^ (0x87 if number >> 128 else 0)).to_bytes(16)


def _xor(one_side, other):
    return bytes(a ^ b for a, b in zip(one_side, other, strict=True))


def _siv(key, plain, place):
    """RFC 5297, sections 2.4 and 2.6, word by word."""
    half = len(key) // 2
    block = _xor(_doubled(_cmac(key[:half], bytes(16))), _cmac(key[:half], place))
    if len(plain) >= 16:
        last = plain[:-16] + _xor(plain[-16:], block)
    else:
        last = _xor(_doubled(block), (plain + b"\x80").ljust(16, b"\0"))
    iv = _cmac(key[:half], last)
    start = (int.from_bytes(iv) & ~(1 << 63 | 1 << 31)).to_bytes(16)
    stream = Cipher(algorithms.AES(key[half:]), modes.CTR(start)).encryptor()
    return iv + stream.update(plain) + stream.finalize()


@given(st.binary(min_size=64, max_size=64), st.binary(max_size=70), st.binary(min_size=1, max_size=40))
def test_siv_with_a_key_of_512_bits(key, plain, place):
    """The RFC has vectors for short keys only: with long ones it is the RFC's own construction, from its parts."""
    assert envelope.seal_siv(key, plain, place) == _siv(key, plain, place)


@pytest.fixture
def keys(tmp_path):
    for name, key in (("short", SHORT), ("long", LONG_KEY), ("longer", LONG_KEY[::-1])):
        (tmp_path / name).write_text(base64.b64encode(key).decode())
    return {
        "short": key_ring(f"file:{tmp_path / 'short'}"),
        "long": key_ring(f"file:{tmp_path / 'long'}"),
        "rotated": key_ring(
            {"current": 7, "versions": {1: f"file:{tmp_path / 'long'}", 7: f"file:{tmp_path / 'longer'}"}}
        ),
    }


def _opened(text, keys, topic="orders", path="x"):
    data = text if isinstance(text, bytes) else base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    return envelope.opened(data, lambda name, version: keys[name].material(name, version), envelope.aad(topic, path))


RULES = [rule("encrypt", key="short"), rule("encrypt_deterministic", key="long")]


@pytest.mark.parametrize("made", RULES, ids=lambda made: made.operator)
@pytest.mark.parametrize(
    ("leaf", "value", "plain"),
    [(TEXT, "Żółć", "Żółć".encode()), (TEXT, "", b""), (ENUM, "JANE", b"JANE"), (LONG, -42, b"-42"),
     (BYTES, b"\0\xff", b"\0\xff"), (DOUBLE, b"12345678", b"12345678")],
)  # fmt: skip
def test_what_goes_in_comes_out(keys, made, leaf, value, plain):
    """Text, symbols and numbers as text, bytes as bytes; and only for the topic and path that they were sealed at."""
    sealed = one(made, value, leaf, keys=keys)
    assert isinstance(sealed, bytes if leaf in (BYTES, DOUBLE) else str)
    assert _opened(sealed, keys) == plain
    for place in (("orders", "y"), ("order", "sx"), ("other", "x")):
        with pytest.raises(ValueError, match="another place"):
            _opened(sealed, keys, *place)


def test_deterministic_or_not(keys):
    """One value and place: one envelope or another each time; another place: another envelope."""
    steady = [one(RULES[1], "jane", keys=keys, place=("orders", path)) for path in "xxy"]
    assert steady[0] == steady[1] != steady[2]
    assert len({one(RULES[0], "jane", keys=keys) for _ in range(20)}) == 20


def test_a_nonce_serves_one_value(keys):
    """Every value asks for a nonce of its own."""
    numbers = count()
    made = encrypt.build(RULES[0], BYTES, keys, "", lambda size: next(numbers).to_bytes(size))
    assert [envelope.parse(item).sealed[:12] for item in made([b"a", b"b"])] == [bytes(12), bytes(11) + b"\1"]


def test_keys_rotate(keys):
    """The current version seals; what an old one sealed says so and stays open."""
    old = key_ring({"current": 1, "versions": dict(keys["rotated"].versions)})
    made = rule("encrypt_deterministic", key="rotated")
    before, after = one(made, b"jane", BYTES, keys={"rotated": old}), one(made, b"jane", BYTES, keys=keys)
    assert [(item.cipher, item.version, item.key) for item in map(envelope.parse, (before, after))] == [
        (envelope.SIV, 1, "rotated"), (envelope.SIV, 7, "rotated")]  # fmt: skip
    assert _opened(before, keys) == _opened(after, keys) == b"jane"


@pytest.mark.parametrize(
    ("name", "key", "message"),
    [
        ("encrypt", "long", "has 64 bytes; encrypt takes exactly 32"),
        ("encrypt_deterministic", "short", "has 32 bytes; encrypt_deterministic takes exactly 64"),
        ("encrypt", "none", "key none is not configured"),
    ],
)
def test_a_wrong_key_is_named(keys, name, key, message):
    """A key of another length, or none: a sentence that names it and never shows it."""
    with pytest.raises(ConfigError, match=message) as caught:
        operator(rule(name, key=key), keys=keys)
    assert "AAEC" not in str(caught.value)


@pytest.mark.parametrize(
    ("cipher", "seal"),
    [
        (1, lambda plain, place: envelope.seal_gcm(SHORT, plain, place, bytes(12))),
        (2, lambda plain, place: envelope.seal_siv(LONG_KEY, plain, place)),
    ],
)
def test_a_former_envelope_opens(keys, cipher, seal):
    """Ciphers 1 and 2 were sealed with the key itself; what is sealed now is not, and says so."""
    place, name = envelope.aad("orders", "x"), "short" if cipher == 1 else "long"
    former = envelope.head(cipher, 1, name) + seal(b"jane", place)
    assert _opened(former, keys) == b"jane"
    now = one(RULES[cipher - 1], b"jane", BYTES, keys=keys)
    assert envelope.parse(now).cipher == cipher + 2
    with pytest.raises(ValueError, match="another key"):
        _opened(bytes([cipher]) + now[1:], keys)


@given(st.binary(max_size=60))
def test_what_is_no_envelope_does_not_open(data):
    """Whatever the bytes: a ValueError."""
    with pytest.raises(ValueError, match=r"."):
        envelope.opened(data, lambda _name, _version: SHORT if data[:1] in b"\1\3" else LONG_KEY, b"place")


def test_a_batch_says_what_it_sealed_under_random_nonces(both):
    """Values under `encrypt`, by key and version; tokens and deterministic envelopes wear nothing."""
    numbers = [{"name": name, "type": "long"} for name in "ab"]
    schema, records = {"type": "record", "name": "r", "fields": numbers}, [{"a": n, "b": n} for n in range(3)]
    head = "policy: p\nversion: 1\ntopics: {orders: {fields: {a: "
    for first, other, sealed in (
        ("{encrypt: {key: customer}}", "{encrypt: {key: customer}}", {"customer/1": 6}),
        ("{encrypt: {key: customer}}", "{pseudonymize: {key: customer, domain: d}}", {"customer/1": 3}),
        ("{pseudonymize: {key: customer, domain: d}}", "drop", {}),
    ):
        both.forget()
        out = both.strip(f"{head}{first}, b: {other}}}}}}}\n", schema, *records)
        assert out.rejected == {}
        assert out.sealed == sealed
