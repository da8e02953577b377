"""Reads the dead letters of a hub, and tells which of them the hub wrote.

Invariant: this module only reads. A letter and a resolution commit in the transaction in which their writer passes the
record: the live flow, or the backfill that they name. So one counts only if the ledger of its writer has passed the
record. Whatever else lies in the topic is somebody else's: it explains nothing, and hides no letter. The ledger counts
both in the same transactions. A flow that has more of them is doubted, as is one with a record of a later version of
the hub, which may be anything.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain
from typing import NamedTuple

from aggregator.config.model import ClusterConfig
from aggregator.coordinates import EdgePartition, Position
from aggregator.count_text import format_count
from aggregator.errors import FatalError
from aggregator.kafka.cluster import topics
from aggregator.kafka.readers.committed_reader import read_committed
from aggregator.kafka.readers.log import decided_ranges
from aggregator.kafka.readers.typed_decoder import CorruptRecord, UnsupportedVersion, key_text
from aggregator.state.dead_letters import Letter, decode_letter, record_of
from aggregator.state.ledger import LedgerRecord, Positions
from aggregator.state.ledger_log import read_positions
from aggregator.state.names import HubNames

log = logging.getLogger(__name__)
_PIECE_BYTES = 8 * 1024 * 1024
# The ledger record of a live flow (an empty backfill), or of a flow of a backfill; None where it has written none.
EntryOf = Callable[[EdgePartition, str], LedgerRecord | None]


class LetterWriter(NamedTuple):
    """Who wrote letters or resolutions of a flow: the backfill, or the live flow where that is empty."""

    source: EdgePartition
    backfill: str
    resolves: bool


class _Entry(NamedTuple):
    offset: int
    letter: Letter
    writer: LetterWriter

    def is_written(self, entry_of: EntryOf) -> bool:
        """Whether the ledger proves that the hub wrote this."""
        source, backfill, _ = self.writer
        return _has_passed(entry_of(source, backfill), Position(self.letter.incarnation, self.letter.offset))


class _NewerLetter(NamedTuple):
    offset: int
    source: EdgePartition
    position: Position
    version: int

    def is_passed(self, entry_of: EntryOf) -> bool:
        """Whether the live flow has passed the record that the key names."""
        return _has_passed(entry_of(self.source, ""), self.position)


def _has_passed(entry: LedgerRecord | None, position: Position) -> bool:
    return entry is not None and position < entry.position


class LetterLog:
    """Everything that a topic of dead letters holds, by record, in log order.

    Args:
        records: Offset, key and value, in log order.
        topic: For sentences about it.
        of_backfills: The topic holds letters of backfills that do not write into a live topic. A record has one for
            each central topic that it did not get into: one for each generation.
    """

    def __init__(
        self, records: Iterable[tuple[int, bytes, bytes | None]], topic: str, *, of_backfills: bool = False
    ) -> None:
        self._topic = topic
        self._foreign: list[int] = []
        self._later: list[_NewerLetter] = []
        self._entries: dict[tuple[str, str], list[_Entry]] = {}
        for offset, key, value in records:
            try:
                letter, backfill = decode_letter(key, value)
            except UnsupportedVersion as error:
                if named := record_of(key_text(key)):
                    self._later.append(_NewerLetter(offset, *named, error.version))
                else:
                    self._foreign.append(offset)
                continue
            except CorruptRecord:
                self._foreign.append(offset)
                continue
            if of_backfills and not backfill:  # a live flow writes none there
                self._foreign.append(offset)
                continue
            entry = _Entry(offset, letter, LetterWriter(letter.source, backfill, bool(letter.resolved_by)))
            self._entries.setdefault((letter.key, letter.central if of_backfills else ""), []).append(entry)

    def _each(self) -> Iterator[_Entry]:
        return chain.from_iterable(self._entries.values())

    def count_by_writer(self, ledger_before: EntryOf) -> Counter[LetterWriter]:
        """Numbers of letters and resolutions whose records a ledger has passed, by writer.

        Args:
            ledger_before: A ledger that was read before the letters, so that every letter that it counts was read.
        """
        return Counter(one.writer for one in self._each() if one.is_written(ledger_before))

    def newer_versions(self, ledger_before: EntryOf) -> dict[EdgePartition, str]:
        """What a later version of the hub may have written of records that a flow has passed, by flow."""
        return {
            one.source: f"a dead letter of version {one.version}, which this hub does not know ({self._topic} offset"
            f" {one.offset})"
            for one in self._later
            if one.is_passed(ledger_before)
        }

    def letters(self, ledger_before: EntryOf, ledger_after: EntryOf) -> Iterator[Letter]:
        """Every letter of the hub, with its resolution if it has one.

        Args:
            ledger_before: The ledger that proves letters.
            ledger_after: A later ledger, read behind the letters. It proves resolutions, too: one that nobody sees
                makes its record come twice.
        """
        for some in self._entries.values():
            found: Letter | None = None
            for one in some:
                if one.is_written(ledger_before) or (one.writer.resolves and one.is_written(ledger_after)):
                    found = _resolved(found, one.letter) if one.writer.resolves else one.letter
            if found is not None:
                yield found

    def unproven_offsets(self, ledger_before: EntryOf, ledger_after: EntryOf) -> list[int]:
        """Offsets of records that the hub did not write, since neither ledger proves them; arguments as above."""
        unproven = [
            one.offset for one in self._each() if not (one.is_written(ledger_before) or one.is_written(ledger_after))
        ]
        ahead = [one.offset for one in self._later if not (one.is_passed(ledger_before) or one.is_passed(ledger_after))]
        return sorted(self._foreign + unproven + ahead)

    def warn_of_unproven(self, ledger_before: EntryOf, ledger_after: EntryOf) -> None:
        """Warn of them, as a count and the first."""
        if found := self.unproven_offsets(ledger_before, ledger_after):
            told = format_count(len(found), "record")
            log.warning(
                "%s: %s passed over, not proven by the ledger: offset %d first; who else writes it?",
                self._topic,
                told,
                found[0],
            )


class LetterLogs(NamedTuple):
    """Both topics of letters, and the ledger from before and behind them.

    Attributes:
        ledger_before: The ledger, read first: what a flow has passed since is counted in records that nobody has read
            here.
        live: Letters of the live topics.
        of_backfills: Letters of backfills that do not write into a live topic.
        ledger_after: The ledger, read behind the letters once something is not proven by the first.
    """

    ledger_before: Positions
    live: LetterLog
    of_backfills: LetterLog
    ledger_after: EntryOf

    def letters(self, *, of_backfills: bool = False) -> Iterator[Letter]:
        """Every letter of one of the topics, with its resolution if it has one; warns of what the hub did not write."""
        told = self.of_backfills if of_backfills else self.live
        told.warn_of_unproven(self.ledger_before.of, self.ledger_after)
        return told.letters(self.ledger_before.of, self.ledger_after)

    def doubted(self) -> dict[EdgePartition, str]:
        """Flows whose letters are not believed, and why."""
        return doubted([self.live, self.of_backfills], self.ledger_before.of)


def read_letter_logs(cluster: ClusterConfig, names: HubNames) -> LetterLogs:
    """Read both topics to their ends; of nothing before the hub's first run.

    Args:
        cluster: Central.
        names: The hub's.

    Raises:
        FatalError: a transaction at central stays open, or a record of the ledger is damaged.
        Unreachable: central does not answer.
    """
    ledger_before = read_positions(cluster, names)
    again = cache(lambda: read_positions(cluster, names))

    def ledger_after(source: EdgePartition, backfill: str) -> LedgerRecord | None:
        return again().of(source, backfill)

    live, of_backfills = names.dead_letters, names.backfills().dead_letters
    logs = (
        LetterLog(_records(cluster, live), live),
        LetterLog(_records(cluster, of_backfills), of_backfills, of_backfills=True),
    )
    return LetterLogs(ledger_before, *logs, ledger_after)


def read_letters(cluster: ClusterConfig, names: HubNames, *, of_backfills: bool = False) -> Iterator[Letter]:
    """Every letter of the hub, with its resolution if it has one; arguments and errors as `read_letter_logs`.

    Flows that are doubted are warned of, and shown as their records say.
    """
    logs = read_letter_logs(cluster, names)
    if found := logs.doubted():
        told, (first, why) = format_count(len(found), "flow"), min(found.items())
        log.warning("dead letters of %s are in doubt: %s has %s", told, first, why)
    yield from logs.letters(of_backfills=of_backfills)


def doubted(logs: Sequence[LetterLog], ledger_before: EntryOf) -> dict[EdgePartition, str]:
    """Flows that have more letters, or resolutions, than the ledger counts, or one of a later version; and which.

    Args:
        logs: Both topics of letters, because the ledger counts what a backfill wrote into either.
        ledger_before: A ledger that was read before them.
    """
    told: dict[EdgePartition, str] = {}
    for one in logs:
        told |= one.newer_versions(ledger_before)
    for writer, number in sum((one.count_by_writer(ledger_before) for one in logs), Counter()).items():
        entry = ledger_before(writer.source, writer.backfill)
        known = (_most_resolved(entry) if writer.resolves else entry.dead) if entry else 0
        if number > known:
            what = format_count(number, "resolved dead letter" if writer.resolves else "dead letter")
            told[writer.source] = f"{what}, where the ledger counts {known}"
    return told


def _most_resolved(entry: LedgerRecord) -> int:
    """A backfill's count of resolutions, or a bound if an earlier version began it, which did not count them."""
    return entry.delivered + entry.suppressed if entry.resolved is None else entry.resolved


def _records(cluster: ClusterConfig, topic: str) -> Iterator[tuple[int, bytes, bytes | None]]:
    count = topics.partition_count(cluster, topic)
    ranges = decided_ranges(cluster, [(topic, partition) for partition in range(count)]) if count else {}
    for piece in read_committed(cluster, ranges, max_bytes=_PIECE_BYTES):
        if piece.held is not None:
            raise FatalError(f"{topic}: {piece.held.message}", hint=piece.held.hint)
        for offset, key, value in zip(piece.offsets, piece.keys, piece.values, strict=True):
            yield offset, key or b"", value


def _resolved(letter: Letter | None, newer: Letter) -> Letter:
    """A letter with its resolution; the letter itself may have been deleted, if somebody gave the topic a retention."""
    if letter is None:
        return newer
    return replace(letter, resolved_by=newer.resolved_by, outcome=newer.outcome, central=newer.central)
