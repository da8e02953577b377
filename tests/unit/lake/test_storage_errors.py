"""What a storage raises, in the hub's words."""

import pyarrow as pa
import pytest

from aggregator.lake.tables.port import TableUnavailable
from aggregator.lake.tables.storage_errors import storage_errors


def test_an_error_names_what_was_touched_and_why():
    """The system's reason where it gave one; a library's own text may quote an address, and only its kind is shown."""
    shown = "/lake/orders cannot be read or written: No space left"
    with pytest.raises(TableUnavailable, match=shown) as full, storage_errors("/lake/orders"):
        raise OSError(28, "s3://key@bucket")
    assert "bucket" not in str(full.value)
    assert full.value.hint.startswith("check the disk")
    with pytest.raises(TableUnavailable, match=r"written: OSError\n  next: look$"), storage_errors("x", hint="look"):
        raise OSError("s3://key@bucket")


def test_a_damaged_file_is_the_storage_s_where_files_are_read():
    """Elsewhere an error of Arrow's is a mistake of ours, and passes."""
    with pytest.raises(TableUnavailable, match="ArrowInvalid"), storage_errors("x", parquet=True):
        raise pa.ArrowInvalid("not a Parquet file")
    with pytest.raises(pa.ArrowInvalid), storage_errors("x"):
        raise pa.ArrowInvalid("a column of another length")
