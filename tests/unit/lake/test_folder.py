"""A folder of the lake: one way to files on a disk and behind an address, and no secret before it is needed."""

import os
import pickle
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from aggregator.config.secrets import SecretRef
from aggregator.errors import ConfigError
from aggregator.lake.storage.folder import Folder


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_files_come_and_go(tmp_path, scheme):
    """A path and its address are the same folder."""
    folder = Folder(f"{scheme}{tmp_path}/lake") / "t"
    assert (folder.entries(), folder.folders()) == ([], [])
    with folder.create("a") as sink:
        sink.write(b"one\n")
    folder.sync("a")
    folder.append("a", b"two\n")
    assert folder.read("a") == b"one\ntwo\n"
    (entry,) = folder.entries()
    assert (entry.name, entry.size, entry.written_s) == ("a", 8, pytest.approx((Path(folder) / "a").stat().st_mtime))
    (folder / "below").append("b", b"x")
    assert folder.folders() == ["below"]
    for _ in range(2):
        folder.remove("a")
    folder.clear()
    assert not Path(folder).exists()
    folder.clear()


def test_an_address_is_no_path_and_its_secrets_stay_references(tmp_path):
    """What travels to executors and what is shown holds no value; a missing secret is a fault of the configuration."""
    (tmp_path / "key").write_text("hunter2\n")
    secret = SecretRef("file", str(tmp_path / "key"))
    folder = Folder("s3://lake/hub", "delta", {"aws_secret_access_key": secret, "aws_region": "x"})
    assert not folder.on_disk
    with pytest.raises(TypeError, match="no folder on a disk"):
        os.fspath(folder)
    assert b"hunter2" not in pickle.dumps(folder)
    assert "hunter2" not in repr(folder)
    assert (folder / "t").resolved() == {"aws_secret_access_key": "hunter2", "aws_region": "x"}
    with pytest.raises(ConfigError, match="variable is not set"):
        Folder("s3://lake/hub", "delta", {"aws_secret_access_key": SecretRef("env", "NOT_THERE")}).entries()


@pytest.mark.parametrize("library", ["delta", "iceberg"])
def test_options_that_a_library_refuses_are_a_fault_of_the_configuration(library):
    """Told without the values."""
    bad = {"aws_conditional_put": "no word", "s3.connect-timeout": "no number", "s3.region": "x"}
    with pytest.raises(ConfigError, match="lake\\.storage") as told:
        Folder("s3://lake/hub", library, bad).entries()
    assert "no word" not in str(told.value)
    assert "no number" not in str(told.value)


def test_a_file_that_delta_rs_rewrote_is_read_like_any_other(tmp_path):
    """Its text comes as views, which pyarrow cannot compare: the expression holds for the same rows."""
    table = pa.table({"_edge": ["eu", "us", "eu"], "_offset": [1, 2, 3]})
    write_deltalake(tmp_path, table)
    DeltaTable(tmp_path).delete("_offset = 3")
    (name,) = (Path(uri).name for uri in DeltaTable(tmp_path).file_uris())
    assert pq.read_schema(tmp_path / name).field("_edge").type == pa.string_view(), "the fault itself"
    rows = Folder(str(tmp_path)).rows(name, ["_edge", "_offset"], pc.field("_edge") == "eu")
    assert rows.to_pydict() == {"_edge": ["eu"], "_offset": [1]}
