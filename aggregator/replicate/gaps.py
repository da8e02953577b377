"""Gaps: what it means when an edge no longer has the position that a flow wants to read.

Invariant: pure; a gap has an exact range or says that its tail is unknown, and sparse offsets never make one.
"""

from aggregator.coordinates import OffsetRange

UNKNOWN_TAIL = -1


def gap(next_offset: int, start_offset: int, end_offset: int) -> OffsetRange | None:
    """Compare a position with the edge's log [start_offset, end_offset).

    Args:
        next_offset: The flow's position.
        start_offset: First offset that the edge still has.
        end_offset: The edge's high watermark.

    Returns:
        None while the position can be read (the end included); the lost range where retention or a deletion overtook
        the reader; a range with an unknown tail where the log ends before the position.
    """
    if next_offset < start_offset:
        return OffsetRange(next_offset, start_offset)
    if next_offset > end_offset:
        return OffsetRange(end_offset, UNKNOWN_TAIL)
    return None


def sentence(lost: OffsetRange, next_offset: int) -> str:
    """The gap in words."""
    if lost.end == UNKNOWN_TAIL:
        return (
            f"the edge's log ends at {lost.start}, before our position {next_offset}: it was cut, and what was written"
            " there since is unknown"
        )
    return f"the edge no longer has offsets {lost.start} to {lost.end - 1} ({lost.end - lost.start} at most)"
