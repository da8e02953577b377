"""The base classes of all operators' parameters, and the common fields of operators that may leave a value unchanged.

Invariant: an operator can be built from everything that its model accepts. A fault names the parameter and never its
value.
"""

from datetime import date
from typing import Annotated, Self, TypeVar

from pydantic import AfterValidator, model_validator

from aggregator.config.closed_model import Model
from aggregator.privacy.fields.field_types import Name, worded

T = TypeVar("T", bound=str)


class Parameters(Model):
    """An operator as a policy names it, with its parameters; the docstring of each is its line in docs/policy.md."""

    operator: str


class Justified(Parameters):
    """What may leave a value as it is: on a tagged field only with all three, why, who answers for it, until when."""

    reason: Annotated[Name, AfterValidator(worded)] | None = None
    owner: Annotated[Name, AfterValidator(worded)] | None = None
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


def each_once(value: tuple[T, ...]) -> tuple[T, ...]:
    """A choice of several names, in an order of its own."""
    return tuple(sorted(set(value)))
