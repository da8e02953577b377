"""What all parameters are: frozen, so that calls can be shared, and silent about what they refuse."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, StringConstraints

Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class Model(BaseModel):
    """Frozen, closed, and silent about the values that it refuses."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)
