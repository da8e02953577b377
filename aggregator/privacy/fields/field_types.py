"""Types of the fields that several models of a policy have."""

from typing import Annotated

from pydantic import AfterValidator, StringConstraints

from aggregator.privacy.fields import paths
from aggregator.reasons import says_something

Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]
# Another field of the same record.
FieldPath = Annotated[str, StringConstraints(max_length=1000), AfterValidator(paths.exact)]


def worded(value: str) -> str:
    """A text that a person has written, if it says something.

    Raises:
        ValueError: the text says nothing.
    """
    if not says_something(value):
        raise ValueError("says nothing: whoever reads the policy later will look for it")
    return value
