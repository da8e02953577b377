"""Lists the open connections of a hub, each with the reason that the configuration gives for it.

Invariant: pure. Every open setting of every connection is listed, so that nobody has to search the file for one.
"""

from collections.abc import Iterator
from typing import NamedTuple

from aggregator.config.model import HubConfig
from aggregator.config.stores import insecure_catalog_settings, insecure_storage_settings
from aggregator.config.transport import (
    INSECURE,
    InsecureSetting,
    Options,
    insecure_client_settings,
    insecure_registry_settings,
)


class Waiver(NamedTuple):
    """One insecure setting for which somebody gave a reason.

    Attributes:
        connection: `central`, `edge <name>`, `registry of edge <name>`, `registry of central`, `store of the lake` or
            `catalogue of the lake`.
        setting: The setting that is insecure.
        what: The effect of the setting, in words.
        reason: The given reason.
    """

    connection: str
    setting: str
    what: str
    reason: str


def waivers(config: HubConfig) -> tuple[Waiver, ...]:
    """Every insecure setting of every connection of a hub."""
    return tuple(_waivers(config))


def _waivers(config: HubConfig) -> Iterator[Waiver]:
    yield from _of("central", config.central.client, insecure_client_settings(config.central.client))
    yield from _of_registry("registry of central", config.schemas, config.schemas_client)
    for name, edge in config.edges.items():
        yield from _of(f"edge {name}", edge.client, insecure_client_settings(edge.client))
        yield from _of_registry(f"registry of edge {name}", edge.schemas, edge.schemas_client)
    if config.lake:
        storage, catalog = config.lake.storage, config.lake.catalog.options
        yield from _of("store of the lake", storage, insecure_storage_settings(storage))
        yield from _of("catalogue of the lake", catalog, insecure_catalog_settings(catalog))


def _of_registry(connection: str, address: str | None, options: Options) -> Iterator[Waiver]:
    return _of(connection, options, insecure_registry_settings(address or "", options))


def _of(connection: str, options: Options, settings: tuple[InsecureSetting, ...]) -> Iterator[Waiver]:
    for one in settings:
        yield Waiver(connection, one.setting, one.what, str(options.get(INSECURE, "")))
