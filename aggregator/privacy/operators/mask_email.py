"""`mask_email`: the local part of an e-mail address, its domain, or both become three signs.

Invariant: the address is built anew from its parsed parts, so that only understood parts pass. A text that cannot be
parsed has no result and is redacted as a whole. Masking twice with `*` changes nothing more.
"""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from aggregator.privacy.operators.descriptor import Descriptor, PrivacyClass, clear_if
from aggregator.privacy.operators.masks import COVER_SIGNS, Sign
from aggregator.privacy.operators.parameters import Justified, each_once
from aggregator.privacy.operators.text import each, word_type

Part = Literal["local", "domain"]

_DOMAIN = re.compile(r"[\w.*-]+")
_PLAIN = re.compile(r"[^\s@<>,;:\"()\[\]\\]+")


class MaskEmail(Justified):
    """The named parts of an e-mail address become three signs."""

    operator: Literal["mask_email"] = "mask_email"
    char: Sign = "*"
    parts: Annotated[tuple[Part, ...], Field(min_length=1), AfterValidator(each_once)] = ("local",)


def privacy_class(rule: MaskEmail) -> PrivacyClass:
    """The privacy class: an address that keeps its local part is left in clear."""
    return clear_if("local" not in rule.parts)


def mask_email(rule: MaskEmail, text: str) -> str | None:
    """An e-mail address without the parts named; None if it is none."""
    local, at, domain = text.strip().rpartition("@")
    if not at or not _PLAIN.fullmatch(local) or not _DOMAIN.fullmatch(domain):
        return None
    cover = rule.char * COVER_SIGNS
    return f"{cover if 'local' in rule.parts else local}@{cover if 'domain' in rule.parts else domain}"


MASK_EMAIL = Descriptor(
    parameters=MaskEmail,
    strongest=PrivacyClass.IRREVERSIBLE,
    privacy_class=privacy_class,
    result=word_type,
    build=each(mask_email),
)
