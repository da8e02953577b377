"""This module checks whether a reason that a person gave contains any words.

Reasons explain a decision, an open connection, or a field that is kept, to people who look at it later.
"""


def says_something(text: str) -> bool:
    """Whether the text has words, and is not a placeholder from documentation: `…`, `<reason>`.

    Args:
        text: The reason, as a person wrote it.
    """
    words = text.strip()
    return any(map(str.isalnum, words)) and not (words.startswith("<") and words.endswith(">"))
