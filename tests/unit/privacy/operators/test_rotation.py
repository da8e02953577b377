"""Rotation of keys: old tokens keep their version, the current one makes new ones."""

import base64

import pytest

from aggregator.config.secrets import key_ring
from aggregator.errors import ConfigError
from aggregator.privacy.batch.strip import Batch
from aggregator.privacy.tokens.tokens import Tokenizer
from tests.unit.privacy.operators.single import one, operator, rule

OLD, NEW = bytes(range(32)), bytes(range(1, 33))
RULE = rule("pseudonymize", key="customer", domain="email")
VECTOR = "v1_e409a6c32823606afd415163ebb7ad53"


def _ring(folder, current, *versions):
    for name, key in (("1", OLD), ("2", NEW), ("255", NEW[::-1])):
        (folder / name).write_text(base64.b64encode(key).decode())
    return {"customer": key_ring({"current": current, "versions": {n: f"file:{folder / str(n)}" for n in versions}})}


def test_the_current_version_makes_new_tokens(tmp_path):
    """A new current version makes new tokens, with its number; the old version's are what they always were."""
    assert one(RULE, "jane@example.com", keys=_ring(tmp_path, 1, 1)) == VECTOR
    assert one(RULE, "jane@example.com", keys=_ring(tmp_path, 1, 1, 2)) == VECTOR
    rotated = one(RULE, "jane@example.com", keys=_ring(tmp_path, 2, 1, 2))
    assert rotated == Tokenizer(NEW, 2, "email").token("jane@example.com")
    assert rotated.startswith("v2_")
    assert rotated[3:] != VECTOR[3:]


def test_an_old_token_can_be_made_again(tmp_path):
    """While its version is listed: that is how old and new tokens of one identifier are matched."""
    ring = _ring(tmp_path, 2, 1, 2)["customer"]
    assert Tokenizer(ring.material("customer", 1), 1, "email").token("jane@example.com") == VECTOR


@pytest.mark.parametrize(("encode", "start"), [("hex", "v255_"), ("base64url", "v255_"), ("bytes", b"\xff")])
def test_the_highest_version(tmp_path, encode, start):
    """255 is one byte and three digits."""
    made = rule("pseudonymize", key="customer", domain="email", encode=encode)
    assert one(made, "jane@example.com", keys=_ring(tmp_path, 255, 255)).startswith(start)


def test_a_retired_version_is_not_read(tmp_path):
    """Only the current version's material must be there to strip; without it, one sentence that names the key."""
    keys = _ring(tmp_path, 2, 1, 2)
    (tmp_path / "1").unlink()
    assert one(RULE, "jane@example.com", keys=keys).startswith("v2_")
    (tmp_path / "2").unlink()
    with pytest.raises(ConfigError, match="No such file"):
        operator(RULE, keys=keys)


def test_rotation_while_running(lab):
    """A running strip keeps the version that it began with; the next one takes the new current version."""
    schema = {"type": "record", "name": "R", "fields": [{"name": "x", "type": "string"}]}
    policy = ("policy: p\nversion: 1\ntopics: {orders: {key: {pseudonymize: {key: customer, domain: email}}, "
              "fields: {x: {pseudonymize: {key: customer, domain: email}}}}}\n")  # fmt: skip
    lab.keys = _ring(lab.root, 1, 1, 2)
    batch = Batch([b"jane@example.com"], [lab.value(schema, {"x": "jane@example.com"})], [None])
    before = lab.topic(policy)
    assert _seen(lab, before, batch) == {VECTOR}
    lab.keys = _ring(lab.root, 2, 1, 2)
    assert _seen(lab, before, batch) == {VECTOR}
    after = _seen(lab, lab.topic(policy), batch)
    assert len(after) == 1
    assert after.pop().startswith("v2_")


def _seen(lab, strip, batch):
    """The tokens of key and value, which are one identifier's."""
    out = strip.strip(batch)
    return {out.keys[0].decode(), lab.decoded(out.values[0])[1]["x"]}
