"""Applies regular expressions to texts with RE2, in time that is linear in the text for every pattern.

Invariant: a text without a match has no result. A pattern that RE2 refuses is refused here, and the error does not
quote it.
"""

import importlib
import struct
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from aggregator.budgets import GROWTH_BYTES


def replaced(pattern: str, replacement: str, texts: Sequence[str]) -> list[str | None]:
    r"""Every match replaced; None for a text without one.

    Args:
        pattern: RE2 syntax.
        replacement: Text, in which \0 is the match and \1 to \9 are its groups.
        texts: Any strings.

    Raises:
        ValueError: RE2 refuses pattern or replacement; the message holds no part of them.
    """
    # Imported on use: a quarter of a second that most policies do not need; and pyarrow has no types.
    arrow: Any = importlib.import_module("pyarrow")
    compute: Any = importlib.import_module("pyarrow.compute")
    column = _column(arrow, texts)
    try:
        matches = compute.match_substring_regex(column, pattern=pattern)
        column = _bounded(arrow, compute, column, pattern, replacement)
        made = compute.replace_substring_regex(column, pattern=pattern, replacement=replacement)
    except arrow.ArrowInvalid as error:
        part = "replacement" if "replacement" in str(error) else "pattern"
        raise ValueError(f"RE2 refuses the {part}; it has no look-around, and groups are \\1 to \\9") from None
    # A text that was left out is null, and so has no answer either.
    return [text if is_match else None for text, is_match in zip(made.to_pylist(), matches.to_pylist(), strict=True)]


def _bounded(arrow: Any, compute: Any, column: Any, pattern: str, replacement: str) -> Any:
    """The texts, null in place of those of which the replacement might make more than their budget."""
    signs = len(replacement.encode())
    groups = replacement.count("\\")
    sizes = compute.binary_length(column)
    longest = compute.max(sizes).as_py() or 0
    if (longest + 1) * signs + longest * groups <= GROWTH_BYTES.limit:
        return column
    counts = compute.count_substring_regex(column, pattern=pattern)
    most = compute.add(compute.multiply(counts, signs), compute.multiply(sizes, groups))
    room = compute.add(compute.multiply(sizes, 10), GROWTH_BYTES.limit)
    return compute.if_else(compute.less_equal(most, room), column, arrow.scalar(None, column.type))


def _column(arrow: Any, texts: Sequence[str]) -> Any:
    """An Arrow array from its buffers: `pyarrow.array` would import pandas, a whole second, to look at a list."""
    encoded = [text.encode() for text in texts]
    ends = [0, *accumulate(map(len, encoded))]
    buffers = [None, arrow.py_buffer(struct.pack(f"<{len(ends)}q", *ends)), arrow.py_buffer(b"".join(encoded))]
    return arrow.Array.from_buffers(arrow.large_string(), len(texts), buffers)
