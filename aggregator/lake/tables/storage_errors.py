"""Translates errors of storage into the hub's own: an OSError of a folder becomes an error of the hub's hierarchy.

Invariant: a text names the folder, the file or the table, and the system's reason. A library's own text may quote an
address or an option, so it is not passed on.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from aggregator.lake.storage.folder import reason
from aggregator.lake.tables.port import TableUnavailable

CHECK_DISK = "check the disk, its space and the rights on the folder"


@contextmanager
def storage_errors(what: object, *, hint: str = CHECK_DISK, parquet: bool = False) -> Iterator[None]:
    """Translate what is raised inside by reading or writing files.

    Args:
        what: What is read or written: a folder, one of its files, or a table's files, in words.
        hint: What the reader should do next.
        parquet: Translate what pyarrow raises of a damaged file, too.

    Raises:
        TableUnavailable: the storage refuses, or does not answer.
    """
    try:
        yield
    except OSError as error:
        raise TableUnavailable(_text(what, reason(error)), hint=hint) from None
    except pa.ArrowException as error:
        if not parquet:
            raise
        raise TableUnavailable(_text(what, type(error).__name__), hint=hint) from None


def _text(what: object, why: str) -> str:
    return f"{what} cannot be read or written: {why}"
