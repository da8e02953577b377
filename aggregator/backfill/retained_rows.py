"""Finds rows that stay in a table when others are replaced: rows of unaffected origins, and rows that nothing replaces.

Invariant: a file is rewritten only if it has affected rows, or rows whose key changes. What was found in a file is kept
while other writers commit, because a file never changes. If there are more keys than the memory limit allows, the work
is refused.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from aggregator.backfill.affected_rows import Affected, Marks, Numbers, Origins
from aggregator.backfill.key_images import KEY_COLUMNS, KEYED, KeyEvidence, KeyImages, Tombstones, repeated
from aggregator.errors import HoldError
from aggregator.lake.storage.folder import Folder
from aggregator.lake.tables.live_rows import live_rows, with_partition_columns
from aggregator.lake.tables.port import LiveFile

# Bytes of `KEY_COLUMNS` on both sides: seven million rows with keys of 33 bytes. Comparing takes five times as much.
KEYS_BYTES = 1024 * 1024 * 1024
_NONE = np.zeros(0, np.int64)


class _Found(NamedTuple):
    """What was found about the rows of a file that stay: whether keys change, how many lose their key, and the
    tombstones.
    """

    changed: bool
    lost: int
    tombstones: Tombstones


class RetainedRows(NamedTuple):
    """The rows of a table that stay beside new rows.

    Attributes:
        retained: Affected origins that stay.
        images: New keys of the retained rows.
        replaced: Files to rewrite; for each, the retained rows that repeat another row.
        lost: Number of rows that lose their keys.
    """

    retained: Origins
    images: KeyImages
    replaced: Mapping[str, Numbers]
    lost: int

    def is_same_for(self, other: "RetainedRows", paths: frozenset[str]) -> bool:
        """Whether the same stays of these files here and there."""
        return (
            paths <= other.replaced.keys()
            and self.images == other.images
            and same(self.retained, other.retained)
            and all(np.array_equal(self.replaced[path], other.replaced[path]) for path in paths)
        )


class RetainedRowSearch:
    """Finds the rows of one table that stay when others are replaced.

    Args:
        folder: The table's folder.
        affected: The origins whose rows are replaced.
    """

    def __init__(self, folder: Folder, affected: Affected) -> None:
        self._folder = folder
        self._affected = affected
        self._keys: dict[str, pa.Table] = {}
        self._keys_bytes = 0
        self._shown: tuple[KeyImages, Origins] | None = None
        self._seen: dict[str, KeyEvidence] = {}
        self._known: KeyImages | None = None
        self._found: dict[str, _Found] = {}

    def retained(
        self,
        live: Sequence[LiveFile],
        hits: Sequence[LiveFile],
        left: Origins,
        new_keys: Sequence[pa.Table],
    ) -> RetainedRows:
        """Which rows stay beside the new ones, and what becomes of their keys.

        Args:
            live: The live files of the table.
            hits: The live files that have affected rows.
            left: Affected origins that stay.
            new_keys: `KEY_COLUMNS` of all new rows.

        Raises:
            HoldError: there are more keys than may be compared at once.
            OSError: a file cannot be read.
        """
        replaced = {one.path: _NONE for one in hits}
        old_rows = self._read_old_rows(hits)
        check_bytes(old_rows.nbytes + bytes_of(new_keys))
        shown = KeyImages.of(old_rows, self._affected.of(old_rows, left), new_keys)
        if self._shown is None or self._shown[0] != shown or not same(self._shown[1], left):
            self._shown, self._seen, self._known = (shown, left), {}, None
        if not shown:
            return RetainedRows(left, shown, replaced, 0)
        for file in (one for one in live if one.path not in self._seen):
            self._seen[file.path] = shown.seen(*self._rows(file, left))
        images = shown.with_evidence(self._seen[file.path] for file in live)
        if self._known != images:
            self._known, self._found = images, {}
        for file in (one for one in live if one.path not in self._found):
            found = images.rekeyed(self._rows(file, left)[1])
            self._found[file.path] = _Found(found.changed, found.lost, found.tombstones)
        found_of = {file.path: self._found[file.path] for file in live}
        again = repeated([one.tombstones for one in found_of.values()])
        for (path, one), doubles in zip(found_of.items(), again, strict=True):
            if path in replaced or one.changed or len(doubles.rows):
                replaced[path] = doubles.rows
        lost = sum(one.lost for one in found_of.values()) - sum(doubles.lost for doubles in again)
        return RetainedRows(left, images, replaced, lost)

    def of_file(self, file: LiveFile, rest: RetainedRows) -> Iterator[pa.Table]:
        """The rows that stay of one file that is written anew, with their new keys.

        Raises:
            OSError: it cannot be read.
        """
        start = 0
        for rows in (with_partition_columns(some, file) for some in self._folder.batches(file.path)):
            for ours in self._followed(rows.filter(pa.array(self._stays(rows, rest.retained))), rest.images):
                again = np.isin(np.arange(start, start + ours.num_rows), rest.replaced[file.path])
                start += ours.num_rows
                yield ours.filter(pa.array(~again))

    @staticmethod
    def _followed(rows: pa.Table, images: KeyImages) -> Iterator[pa.Table]:
        """Rows that stay under their keys of now, some at a time."""
        if not images:
            yield rows
            return
        place = rows.schema.get_field_index("_key")
        field, others = rows.schema.field(place), rows.drop_columns("_key")
        for numbers, keys in images.rekeyed(rows).pieces():
            yield others.take(numbers).add_column(place, field, keys.cast(field.type))

    def tombstones(self, hits: Sequence[LiveFile]) -> Origins:
        """The affected origins whose rows are tombstones.

        Args:
            hits: Files with affected rows.

        Raises:
            OSError: a file cannot be read.
        """
        old_rows = self._read_old_rows(hits)
        return self._affected.origins(old_rows.filter(old_rows["_deleted"]))

    def _read_old_rows(self, hits: Sequence[LiveFile]) -> pa.Table:
        """Origins and keys of the affected rows."""
        for one in hits:
            if one.path not in self._keys:
                rows = live_rows(self._folder, one, KEY_COLUMNS)
                self._keys[one.path] = rows.filter(pa.array(self._affected.marks(rows))).select(KEY_COLUMNS).cast(KEYED)
                self._keys_bytes += self._keys[one.path].nbytes
                check_bytes(self._keys_bytes)
        return pa.concat_tables([KEYED.empty_table(), *(self._keys[one.path] for one in hits)])

    def _rows(self, file: LiveFile, left: Origins) -> tuple[pa.Table, pa.Table]:
        """Origins and keys of a file's rows, and of those that stay."""
        rows = live_rows(self._folder, file, KEY_COLUMNS)
        return rows, rows.filter(pa.array(self._stays(rows, left)))

    def _stays(self, rows: pa.Table, left: Origins) -> Marks:
        return ~self._affected.marks(rows) | self._affected.of(rows, left)


def bytes_of(keys: Iterable[pa.Table]) -> int:
    """The bytes of all tables. Keep the result, because Arrow counts anew on every call."""
    return sum(one.nbytes for one in keys)


def check_bytes(size: int) -> None:
    """Refuse more keys and origins than may be compared at once.

    Args:
        size: Bytes.

    Raises:
        HoldError: there are more.
    """
    if size > KEYS_BYTES:
        raise HoldError(
            f"the rows to replace have {size:,} bytes of keys and origins, and {KEYS_BYTES:,} are compared at once",
            hint="cancel it, and restate in pieces: by --partition, or by --from and --to",
        )


def same(one: Origins, other: Origins) -> bool:
    """Whether these are the same origins."""
    return one.keys() == other.keys() and all(np.array_equal(numbers, other[source]) for source, numbers in one.items())
