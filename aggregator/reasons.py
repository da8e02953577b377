"""This module checks whether a reason that a person gave contains any words.

Reasons explain a decision, an open connection, or a field that is kept, to people who look at it later.
"""


def says_something(text: str) -> bool:
    """Whether there are words, and not what documentation writes in their place: `…`, `<reason>`.

    Args:
        text: As a person wrote it.
    """
    words = text.strip()
    return any(map(str.isalnum, words)) and not (words.startswith("<") and words.endswith(">"))
