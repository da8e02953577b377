"""The keys of rows that stay in a table, where other rows of their keys are replaced under other keys.

Invariant: pure; a row that was superseded or deleted stays so. An origin with an old and a new row shows which key came
for which, and all rows of the old key that stay in its edge partition get the new one. They lose their key, and with it
their place in the current state, where that is not known: several keys came for one, or the restate read nothing of the
key, though others came under other keys. A tombstone goes on deleting under each key that came for its own: a row for
each, of one origin. To keep the old key would leave what a policy hides now, or bring back what was deleted. Memory
holds the keys of replaced rows.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Self

import numpy as np
import polars as pl
import pyarrow as pa

from aggregator.backfill.affected_rows import ORIGIN_COLUMNS, Marks, Numbers
from aggregator.lake.columns import FIXED_COLUMNS

KEY_COLUMNS = (*ORIGIN_COLUMNS, "_key", "_deleted", "_central_offset")
_FLOW, _ORIGIN = ["_edge", "_topic", "_partition"], list(ORIGIN_COLUMNS)
_KEY = [*_FLOW, "_key"]
KEYED = pa.schema([FIXED_COLUMNS.field(name) for name in KEY_COLUMNS])


class Tombstones(NamedTuple):
    """Tombstones among rows.

    Attributes:
        rows: Their numbers.
        found: Their origins and keys.
    """

    rows: Numbers
    found: pl.DataFrame


class Rekeyed(NamedTuple):
    """What becomes of some rows; a tombstone may become several.

    Attributes:
        rows: Which of them each is.
        keys: As they are now.
        changed: Whether any key differs from before.
        lost: How many have none, because nobody knows the new one.
        tombstones: Those whose edge partition has keys that change.
    """

    rows: Numbers
    keys: pa.Array
    changed: bool
    lost: int
    tombstones: Tombstones


class KeyImages:
    """What becomes of keys.

    Args:
        images: Edge partition, old key, whether it is a tombstone's, `image`, and whether it is `lost`; of the keys
            that change.
    """

    def __init__(self, images: pl.DataFrame) -> None:
        self._images = images

    @classmethod
    def of(cls, had: pa.Table, left: Marks, came: Iterable[pa.Table]) -> Self:
        """The images that a restate shows.

        Args:
            had: `KEY_COLUMNS` of the affected rows of a table.
            left: Which of them stay.
            came: The same of the new rows.
        """
        old, new, same = _frame([had]), _frame(came), pl.col("_key").eq_missing(pl.col("image"))
        staying = old.filter(pl.Series(left))
        # A former restate may have made several tombstones of one, under keys of which one is right: what comes for it
        # shows nothing of them.
        twin = (pl.col("_key").n_unique().over([*_ORIGIN, "_central_offset"]) > 1).alias("twin")
        pairs = old.with_columns(twin).join(new.select(*_ORIGIN, image="_key"), on=_ORIGIN)
        fresh = pairs.join(old.select(*_ORIGIN, image="_key"), on=[*_ORIGIN, "image"], how="anti")
        told = ~pl.col("twin") | same.any().over([*_ORIGIN, "_key"])
        pairs = pairs.filter(pl.col("_key").is_not_null()).with_columns(told=told)
        pairs = pl.concat([pairs.filter("told"), pairs.filter(~pl.col("told")).join(new, on=_KEY, how="anti")])
        images = _agreed(pairs.filter("told"), old)
        others = pairs.group_by([*_ORIGIN, "_key"]).agg(same.any().alias("same")).filter(~pl.col("same"))
        unknown = pl.concat([staying.join(others, on=_FLOW, how="semi"), pairs.select(old.columns)])
        lost = unknown.join(images, on=_KEY, how="anti").filter(pl.col("_key").is_not_null())
        lost = lost.select(*_KEY, image=pl.lit(None, pl.Binary), lost=True).unique()
        known = images.filter(~same).with_columns(lost=False)
        rows = pl.concat([known, lost])
        # What is another record's key now deletes under it too: a hub that goes on may have written it for that one.
        own = rows.join(fresh.select(*_FLOW, _key="image"), on=_KEY, how="semi").with_columns(image="_key", lost=False)
        several = pairs.filter(pl.col("image").is_not_null()).select(*_KEY, "image", lost=False)
        under = pl.concat([known, own, several.join(lost, on=_KEY, how="semi")]).unique()
        deletes = pl.concat([under, lost.join(under, on=_KEY, how="anti")])
        both = [rows.with_columns(_deleted=False), deletes.with_columns(_deleted=True)]
        return cls(pl.concat(both).sort(*_KEY, "_deleted", "image"))

    def __bool__(self) -> bool:
        """Whether any key changes."""
        return bool(len(self._images))

    def __eq__(self, other: object) -> bool:
        """Whether the same becomes of every key."""
        return isinstance(other, KeyImages) and self._images.equals(other._images)

    __hash__ = None  # type: ignore[assignment]

    def rekeyed(self, rows: pa.Table) -> Rekeyed:
        """What becomes of rows that stay."""
        frame, at = _frame([rows]).with_row_index("row"), [*_KEY, "_deleted"]
        joined = frame.join(self._images, on=at, how="left", maintain_order="left_right")
        changed = pl.col("lost").is_not_null()
        key = pl.when(changed).then("image").otherwise("_key")
        found = joined.select(*_ORIGIN, key.alias("_key"), "_deleted", "row", "lost").with_row_index("number")
        deleted = found.filter("_deleted").join(self._images, on=_FLOW, how="semi", maintain_order="left")
        return Rekeyed(
            found["row"].cast(pl.Int64).to_numpy(),
            found["_key"].to_arrow().cast(rows.schema.field("_key").type),
            bool(found.select(changed.any()).item()),
            int(found["lost"].sum()),
            Tombstones(deleted["number"].cast(pl.Int64).to_numpy(), deleted.select(*_ORIGIN, "_key")),
        )


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
    whole = pairs.unique().group_by(_KEY).agg(pl.struct(_ORIGIN).n_unique().alias("records"))
    each = pairs.unique().group_by([*_KEY, "image"]).agg(pl.struct(_ORIGIN).n_unique().alias("records"))
    fits = each.join(whole, on=[*_KEY, "records"]).drop("records")
    before = old.select(*_FLOW, image="_key").unique().with_columns(pl.lit(value=True).alias("before"))
    ranked = fits.join(before, on=[*_FLOW, "image"], how="left", nulls_equal=True)
    order = [pl.col("before").fill_null(value=False), pl.col("_key").ne_missing(pl.col("image")), pl.col("image")]
    best = ranked.sort(order).unique(_KEY, keep="first", maintain_order=True)
    return best.select(*_KEY, "image")


def _frame(tables: Iterable[pa.Table]) -> pl.DataFrame:
    whole = pa.concat_tables([KEYED.empty_table(), *(one.select(KEY_COLUMNS).cast(KEYED) for one in tables)])
    frame = pl.from_arrow(whole)
    assert isinstance(frame, pl.DataFrame)
    return frame
