"""`mask_ip`: the bits of an IP address behind the prefix become zero.

Invariant: an IPv4 address inside an IPv6 address keeps at most as many bits as an IPv4 address alone. A text that is
not an address has no result and is redacted as a whole. Masking twice changes nothing more.
"""

import ipaddress
from typing import Annotated, Literal

from pydantic import Field

from aggregator.privacy.operators.descriptor import Descriptor, PrivacyClass, clear_if
from aggregator.privacy.operators.parameters import Justified
from aggregator.privacy.operators.text import each, word_type

# The default prefixes: a network of 256 addresses (IPv4), and a subscriber's network (IPv6).
_V4_PREFIX, _V6_PREFIX = 24, 64

_ADDRESS_SIGNS = 45
# IPv6 prefixes of embedded IPv4 addresses, their bits, and where the address begins: 6to4 (RFC 3056), Teredo's server
# and (inverted) client (RFC 4380), NAT64 (RFC 6052, 8215), translated (RFC 2765) and compatible ones (RFC 4291).
_EMBEDDING = (
    (0x2002, 16, 16),
    (0x2001_0000, 32, 32),
    (0x0064_FF9B << 64, 96, 96),
    (0x0064_FF9B_0001, 48, 48),
    (0xFFFF_0000, 96, 96),
    (0, 96, 96),
)
_ISATAP = 0x0000_5EFE  # RFC 5214, but for the bit that says whether the address is unique


class MaskIp(Justified):
    """The bits behind the prefix become zero."""

    operator: Literal["mask_ip"] = "mask_ip"
    v4_prefix: Annotated[int, Field(ge=0, le=31)] = 24
    v6_prefix: Annotated[int, Field(ge=0, le=127)] = 48


def privacy_class(rule: MaskIp) -> PrivacyClass:
    """Fewer addresses than a network has tell who it is."""
    return clear_if(rule.v4_prefix > _V4_PREFIX or rule.v6_prefix > _V6_PREFIX)


def is_coarser(rule: MaskIp, other: MaskIp) -> bool:
    """Whether neither prefix of a rule is longer than that of another rule."""
    return rule.v4_prefix <= other.v4_prefix and rule.v6_prefix <= other.v6_prefix


def mask_ip(rule: MaskIp, text: str) -> str | None:
    """The network of an address; None if it is none."""
    plain = text.strip().partition("%")[0]
    try:
        address = ipaddress.ip_address(plain if len(plain) <= _ADDRESS_SIGNS else "")
    except ValueError:
        return None
    if address.version == 6 and address.ipv4_mapped is not None:  # noqa: PLR2004 - a version
        inner = ipaddress.ip_network((int(address.ipv4_mapped), rule.v4_prefix), strict=False)
        return f"::ffff:{inner.network_address}"
    prefix = rule.v4_prefix if address.version == 4 else _v6_prefix(rule, int(address))  # noqa: PLR2004 - a version
    return str(ipaddress.ip_network((address.packed, prefix), strict=False).network_address)


def _v6_prefix(rule: MaskIp, address: int) -> int:
    """How many bits to keep; of an embedded IPv4 address no more than of one by itself."""
    inner = [behind for start, bits, behind in _EMBEDDING if address >> (128 - bits) == start]
    if address >> 32 & 0xFDFF_FFFF == _ISATAP:
        inner.append(96)
    return min([rule.v6_prefix, *(behind + rule.v4_prefix for behind in inner)])


MASK_IP = Descriptor(
    parameters=MaskIp,
    strongest=PrivacyClass.IRREVERSIBLE,
    privacy_class=privacy_class,
    result=word_type,
    build=each(mask_ip),
    is_coarser=is_coarser,
)
