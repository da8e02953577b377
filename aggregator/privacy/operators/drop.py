"""`drop`: value and schema are removed. The plan does it, without an operator's code."""

from typing import Literal

from aggregator.privacy.operators.descriptor import Descriptor, PrivacyClass
from aggregator.privacy.operators.parameters import Parameters


class Drop(Parameters):
    """Value and schema leave."""

    operator: Literal["drop"] = "drop"


DROP = Descriptor(parameters=Drop, strongest=PrivacyClass.REMOVED, is_constant=True)
