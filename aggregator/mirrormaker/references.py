"""Values that stand elsewhere: MirrorMaker's `${env:NAME}` and its like, as the hub's own references.

Invariant: a secret becomes a reference, whatever it was; its value goes nowhere. Other text reads back as it was, but
for expressions, which the hub fills in from variables.
"""

import re
from typing import NamedTuple

_EXPRESSION = re.compile(r"\$\{(?:(?P<provider>[\w.-]+):)?(?P<body>[^{}]*)\}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_NO_WORD = re.compile(r"[^A-Za-z0-9]+")
_SHOWN = 120


class Place(NamedTuple):
    """Where a value was read: what a person is told to look at.

    Attributes:
        file: The file.
        line: Its line.
        key: What stands there.
    """

    file: str
    line: int
    key: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} ({self.key})"


class Variables:
    """The variables that a run needs, each with what it holds."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}

    def secret(self, value: str, name: str, place: Place) -> str:
        """A reference to a secret.

        Args:
            value: What MirrorMaker's file holds, an expression or the secret itself.
            name: Of the variable, where the value is no expression that the hub knows.
            place: Where it was read.
        """
        expression = _EXPRESSION.fullmatch(value.strip())
        if expression is None:
            return f"env:{self.of(name, f'what {place} holds')}"
        if (directory := _directory(expression)) is not None:
            return f"file:{directory}"
        return f"env:{self._named(expression, name, place)}"

    def text(self, value: str, name: str, place: Place) -> str:
        """A value that is no secret, as `hub.yaml` says it.

        Args:
            value: As MirrorMaker's file has it.
            name: Of the variable for an expression that the hub does not know.
            place: Where it was read.
        """
        parts: list[str] = []
        end = 0
        for number, found in enumerate(_EXPRESSION.finditer(value)):
            directory = _directory(found)
            own = name if number == 0 else f"{name}_{number + 1}"
            filled = f"file:{directory}" if directory is not None else self._named(found, own, place)
            parts += [_literal(value[end : found.start()]), f"${{{filled}}}"]
            end = found.end()
        return "".join([*parts, _literal(value[end:])])

    def of(self, name: str, what: str) -> str:
        """A variable that has to be set; gives its name back."""
        self.found.setdefault(name, what)
        return name

    def _named(self, expression: re.Match[str], name: str, place: Place) -> str:
        provider, body = expression["provider"], expression["body"]
        if provider in (None, "env") and _VARIABLE.fullmatch(body):
            return self.of(body, f"as {place} names it")
        where, _, key = body.rpartition(":")
        if provider and where:
            return self.of(
                name, f"what `{key[:_SHOWN]}` of {provider} {where[:_SHOWN]} holds ({place.file}:{place.line})"
            )
        return self.of(name, f"what {place} holds")


def has_expression(value: str) -> bool:
    """Whether a part of it stands elsewhere."""
    return _EXPRESSION.search(value) is not None


def filled(value: str, whole: str, part: str) -> str:
    """The value as it might be once its expressions are filled in, to see whether it could be any good.

    Args:
        value: With or without expressions.
        whole: For an expression that is all there is.
        part: For one within a text.
    """
    return whole if _EXPRESSION.fullmatch(value) else _EXPRESSION.sub(part, value)


def variable_name(*parts: str) -> str:
    """`EU_SASL_PASSWORD`, from a cluster's name and a property."""
    name = _NO_WORD.sub("_", "_".join(parts)).strip("_").upper()
    return name if name[:1].isalpha() else f"CLUSTER_{name}"


def _directory(expression: re.Match[str]) -> str | None:
    """The file that Kafka's DirectoryConfigProvider reads; None for any other."""
    folder, _, name = expression["body"].rpartition(":")
    if expression["provider"] != "directory" or not folder or not name:
        return None
    return f"{folder.rstrip('/')}/{name}"


def _literal(text: str) -> str:
    return text.replace("${", "$${")
