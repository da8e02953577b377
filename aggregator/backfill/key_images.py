"""The keys of rows that stay in a table, where other rows of their keys are replaced under other keys.

Invariant: pure; a row that was superseded or deleted stays so. An origin with an old and a new row shows which key came
for which, and all rows of the old key that stay in its edge partition get the new one. They lose their key, and with it
their place in the current state, where that is not known: several keys came for one; the restate read nothing of the
key, though others came under other keys; or the tombstone of the key left the table. To keep the old key would leave
what a policy hides now, or bring back what was deleted. Memory holds the keys of replaced rows.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Self

import numpy as np
import polars as pl
import pyarrow as pa

from aggregator.backfill.affected_rows import ORIGIN_COLUMNS, Marks, Numbers
from aggregator.lake.columns import FIXED_COLUMNS

KEY_COLUMNS = (*ORIGIN_COLUMNS, "_key", "_deleted")
_FLOW, _ORIGIN = ["_edge", "_topic", "_partition"], list(ORIGIN_COLUMNS)
KEYED = pa.schema([FIXED_COLUMNS.field(name) for name in KEY_COLUMNS])


class Rekeyed(NamedTuple):
    """The keys of some rows.

    Attributes:
        keys: As they are now.
        changed: Which of them differ from before.
        lost: Which of those are none, because nobody knows the new one.
    """

    keys: pa.Array
    changed: Marks
    lost: Marks


class Tombstones(NamedTuple):
    """Tombstones that stay in a file.

    Attributes:
        rows: Their numbers in it.
        found: Their origins and keys.
    """

    rows: Numbers
    found: pl.DataFrame


class KeyImages:
    """What becomes of keys.

    Args:
        images: Edge partition, old key, `image`, and whether it is `lost`; of the keys that change.
    """

    def __init__(self, images: pl.DataFrame) -> None:
        self._images = images

    @classmethod
    def of(cls, had: pa.Table, left: Marks, came: Iterable[pa.Table], admitted: Iterable[pa.Table]) -> Self:
        """The images that a restate shows.

        Args:
            had: `KEY_COLUMNS` of the affected rows of a table.
            left: Which of them stay.
            came: The same of the new rows.
            admitted: The same of those that the table takes.
        """
        old, new, taken = _frame([had]), _frame(came), _frame(admitted)
        staying = old.filter(pl.Series(left))
        gone = old.filter(pl.Series(~left), pl.col("_deleted")).join(taken, on=_ORIGIN, how="anti")
        pairs = old.join(new.select(*_ORIGIN, image="_key"), on=_ORIGIN).filter(pl.col("_key").is_not_null())
        images = _agreed(pairs, old)
        same = pl.col("_key").eq_missing(pl.col("image"))
        others = pairs.group_by([*_ORIGIN, "_key"]).agg(same.any().alias("same")).filter(~pl.col("same"))
        unknown = pl.concat([staying.join(others, on=_FLOW, how="semi"), pairs.select(old.columns)])
        lost = pl.concat([unknown.join(images, on=[*_FLOW, "_key"], how="anti"), gone])
        lost = lost.filter(pl.col("_key").is_not_null()).select(*_FLOW, "_key").unique()
        known = images.filter(~same).join(lost, on=[*_FLOW, "_key"], how="anti")
        none = lost.with_columns(pl.lit(None, pl.Binary).alias("image"), pl.lit(value=True).alias("lost"))
        both = [known.with_columns(pl.lit(value=False).alias("lost")), none]
        return cls(pl.concat(both).sort(*_FLOW, "_key"))

    def __bool__(self) -> bool:
        """Whether any key changes."""
        return bool(len(self._images))

    def __eq__(self, other: object) -> bool:
        """Whether the same becomes of every key."""
        return isinstance(other, KeyImages) and self._images.equals(other._images)

    __hash__ = None  # type: ignore[assignment]

    def rekeyed(self, rows: pa.Table) -> Rekeyed:
        """What becomes of the keys of rows that stay."""
        joined = _frame([rows]).join(self._images, on=[*_FLOW, "_key"], how="left", maintain_order="left")
        changed = pl.col("lost").is_not_null()
        found = joined.select(
            pl.when(changed).then("image").otherwise("_key").alias("_key"),
            changed.alias("changed"),
            pl.col("lost").fill_null(value=False),
        )
        keys = found["_key"].to_arrow().cast(rows.schema.field("_key").type)
        return Rekeyed(keys, found["changed"].to_numpy(), found["lost"].to_numpy())

    def tombstones(self, rows: pa.Table, stays: Marks, keys: pa.Array) -> Tombstones:
        """Those of one file whose edge partition has keys that change; `keys` are those of now."""
        frame = _frame([rows.set_column(rows.column_names.index("_key"), rows.schema.field("_key"), keys)])
        found = frame.with_row_index("row").filter(pl.Series(stays), pl.col("_deleted"))
        found = found.join(self._images, on=_FLOW, how="semi", maintain_order="left")
        return Tombstones(found["row"].cast(pl.Int64).to_numpy(), found.select(*_ORIGIN, "_key"))


def repeated(files: Sequence[Tombstones]) -> list[Numbers]:
    """Numbers, file by file, of tombstones that say what another row says: a record's, under what is one key now."""
    if not files:
        return []
    found = pl.concat([one.found for one in files])
    again = (~found.select(pl.struct(pl.all()).is_first_distinct()).to_series()).to_numpy()
    parts = np.split(again, np.cumsum([len(one.rows) for one in files])[:-1])
    return [one.rows[part] for one, part in zip(files, parts, strict=True)]


def _agreed(pairs: pl.DataFrame, old: pl.DataFrame) -> pl.DataFrame:
    """The one image of each key that all its records have; of several a new key, else itself, else the least."""
    whole = pairs.unique().group_by([*_FLOW, "_key"]).agg(pl.struct(_ORIGIN).n_unique().alias("records"))
    each = pairs.unique().group_by([*_FLOW, "_key", "image"]).agg(pl.struct(_ORIGIN).n_unique().alias("records"))
    fits = each.join(whole, on=[*_FLOW, "_key", "records"]).drop("records")
    before = old.select(*_FLOW, image="_key").unique().with_columns(pl.lit(value=True).alias("before"))
    ranked = fits.join(before, on=[*_FLOW, "image"], how="left", nulls_equal=True)
    order = [pl.col("before").fill_null(value=False), pl.col("_key").ne_missing(pl.col("image")), pl.col("image")]
    best = ranked.sort(order).unique([*_FLOW, "_key"], keep="first", maintain_order=True)
    return best.select(*_FLOW, "_key", "image")


def _frame(tables: Iterable[pa.Table]) -> pl.DataFrame:
    whole = pa.concat_tables([KEYED.empty_table(), *(one.select(KEY_COLUMNS).cast(KEYED) for one in tables)])
    frame = pl.from_arrow(whole)
    assert isinstance(frame, pl.DataFrame)
    return frame
