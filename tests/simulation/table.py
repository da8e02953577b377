"""Simulated tables behind the libraries' interfaces: versions, positions, conflicts, lost answers, false refusals.

What they keep of delta-rs: a handle sees the version at which it was opened; a commit without retries is refused when
another version came first; with retries an append is put behind whatever came first, and a smaller position is taken
as it is. And of pyiceberg: a transaction that makes a snapshot is refused when another snapshot came first, or is made
again behind it where retries are on; one that only sets properties is never refused. And of stores and catalogues
behind a gateway: a commit that was applied may be told as refused, because another version is there by now.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, Schema
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    NoSuchTableError,
    ServiceUnavailableError,
)

from tests.simulation.scheduler import Scheduler

_RETRIES = "commit.retry.num-retries"


class Overtaken(Exception):
    """Another version came first."""


class Lost(Exception):
    """The request or its answer."""


@dataclass(frozen=True)
class Version:
    """What one commit brought."""

    paths: tuple[str, ...] = ()
    positions: dict[str, int] = field(default_factory=dict)
    properties: dict[str, str] = field(default_factory=dict)
    summary: dict[str, str] | None = None


@dataclass
class Storage:
    """Where the versions lie, and how often its answers or its requests get lost."""

    scheduler: Scheduler
    schema: pa.Schema
    lost: float = 0.0
    refused: float = 0.0
    versions: list[Version] = field(default_factory=list)

    def append(self, version: Version, *, after: int | None) -> None:
        """One more version; `after` refuses any other place than behind that one."""
        self.scheduler.pause()
        draw = self.scheduler.random
        if draw.random() < self.lost:
            raise Lost
        if after is not None and after != len(self.versions) - 1:
            raise Overtaken
        self.versions.append(version)
        self.scheduler.pause()
        if draw.random() < self.refused:
            raise Overtaken
        if draw.random() < self.lost:
            raise Lost

    def entry(self, number: int) -> bytes:
        """Delta's log entry of a version."""
        self.scheduler.pause()
        if self.scheduler.random.random() < self.lost:
            raise OSError
        if number >= len(self.versions):
            raise FileNotFoundError
        return json.dumps({"commitInfo": self.versions[number].summary or {}}).encode()


@dataclass(frozen=True)
class Place:
    """What stands for a folder of the lake: nothing lies in it but what the storage knows."""

    storage: Storage | None = None
    removed: Callable[[str], None] = lambda _: None
    root: str = "sim://lake"
    on_disk: bool = False

    def __truediv__(self, name: str) -> "Place":
        return replace(self, root=f"{self.root}/{name}")

    def read(self, name: str) -> bytes:
        """A log entry of Delta's."""
        assert self.storage is not None
        if not name.endswith(".json"):
            raise FileNotFoundError(name)  # nobody asks for a turn here
        return self.storage.entry(int(name.removesuffix(".json")))

    def remove(self, name: str) -> None:
        """Whoever simulates the files is told."""
        self.removed(name)

    def missing(self, names: list[str]) -> list[str]:
        """Nothing is: whoever simulates the files looks for lost ones."""
        return []

    def __str__(self) -> str:
        return self.root

    @property
    def address(self) -> str:
        """Its name."""
        return self.root

    def resolved(self) -> dict[str, str]:
        """No options."""
        return {}

    def make(self) -> None:
        """Nothing to make."""

    def entries(self) -> list:
        """Nobody looks for older tables here."""
        return []


@contextmanager
def _as_delta() -> Iterator[None]:
    try:
        yield
    except Overtaken:
        raise CommitFailedError("another version came first") from None
    except Lost:
        raise DeltaError("the answer was lost") from None


def table_class(storage: Storage) -> type:
    """What stands for `deltalake.DeltaTable` over this storage."""

    class SimDeltaTable:
        """A handle on one version."""

        def __init__(self, path: str, *, storage_options: Mapping[str, str]) -> None:
            assert not storage_options
            storage.scheduler.pause()
            if not storage.versions or path.endswith("__quarantine"):
                raise TableNotFoundError(path)
            self._version = len(storage.versions) - 1

        @staticmethod
        def create(
            path: str,
            schema: Schema,
            *,
            mode: str,
            name: str,
            partition_by: list,
            configuration: Mapping[str, str],
            storage_options: Mapping[str, str],
            commit_properties: CommitProperties,
        ) -> None:
            told = (mode, partition_by, storage_options, commit_properties.max_commit_retries)
            assert told == ("error", [], {}, 0), f"{path}: {name} {schema} {configuration}"
            try:
                storage.append(Version(), after=-1)
            except (Overtaken, Lost):
                raise DeltaError("it exists, or nobody knows") from None

        @staticmethod
        def is_deltatable(path: str, storage_options: Mapping[str, str]) -> bool:
            assert not storage_options
            return bool(path and storage.versions)

        def version(self) -> int:
            return self._version

        def schema(self) -> pa.Schema:
            return storage.schema

        def metadata(self) -> SimpleNamespace:
            return SimpleNamespace(configuration={}, partition_columns=[])

        def history(self, limit: int) -> list:
            return [{"operation": "WRITE", "version": self._version}][:limit]

        def table_uri(self) -> str:
            return "the table"

        def transaction_version(self, application: str) -> int | None:
            seen = [one.positions.get(application) for one in storage.versions[: self._version + 1]]
            return next((position for position in reversed(seen) if position is not None), None)

        def get_add_actions(self, *, flatten: bool) -> pa.Table:
            assert flatten
            paths = [path for one in storage.versions[: self._version + 1] for path in one.paths]
            return pa.table({"path": pa.array(paths, pa.string())})

        def create_write_transaction(
            self,
            actions: Sequence[AddAction],
            mode: str,
            schema: pa.Schema,
            *,
            partition_by: Sequence[str] = (),
            commit_properties: CommitProperties,
        ) -> None:
            assert (mode, schema, list(partition_by)) == ("append", storage.schema, [])
            moves = {one.app_id: one.version for one in commit_properties.app_transactions or ()}
            once = commit_properties.max_commit_retries == 0
            told = dict(commit_properties.custom_metadata or {})
            made = Version(tuple(action.path for action in actions), moves, summary=told)
            with _as_delta():
                storage.append(made, after=self._version if once else None)

    return SimDeltaTable


