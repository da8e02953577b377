"""Parameters of the masks: what is hidden behind which sign, and what may be seen."""

import unicodedata
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from aggregator.privacy.graphemes import grapheme_starts
from aggregator.privacy.policy.parameters.model import Model
from aggregator.privacy.policy.parameters.opening import Justified


def _sign(value: str) -> str:
    """A sign that stays one grapheme beside any other: otherwise a mask of a mask would hide more."""
    is_visible = len(value) == 1 and unicodedata.category(value)[0] in "LNPS"
    if not is_visible or len(grapheme_starts(f"a{value}{value}a")) != 4:  # noqa: PLR2004 - the four
        raise ValueError("`char` is one visible character")
    return value


def _each_once(value: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(set(value)))


Sign = Annotated[str, AfterValidator(_sign)]
Count = Annotated[int, Field(ge=0, le=1000)]
EmailPart = Literal["local", "domain"]
UrlPart = Literal["host", "path", "query", "fragment"]


class Mask(Justified):
    """All graphemes become `char` but the first and the last few; if those would be all, none is left."""

    operator: Literal["mask"] = "mask"
    char: Sign = "*"
    keep_first: Count = 0
    keep_last: Count = 0


class MaskEmail(Justified):
    """The named parts of an e-mail address become three signs."""

    operator: Literal["mask_email"] = "mask_email"
    char: Sign = "*"
    parts: Annotated[tuple[EmailPart, ...], Field(min_length=1), AfterValidator(_each_once)] = ("local",)


class MaskPhone(Model):
    """Digits become signs, but the last few; what separates them stays."""

    operator: Literal["mask_phone"] = "mask_phone"
    char: Sign = "*"
    keep_last: Annotated[int, Field(ge=0, le=4)] = 2


class MaskIp(Justified):
    """The bits behind the prefix become zero."""

    operator: Literal["mask_ip"] = "mask_ip"
    v4_prefix: Annotated[int, Field(ge=0, le=31)] = 24
    v6_prefix: Annotated[int, Field(ge=0, le=127)] = 48


class MaskCard(Model):
    """Digits of a card number become signs, but the first (at most the issuer's six) and the last (at most four)."""

    operator: Literal["mask_card"] = "mask_card"
    char: Sign = "*"
    keep_first: Annotated[int, Field(ge=0, le=6)] = 0
    keep_last: Annotated[int, Field(ge=0, le=4)] = 4


class MaskUrl(Justified):
    """The named parts of a URL become three signs where they are there; user and password always."""

    operator: Literal["mask_url"] = "mask_url"
    char: Sign = "*"
    parts: Annotated[tuple[UrlPart, ...], Field(min_length=1), AfterValidator(_each_once)] = (
        "fragment",
        "path",
        "query",
    )


class MaskPostcode(Model):
    """Letters and digits become signs but the first few, which name a district; what separates them stays."""

    operator: Literal["mask_postcode"] = "mask_postcode"
    char: Sign = "*"
    keep_first: Annotated[int, Field(ge=0, le=4)] = 2
