"""What an operator leaves of a value, by its kind and its parameters.

Invariant: what can leave a value as it is counts as clear, whatever its name: a text shorter than `truncate` cuts, a
table that names itself, a pattern, foreign code, text that no detector finds. Only what its type or its parameters
bound counts as irreversible: of long numbers that are rounded nearly all stay apart, like tokens.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from enum import IntEnum
from itertools import pairwise
from typing import Any

from aggregator.privacy.policy.parameters.coarsening import Age, Bucket, DateTruncate, Geo, Round, Truncate
from aggregator.privacy.policy.parameters.custom import Custom
from aggregator.privacy.policy.parameters.keyed import DateShift, Encrypt, EncryptDeterministic, Pseudonymize
from aggregator.privacy.policy.parameters.masking import (
    Mask,
    MaskCard,
    MaskEmail,
    MaskIp,
    MaskPhone,
    MaskPostcode,
    MaskUrl,
)
from aggregator.privacy.policy.parameters.model import Model
from aggregator.privacy.policy.parameters.opening import Drop, Keep, Nullify, Redact
from aggregator.privacy.policy.parameters.rewriting import Lookup, RegexReplace, ScrubText

# More graphemes than these tell a short value: of a name of five, four.
_SHOWN_GRAPHEMES = 4
# Of the twelve digits of the shortest card number so many stay hidden, of which the check digit tells one.
_SHOWN_CARD_DIGITS = 6
# A network of 256 addresses, and a subscriber's.
_V4_PREFIX, _V6_PREFIX = 24, 64
# A kilometre, and a place of one kilometre by a half.
_DECIMALS, _GEOHASH = 2, 6
# A whole number alone in its interval is told by it.
_NARROW = 1
_WITHIN_DAYS = ("day", "hour", "minute")
_PATH_PARTS = frozenset(("path", "query", "fragment"))


class PrivacyClass(IntEnum):
    """What is left of a value; the highest number is the most restrictive."""

    CLEAR = 0
    REVERSIBLE = 1
    PSEUDONYMOUS = 2
    IRREVERSIBLE = 3
    REMOVED = 4


# In the order of restriction within a class; what an operator is vouched for at its strongest.
CLASSES: Mapping[type[Model], PrivacyClass] = {
    Drop: PrivacyClass.REMOVED,
    Nullify: PrivacyClass.IRREVERSIBLE,
    Redact: PrivacyClass.IRREVERSIBLE,
    Age: PrivacyClass.IRREVERSIBLE,
    Bucket: PrivacyClass.IRREVERSIBLE,
    DateTruncate: PrivacyClass.IRREVERSIBLE,
    Geo: PrivacyClass.IRREVERSIBLE,
    Lookup: PrivacyClass.IRREVERSIBLE,
    MaskCard: PrivacyClass.IRREVERSIBLE,
    MaskPhone: PrivacyClass.IRREVERSIBLE,
    MaskPostcode: PrivacyClass.IRREVERSIBLE,
    MaskEmail: PrivacyClass.IRREVERSIBLE,
    MaskIp: PrivacyClass.IRREVERSIBLE,
    MaskUrl: PrivacyClass.IRREVERSIBLE,
    Mask: PrivacyClass.IRREVERSIBLE,
    Truncate: PrivacyClass.IRREVERSIBLE,
    Pseudonymize: PrivacyClass.PSEUDONYMOUS,
    DateShift: PrivacyClass.PSEUDONYMOUS,
    Round: PrivacyClass.PSEUDONYMOUS,
    Encrypt: PrivacyClass.REVERSIBLE,
    EncryptDeterministic: PrivacyClass.REVERSIBLE,
    Custom: PrivacyClass.CLEAR,
    RegexReplace: PrivacyClass.CLEAR,
    ScrubText: PrivacyClass.CLEAR,
    Keep: PrivacyClass.CLEAR,
}


def _of_bucket(rule: Bucket) -> PrivacyClass:
    widths = [rule.size] if rule.size is not None else [high - low for low, high in pairwise(rule.ranges or ())]
    if min(widths, default=_NARROW + 1) <= _NARROW:
        return PrivacyClass.CLEAR
    return PrivacyClass.PSEUDONYMOUS if rule.size is not None else PrivacyClass.IRREVERSIBLE


def _of_lookup(rule: Lookup) -> PrivacyClass:
    """A text that only one value becomes tells that value to whoever has the table."""
    if any(key == text for key, text in rule.table):
        return PrivacyClass.CLEAR
    sources = Counter(text for _, text in rule.table)
    return PrivacyClass.REVERSIBLE if min(sources.values()) == 1 else PrivacyClass.IRREVERSIBLE


def _of_card(rule: MaskCard) -> PrivacyClass:
    shown = rule.keep_first + rule.keep_last
    return PrivacyClass.REVERSIBLE if shown > _SHOWN_CARD_DIGITS else PrivacyClass.IRREVERSIBLE


def _of_date(rule: DateTruncate) -> PrivacyClass:
    return _clear_if(rule.unit in _WITHIN_DAYS)


def _of_geo(rule: Geo) -> PrivacyClass:
    return _clear_if((rule.decimals or 0) > _DECIMALS or (rule.geohash or 0) > _GEOHASH)


def _of_round(rule: Round) -> PrivacyClass:
    return PrivacyClass.CLEAR if rule.digits >= 0 else PrivacyClass.PSEUDONYMOUS


def _of_email(rule: MaskEmail) -> PrivacyClass:
    return _clear_if("local" not in rule.parts)


def _of_ip(rule: MaskIp) -> PrivacyClass:
    return _clear_if(rule.v4_prefix > _V4_PREFIX or rule.v6_prefix > _V6_PREFIX)


def _of_url(rule: MaskUrl) -> PrivacyClass:
    return _clear_if(not _PATH_PARTS.issubset(rule.parts))


def _of_mask(rule: Mask) -> PrivacyClass:
    return _clear_if(rule.keep_first + rule.keep_last > _SHOWN_GRAPHEMES)


def _of_truncate(rule: Truncate) -> PrivacyClass:
    return _clear_if(rule.length > 0)


def _clear_if(whole: bool) -> PrivacyClass:
    return PrivacyClass.CLEAR if whole else PrivacyClass.IRREVERSIBLE


# Where parameters decide; the others are what `CLASSES` says.
BY_PARAMETERS: Mapping[type[Any], Callable[[Any], PrivacyClass]] = {
    Bucket: _of_bucket,
    DateTruncate: _of_date,
    Geo: _of_geo,
    Round: _of_round,
    Lookup: _of_lookup,
    MaskCard: _of_card,
    MaskEmail: _of_email,
    MaskIp: _of_ip,
    MaskUrl: _of_url,
    Mask: _of_mask,
    Truncate: _of_truncate,
}


def privacy_class(rule: Model) -> PrivacyClass:
    """What a rule leaves of a value, at most."""
    kind = type(rule)
    return BY_PARAMETERS[kind](rule) if kind in BY_PARAMETERS else CLASSES[kind]
