"""This module writes a count with its noun, for people to read."""


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, such as `1 record` or `12,000 records`.

    Args:
        count: The number of things.
        noun: The noun in the singular; its plural has an `s`.
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
