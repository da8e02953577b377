"""Parses `drop_record`, the conditions under which a policy leaves a record out.

    drop_record:                                      # a record is left out when one of these holds
      - {field: customer.country, in: [RU, BY]}
      - not: {field: consent.marketing, equals: true}
      - all: [{edge: [eu, uk]}, {header: x-export, is_null: true}]

Invariant: a condition asks one thing. Conditions that ask nothing, or two things at once, are refused.
"""

from collections.abc import Iterator
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, model_validator

from aggregator.config.closed_model import Model
from aggregator.privacy.fields.field_types import FieldPath, Name
from aggregator.privacy.operators.parameters import each_once

Constant = Annotated[str, StringConstraints(max_length=1000)]
_QUESTIONS = ("equals", "one_of", "is_null")
_SUBJECTS = ("every", "some", "negated", "field", "header", "edge", "topic")


def _listed(value: Any) -> Any:
    """Turn a single name into a list of one."""
    return [value] if isinstance(value, str) else value


Names = Annotated[
    tuple[Constant, ...], Field(min_length=1, max_length=1000), AfterValidator(each_once), BeforeValidator(_listed)
]
Conditions = Annotated[tuple["Condition", ...], Field(min_length=1, max_length=100)]


class Condition(Model):
    """One question: about a `field` or a `header` (`equals`, `in`, `is_null`), about the `edge` or the `topic` (names),
    or `all`, `any` or `not` of other questions.
    """

    every: Conditions | None = Field(None, alias="all")
    some: Conditions | None = Field(None, alias="any")
    negated: "Condition | None" = Field(None, alias="not")
    field: FieldPath | None = None
    header: Name | None = None
    edge: Names | None = None
    topic: Names | None = None
    equals: Constant | None = None
    one_of: Names | None = Field(None, alias="in")
    is_null: bool | None = None

    @model_validator(mode="after")
    def asks_one_thing(self) -> Self:
        """One subject; a field or a header with one question, the others with none."""
        subjects = [name for name in _SUBJECTS if getattr(self, name) is not None]
        questions = [name for name in _QUESTIONS if getattr(self, name) is not None]
        if len(subjects) != 1:
            raise ValueError("a condition has one of `field`, `header`, `edge`, `topic`, `all`, `any`, `not`")
        if len(questions) != (subjects[0] in ("field", "header")):
            raise ValueError("`field` and `header` take one of `equals`, `in`, `is_null`; the others take none")
        return self

    @property
    def inner(self) -> tuple["Condition", ...]:
        """The conditions that this one is made of."""
        return self.every or self.some or ((self.negated,) if self.negated else ())

    def fields(self) -> Iterator[str]:
        """Paths of the fields that it asks for."""
        if self.field is not None:
            yield self.field
        for condition in self.inner:
            yield from condition.fields()
