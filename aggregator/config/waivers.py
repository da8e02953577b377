"""Lists the open connections of a hub, each with the reason that the configuration gives for it.

Invariant: pure. Every open setting of every connection is listed, so that nobody has to search the file for one.
"""

from collections.abc import Iterator
from typing import NamedTuple

from aggregator.config.model import HubConfig
from aggregator.config.stores import catalog_openings, storage_openings
from aggregator.config.transport import INSECURE, InsecureSetting, Options, client_openings, registry_openings


class Waiver(NamedTuple):
    """One opening for which somebody gave a reason.

    Attributes:
        connection: `central`, `edge <name>`, `registry of edge <name>`, `registry of central`, `store of the lake` or
            `catalogue of the lake`.
        setting: The setting that causes the opening.
        what: The effect of the setting, in words.
        reason: The given reason.
    """

    connection: str
    setting: str
    what: str
    reason: str


def waivers(config: HubConfig) -> tuple[Waiver, ...]:
    """Every opening of every connection of a hub."""
    return tuple(_waivers(config))


def _waivers(config: HubConfig) -> Iterator[Waiver]:
    yield from _of("central", config.central.client, client_openings(config.central.client))
    yield from _of_registry("registry of central", config.schemas, config.schemas_client)
    for name, edge in config.edges.items():
        yield from _of(f"edge {name}", edge.client, client_openings(edge.client))
        yield from _of_registry(f"registry of edge {name}", edge.schemas, edge.schemas_client)
    if config.lake:
        storage, catalog = config.lake.storage, config.lake.catalog.options
        yield from _of("store of the lake", storage, storage_openings(storage))
        yield from _of("catalogue of the lake", catalog, catalog_openings(catalog))


def _of_registry(connection: str, address: str | None, options: Options) -> Iterator[Waiver]:
    return _of(connection, options, registry_openings(address or "", options))


def _of(connection: str, options: Options, openings: tuple[InsecureSetting, ...]) -> Iterator[Waiver]:
    for one in openings:
        yield Waiver(connection, one.setting, one.what, str(options.get(INSECURE, "")))
