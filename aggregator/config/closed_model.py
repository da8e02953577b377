"""What every section of the configuration is made from.

Invariant: frozen, unknown keys are refused, and no error echoes a value.
"""

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    """Frozen, closed, and silent about the values that it refuses."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)
