"""Wraps the table libraries' own clients of object stores as file systems of pyarrow.

Invariant: a store is reached through the library's own client with its own options, so that a commit names exactly the
staged files. An address or options that the library does not understand are refused. The library's error texts quote
them, and are not passed on.
"""

from functools import lru_cache
from typing import Any

import pyarrow as pa
from deltalake.fs import DeltaStorageHandler
from pyarrow import fs

from aggregator.errors import ConfigError


@lru_cache(maxsize=64)
def opened(library: str, root: str, options: tuple[tuple[str, str], ...]) -> fs.FileSystem:
    """The file system below an address; one per process, because it holds connections.

    Args:
        library: `delta` for delta-rs, `iceberg` for pyiceberg.
        root: The address.
        options: The library's, with their secrets.

    Raises:
        ConfigError: the library cannot use the options, or not for this address.
    """
    try:
        if library == "iceberg":
            return _by_pyiceberg(root, dict(options))
        return fs.PyFileSystem(_DeltaStore(root, dict(options)))
    except Exception as error:  # noqa: BLE001 - each store's client raises its own family, and none of them connects yet
        raise ConfigError(
            f"lake.storage: {root} cannot be opened with these options ({type(error).__name__})",
            hint="see docs/lake.md, Storage: the names are those of the table library",
        ) from None


def _by_pyiceberg(root: str, options: dict[str, str]) -> fs.FileSystem:
    from pyiceberg.io.pyarrow import PyArrowFileIO  # noqa: PLC0415 - takes a second, and only Iceberg's tables pay it

    scheme, netloc, path = PyArrowFileIO.parse_location(root, options)
    return fs.SubTreeFileSystem(path, PyArrowFileIO(options).fs_by_scheme(scheme, netloc))


class _DeltaStore(DeltaStorageHandler):  # type: ignore[misc]
    """The store of delta-rs. pyarrow writes buffers, and this store converts them to the bytes that delta-rs takes."""

    def open_output_stream(self, path: str, metadata: dict[str, str] | None = None) -> pa.PythonFile:
        return pa.PythonFile(_Bytes(self._handler.open_output_stream(path, metadata)), mode="w")


class _Bytes:
    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.closed = False

    def write(self, data: Any) -> int:
        return int(self._stream.write(bytes(data)))

    def tell(self) -> int:
        return int(self._stream.tell())

    def flush(self) -> None:
        self._stream.flush()

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._stream.close()
