"""A simulated Delta table behind delta-rs's interface: versions, application transactions, conflicts, lost answers.

What it keeps of delta-rs: a handle sees the version at which it was opened; a commit without retries is refused when
another version came first; with retries an append is put behind whatever came first, and a smaller position is taken
as it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
from deltalake import CommitProperties, Schema
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction

from tests.simulation.scheduler import Scheduler


@dataclass(frozen=True)
class Version:
    """What one commit brought."""

    paths: tuple[str, ...] = ()
    positions: dict[str, int] = field(default_factory=dict)


@dataclass
class Storage:
    """Where the versions lie, and how often its answers or its requests get lost."""

    scheduler: Scheduler
    schema: pa.Schema
    lost: float = 0.0
    versions: list[Version] = field(default_factory=list)

    def append(self, version: Version, *, after: int | None) -> None:
        """One more version; `after` refuses any other place than behind that one."""
        self.scheduler.pause()
        draw = self.scheduler.random
        if draw.random() < self.lost:
            raise DeltaError("the request was lost")
        if after is not None and after != len(self.versions) - 1:
            raise CommitFailedError("another version came first")
        self.versions.append(version)
        self.scheduler.pause()
        if draw.random() < self.lost:
            raise DeltaError("the answer was lost")


def table_class(storage: Storage) -> type:
    """What stands for `deltalake.DeltaTable` over this storage."""

    class SimDeltaTable:
        """A handle on one version."""

        def __init__(self, path: Path) -> None:
            storage.scheduler.pause()
            if not storage.versions:
                raise TableNotFoundError(str(path))
            self._version = len(storage.versions) - 1

        @staticmethod
        def create(
            path: Path, schema: Schema, *, mode: str, name: str, partition_by: list, commit_properties: CommitProperties
        ) -> None:
            told = (mode, partition_by, commit_properties.max_commit_retries)
            assert told == ("error", [], 0), f"{path}: {name} {schema}"
            try:
                storage.append(Version(), after=-1)
            except CommitFailedError:
                raise DeltaError("it exists") from None

        @staticmethod
        def is_deltatable(path: str) -> bool:
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
            made = Version(tuple(action.path for action in actions), moves)
            storage.append(made, after=self._version if once else None)

    return SimDeltaTable
