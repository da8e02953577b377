"""Gives access to a folder of the lake, on a disk or in an object store. No other module touches files in the lake's
folders.

Invariant: an address is read and written through the table library's own file system, with the library's own options. A
disk is accessed through pyarrow's, and what was synced is on the disk. Secrets stay references until a file is touched,
so a folder can be sent to executors. Every error of a library becomes an OSError that quotes no option and no value.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from aggregator.config.secrets import SecretRef
from aggregator.lake.parquet.batches import batches
from aggregator.lake.storage.store_settings import store_settings

_DISK = "file://"
_PLAIN = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
Library = Literal["delta", "iceberg"]


class FolderEntry(NamedTuple):
    """A file of a folder: its name, its bytes, and when it was written, in seconds since 1970."""

    name: str
    size: int
    written_s: float


@dataclass(frozen=True)
class Folder:
    """A folder. `folder / name` is the folder of that name inside it.

    Args:
        root: An absolute path, or an address as `s3://bucket/lake`.
        library: Whose file system reads an address.
        options: The library's, and the reason of what they open; secrets are references.
    """

    root: str
    library: Library = "delta"
    options: Mapping[str, str | SecretRef] = field(default_factory=dict)

    def __truediv__(self, name: str) -> "Folder":
        return Folder(f"{self.root}/{name}", self.library, self.options)

    def __str__(self) -> str:
        return self.root

    def __fspath__(self) -> str:
        """The path of a folder that lies on a disk.

        Raises:
            TypeError: it lies in an object store.
        """
        if not self.on_disk:
            raise TypeError(f"{self.root} is no folder on a disk")
        return self.root.removeprefix(_DISK)

    @property
    def on_disk(self) -> bool:
        """Whether it is a folder of this machine's file system, mounted ones included."""
        return "://" not in self.root or self.root.startswith(_DISK)

    @property
    def address(self) -> str:
        """The folder as an address, whatever a cluster's default file system is."""
        return self.root if "://" in self.root else f"{_DISK}{self.root}"

    def resolved(self) -> dict[str, str]:
        """The library's options, with their secrets.

        Raises:
            ConfigError: a secret is not there, or what is not in the file would open the store.
        """
        return {} if self.on_disk else store_settings(self.options, os.environ)

    def make(self) -> None:
        """Make it, on a disk; an object store has no folders.

        Raises:
            OSError: the disk refuses.
        """
        if self.on_disk:
            Path(self).mkdir(parents=True, exist_ok=True)

    def create(self, name: str) -> Any:
        """A new file, open to be written: pyarrow's stream.

        Raises:
            OSError: the storage refuses.
        """
        self.make()
        return self._files.open_output_stream(self._at(name))

    def open(self, name: str) -> Any:
        """A file, open to be read: pyarrow's random access file.

        Raises:
            OSError: it is not there, or the storage does not answer.
        """
        return self._files.open_input_file(self._at(name))

    @contextmanager
    def parquet(self, name: str) -> Iterator[pq.ParquetFile]:
        """Open a Parquet file for reading.

        Raises:
            OSError: it is not there, or the storage does not answer.
        """
        with self.open(name) as source, pq.ParquetFile(source) as file:
            yield file

    def batches(self, name: str) -> Iterator[pa.Table]:
        """The rows of a Parquet file, a few at a time.

        Raises:
            OSError: it is not there, or the storage does not answer.
        """
        with self.parquet(name) as file:
            yield from map(without_views, batches(file))

    def rows(self, name: str, columns: list[str], where: Any = None) -> pa.Table:
        """Some columns of a Parquet file, of the rows that an expression of pyarrow's over these columns holds for.

        Raises:
            OSError: it is not there, or the storage does not answer.
        """
        with self.open(name) as source:
            if where is None or not _has_views(pq.read_schema(source)):
                source.seek(0)
                return without_views(pq.read_table(source, columns=columns, filters=where))
            source.seek(0)
            return without_views(pq.read_table(source, columns=columns)).filter(where)

    def read(self, name: str) -> bytes:
        """Read a whole file.

        Raises:
            OSError: it is not there, or the storage does not answer.
        """
        with self.open(name) as source:
            return bytes(source.read())

    def sync(self, name: str) -> None:
        """Make a closed file and its name durable (fsync); in an object store they are once it has answered.

        Raises:
            OSError: the disk refuses.
        """
        if self.on_disk:
            for path in (Path(self) / name, Path(self)):
                descriptor = os.open(path, os.O_RDONLY)
                try:
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)

    def append(self, name: str, line: bytes) -> None:
        """Put a line behind a file, or begin it. In an object store the file is written anew: it has one writer.

        Raises:
            OSError: the storage refuses.
        """
        if self.on_disk:
            self.make()
            descriptor = os.open(Path(self) / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            try:
                os.write(descriptor, line)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            return
        before = b""
        with suppress(FileNotFoundError):
            before = self.read(name)
        with self.create(name) as sink:
            sink.write(before + line)

    def remove(self, name: str) -> None:
        """Remove a file, if it is there.

        Raises:
            OSError: the storage refuses.
        """
        with suppress(FileNotFoundError):
            self._files.delete_file(self._at(name))

    def clear(self) -> None:
        """Remove every file below it, as far as the storage lets."""
        with suppress(OSError):
            below = self._files.get_file_info(fs.FileSelector(self._at(""), allow_not_found=True, recursive=True))
            for one in below:
                if one.is_file:
                    self._files.delete_file(one.path)
            if self.on_disk:
                self._files.delete_dir(self._at(""))

    def entries(self) -> list[FolderEntry]:
        """List the files of the folder; none where there is no such folder.

        Raises:
            OSError: the storage does not answer.
        """
        return [
            FolderEntry(one.base_name, one.size or 0, (one.mtime_ns or 0) / 1e9)
            for one in self._listed()
            if one.is_file
        ]

    def missing(self, names: list[str]) -> list[str]:
        """The names of those files that do not exist.

        Raises:
            OSError: the storage does not answer.
        """
        found = self._files.get_file_info([self._at(name) for name in names])
        return [name for name, one in zip(names, found, strict=True) if not one.is_file]

    def folders(self) -> list[str]:
        """Names of the folders in it, sorted; none where there is no such folder.

        Raises:
            OSError: the storage does not answer.
        """
        return sorted(one.base_name for one in self._listed() if one.type is fs.FileType.Directory)

    def _listed(self) -> list[Any]:
        return list(self._files.get_file_info(fs.FileSelector(self._at(""), allow_not_found=True)))

    @property
    def _files(self) -> fs.FileSystem:
        if self.on_disk:
            return _LOCAL
        from aggregator.lake.storage.stores import opened  # noqa: PLC0415 - a lake on a disk pays for no client

        return opened(self.library, self.root, tuple(sorted(self.resolved().items())))

    def _at(self, name: str) -> str:
        """A file's path in its file system; in an object store it begins at the folder's address."""
        return f"{self.root.removeprefix(_DISK)}/{name}".rstrip("/") if self.on_disk else name


def without_views(rows: pa.Table) -> pa.Table:
    """Text and bytes in types that pyarrow can compare: delta-rs leaves views in a file that it rewrites."""
    plain = pa.schema([one.with_type(_plain(one.type)) for one in rows.schema])
    return rows if plain == rows.schema else rows.cast(plain)


def _has_views(schema: pa.Schema) -> bool:
    return any(one.type in _PLAIN for one in schema)


def _plain(kind: pa.DataType) -> pa.DataType:
    """A type without views, at any depth."""
    if pa.types.is_struct(kind):
        return pa.struct([one.with_type(_plain(one.type)) for one in kind])
    if pa.types.is_map(kind):
        return pa.map_(_plain(kind.key_type), _plain(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(_plain(kind.value_type))
    if pa.types.is_large_list(kind):
        return pa.large_list(_plain(kind.value_type))
    return _PLAIN.get(kind, kind)


def reason(error: OSError) -> str:
    """Why a storage refused, in the system's words; a library's own may quote an address, or colour it."""
    return os.strerror(error.errno) if error.errno else type(error).__name__


_LOCAL = fs.LocalFileSystem()
