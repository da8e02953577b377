"""Finds the new keys of rows that stay in a table while a restate replaces other rows of the same keys under new keys.

Invariant: pure. A row that was superseded or deleted stays so. An origin with an old and a new row shows which new key
replaces an old one. All rows of the old key that stay in its edge partition then get the new key. With the old key they
would keep what a policy hides now, or bring back what was deleted. No row gets the key of another person. Where a row's
new key is not known, the row has no key, and no place in the current state. There are four such cases:

* Several new keys came for its key. Or none came for it, though new keys came for others.
* Another record also came under its key. A hub under the new policy may then have written the row.
* Only tombstones with several versions of a key tell its new key, and it lies after the last record whose key changes.
* It is `doubted`: it lies after the last record whose key changes, and so does a row under a new key. That row shows
  that the hub went over to the new policy there.

A tombstone goes on deleting under each new key that came for its key. It also deletes under its own key if the present
policy may have written it. It then has a row for each of these keys, all of one origin. So it may delete a row that is
not its own. With fewer rows, a deleted row would be current again.

Memory holds the keys of replaced rows and the origins of tombstones.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Self

import numpy as np
import polars as pl
import pyarrow as pa

from aggregator.backfill.affected_rows import INCARNATION, ORIGIN_COLUMNS, Marks, Numbers
from aggregator.lake.columns.columns import FIXED_COLUMNS

KEY_COLUMNS = (*ORIGIN_COLUMNS, "_key", "_deleted", "_central_offset")
_FLOW, _ORIGIN = ["_edge", "_topic", "_partition"], list(ORIGIN_COLUMNS)
_KEY = [*_FLOW, "_key"]
_NAMES = ["_edge", "_topic", "_key"]
_AT = [*_KEY, "_deleted", "doubted", "older"]
_ALONE = pl.col("_key").n_unique().over(_ORIGIN) == 1
_SAME = pl.col("_key").eq_missing(pl.col("image"))
# If a key has more images than this, its own included, only the youngest tombstone gets a row for each image. The
# others get one row. Otherwise three thousand tombstones of a key that stood for three thousand people would be nine
# million rows. A policy that ignores case or spaces merges only a few spellings into one key, which stays below this
# number.
IMAGES = 16
# Bytes of the keys in one array: Arrow's arrays hold 2 GiB, and a tombstone with a key of 1 MB may become fifteen rows.
PIECE_BYTES = 16 * 1024 * 1024
KEYED = pa.schema([FIXED_COLUMNS.field(name) for name in KEY_COLUMNS])


class Tombstones(NamedTuple):
    """Lists the tombstones among some rows.

    Attributes:
        rows: The row numbers of the tombstones.
        found: Their origins and keys, and whether these are lost.
    """

    rows: Numbers
    found: pl.DataFrame


class Rekeyed(NamedTuple):
    """Some rows with their new keys. One tombstone may become several rows.

    Attributes:
        rows: Number of the old row that each row comes from.
        keys: The present keys of the rows.
        changed: Whether any key differs from before.
        lost: Number of rows without a key, because nobody knows their new key.
        tombstones: Tombstones whose edge partition has keys that change.
    """

    rows: Numbers
    keys: pl.Series
    changed: bool
    lost: int
    tombstones: Tombstones

    def pieces(self) -> Iterator[tuple[Numbers, pa.Array]]:
        """Some rows and their keys at a time; a key that stands in many rows is in memory once until then."""
        sizes = self.keys.bin.size().fill_null(0).cast(pl.Int64).cum_sum().to_numpy()
        cuts = np.flatnonzero(np.diff(sizes // PIECE_BYTES)) + 1
        start = 0
        for part in np.split(self.rows, cuts):
            yield part, self.keys[start : start + len(part)].to_arrow()
            start += len(part)


class KeyEvidence(NamedTuple):
    """What the other rows of a table, beside those that are replaced, show about keys.

    Attributes:
        new_keys: Edge partitions in which a new key occurs after the last record whose key changes.
        youngest: Number of the youngest tombstone that stays, by edge partition and key, of keys with many images.
    """

    new_keys: pl.DataFrame
    youngest: pl.DataFrame


class KeyImages:
    """Tells which new key replaces an old one, where the policy changes keys.

    Args:
        images: Edge partition, old key, whether it is a tombstone's, a `doubted` row's, that of an `older` tombstone,
            `image`, and whether it is `lost`; of the keys that change.
        former: Number of the last record that changes its key, by edge partition.
        new_keys: Keys that came and do not change, by edge partition.
        versions: Keys of which only tombstones with several versions tell, by edge partition.
        seen: What the table shows beside.
    """

    def __init__(
        self,
        images: pl.DataFrame,
        former: pl.DataFrame,
        new_keys: pl.DataFrame,
        versions: pl.DataFrame,
        *,
        seen: KeyEvidence | None = None,
    ) -> None:
        self._images, self._former, self._new_keys, self._versions = images, former, new_keys, versions
        many = images.filter("older").select(_KEY).unique()
        self._seen = seen or KeyEvidence(
            former.select(_FLOW).head(0), many.with_columns(youngest=pl.lit(0, pl.Int64)).head(0)
        )
        self._many = many

    @classmethod
    def of(cls, old_rows: pa.Table, left: Marks, new_rows: Iterable[pa.Table]) -> Self:
        """Find the keys that a restate changes, from the rows before and after.

        Args:
            old_rows: `KEY_COLUMNS` of the affected rows of a table.
            left: A mask of those rows that stay.
            new_rows: `KEY_COLUMNS` of the new rows.
        """
        names, (old, new) = _counted([_frame([old_rows]), _frame(new_rows)])
        # A former restate may have made several tombstones of one record, under keys of which only one is right. What
        # comes for that record shows nothing about them.
        twin = pl.col("_key").n_unique().over([*_ORIGIN, "_central_offset"]) > 1
        old = old.select(*_ORIGIN, "_key", twin=twin, alone=_ALONE)
        staying = old.filter(pl.Series(left))
        # Without duplicates: an origin with n rows in the table and n new keys would otherwise give n * n pairs.
        old, new = old.unique(), new.select(*_ORIGIN, "_key", alone=_ALONE).unique()
        pairs = old.join(new.select(*_ORIGIN, came_alone="alone", image="_key"), on=_ORIGIN)
        fresh = pairs.join(old.select(*_ORIGIN, image="_key"), on=[*_ORIGIN, "image"], how="anti")
        fresh = fresh.filter(pl.col("image").is_not_null()).select(*_FLOW, "came_alone", _key="image").unique()
        told = ~pl.col("twin") | _SAME.any().over([*_ORIGIN, "_key"])
        pairs = pairs.filter(pl.col("_key").is_not_null()).with_columns(told=told)
        pairs = pl.concat([pairs.filter("told"), pairs.filter(~pl.col("told")).join(new, on=_KEY, how="anti")])
        images = _agreed(pairs.filter("told"), old, new)
        others = pairs.group_by([*_ORIGIN, "_key", "told"]).agg(_SAME.any().alias("same")).filter(~pl.col("same"))
        unknown = pl.concat([one.select(_KEY) for one in (staying.join(others, on=_FLOW, how="semi"), pairs)])
        lost = unknown.join(images, on=_KEY, how="anti").filter(pl.col("_key").is_not_null())
        known = images.filter(~_SAME).with_columns(lost=False)
        rows = pl.concat([known, _lost(lost)])
        new_keys = fresh.filter("came_alone").select(_KEY).unique()
        both = [_of_rows(rows, new_keys), _of_tombstones(rows, fresh, pairs)]
        former = _numbered(others.filter("told")).group_by(_FLOW).agg(former=pl.col("number").max()).sort(_FLOW)
        # When a tombstone was written, it had rows under keys that no other record had.
        versions = rows.select(_KEY).unique().join(pairs.filter("alone"), on=_KEY, how="anti").sort(_KEY)
        new_keys = new_keys.join(rows, on=_KEY, how="anti").sort(_KEY)
        images = pl.concat(both).sort(*_AT, "image")
        return cls(*(_named(one, names) for one in (images, former, new_keys, versions)))

    def __bool__(self) -> bool:
        """Whether any key changes."""
        return bool(len(self._images))

    def __eq__(self, other: object) -> bool:
        """Whether the same becomes of every key."""
        return isinstance(other, KeyImages) and all(
            one.equals(another) for one, another in zip(self._all(), other._all(), strict=True)
        )

    __hash__ = None  # type: ignore[assignment]

    def _all(self) -> list[pl.DataFrame]:
        return [self._images, self._former, self._new_keys, self._versions, *self._seen]

    def seen(self, rows: pa.Table, staying: pa.Table) -> KeyEvidence:
        """What some rows of the table show about keys.

        Args:
            rows: `KEY_COLUMNS` of some rows.
            staying: The rows of these that stay.
        """
        # A tombstone of the former policy may have a row under a listed version that is also a present key.
        single = _numbered(_frame([rows]).filter(~pl.col("_deleted") | _ALONE))
        behind = single.join(self._former, on=_FLOW).filter(pl.col("number") > pl.col("former"))
        tombstones = _numbered(_frame([staying]).filter("_deleted").join(self._many, on=_KEY, how="semi"))
        return KeyEvidence(
            behind.join(self._new_keys, on=_KEY, how="semi").select(_FLOW).unique(),
            tombstones.group_by(_KEY).agg(youngest=pl.col("number").max()),
        )

    def with_evidence(self, seen: Iterable[KeyEvidence]) -> "KeyImages":
        """The images for a table with this evidence; without any, nothing is doubted, no tombstone older."""
        all_of = [self._seen, *seen]
        flows = pl.concat([one.new_keys for one in all_of]).unique().sort(_FLOW)
        youngest = pl.concat([one.youngest for one in all_of]).group_by(_KEY).agg(pl.col("youngest").max()).sort(_KEY)
        return KeyImages(self._images, self._former, self._new_keys, self._versions, seen=KeyEvidence(flows, youngest))

    def rekeyed(self, rows: pa.Table) -> Rekeyed:
        """The new keys of rows that stay."""
        flagged = pl.lit(value=True)
        over, versions = self._seen.new_keys.with_columns(over=flagged), self._versions.with_columns(versions=flagged)
        frame = _numbered(_frame([rows])).with_row_index("row")
        for shown, on in ((self._former, _FLOW), (over, _FLOW), (versions, _KEY), (self._seen.youngest, _KEY)):
            frame = frame.join(shown, on=on, how="left", maintain_order="left")
        deletes, behind = pl.col("_deleted"), pl.col("number") > pl.col("former")
        frame = frame.with_columns(
            doubted=(behind & (pl.col("over") | (pl.col("versions") & ~deletes))).fill_null(value=False),
            older=(deletes & (pl.col("number") < pl.col("youngest"))).fill_null(value=False),
        )
        joined = frame.join(self._images, on=_AT, how="left", maintain_order="left_right")
        changed = pl.col("lost").is_not_null()
        key = pl.when(changed).then("image").otherwise("_key")
        lost = pl.col("lost").fill_null(value=False)
        found = joined.select(
            *_ORIGIN, key.alias("_key"), "_deleted", "row", lost, changed=pl.col("_key").ne_missing(key)
        ).with_row_index("at")
        deleted = found.filter("_deleted").join(self._images, on=_FLOW, how="semi", maintain_order="left")
        return Rekeyed(
            found["row"].cast(pl.Int64).to_numpy(),
            found["_key"],
            bool(len(found) != len(frame) or found.select(pl.col("changed").any()).item()),
            int(found["lost"].sum()),
            Tombstones(deleted["at"].cast(pl.Int64).to_numpy(), deleted.select(*_ORIGIN, "_key", "lost")),
        )


class Repeated(NamedTuple):
    """Rows of a file that repeat other rows.

    Attributes:
        rows: Numbers of the repeated rows.
        lost: Number of repeated rows that have lost their key.
    """

    rows: Numbers
    lost: int


def repeated(files: Sequence[Tombstones]) -> list[Repeated]:
    """Per file, the tombstones that repeat another row, and those without a key whose origin has a row with one."""
    if not files:
        return []
    found = pl.concat([one.found for one in files])
    # Keys are compared by number: a comparison of several columns would copy the key into each row.
    found = found.join(found.select("_key").unique().with_row_index("key"), on="_key", how="left",
                       nulls_equal=True, maintain_order="left")  # fmt: skip
    again = ~pl.struct(*_ORIGIN, "key").is_first_distinct()
    idle = pl.col("_key").is_null() & pl.col("_key").is_not_null().any().over(_ORIGIN)
    whole = found.select(again=again | idle, lost=(again | idle) & pl.col("lost"))
    cuts = np.cumsum([len(one.rows) for one in files])[:-1]
    parts, lost = (np.split(whole[name].to_numpy(), cuts) for name in ("again", "lost"))
    return [Repeated(one.rows[part], int(of.sum())) for one, part, of in zip(files, parts, lost, strict=True)]


def _of_rows(rows: pl.DataFrame, new_keys: pl.DataFrame) -> pl.DataFrame:
    """The new keys of rows that are no tombstones: no row gets the key of another person."""
    known = rows.filter(~pl.col("lost")).join(new_keys, on=_KEY, how="anti")
    sure = pl.concat([known, _lost(rows.join(known, on=_KEY, how="anti"))]).with_columns(doubted=False)
    both = pl.concat([sure, _lost(rows).with_columns(doubted=True)])
    return both.select(*_KEY, "image", "lost", "doubted", _deleted=False, older=False)


def _of_tombstones(rows: pl.DataFrame, fresh: pl.DataFrame, pairs: pl.DataFrame) -> pl.DataFrame:
    """The new keys of tombstones: one row under each key that a tombstone may delete."""
    # If another record has this key now, the tombstone deletes under it too: a hub may have written it for that record.
    lost, own = rows.filter("lost"), rows.with_columns(image="_key", lost=False)
    several = pairs.filter(pl.col("image").is_not_null()).select(*_KEY, "image", lost=False)
    several = several.join(lost, on=_KEY, how="semi")
    under = pl.concat([rows.filter(~pl.col("lost")), own.join(fresh, on=_KEY, how="semi"), several]).unique()
    doubted = pl.concat([under, own.join(under, on=_KEY, how="semi")]).unique()
    unknown = lost.join(under, on=_KEY, how="anti")
    each = pl.concat(
        [
            pl.concat([under, unknown]).with_columns(doubted=False, older=False),
            pl.concat([doubted, unknown]).with_columns(doubted=True, older=False),
        ]
    )
    # Counted by groups and not by windows: the cost of nested windows grows with the square of the rows.
    numerous = each.group_by([*_KEY, "doubted"]).len().filter(pl.col("len") > IMAGES)
    many = each.join(numerous, on=_KEY, how="semi")
    least = many.sort("image").unique([*_KEY, "doubted"], keep="first", maintain_order=True).with_columns(older=True)
    return pl.concat([each, least]).select(*_KEY, "image", "lost", "doubted", _deleted=True, older="older")


def _agreed(pairs: pl.DataFrame, old: pl.DataFrame, new: pl.DataFrame) -> pl.DataFrame:
    """The one image of each key that all its records have.

    A tombstone has several, under versions of a key: then it is one that a record with a single key came under; else
    one that nobody had before, itself, or none.
    """
    records = pl.struct(_ORIGIN).n_unique().alias("records")
    whole = pairs.group_by(_KEY).agg(records)
    each = pairs.group_by([*_KEY, "image"]).agg(records)
    fits = each.join(whole, on=[*_KEY, "records"]).drop("records")
    for name, of in (("before", old), ("shown", new.filter("alone"))):
        keys = of.select(*_FLOW, image="_key").unique().with_columns(pl.lit(value=True).alias(name))
        fits = fits.join(keys, on=[*_FLOW, "image"], how="left", nulls_equal=True)
    rank = pl.when("shown").then(0).when(pl.col("before").is_null()).then(1).when(_SAME).then(2).otherwise(3)
    ranked = fits.with_columns(rank=rank)
    best = ranked.filter(pl.col("rank") == pl.col("rank").min().over(_KEY)).filter(pl.len().over(_KEY) == 1)
    return best.select(*_KEY, "image")


def _lost(keys: pl.DataFrame) -> pl.DataFrame:
    return keys.select(*_KEY, image=pl.lit(None, pl.UInt32), lost=True).unique()


def _numbered(rows: pl.DataFrame) -> pl.DataFrame:
    """Add the number of each origin, in the order of positions."""
    return rows.with_columns(number=pl.col("_incarnation").cast(pl.Int64) * INCARNATION + pl.col("_offset"))


def _counted(frames: Sequence[pl.DataFrame]) -> tuple[Mapping[str, pl.Series], list[pl.DataFrame]]:
    """Names and keys as their numbers in a sorted list of each: in pairs a key would be copied again and again."""
    names = {one: pl.concat([frame[one] for frame in frames]).drop_nulls().unique().sort() for one in _NAMES}
    for one, values in names.items():
        known = values.to_frame().with_row_index("number")
        joined = [frame.join(known, on=one, how="left", maintain_order="left") for frame in frames]
        frames = [frame.with_columns(pl.col("number").alias(one)).drop("number") for frame in joined]
    return names, list(frames)


def _named(frame: pl.DataFrame, names: Mapping[str, pl.Series]) -> pl.DataFrame:
    """Replace the numbers of names and keys by the names and keys themselves."""
    of = {**names, "image": names["_key"]}
    return frame.with_columns(of[one].gather(frame[one]).alias(one) for one in frame.columns if one in of)


def _frame(tables: Iterable[pa.Table]) -> pl.DataFrame:
    whole = pa.concat_tables([KEYED.empty_table(), *(one.select(KEY_COLUMNS).cast(KEYED) for one in tables)])
    frame = pl.from_arrow(whole)
    assert isinstance(frame, pl.DataFrame)
    return frame
