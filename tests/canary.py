"""A canary: a mark that is put into data, and everything by which it could still be recognised where it comes out.

Numbers and identifiers have marks of their own, made of the canary: so long that they occur nowhere by chance.
"""

import base64
import hashlib
import struct
import uuid
from functools import cache
from urllib.parse import quote


def _noise(canary, what):
    return hashlib.sha256(f"{canary}/{what}".encode()).digest()


def number(canary, bits):
    """The canary as an integer, so large that its encoding has five bytes (32 bits) or ten (64)."""
    return int.from_bytes(_noise(canary, bits)) % 2 ** (bits - 2) + 2 ** (bits - 2)


def uuid_of(canary):
    """The canary as an identifier."""
    return uuid.UUID(bytes=_noise(canary, "uuid")[:16])


@cache
def traces(canary):
    """The canary in every encoding in which it could still be recognised, each with its name."""
    return {**_numbers(canary), **text_traces(str(uuid_of(canary)), "uuid"), **text_traces(canary)}


def recognised(data, wanted):
    """Names of the traces in some bytes."""
    return [name for trace, name in wanted.items() if trace in data]


@cache
def text_traces(text, what="text"):
    """A text in every encoding, each with its name."""
    found = {}
    for name, trace in _texts(what, text):
        found.setdefault(trace, name)
    return found


def _texts(what, text):
    raw = text.encode()
    yield f"{what}: UTF-8", raw
    yield f"{what}: upper case", raw.upper()
    yield f"{what}: reversed", raw[::-1]
    yield f"{what}: UTF-16 LE", text.encode("utf-16-le")
    yield f"{what}: UTF-16 BE", text.encode("utf-16-be")
    yield f"{what}: hex", raw.hex().encode()
    yield f"{what}: HEX", raw.hex().upper().encode()
    yield f"{what}: URL", quote(text, safe="").encode()
    yield f"{what}: URL, every byte", "".join(f"%{byte:02X}" for byte in raw).encode()
    yield f"{what}: JSON escapes", "".join(f"\\u{byte:04x}" for byte in raw).encode()
    for shift in range(3):
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            yield f"{what}: base64 at {shift}", encode(b"\0" * shift + raw)[4:-4]
    yield from _digests(what, raw)


def _digests(what, raw):
    """Keyless digests, which enumeration turns back; their beginnings, because tokens are often cut."""
    for name in ("md5", "sha1", "sha256", "sha512"):
        digest = hashlib.new(name, raw).digest()
        text = digest.hex()
        yield f"{what}: {name}", digest[:8]
        yield f"{what}: {name} in hex", text[:16].encode()
        yield f"{what}: {name} as a uuid", f"{text[:8]}-{text[8:12]}-".encode()
        yield f"{what}: {name} in base64", base64.b64encode(digest)[:12]
        yield f"{what}: {name} in base64 for URLs", base64.urlsafe_b64encode(digest)[:12]


def _numbers(canary):
    int32, int64 = number(canary, 32), number(canary, 64)
    (single,) = struct.unpack("<f", struct.pack("<f", int32))
    found = {
        varint(int32): "int: Avro",
        varint(int64): "long: Avro",
        struct.pack("<q", int64): "long: little endian",
        struct.pack(">q", int64): "long: big endian",
        struct.pack("<d", int64): "double: little endian",
        struct.pack("<f", int32) * 2: "floats: little endian",
        uuid_of(canary).bytes: "uuid: bytes",
        uuid_of(canary).hex.encode(): "uuid: hex",
    }
    for value, name in ((int32, "int"), (int64, "long"), (float(int64), "double"), (single, "float")):
        found[str(value).encode()] = f"{name}: decimal"
        found |= {trace: told for told, trace in _digests(name, str(value).encode())}
    return found


def varint(integer):
    """Avro's encoding of a number from 0 on."""
    left, out = integer << 1, bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*out, left])