@dataclass
class SimCatalog:
    """What stands for a pyiceberg catalogue with one table over this storage."""

    storage: Storage

    def create_namespace_if_not_exists(self, _: str) -> None:
        """There is one."""

    def table_exists(self, _: tuple[str, str]) -> bool:
        """Whether somebody made it."""
        self.storage.scheduler.pause()
        return bool(self.storage.versions)

    def load_table(self, name: tuple[str, str]) -> "SimTable":
        """Its newest version."""
        self.storage.scheduler.pause()
        if self.storage.scheduler.random.random() < self.storage.lost:
            raise ServiceUnavailableError
        if not self.storage.versions or name[1].endswith("__quarantine"):
            raise NoSuchTableError
        return SimTable(self.storage, len(self.storage.versions) - 1)

    def create_table_transaction(
        self, _: tuple[str, str], __: pa.Schema, *, location: str, properties: Mapping[str, str]
    ) -> "SimTransaction":
        """The table, once the transaction commits."""
        assert location.startswith("sim://")
        return SimTransaction(SimTable(self.storage, -1)).set_properties(properties)


@dataclass
class SimTable:
    """What stands for `pyiceberg.table.Table`: one version, which a commit of its own moves on."""

    storage: Storage
    at: int

    @property
    def catalog(self) -> SimCatalog:
        """Where it was found."""
        return SimCatalog(self.storage)

    def name(self) -> tuple[str, str]:
        """There is one table."""
        return "sim", "t"

    @property
    def snapshots(self) -> list[SimpleNamespace]:
        """Every one that was made."""
        found = (self.snapshot_by_id(at) for at in range(self.at + 1))
        return [one for one in found if one is not None]

    @property
    def properties(self) -> dict[str, str]:
        """Those of this version."""
        return {name: value for one in self.storage.versions[: self.at + 1] for name, value in one.properties.items()}

    @property
    def metadata(self) -> "SimTable":
        """The table is its own metadata."""
        return self

    @property
    def refs(self) -> dict[str, SimpleNamespace]:
        """Neither branches nor tags."""
        return {}

    def next_sequence_number(self) -> int:
        """One per version."""
        return self.at + 2

    def location(self) -> str:
        """Its address."""
        return "sim://lake/t"

    def schema(self) -> pa.Schema:
        """Its columns."""
        return self.storage.schema

    def spec(self) -> SimpleNamespace:
        """Divided by nothing."""
        return SimpleNamespace(fields=())

    def current_snapshot(self) -> SimpleNamespace | None:
        """The newest version that made one."""
        return self.snapshot_by_id(self.at)

    def snapshot_by_id(self, at: int | None) -> SimpleNamespace | None:
        """The newest snapshot at or below a version; numbers of versions are their ids."""
        while at is not None and at >= 0:
            summary = self.storage.versions[at].summary
            if summary is not None:
                told = SimpleNamespace(additional_properties=summary)
                parent = at - 1 if at else None
                return SimpleNamespace(snapshot_id=at, parent_snapshot_id=parent, sequence_number=at + 1, summary=told)
            at -= 1
        return None

    def transaction(self) -> "SimTransaction":
        """A change of this version."""
        return SimTransaction(self)


@dataclass
class SimTransaction:
    """What stands for `pyiceberg.table.Transaction`."""

    table: SimTable
    properties: dict[str, str] = field(default_factory=dict)
    paths: tuple[str, ...] = ()
    summary: dict[str, str] | None = None

    def set_properties(self, properties: Mapping[str, str]) -> "SimTransaction":
        """Never in anybody's way."""
        self.properties |= properties
        return self

    def add_files(
        self, paths: Sequence[str], snapshot_properties: Mapping[str, str] | None = None, **_: Any
    ) -> "SimTransaction":
        """Makes a snapshot, also of no files."""
        self.paths = tuple(path.removeprefix(f"{self.table.location()}/") for path in paths)
        self.summary = dict(snapshot_properties or {})
        return self

    def commit_transaction(self) -> None:
        """Refused where another snapshot came first, unless the table says to try again."""
        storage, table = self.table.storage, self.table
        positions = {name: int(value) for name, value in self.properties.items() if "@" in name}
        made = Version(self.paths, positions, dict(self.properties), self.summary)
        tries = table.properties.get(_RETRIES, "4") != "0" and table.at >= 0
        after = None if self.summary is None or tries else table.at
        try:
            storage.append(made, after=after)
        except Overtaken:
            raise CommitFailedException("the branch has another snapshot") from None
        except Lost:
            raise CommitStateUnknownException from None
        table.at = len(storage.versions) - 1
