"""`keep`: the value stays. The plan does it, without an operator's code."""

from typing import Literal

from aggregator.privacy.operators.descriptor import Descriptor, PrivacyClass
from aggregator.privacy.operators.parameters import Justified


class Keep(Justified):
    """The value stays. A tagged field is kept only with all three: why, who answers for it, until when."""

    operator: Literal["keep"] = "keep"


KEEP = Descriptor(parameters=Keep, strongest=PrivacyClass.CLEAR)
