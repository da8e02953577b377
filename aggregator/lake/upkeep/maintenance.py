"""Compacts and vacuums tables on command, named ones or all, without Kafka and without Spark.

Invariant: this runs beside a hub that commits. A table that cannot be kept up is reported, and hides no other table.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from typing import NamedTuple

from aggregator.config.model import HubConfig
from aggregator.errors import AggregatorError, FatalError
from aggregator.lake.storage.folder import Folder
from aggregator.lake.tables.formats import lake_config, lake_folder, open_tables
from aggregator.lake.tables.port import Tables
from aggregator.lake.tables.storage_errors import storage_errors
from aggregator.lake.upkeep.compaction import compact
from aggregator.lake.upkeep.orphans import sweep, sweep_scratch


class Upkeep(NamedTuple):
    """What was done to one table.

    Attributes:
        table: Its name.
        rewritten: Small files that became larger ones.
        written: How many those are.
        removed: Files that only versions beyond their age named, and staged files that no commit named.
        problem: Why it could not be kept up, else empty.
    """

    table: str
    rewritten: int = 0
    written: int = 0
    removed: int = 0
    problem: str = ""


def compact_tables(config: HubConfig, names: Iterable[str], *, target_bytes: int) -> Iterator[Upkeep]:
    """Compact tables one after another.

    Args:
        config: The hub.
        names: Tables; none for all.
        target_bytes: Size of a file that is large enough.

    Raises:
        FatalError: there is no table of such a name.
    """
    cluster_by = lake_config(config).cluster_by

    def work(tables: Tables, folder: Folder, name: str) -> Upkeep:
        done = compact(tables, folder, name, cluster_by=cluster_by(name), target_bytes=target_bytes)
        return Upkeep(name, rewritten=done.before, written=done.after)

    yield from _each(config, names, work)


def vacuum_tables(config: HubConfig, names: Iterable[str], *, keep: timedelta, now_s: float) -> Iterator[Upkeep]:
    """Forget old versions of tables, and remove what nothing names any more.

    Args:
        config: The hub.
        names: Tables; none for all.
        keep: How long a reader of an older version is served.
        now_s: Time, seconds since 1970.

    Raises:
        FatalError: there is no table of such a name.
    """

    def work(tables: Tables, _folder: Folder, name: str) -> Upkeep:
        handle = tables.open(name)
        removed = handle.vacuum(keep, now_s=now_s) if handle else 0
        return Upkeep(name, removed=removed + len(sweep(tables, name, now_s=now_s)))

    yield from _each(config, names, work)
    sweep_scratch(lake_folder(config), now_s=now_s)


def _each(config: HubConfig, names: Iterable[str], work: Callable[[Tables, Folder, str], Upkeep]) -> Iterator[Upkeep]:
    tables, folder = open_tables(config), lake_folder(config)
    there = tables.names()
    wanted = list(names) or there
    if missing := [name for name in wanted if name not in there]:
        raise FatalError(
            f"there is no table {', '.join(missing)} in {folder}",
            hint=f"there are: {', '.join(there) or 'none yet'}",
        )
    for name in wanted:
        try:
            with storage_errors(f"table {name}: its files", parquet=True):
                done = work(tables, folder / name, name)
        except AggregatorError as error:
            done = Upkeep(name, problem=str(error))
        yield done
