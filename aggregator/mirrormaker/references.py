"""Converts references to values elsewhere, such as MirrorMaker's `${env:NAME}`, into the hub's own references.

Invariant: a secret becomes a reference in every case, and its value is not passed on. Other text reads back unchanged,
except for expressions, which the hub fills in from variables.
"""

import itertools
import re
from collections.abc import Iterable
from typing import NamedTuple

_EXPRESSION = re.compile(r"\$\{(?:(?P<provider>[\w.-]+):)?(?P<body>[^{}]*)\}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_NO_WORD = re.compile(r"[^A-Za-z0-9]+")
# After another dollar sign, the hub would read an expression literally.
_DOLLAR = re.compile(r"\$\$\{[^{}]*\}")
_SHOWN = 120
# Names that Kafka's, Strimzi's and the vendors' documents give to providers; what else stands before a colon may be a
# variable, and what stands behind it its default: the secret itself.
_PROVIDERS = frozenset(
    ("directory", "secrets", "configmaps", "vault", "aws", "secretsmanager", "gcp", "azure", "keyvault")
)
# Kafka takes what stands before the first colon for the path, and the rest for the key. Only where both are names can
# neither hold a default, a credential or the secret itself. A hyphen in front begins a default: `${NAME:-default}`.
_NAME = r"[A-Za-z0-9._/][A-Za-z0-9._/-]*"
_PATH_AND_KEY = re.compile(rf"({_NAME}):({_NAME})")
# Stands for a variable of unknown form while the generated files are tried.
TRIED = "tried"


class FilePlace(NamedTuple):
    """The place where a value was read, so that a message can point a person to it.

    Attributes:
        file: The file.
        line: Number of the line.
        key: Key at this place.
    """

    file: str
    line: int
    key: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} ({self.key})"


class Variables:
    """The variables that a run needs, each with a description; two values never share a name.

    A description shows of a reference only what is certain to be a name: a secret may stand in the rest of it.

    Args:
        reserved: Names that MirrorMaker's files give to variables of their own.

    Attributes:
        found: Contents of each variable in words, by name.
        stand_ins: A value of the same form, by variable.
    """

    def __init__(self, reserved: Iterable[str] = ()) -> None:
        self._held = {name: _reference(name) for name in reserved}
        self.found: dict[str, str] = {}
        self.stand_ins: dict[str, str] = {}

    def secret(self, value: str, name: str, place: FilePlace) -> str:
        """A reference to a secret.

        Args:
            value: Value in MirrorMaker's file, an expression or the secret itself.
            name: The name of the variable, where the value is no expression that the hub knows.
            place: The place that it was read from.
        """
        expression = _EXPRESSION.fullmatch(value.strip())
        if expression is None:
            return f"env:{self.of(name, f'what {place} holds', value)}"
        if (directory := _directory(expression)) is not None:
            return f"file:{directory}"
        return f"env:{self._named(expression, name, place)}"

    def text(self, value: str, name: str, place: FilePlace, tried: str = TRIED) -> str:
        """A value that is no secret, as `hub.yaml` says it.

        Args:
            value: Value as written in MirrorMaker's file.
            name: Name of the variable for an expression that the hub does not know.
            place: Place of the value.
            tried: A stand-in of the same form, where an expression is the whole value.
        """
        if _DOLLAR.search(value):
            return f"${{{self.of(name, f'what {place} holds', value)}}}"
        parts: list[str] = []
        end = 0
        for found in _EXPRESSION.finditer(value):
            directory = _directory(found)
            form = tried if found[0] == value else TRIED
            filled = f"file:{directory}" if directory is not None else self._named(found, name, place, form)
            parts += [_literal(value[end : found.start()]), f"${{{filled}}}"]
            end = found.end()
        return "".join([*parts, _literal(value[end:])])

    def of(self, name: str, what: str, held: str = "", tried: str = TRIED) -> str:
        """A variable that has to be set; gives its name back, with a number where another value has the name.

        Args:
            name: The one that is wanted.
            what: Contents of the variable, in words.
            held: Identity of the value; its description in words where MirrorMaker's files do not hold it.
            tried: A value of the same form.
        """
        own, held = name, held or what
        numbers = itertools.count(2)
        while self._held.setdefault(own, held) != held:
            own = f"{name}_{next(numbers)}"
        self.found.setdefault(own, what)
        self.stand_ins.setdefault(own, tried)
        return own

    def _named(self, expression: re.Match[str], name: str, place: FilePlace, tried: str = TRIED) -> str:
        if (own := _own_name(expression)) is not None:
            return self.of(own, f"as {place} names it", _reference(own), tried)
        return self.of(name, _description(expression, place), expression[0], tried)


def own_names(values: Iterable[str]) -> set[str]:
    """Variables that texts of MirrorMaker name: `X` of `${env:X}`."""
    found = (_own_name(one) for value in values for one in _EXPRESSION.finditer(value))
    return {name for name in found if name is not None}


def is_expression(value: str) -> bool:
    """Whether the whole of it stands elsewhere."""
    return _EXPRESSION.fullmatch(value) is not None


def has_expression(value: str) -> bool:
    """Whether a part of it stands elsewhere."""
    return _EXPRESSION.search(value) is not None


def filled(value: str, whole: str, part: str) -> str:
    """The value as it might be once its expressions are filled in, to see whether it could be any good.

    Args:
        value: A value with or without expressions.
        whole: Replacement for an expression that is the whole value.
        part: Replacement for an expression within a text.
    """
    return whole if _EXPRESSION.fullmatch(value) else _EXPRESSION.sub(part, value)


def variable_name(*parts: str) -> str:
    """`EU_SASL_PASSWORD`, from a cluster's name and a property."""
    name = _NO_WORD.sub("_", "_".join(parts)).strip("_").upper()
    return name if name[:1].isalpha() else f"CLUSTER_{name}"


def _own_name(expression: re.Match[str]) -> str | None:
    """The variable that an expression names; None for any other."""
    is_variable = expression["provider"] in (None, "env") and _VARIABLE.fullmatch(expression["body"])
    return expression["body"] if is_variable else None


def _reference(name: str) -> str:
    return f"${{env:{name}}}"


def _description(expression: re.Match[str], place: FilePlace) -> str:
    """What a reference means, in words: of its own text only what is certain to be a name."""
    if located := _path_and_key(expression, "file"):
        path, key = located
        return f"what `{key[:_SHOWN]}` of file {path[:_SHOWN]} holds ({place.file}:{place.line})"
    if expression["provider"] in _PROVIDERS:
        return f"what {expression['provider']} gives for {place}"
    return f"what {place} holds"


def _directory(expression: re.Match[str]) -> str | None:
    """The file that Kafka's DirectoryConfigProvider reads; None for any other."""
    if located := _path_and_key(expression, "directory"):
        folder, name = located
        return f"{folder.rstrip('/')}/{name}"
    return None


def _path_and_key(expression: re.Match[str], provider: str) -> tuple[str, str] | None:
    """Where a provider looks, and for what; None of another provider, and where either is no plain name."""
    found = _PATH_AND_KEY.fullmatch(expression["body"])
    return (found[1], found[2]) if found and expression["provider"] == provider else None


def _literal(text: str) -> str:
    return text.replace("${", "$${")
