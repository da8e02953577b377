"""Parameters of the operators that write other text: by pattern, by table, by what is found in it."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, model_validator

from aggregator.privacy import expressions
from aggregator.privacy.policy.parameters.opening import Justified

Text = Annotated[str, StringConstraints(max_length=1000)]
Detector = Literal["email", "phone", "card", "iban", "ip", "jwt"]
ALL_DETECTORS: tuple[Detector, ...] = ("card", "email", "iban", "ip", "jwt", "phone")


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


def _pairs(value: Any) -> Any:
    """A table as sorted pairs: a mapping has no hash. Numbers as keys are what YAML makes of digits."""
    if not isinstance(value, Mapping):
        return value
    keys = [str(key) if isinstance(key, int) and not isinstance(key, bool) else key for key in value]
    if not all(isinstance(key, str) for key in keys) or len(set(keys)) < len(keys):
        raise ValueError("the keys of `table` are texts or whole numbers, each once")
    return tuple(sorted(zip(keys, value.values(), strict=True), key=lambda pair: pair[0]))


class Lookup(Justified):
    """A value becomes what the table has for it; not in it: redacted."""

    operator: Literal["lookup"] = "lookup"
    table: Annotated[tuple[tuple[Text, Text], ...], BeforeValidator(_pairs), Field(min_length=1, max_length=10_000)]


def _each_once(value: tuple[Detector, ...]) -> tuple[Detector, ...]:
    return tuple(sorted(set(value)))


class ScrubText(Justified):
    """What the detectors find in a text becomes its name in brackets; what they do not find stays."""

    operator: Literal["scrub_text"] = "scrub_text"
    detectors: Annotated[tuple[Detector, ...], Field(min_length=1), AfterValidator(_each_once)] = ALL_DETECTORS
