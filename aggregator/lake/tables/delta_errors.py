"""Translates errors of delta-rs and of the storage below it into the hub's own.

Invariant: the texts name files and system errors, but no rows, because no rows pass through delta-rs here. delta-rs
colours its texts; the colours are removed. An object store's text may quote a signed address after its first line, so
only that line is kept.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from deltalake.exceptions import DeltaError

from aggregator.lake.storage.folder import Folder
from aggregator.lake.tables.port import TableUnavailable
from aggregator.lake.tables.storage_errors import CHECK_DISK

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@contextmanager
def delta_errors(place: Folder) -> Iterator[None]:
    """Translate what delta-rs and its storage raise inside, where nothing is committed.

    Args:
        place: The table's folder.

    Raises:
        TableUnavailable: the storage does not answer, or the log cannot be read.
    """
    try:
        yield
    except (DeltaError, OSError) as error:
        raise unavailable(place, error) from None


def unavailable(place: Folder, error: Exception) -> TableUnavailable:
    """Delta-rs's error as ours, without its colours.

    Args:
        place: The table's folder.
        error: The error that delta-rs raised.
    """
    lines = _COLOUR.sub("", str(error)).splitlines()
    text = " ".join(" ".join(lines if place.on_disk else lines[:1]).split())
    return TableUnavailable(f"table {place}: {text}", hint=CHECK_DISK)
