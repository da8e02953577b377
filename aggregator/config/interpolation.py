"""Fills in `${NAME}`, `${NAME:-default}` and `${file:path}` in the scalars of a document; `$${` is a literal `${`.

Invariant: nothing is filled into a secret field, because the configuration would then hold the value instead of a
reference. No private key stays in the data, written or filled in. A fault names the variable or the file, never its
content.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aggregator.config.client import holds_private_key, is_secret_property
from aggregator.config.document import ConfigFault, Place
from aggregator.regular_files import read_text

# The body may hold pairs of braces, as in ${PATTERN:-{edge}.{topic}}.
_EXPRESSION = re.compile(r"\$\$\{|\$\{(?P<body>[^{}]*(?:\{[^{}]*\}[^{}]*)*)\}|\$\{")
_VARIABLE = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<default>:-.*)?", re.DOTALL)
_REFUSED = (
    "is a secret field: write a reference, `env:NAME` or `file:path`; ${…} would put the value into the file's data"
)
_KEY_IN_CLEAR = (
    "holds a private key in clear: keep it in a file, and write that file's name where a location belongs, else a"
    " reference, `file:path` or `env:NAME`, without ${…}"
)


class _NotFilled(Exception):
    """The reason why a scalar has no value."""


def interpolate(data: Any, environ: Mapping[str, str], folder: Path) -> tuple[Any, list[ConfigFault]]:
    """Fill in the variables and files in every scalar of a document, and refuse a private key in any.

    Args:
        data: Plain data of a document.
        environ: The environment variables.
        folder: The base folder of relative `${file:…}` paths.

    Returns:
        The data with values filled in, and the faults; a scalar with a fault becomes None.
    """
    faults: list[ConfigFault] = []

    def fill(value: Any, place: Place) -> Any:
        if isinstance(value, dict):
            return {key: fill(item, (*place, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [fill(item, (*place, index)) for index, item in enumerate(value)]
        if not isinstance(value, str):
            return value
        try:
            return text(value, place)
        except _NotFilled as reason:
            faults.append(ConfigFault(place, str(reason)))
            return None

    def text(value: str, place: Place) -> str:
        if "${" in value and is_secret_place(place):
            raise _NotFilled(_REFUSED)
        whole = _EXPRESSION.sub(lambda found: _filled(found, environ, folder), value)
        if holds_private_key(whole):
            raise _NotFilled(_KEY_IN_CLEAR)
        return whole

    return fill(data, ()), faults


def is_secret_place(place: Place) -> bool:
    """Whether a place holds secrets: everything under `keys`, and the secret properties of clients."""
    if place[:1] == ("keys",):
        return True
    return not {"client", "schemas_client"}.isdisjoint(place[:-1]) and is_secret_property(str(place[-1]))


def _filled(found: re.Match[str], environ: Mapping[str, str], folder: Path) -> str:
    if found[0] == "$${":
        return "${"
    body = found["body"]
    if body is None:
        raise _NotFilled("an expression ${ is not closed")
    if body.startswith("file:"):
        return _file(body.removeprefix("file:"), folder)
    variable = _VARIABLE.fullmatch(body)
    if variable is None:
        raise _NotFilled("an expression is ${NAME}, ${NAME:-default} or ${file:path}")
    value = environ.get(variable["name"], "")
    if value:
        return value
    if variable["default"] is None:
        raise _NotFilled(f"the environment variable {variable['name']} is not set")
    return variable["default"].removeprefix(":-")


def _file(name: str, folder: Path) -> str:
    try:
        return read_text(folder / name).rstrip("\r\n")
    except OSError as error:
        raise _NotFilled(f"the file {name} cannot be read: {error.strerror}") from None
    except ValueError:
        raise _NotFilled(f"the file {name} is not UTF-8 text") from None
