"""Counts with their nouns, as people read them."""


def counted(count: int, noun: str) -> str:
    """`1 record`, `12,000 records`.

    Args:
        count: How many.
        noun: In the singular; its plural has an `s`.
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
