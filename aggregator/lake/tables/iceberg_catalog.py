"""The client of an Iceberg catalogue. The catalogue tells where tables are, but not how their files are reached.

Invariant: files are reached with the hub's own options alone. Settings of a store in a table's properties, or in a REST
catalogue's configuration, are ignored. Their settings of the connection to the catalogue may neither weaken its
protection nor load code.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import NotInstalledError
from pyiceberg.io import FileIO
from pyiceberg.typedef import EMPTY_DICT, Properties

from aggregator.config.stores import inexcusable_effect, insecure_catalog_settings
from aggregator.errors import ConfigError
from aggregator.lake.tables.iceberg_files import IMPLEMENTATION, KeptFiles

_FILES = {"py-io-impl": IMPLEMENTATION}  # for metadata that a SQL catalogue reads before it returns a table


@lru_cache(maxsize=4)
def connected(name: str, options: tuple[tuple[str, str], ...], *, excused: bool) -> Catalog:
    """One client per catalogue and process: it holds connections.

    Args:
        name: The catalogue's.
        options: pyiceberg's, with their secrets.
        excused: Whether the file gives a reason for a line that is open.

    Raises:
        ConfigError: pyiceberg can make none of these options, or the catalogue's word would open it.
    """
    own = dict(options)
    is_rest = own.get("type", "rest").lower() == "rest" and own.get("uri", "").lower().startswith("http")
    try:
        catalog = _Rest(name, own, excused=excused) if is_rest else load_catalog(name, **own, **_FILES)
    except (ValueError, NotInstalledError) as error:
        raise ConfigError(
            f"lake.catalog: pyiceberg makes no catalogue of these options ({type(error).__name__})",
            hint="see pyiceberg's catalogue options: at least `type` and `uri`",
        ) from None

    def own_files(properties: Properties = EMPTY_DICT, location: str | None = None) -> FileIO:  # noqa: ARG001 - its names
        return KeptFiles(own)

    catalog._load_file_io = own_files  # type: ignore[method-assign] # noqa: SLF001 - pyiceberg has no other place for it
    return catalog


class _Rest(RestCatalog):
    def __init__(self, name: str, own: Mapping[str, str], *, excused: bool) -> None:
        self._own, self._excused = own, excused
        super().__init__(name, **own)

    def _fetch_config(self) -> None:
        super()._fetch_config()
        # This check comes before the session is made, because making it signs in.
        sent = {key: value for key, value in self.properties.items() if self._own.get(key) != value}
        faults = [f"{key}, which {why}" for key, value in sent.items() if (why := _why(key, value))]
        if not self._excused:
            plain = {key: value for key, value in self.properties.items() if isinstance(value, str)}
            faults += [f"{one.setting}, which {one.what}" for one in insecure_catalog_settings(plain)]
        if faults:
            raise ConfigError(
                f"lake.catalog: the catalogue tells its clients to use {'; '.join(faults)}",
                hint="have it tell them otherwise; what is open stands in `lake.catalog.options`, with its reason",
            )


def _why(name: str, value: Any) -> str | None:
    if isinstance(value, dict | list):
        return "is more than a text: sign-in and certificates are set in the file"
    return inexcusable_effect(name, str(value))
