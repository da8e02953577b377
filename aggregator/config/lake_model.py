"""The model of the section `lake:` of the configuration: where the lake's tables lie, and the settings of each table.

Invariant: unknown keys are refused and secrets are references, as in the whole configuration.
"""

from datetime import timedelta
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from aggregator.config.client import checked
from aggregator.config.closed_model import Model
from aggregator.config.fields import lake_format, lake_path, table_columns, versions_kept
from aggregator.config.stores import (
    catalog_refusal,
    insecure_catalog_settings,
    insecure_storage_settings,
    storage_refusal,
)
from aggregator.config.suites import Action
from aggregator.config.value_types import Duration, Option

# Endings of the tables that the hub keeps beside a table.
QUALITY, QUARANTINE, CURRENT = "__quality", "__quarantine", "__current"


class CatalogConfig(Model):
    """Where Iceberg tables are registered.

    Attributes:
        name: The catalogue's name, which a SQL catalogue keeps beside each table.
        namespace: Namespace of the hub's tables.
        options: pyiceberg's own (`type`, `uri`, `credential`, …); without any, a SQLite file in the lake's folder.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")] = "lake"
    namespace: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")] = "lake"
    options: Annotated[dict[str, Option], AfterValidator(checked(catalog_refusal, insecure_catalog_settings))] = {}


class SuiteConfig(Model):
    """Rules that the records of a commit pass before anybody can read them.

    Attributes:
        suite: JSON file, as Great Expectations writes it.
        on_failure: What a failed rule asks for: `hold` the commit, `divert` the failing records to
            `<table>__quarantine`, or publish and `warn`. A rule that could not be evaluated always holds.
    """

    suite: Path
    on_failure: Action = "hold"


class TableConfig(Model):
    """What one lake table has of its own.

    Attributes:
        partition_by: Columns of the stripped records, or `day`; how the table is divided from its creation on.
        cluster_by: Columns in whose order rows are put when small files are rewritten.
        current_state: Keep `<table>__current` beside it: the latest row per key.
        key: Columns of the stripped records that are the key there; none: the record's key is.
        quality: Suites that every commit is audited with.
    """

    partition_by: Annotated[tuple[str, ...], AfterValidator(table_columns)] = ()
    cluster_by: Annotated[tuple[str, ...], AfterValidator(table_columns)] = ()
    current_state: bool = False
    key: Annotated[tuple[str, ...], AfterValidator(table_columns)] = ()
    quality: tuple[SuiteConfig, ...] = ()

    @model_validator(mode="after")
    def _key_is_of_a_state(self) -> Self:
        if self.key and not self.current_state:
            raise ValueError("key says which rows `current_state: true` keeps, and it is not there")
        return self


class UpkeepConfig(Model):
    """What the hub does to its tables by itself, beside their commits.

    Attributes:
        compact: Rewrite small files into larger ones.
        vacuum: Once a day, forget versions older than `keep`, and remove the files that only they name.
        keep: How long older versions can be read.
    """

    compact: bool = True
    vacuum: bool = True
    keep: Annotated[Duration, AfterValidator(versions_kept)] = timedelta(days=7)


class LakeConfig(Model):
    """The lake: tables lie at `<path>/<lake name>`.

    Attributes:
        path: A folder that every executor and every reader reaches, or an address: s3://, abfss://, gs://.
        format: `delta` or `iceberg`.
        commit_interval: Longest time that committed records of central wait for the lake.
        commit_records: As many waiting records are committed sooner.
        storage: How to reach an address, in the table library's own options; secrets are references.
        catalog: For Iceberg.
        tables: By lake name.
        upkeep: Of all tables.
    """

    path: Annotated[str, BeforeValidator(lake_path)]
    format: Annotated[Literal["delta", "iceberg"], BeforeValidator(lake_format)] = "delta"
    commit_interval: Duration = timedelta(seconds=30)
    commit_records: Annotated[int, Field(ge=1)] = 1_000_000
    storage: Annotated[dict[str, Option], AfterValidator(checked(storage_refusal, insecure_storage_settings))] = {}
    catalog: CatalogConfig = CatalogConfig()
    tables: dict[str, TableConfig] = {}
    upkeep: UpkeepConfig = UpkeepConfig()

    def cluster_by(self, table: str) -> tuple[str, ...]:
        """The columns in whose order a table's rows are put."""
        return self.tables.get(table, TableConfig()).cluster_by
