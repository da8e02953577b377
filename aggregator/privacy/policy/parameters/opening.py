"""Parameters of what takes a value away as a whole, and of what leaves it as it is."""

from datetime import date
from typing import Annotated, Literal, Self

from pydantic import StringConstraints, model_validator

from aggregator.privacy.policy.parameters.model import Model, Name


class Drop(Model):
    """Value and schema leave."""

    operator: Literal["drop"] = "drop"


class Nullify(Model):
    """The value becomes null, the type `["null", T]`."""

    operator: Literal["nullify"] = "nullify"


class Redact(Model):
    """The value becomes a constant of its type; `value` where it fits the type."""

    operator: Literal["redact"] = "redact"
    value: Annotated[str, StringConstraints(max_length=1000)] | None = None


class Justified(Model):
    """What may leave a value as it is: on a tagged field only with all three, why, who answers for it, until when."""

    reason: Name | None = None
    owner: Name | None = None
    expires: date | None = None

    @model_validator(mode="after")
    def all_or_none(self) -> Self:
        """Half a justification is a slip of the pen."""
        if len({value is None for value in (self.reason, self.owner, self.expires)}) > 1:
            raise ValueError("an operator has `reason`, `owner` and `expires` together, or none of them")
        return self

    def justified(self, today: date) -> bool:
        """Whether this may open a tagged field; on the day named by `expires` it is closed again."""
        return self.expires is not None and today < self.expires

    def expired(self, today: date) -> bool:
        """Whether this opens nothing at all any more."""
        return self.expires is not None and today >= self.expires


class Keep(Justified):
    """The value stays. A tagged field is kept only with all three: why, who answers for it, until when."""

    operator: Literal["keep"] = "keep"
