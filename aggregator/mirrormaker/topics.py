"""Converts lists of names and Java's regular expressions into the patterns of a rule or of groups.

Invariant: a part that RE2 would refuse or read differently is left out and named. Nothing is rewritten.
"""

import re
from collections.abc import Callable, Sequence

from aggregator.config.fields import topic_pattern
from aggregator.mirrormaker.references import Variables, filled, variable_name
from aggregator.mirrormaker.result import PropertyMappings
from aggregator.mirrormaker.scoped_settings import ScopedSetting

_POSIX = re.compile(r"\[:\^?[a-z]+:\]")
_QUOTES = "\"'"


class Patterns:
    """Reads the patterns of one edge.

    Args:
        fates: Receiver of each key's fate.
        variables: Receiver of variables.
        edge: The edge's name.
        check: Raises ValueError for a pattern that `hub.yaml` would not take.

    Attributes:
        is_complete: Whether everything could be taken that was read last.
    """

    def __init__(
        self, fates: PropertyMappings, variables: Variables, edge: str, check: Callable[[str], object] = topic_pattern
    ) -> None:
        self._check = check
        self._fates = fates
        self._variables = variables
        self._edge = edge
        self.is_complete = True

    def read(self, setting: ScopedSetting, to: str) -> str:
        """The pattern as `hub.yaml` has it; empty where nothing could be taken.

        Args:
            setting: A list of names and patterns, with commas.
            to: The key that it becomes.
        """
        kept: list[str] = []
        why = ""
        for part in _parts(setting.value):
            try:
                self._check(filled(part, "any", "any"))
                _refuse_posix(part)
            except ValueError as error:
                why = str(error)
            else:
                kept.append(self._filled(setting, part))
        self.is_complete = not why
        if kept:
            self._fates.mapped(setting.entry, to, f"one part is left out ({why})" if why else "")
        else:
            self._fates.not_applicable(setting.entry, why or "is empty")
        return joined(kept)

    def _filled(self, setting: ScopedSetting, part: str) -> str:
        return self._variables.text(part, variable_name(self._edge, setting.name), setting.place)


def _refuse_posix(part: str) -> None:
    if _POSIX.search(part):
        raise ValueError("holds `[:…:]`, which Java reads as letters, and RE2 as a class")


def joined(patterns: Sequence[str]) -> str:
    """Alternatives of one pattern, each once."""
    return "|".join(dict.fromkeys(one for one in patterns if one))


def _parts(value: str) -> list[str]:
    """Split a list as MirrorMaker does; quotes around the whole, which no topic has, are removed as in version 1."""
    text = value.strip()
    if len(text) > 1 and text[0] in _QUOTES and text[-1] == text[0]:
        text = text[1:-1]
    return [part for one in text.split(",") if (part := one.strip())]
