"""Annotated types of the configuration's values: how each value is written, and which Python value the model holds.

Invariant: the JSON Schema describes the text in the file, also where the model holds a richer value. A check that
refuses a value does not quote it.
"""

from datetime import datetime, timedelta
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from aggregator.config.client import ClientOption, checked, registry_refusal
from aggregator.config.fields import group_pattern, hub_name, registry_reference
from aggregator.config.secrets import KeyRing, SecretRef, key_ring, secret_ref
from aggregator.config.start import NAMES, WORD, MirrorMaker2, rule_start
from aggregator.config.units import byte_rate, duration, moment, size_bytes

# The JSON Schema describes the text in the file, also where the model holds a richer value.
_WORD = {"type": ["string", "number", "boolean"]}
_REFERENCE = {"type": "string", "pattern": "^(env|file):.+"}
_KEY = {
    "anyOf": [
        _REFERENCE,
        {
            "type": "object",
            "properties": {
                "current": {"type": "integer", "minimum": 1},
                "versions": {"type": "object", "additionalProperties": _REFERENCE},
            },
            "required": ["current", "versions"],
            "additionalProperties": False,
        },
    ]
}
_DURATION = {"type": "string", "examples": ["30s", "PT2H"]}
_SIZE = {"type": "string", "examples": ["16MB", "8MiB"]}
Duration = Annotated[timedelta, BeforeValidator(duration), WithJsonSchema(_DURATION)]
SizeBytes = Annotated[int, BeforeValidator(size_bytes), WithJsonSchema(_SIZE)]
_RATE = {"type": "string", "examples": ["2MB/s", "512kB/s"]}
ByteRate = Annotated[int, BeforeValidator(byte_rate), WithJsonSchema(_RATE)]
_START = {
    "anyOf": [
        {"type": "string", "examples": ["earliest", "latest", WORD, "2026-11-01T00:00Z"]},
        {
            "type": "object",
            "properties": {
                WORD: {
                    "type": "object",
                    "properties": {name: {"type": "string"} for name in NAMES},
                    "additionalProperties": False,
                }
            },
            "required": [WORD],
            "additionalProperties": False,
        },
    ]
}
Start = Annotated[
    Literal["earliest", "latest"] | datetime | MirrorMaker2, BeforeValidator(rule_start), WithJsonSchema(_START)
]
Moment = Annotated[
    datetime, BeforeValidator(moment), WithJsonSchema({"type": "string", "examples": ["2026-11-01T02:00Z"]})
]
Key = Annotated[KeyRing, BeforeValidator(key_ring), WithJsonSchema(_KEY)]
Secret = Annotated[SecretRef, BeforeValidator(secret_ref), WithJsonSchema(_REFERENCE)]
Option = Annotated[ClientOption, WithJsonSchema(_WORD)]
Text = Annotated[str, WithJsonSchema(_WORD)]
RegistryReference = Annotated[str, AfterValidator(registry_reference)]
RegistryOptions = Annotated[dict[str, Option], AfterValidator(checked(registry_refusal))]
EdgeName = Annotated[str, Field(pattern=r"^[a-z0-9-]{1,32}$")]
GroupPattern = Annotated[str, AfterValidator(group_pattern)]
HubName = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,64}$"), AfterValidator(hub_name)]
