"""The list of all operators of this version; the descriptor of each holds everything that is known about it.

Invariant: no other module lists the operators. Within a class the order is that of restriction, so that the place of a
rule in a file never matters.
"""

from collections.abc import Mapping
from typing import Any

from aggregator.privacy.operators.age import AGE
from aggregator.privacy.operators.bucket import BUCKET
from aggregator.privacy.operators.custom import CUSTOM
from aggregator.privacy.operators.date_shift import DATE_SHIFT
from aggregator.privacy.operators.date_truncate import DATE_TRUNCATE
from aggregator.privacy.operators.descriptor import Descriptor
from aggregator.privacy.operators.drop import DROP
from aggregator.privacy.operators.encrypt import ENCRYPT
from aggregator.privacy.operators.encrypt_deterministic import ENCRYPT_DETERMINISTIC
from aggregator.privacy.operators.geo import GEO
from aggregator.privacy.operators.keep import KEEP
from aggregator.privacy.operators.lookup import LOOKUP
from aggregator.privacy.operators.mask import MASK
from aggregator.privacy.operators.mask_card import MASK_CARD
from aggregator.privacy.operators.mask_email import MASK_EMAIL
from aggregator.privacy.operators.mask_ip import MASK_IP
from aggregator.privacy.operators.mask_phone import MASK_PHONE
from aggregator.privacy.operators.mask_postcode import MASK_POSTCODE
from aggregator.privacy.operators.mask_url import MASK_URL
from aggregator.privacy.operators.nullify import NULLIFY
from aggregator.privacy.operators.parameters import Parameters
from aggregator.privacy.operators.pseudonymize import PSEUDONYMIZE
from aggregator.privacy.operators.redact import REDACT
from aggregator.privacy.operators.regex_replace import REGEX_REPLACE
from aggregator.privacy.operators.round import ROUND
from aggregator.privacy.operators.scrub_text import SCRUB_TEXT
from aggregator.privacy.operators.truncate import TRUNCATE

DESCRIPTORS: tuple[Descriptor[Any], ...] = (
    DROP,
    NULLIFY,
    REDACT,
    AGE,
    BUCKET,
    DATE_TRUNCATE,
    GEO,
    LOOKUP,
    MASK_CARD,
    MASK_PHONE,
    MASK_POSTCODE,
    MASK_EMAIL,
    MASK_IP,
    MASK_URL,
    MASK,
    TRUNCATE,
    PSEUDONYMIZE,
    DATE_SHIFT,
    ROUND,
    ENCRYPT,
    ENCRYPT_DETERMINISTIC,
    CUSTOM,
    REGEX_REPLACE,
    SCRUB_TEXT,
    KEEP,
)
BY_NAME: Mapping[str, Descriptor[Any]] = {one.name: one for one in DESCRIPTORS}
_BY_PARAMETERS: Mapping[type[Parameters], Descriptor[Any]] = {one.parameters: one for one in DESCRIPTORS}
_PLACES: Mapping[type[Parameters], int] = {one.parameters: place for place, one in enumerate(DESCRIPTORS)}


def descriptor(rule: Parameters) -> Descriptor[Any]:
    """The descriptor of a rule's operator."""
    return _BY_PARAMETERS[type(rule)]


def place(rule: Parameters) -> int:
    """The position of a rule's operator in the registry; of two of one class the earlier one takes more."""
    return _PLACES[type(rule)]
