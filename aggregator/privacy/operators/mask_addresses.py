"""`mask_email`, `mask_ip`, `mask_url`: parts of an address become three signs or zero bits.

Invariant: an address is put together from its parts anew, so that nothing passes that was not understood; what can not
be taken apart has no answer and is redacted as a whole. Masking twice with
`*` changes nothing more.
"""

import ipaddress
import re
from urllib.parse import SplitResult, urlsplit

from aggregator.budgets import AUTHORITY_SIGNS
from aggregator.privacy.policy.rules import MaskEmail, MaskIp, MaskUrl

_SIGNS = 3
_ADDRESS_SIGNS = 45
_DOMAIN = re.compile(r"[\w.*-]+")
_PLAIN = re.compile(r"[^\s@<>,;:\"()\[\]\\]+")
# Whose host is a host; in `mailto://jane`, `tel://49301234` or `skype://jane` it is a person.
_SCHEMES = frozenset(("http", "https", "ws", "wss", "ftp", "ftps"))
# Prefixes behind which an IPv4 address stands, their bits, and where it begins: 6to4 (RFC 3056), Teredo's server and,
# in other bits, its client (RFC 4380), NAT64 (RFC 6052, 8215), translated (RFC 2765) and compatible ones (RFC 4291).
_EMBEDDING = (
    (0x2002, 16, 16),
    (0x2001_0000, 32, 32),
    (0x0064_FF9B << 64, 96, 96),
    (0x0064_FF9B_0001, 48, 48),
    (0xFFFF_0000, 96, 96),
    (0, 96, 96),
)
_ISATAP = 0x0000_5EFE  # RFC 5214, but for the bit that says whether the address is unique
_AUTHORITY = re.compile(r"//[^/?#]*")
_HOST = re.compile(r"[\w.*-]+|[0-9a-f:.]+")


def masked_email(rule: MaskEmail, text: str) -> str | None:
    """An e-mail address without the parts named; None if it is none."""
    local, at, domain = text.strip().rpartition("@")
    if not at or not _PLAIN.fullmatch(local) or not _DOMAIN.fullmatch(domain):
        return None
    cover = rule.char * _SIGNS
    return f"{cover if 'local' in rule.parts else local}@{cover if 'domain' in rule.parts else domain}"


def masked_ip(rule: MaskIp, text: str) -> str | None:
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
    """The bits to keep: of an IPv4 address that stands within, no more than of one by itself."""
    inner = [behind for start, bits, behind in _EMBEDDING if address >> (128 - bits) == start]
    if address >> 32 & 0xFDFF_FFFF == _ISATAP:
        inner.append(96)
    return min([rule.v6_prefix, *(behind + rule.v4_prefix for behind in inner)])


def masked_url(rule: MaskUrl, text: str) -> str | None:
    """A URL without the parts named and without user and password; None if it is none."""
    text = text.strip()
    authority = _AUTHORITY.search(text)
    if authority is not None and len(authority.group()) > AUTHORITY_SIGNS.limit:
        return None  # the library normalises it, in time that grows with the square of its length
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return None
    host = parts.hostname or ""
    if parts.scheme not in _SCHEMES or not _HOST.fullmatch(host):
        return None
    return _url(rule, parts, host, port)


def _url(rule: MaskUrl, parts: SplitResult, host: str, port: int | None) -> str:
    cover = rule.char * _SIGNS
    shown = cover if "host" in rule.parts else f"[{host}]" if ":" in host else host
    user = f"{cover}@" if "@" in parts.netloc else ""
    made = f"{parts.scheme}://{user}{shown}" + (f":{port}" if port is not None else "")
    if parts.path:
        made += f"/{cover}" if "path" in rule.parts and parts.path != "/" else parts.path
    for mark, name, part in (("?", "query", parts.query), ("#", "fragment", parts.fragment)):
        if part:
            made += mark + (cover if name in rule.parts else part)
    return made
