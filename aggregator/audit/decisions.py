"""The chain of decisions, checked link by link: what was altered, left out, put elsewhere or written twice.

Invariant: pure; every link that does not follow from the one before is named with its place. A chain whose end was cut
off looks whole: whoever wants to know that keeps its head and asks for it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from aggregator.kafka.log_record import LogRecord
from aggregator.state.decisions import BEGINNING, Link, decode

EXIT_LOST, EXIT_WRONG = 5, 1


@dataclass(frozen=True, slots=True)
class ChainFault:
    """One thing that is wrong.

    Attributes:
        kind: `damaged`, `altered`, `missing`, `reordered` or `doubled`.
        offset: Where it lies in the topic, or what follows the place where it should lie.
        note: What, in words.
    """

    kind: str
    offset: int
    note: str


@dataclass(frozen=True, slots=True)
class ChainAudit:
    """All links and all faults; `head` is number and hash of the last one, to be kept elsewhere."""

    links: tuple[Link, ...]
    faults: tuple[ChainFault, ...]

    @property
    def head(self) -> str:
        """`NUMBER:HASH` of the last link; of the beginning, where there is none."""
        return f"{self.links[-1].number}:{self.links[-1].hash}" if self.links else f"0:{BEGINNING}"

    @property
    def exit_code(self) -> int:
        """5: something is missing; 1: something is wrong; 0: neither."""
        kinds = {one.kind for one in self.faults}
        return EXIT_LOST if "missing" in kinds else EXIT_WRONG if kinds else 0

    def plain(self) -> dict[str, Any]:
        """The contract of `-o json`."""
        return {
            "head": self.head,
            "decisions": [one.plain() for one in self.links],
            "faults": [{"kind": one.kind, "offset": one.offset, "note": one.note} for one in self.faults],
        }


def audit_decisions(records: Sequence[LogRecord], head: str = "") -> ChainAudit:
    """Check the records of the decisions topic.

    Args:
        records: In the order of the topic.
        head: `NUMBER:HASH` that must be in the chain, as a former audit told it.
    """
    found = [(one.offset, decode(one)) for one in records]
    links = tuple(link for _, link in found if link is not None)
    faults = [*_faults(found), *_lacking(found, head)]
    return ChainAudit(links, tuple(faults))


def _faults(found: Sequence[tuple[int, Link | None]]) -> Iterator[ChainFault]:
    numbers = {link.number for _, link in found if link is not None}
    seen: set[int] = set()
    before: Link | None = None
    for offset, link in found:
        if link is None:
            yield ChainFault("damaged", offset, "is no decision")
            continue
        if link.hash != link.sealed:
            yield ChainFault("altered", offset, f"decision {link.number} is not what was decided: its hash is another")
        if link.number in seen:
            yield ChainFault("doubled", offset, f"decision {link.number} is there twice")
        elif before is not None and link.number < before.number:
            yield ChainFault("reordered", offset, f"decision {link.number} stands behind decision {before.number}")
        else:
            yield from _between(offset, before, link, numbers)
        seen.add(link.number)
        before = link


def _between(offset: int, before: Link | None, link: Link, numbers: set[int]) -> Iterator[ChainFault]:
    """What lies between a link and the one that stands before it."""
    last = before.number if before else 0
    absent = [number for number in range(last + 1, min(link.number, last + 1001)) if number not in numbers]
    if absent:
        which = f"{absent[0]}" if len(absent) == 1 else f"{absent[0]} to {absent[-1]}"
        yield ChainFault("missing", offset, f"decision {which} before decision {link.number}")
    elif link.number == last + 1 and link.previous != (before.hash if before else BEGINNING):
        yield ChainFault("altered", offset, f"decision {link.number} does not follow from decision {last}")


def _lacking(found: Sequence[tuple[int, Link | None]], head: str) -> Iterator[ChainFault]:
    number = head.partition(":")[0]
    heads = {f"{link.number}:{link.hash}" for _, link in found if link is not None}
    if head and number != "0" and head not in heads:
        end = found[-1][0] + 1 if found else 0
        yield ChainFault("missing", end, f"decision {number}, which a former audit had seen")
