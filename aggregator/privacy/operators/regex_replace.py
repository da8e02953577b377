"""`regex_replace`: every match of a pattern in a text is replaced.

Invariant: a text without a match is redacted, never passed.
"""

import itertools
from collections.abc import Sequence
from typing import Annotated, Literal, Self

from pydantic import StringConstraints, model_validator

from aggregator.budgets import MATCHED_BYTES
from aggregator.privacy.fields.leaf import Value
from aggregator.privacy.operators import expressions
from aggregator.privacy.operators.descriptor import Descriptor, Operator, PrivacyClass
from aggregator.privacy.operators.parameters import Justified
from aggregator.privacy.operators.redact import REDACTED
from aggregator.privacy.operators.text import word_type

Text = Annotated[str, StringConstraints(max_length=1000)]


class RegexReplace(Justified):
    r"""Every match of `pattern` (RE2) becomes `replacement`, in which \1 to \9 are groups; no match: redacted."""

    operator: Literal["regex_replace"] = "regex_replace"
    pattern: Annotated[Text, StringConstraints(min_length=1)]
    replacement: Text

    @model_validator(mode="after")
    def accepted_by_re2(self) -> Self:
        """What RE2 refuses is told when the policy is read, not at the first record."""
        expressions.replaced(self.pattern, self.replacement, [""])
        return self


def build(rule: RegexReplace, *_: object) -> Operator:
    """Build the operator that replaces every match of the pattern."""

    def replaced(values: Sequence[Value]) -> list[Value | None]:
        texts = [str(value) for value in values]
        short = [len(text.encode("utf-8", "surrogatepass")) <= MATCHED_BYTES.limit for text in texts]
        found = iter(expressions.replaced(rule.pattern, rule.replacement, [*itertools.compress(texts, short)]))
        made = [next(found) if is_short else None for is_short in short]
        return [REDACTED if text is None else text for text in made]

    return replaced


REGEX_REPLACE = Descriptor(
    parameters=RegexReplace, strongest=PrivacyClass.CLEAR, result=word_type, build=build, may_grow=True
)
