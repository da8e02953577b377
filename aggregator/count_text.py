"""This module writes counts and long lists as text, for people to read."""

from collections.abc import Sequence


def format_count(count: int, noun: str) -> str:
    """A count with its noun, such as `1 record` or `12,000 records`.

    Args:
        count: The number of things.
        noun: The noun in the singular; its plural has an `s`.
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def format_first(things: Sequence[object], most: int) -> str:
    """The first of some things in a sentence, and the number of the others, such as `a, b and 3 more`.

    Args:
        things: All of them, in the order in which they are shown.
        most: Number of things that are shown.
    """
    shown = ", ".join(map(str, things[:most]))
    return f"{shown} and {len(things) - most:,} more" if len(things) > most else shown
