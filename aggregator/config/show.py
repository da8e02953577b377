"""Prints the effective configuration as plain data, and makes its JSON Schema for editors.

Invariant: fail-closed. References are shown, because they are not secrets. Any other value is shown only where its
field cannot hold a secret.
"""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from aggregator.config.client import is_secret_property
from aggregator.config.librdkafka import ROLES
from aggregator.config.model import HubConfig
from aggregator.config.secrets import KeyRing, SecretRef
from aggregator.config.start import MirrorMaker2
from aggregator.config.units import byte_rate, size_bytes

HIDDEN = "<hidden>"
# Connection properties whose values are documented keywords or paths, and therefore not secret.
_OPEN_PROPERTIES = re.compile(
    r"security\.protocol|sasl\.mechanisms?|client\.(id|rack|dns\.lookup)|compression\.(type|codec)|broker\.address\.family"
    r"|ssl\.endpoint\.identification\.algorithm|sasl\.oauthbearer\.(method|scope)|.*\.location|insecure"
)
_NUMBER_OR_FLAG = re.compile(r"-?\d{1,12}(\.\d+)?[kmgtKMGT]?(s|ms|m|h|b|B)?|true|false")


def shown(config: HubConfig) -> dict[str, Any]:
    """Plain data (dict, list, text, numbers) of the whole configuration with every default filled in."""
    data = _plain(config)
    assert isinstance(data, dict)
    for block in ("client", *ROLES):
        data["central"][block] = _properties(getattr(config.central, block))
        for name, edge in config.edges.items():
            data["edges"][name][block] = _properties(getattr(edge, block))
    for name, edge in config.edges.items():
        data["edges"][name]["schemas_client"] = _properties(edge.schemas_client)
    data["schemas_client"] = _properties(config.schemas_client)
    if config.lake:
        data["lake"]["storage"] = _properties(config.lake.storage)
        data["lake"]["catalog"]["options"] = _properties(config.lake.catalog.options)
    data["spark"]["conf"] = _properties(config.spark.conf)
    for rule, row in zip(config.topics, data["topics"], strict=True):
        row["central_config"] = {
            name: HIDDEN if is_secret_property(name) else value for name, value in rule.central_config.items()
        }
    return data


def json_schema() -> dict[str, Any]:
    """JSON Schema of the configuration file, as an editor's YAML plug-in reads it; the loader checks more."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | HubConfig.model_json_schema()


def _plain(value: object) -> object:
    if isinstance(value, BaseModel):
        return {name: _field(field, getattr(value, name)) for name, field in type(value).model_fields.items()}
    if isinstance(value, KeyRing):
        return {"current": value.current, "versions": {str(number): str(ref) for number, ref in value.versions}}
    if isinstance(value, MirrorMaker2):
        return value.plain()
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, tuple | list) else _scalar(value)


def _scalar(value: object) -> object:
    if isinstance(value, timedelta):
        return _duration(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, str):
        return _address(value)
    return str(value) if isinstance(value, Path | SecretRef) else value


def _field(field: FieldInfo, value: object) -> object:
    for unit, read in (("B", size_bytes), ("B/s", byte_rate)):
        if value is not None and read in _readers(field):
            return f"{value}{unit}"
    return _plain(value)


def _readers(field: FieldInfo) -> list[object]:
    """The functions that read the text of a field."""
    parts = [field.metadata, *(getattr(part, "__metadata__", ()) for part in getattr(field.annotation, "__args__", ()))]
    return [getattr(item, "func", None) for part in parts for item in part]


def _duration(value: timedelta) -> str:
    """The shortest form that the loader reads back."""
    seconds, microseconds = divmod(round(value.total_seconds() * 1_000_000), 1_000_000)
    if microseconds == 0:
        return f"{seconds}s"
    if microseconds % 1000 == 0:
        return f"{seconds * 1000 + microseconds // 1000}ms"
    return f"{seconds}.{microseconds:06}s"


def _address(value: str) -> str:
    """Addresses without user, password and query; the loader refuses them, a model made in code may hold them."""
    if not value.startswith(("http://", "https://")):
        return value
    parts = (urlsplit(part) for part in value.split(","))
    return ",".join(
        part._replace(netloc=part.netloc.rpartition("@")[2], query="", fragment="").geturl() for part in parts
    )


def _properties(options: Mapping[str, str | SecretRef]) -> dict[str, str]:
    return {name: _property(name, value) for name, value in options.items()}


def _property(name: str, value: str | SecretRef) -> str:
    if isinstance(value, SecretRef):
        return str(value)
    open_value = _OPEN_PROPERTIES.fullmatch(name) or _NUMBER_OR_FLAG.fullmatch(value)
    return value if open_value and not is_secret_property(name) else HIDDEN
