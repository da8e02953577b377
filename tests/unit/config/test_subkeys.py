"""Sub-keys: RFC 5869 to the letter, one per purpose, and what tells a replaced key from the one before."""

import base64
import hashlib
import hmac
import pickle

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from hypothesis import given
from hypothesis import strategies as st

from aggregator.config.secrets import key_ring
from aggregator.config.subkeys import CheckedRing, Purpose, check_value, check_values, subkey
from aggregator.errors import ConfigError


def test_the_primitive_is_rfc_5869s():
    """Appendix A.3: SHA-256, no salt, no info."""
    made = HKDF(hashes.SHA256(), 42, salt=None, info=b"").derive(bytes([0x0B]) * 22)
    assert made.hex().startswith("8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8")


@given(st.binary(min_size=32, max_size=80), st.sampled_from(Purpose))
def test_a_subkey_is_its_documented_derivation(material, purpose):
    """Extract without a salt, expand with the purpose; from the standard library."""
    extracted, made, block, number = hmac.digest(bytes(32), material, hashlib.sha256), b"", b"", 0
    while len(made) < 64:
        number += 1
        block = hmac.digest(extracted, block + b"aggregator/1/" + purpose.encode() + bytes([number]), hashlib.sha256)
        made += block
    key = subkey(material, purpose)
    assert key == made[: len(key)]
    assert len(key) == {Purpose.SIV: 64, Purpose.CHECK: 16}.get(purpose, 32)
    assert key != material[: len(key)]


@given(st.binary(min_size=32, max_size=64))
def test_no_purpose_tells_of_another(material):
    """No two of them begin alike."""
    assert len({subkey(material, purpose)[:16] for purpose in Purpose}) == len(Purpose)


@pytest.fixture
def written(tmp_path):
    """A key in a file, and a way to put another one there."""

    def put(number: int):
        (tmp_path / "key").write_text(base64.b64encode(bytes(range(number, number + 31)) + b"x").decode())
        return key_ring({"current": 2, "versions": {1: f"file:{tmp_path / 'key'}", 2: f"file:{tmp_path / 'key'}"}})

    return put


def test_a_key_that_was_replaced_is_refused_and_one_that_was_read_stays(written):
    """In an epoch a key is what it was at first; another one than at the last start is none at all."""
    ring = written(1)
    values = check_values("customer", ring)
    assert values == {1: check_value(ring.material("customer")), 2: check_value(ring.material("customer"))}
    checked = CheckedRing(ring.current, ring.versions, values)
    before = checked.material("customer")
    written(2)
    assert checked.material("customer") == before
    with pytest.raises(ConfigError, match="key customer version 2: another key than") as refused:
        CheckedRing(ring.current, ring.versions, values).material("customer")
    assert base64.b64encode(bytes(range(2, 32))).decode() not in str(refused.value)
    assert CheckedRing(ring.current, ring.versions, {}).material("customer") != before, "nothing to compare it with"


def test_a_ring_shows_no_key(written):
    """Not in its repr; and one that travels has read nothing yet."""
    ring = CheckedRing(2, written(1).versions, {})
    assert pickle.loads(pickle.dumps(ring)) == ring
    ring.material("customer")
    assert "x" * 3 not in repr(ring)
    assert "_read" not in repr(ring)
