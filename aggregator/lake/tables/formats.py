"""Opens the table format that a configuration names. A hub without a lake is refused."""

from aggregator.config.lake_model import LakeConfig, TableConfig
from aggregator.config.model import HubConfig
from aggregator.errors import ConfigError
from aggregator.lake.columns.columns import DAY_COLUMN
from aggregator.lake.storage.folder import Folder
from aggregator.lake.tables.delta import DeltaTables
from aggregator.lake.tables.port import Tables


def lake_config(config: HubConfig) -> LakeConfig:
    """The `lake:` block of a configuration.

    Raises:
        ConfigError: there is none.
    """
    if config.lake is None:
        raise ConfigError("the configuration has no `lake:` block", hint="add `lake: {path: lake}`")
    return config.lake


def lake_folder(config: HubConfig) -> Folder:
    """The folder that the tables lie in.

    Raises:
        ConfigError: the hub has no lake.
    """
    lake = lake_config(config)
    return Folder(lake.path, lake.format, lake.storage)


def open_tables(config: HubConfig) -> Tables:
    """Open the hub's tables in the format that the configuration names.

    Raises:
        ConfigError: the hub has no lake.
    """
    lake, folder = lake_config(config), lake_folder(config)
    columns_by_table = {name: partition_columns(table) for name, table in lake.tables.items()}
    if lake.format == "iceberg":
        from aggregator.lake.tables.iceberg import IcebergTables  # noqa: PLC0415 - pyiceberg takes a second to import

        return IcebergTables(config.hub, folder, columns_by_table, lake.catalog)
    return DeltaTables(config.hub, folder, columns_by_table)


def partition_columns(table: TableConfig) -> tuple[str, ...]:
    """Columns that a table is divided by: `day` is a column that the hub adds."""
    return tuple(DAY_COLUMN if name == "day" else name for name in table.partition_by)
