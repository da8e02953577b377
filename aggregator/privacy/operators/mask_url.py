"""`mask_url`: the named parts of a URL become three signs if they are present; user and password always do.

Invariant: the URL is built anew from its parsed parts, so that only understood parts pass. A text that cannot be parsed
has no result and is redacted as a whole. Masking twice with `*` changes nothing more.
"""

import re
from typing import Annotated, Literal
from urllib.parse import SplitResult, urlsplit

from pydantic import AfterValidator, Field

from aggregator.budgets import AUTHORITY_SIGNS
from aggregator.privacy.operators.descriptor import Descriptor, PrivacyClass, clear_if
from aggregator.privacy.operators.masks import COVER_SIGNS, Sign
from aggregator.privacy.operators.parameters import Justified, each_once
from aggregator.privacy.operators.text import each, word_type

Part = Literal["host", "path", "query", "fragment"]
_PATH_PARTS = frozenset(("path", "query", "fragment"))

# Schemes whose host is a machine; in `mailto://jane`, `tel://49301234` or `skype://jane` it is a person.
_SCHEMES = frozenset(("http", "https", "ws", "wss", "ftp", "ftps"))
_AUTHORITY = re.compile(r"//[^/?#]*")
_HOST = re.compile(r"[\w.*-]+|[0-9a-f:.]+")


class MaskUrl(Justified):
    """The named parts of a URL become three signs where they are there; user and password always."""

    operator: Literal["mask_url"] = "mask_url"
    char: Sign = "*"
    parts: Annotated[tuple[Part, ...], Field(min_length=1), AfterValidator(each_once)] = ("fragment", "path", "query")


def privacy_class(rule: MaskUrl) -> PrivacyClass:
    """What follows the host may be anything."""
    return clear_if(not _PATH_PARTS.issubset(rule.parts))


def mask_url(rule: MaskUrl, text: str) -> str | None:
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
    cover = rule.char * COVER_SIGNS
    shown = cover if "host" in rule.parts else f"[{host}]" if ":" in host else host
    user = f"{cover}@" if "@" in parts.netloc else ""
    made = f"{parts.scheme}://{user}{shown}" + (f":{port}" if port is not None else "")
    if parts.path:
        made += f"/{cover}" if "path" in rule.parts and parts.path != "/" else parts.path
    for mark, name, part in (("?", "query", parts.query), ("#", "fragment", parts.fragment)):
        if part:
            made += mark + (cover if name in rule.parts else part)
    return made


MASK_URL = Descriptor(
    parameters=MaskUrl,
    strongest=PrivacyClass.IRREVERSIBLE,
    privacy_class=privacy_class,
    result=word_type,
    build=each(mask_url),
)
