"""The table format that a configuration names. Refuses a hub without a lake."""

from aggregator.config.model import HubConfig, LakeConfig
from aggregator.errors import ConfigError
from aggregator.lake.tables.delta import DeltaTables
from aggregator.lake.tables.port import Tables


def lake_config(config: HubConfig) -> LakeConfig:
    """The `lake:` block.

    Raises:
        ConfigError: there is none.
    """
    if config.lake is None:
        raise ConfigError("the configuration has no `lake:` block", hint="add `lake: {path: lake}`")
    return config.lake


def open_tables(config: HubConfig) -> Tables:
    """The hub's tables.

    Raises:
        ConfigError: the hub has no lake.
    """
    return DeltaTables(config.hub, lake_config(config).path)
