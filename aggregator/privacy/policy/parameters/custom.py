"""Parameters of the operators that others write."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StringConstraints

from aggregator.privacy.policy.parameters.model import Name
from aggregator.privacy.policy.parameters.opening import Justified

OutputType = Literal["boolean", "int", "long", "float", "double", "string", "bytes"]
Scalar = bool | int | float | Annotated[str, StringConstraints(max_length=1000)]


def _pairs(value: Any) -> Any:
    return tuple(sorted(value.items(), key=lambda pair: str(pair[0]))) if isinstance(value, dict) else value


class Custom(Justified):
    """A function from the entry points of group `aggregator.operators`, by name, with the type that it answers."""

    operator: Literal["custom"] = "custom"
    name: Name
    type: OutputType
    parameters: Annotated[
        tuple[tuple[Annotated[str, StringConstraints(pattern=r"^[a-z_][a-z0-9_]*$")], Scalar], ...],
        BeforeValidator(_pairs),
        Field(max_length=100),
    ] = ()
