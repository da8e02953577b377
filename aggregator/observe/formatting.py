"""Formats amounts for people: durations, sizes and shares, in the same way on the terminal and on the page.

Invariant: pure. An unknown amount is `-`, and a share is never rounded to a better value.
"""


def ago(milliseconds: int | None) -> str:
    """A duration in its largest sensible unit; `-` for None."""
    if milliseconds is None:
        return "-"
    seconds = abs(milliseconds) / 1000
    for size, name in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{milliseconds / 1000 / size:.1f}{name}"
    return f"{milliseconds / 1000:.1f}s"


def share(value: float | None) -> str:
    """A share as percent, rounded towards the bad side; `-` for None."""
    return "-" if value is None else f"{int(value * 100_000) / 1000:.3f}%"


def size(count: float | None) -> str:
    """Bytes in their largest sensible unit; `-` for None."""
    if count is None:
        return "-"
    for unit, name in ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if count >= unit:
            return f"{count / unit:.3g} {name}"
    return f"{count:.0f} B"


def per_second(rate: float | None) -> str:
    """Format a rate in bytes a second; `-` for None."""
    return "-" if rate is None else f"{size(rate)}/s"
