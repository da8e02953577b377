"""Reads and creates Iceberg tables through pyiceberg, and the catalogue in which they are registered.

Invariant: a table is created once, by the writer that the catalogue admits; a reader creates no table. A table is not
created if its folder already holds versions that the catalogue does not know.
"""

import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.utils.config import Config

from aggregator.config.lake_model import CatalogConfig
from aggregator.config.transport import INSECURE
from aggregator.errors import ConfigError, HoldError
from aggregator.lake.columns.columns import is_promotable
from aggregator.lake.storage.folder import Folder
from aggregator.lake.storage.store_settings import catalog_settings
from aggregator.lake.tables.iceberg_catalog import connected
from aggregator.lake.tables.iceberg_errors import iceberg_errors
from aggregator.lake.tables.iceberg_handle import RETRIES, IcebergHandle
from aggregator.lake.tables.port import CommitConflict, check_partitioning

_CATALOG_FILE = "catalog.db"
_PROPERTIES = {
    RETRIES: "0",  # else pyiceberg would rebase without notice, and rows would be in the table twice
    "commit.manifest-merge.enabled": "true",  # else every commit leaves a manifest that stays for ever
    "commit.manifest.target-size-bytes": str(1024 * 1024),  # a merge reads and writes a whole manifest, in Python
    "write.metadata.delete-after-commit.enabled": "true",  # deletes metadata that 100 later versions replaced
}
_PROMOTIONS = {(pa.int32(), pa.int64()), (pa.float32(), pa.float64())}
_CONNECTING = threading.Lock()  # a new SQL catalogue creates its own tables, and only one thread may do so


@dataclass(frozen=True)
class IcebergTables:
    """Iceberg tables below one folder, registered in one catalogue.

    Args:
        hub: The hub's name; positions of several hubs in one table stay apart.
        folder: Tables lie at `<folder>/<name>`.
        partition_columns_by_table: By table, the columns that a new one is divided by.
        catalog: Where they are registered; secrets are references.
    """

    hub: str
    folder: Folder
    partition_columns_by_table: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    catalog: CatalogConfig = field(default_factory=CatalogConfig)

    def names(self) -> list[str]:
        """The names of all tables in the hub's namespace.

        Raises:
            TableUnavailable: the catalogue does not answer.
        """
        if self._without_catalog():
            return []
        with iceberg_errors(self.folder):
            try:
                return sorted(name for _, name in self._connected().list_tables(self.catalog.namespace))
            except NoSuchNamespaceError:
                return []

    def open(self, name: str) -> IcebergHandle | None:
        """The newest version of a table; None where there is none yet.

        Raises:
            TableUnavailable: the catalogue does not answer.
            HoldError: the table was altered in a way that would lose or double rows.
        """
        if self._without_catalog():
            return None
        with iceberg_errors(self.folder / name):
            try:
                table = self._connected().load_table(self._identifier(name))
            except NoSuchTableError:
                return None
            handle = IcebergHandle(f"{self.hub}/{name}", self.folder / name, table)
            handle.check()
            return handle

    def create(self, name: str, schema: pa.Schema) -> None:
        """Create an empty table.

        Raises:
            CommitConflict: another writer was first.
            TableUnavailable: the catalogue or the folder cannot be written.
            HoldError: the folder holds a table that the catalogue does not know, or a column to divide by is missing.
        """
        place, partition_columns = self.folder / name, self.partition_columns_by_table.get(name, ())
        check_partitioning(name, partition_columns, schema)
        with iceberg_errors(place):
            place.make()
            catalog = self._connected()
            catalog.create_namespace_if_not_exists(self.catalog.namespace)
            found = [one.name for one in (place / "metadata").entries() if one.name.endswith(".metadata.json")]
            older = any(not name.startswith("00000-") for name in found)
            if catalog.table_exists(self._identifier(name)):
                raise CommitConflict(f"table {place}: another writer created it first")
            if older:
                raise HoldError(
                    f"table {place}: the catalogue does not know it, but its folder holds one",
                    hint="register its newest metadata file in the catalogue again, or move the folder away",
                )
            transaction = catalog.create_table_transaction(
                self._identifier(name), schema, location=place.address, properties=_PROPERTIES
            )
            if partition_columns:
                with transaction.update_spec() as spec:
                    for column in partition_columns:
                        spec.add_identity(column)
            transaction.add_files([])
            transaction.commit_transaction()

    def narrowed(self, schema: pa.Schema) -> pa.Schema:
        """The schema as it is: Iceberg has all of the lake's types."""
        return schema

    def promotes(self, narrow: pa.DataType, wide: pa.DataType) -> bool:
        """Iceberg's own promotions: int to long, float to double, a decimal to more digits of the same scale."""
        return (narrow, wide) in _PROMOTIONS or (pa.types.is_decimal(narrow) and is_promotable(narrow, wide))

    def _identifier(self, name: str) -> tuple[str, str]:
        return self.catalog.namespace, name

    def _without_catalog(self) -> bool:
        return not self.catalog.options and not Path(self.folder / _CATALOG_FILE).exists()

    def _connected(self) -> Catalog:
        options = catalog_settings(self.catalog.options, os.environ) if self.catalog.options else {}
        if said := sorted(Config().get_catalog_config(self.catalog.name) or {}):
            raise ConfigError(
                f"lake.catalog: pyiceberg has settings of its own for a catalogue named {self.catalog.name}"
                f" ({', '.join(said)}), from PYICEBERG_… variables or .pyiceberg.yaml",
                hint="write them into `lake.catalog.options`, or give the catalogue another `name`",
            )
        if not options:
            self.folder.make()
            options = {"type": "sql", "uri": f"sqlite:///{Path(self.folder / _CATALOG_FILE)}"}
        options = self.folder.resolved() | options
        excused = INSECURE in self.catalog.options
        with _CONNECTING:
            return connected(self.catalog.name, tuple(sorted(options.items())), excused=excused)
