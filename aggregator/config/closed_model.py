"""The pydantic base class of every section of the configuration.

Invariant: models are frozen, unknown keys are refused, and no error quotes a value.
"""

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    """Frozen, closed, and silent about the values that it refuses."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)
