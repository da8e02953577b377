"""Checks the chain of decisions link by link: finds links that were altered, left out, moved or written twice.

Invariant: pure. Every link that does not follow from the one before is named with its place. A chain whose end was cut
off looks complete. A reader who keeps the number and the hash of its last link can check for that.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aggregator.audit.unrecorded_requests import Requested, unrecorded
from aggregator.errors import ExitCode
from aggregator.kafka.readers.log_record import LogRecord
from aggregator.state.decisions import BEGINNING, SETTINGS, ChainLink, decode, link_id, previous_link_id

NOTHING_REQUESTED = Requested()


@dataclass(frozen=True, slots=True)
class ChainFault:
    """Describes one fault in the chain of decisions.

    Attributes:
        kind: `damaged`, `altered`, `missing`, `reordered` or `doubled`; `unrecorded`: it is carried out, and the chain
            does not have it; `unprotected`: the topic's settings let records go.
        offset: Where it lies in the topic, or what follows the place where it should lie.
        note: A description of the fault in words.
    """

    kind: str
    offset: int
    note: str


@dataclass(frozen=True, slots=True)
class ChainAudit:
    """All links and all faults. `head` is the number and the hash of the last link, to be kept elsewhere."""

    links: tuple[ChainLink, ...]
    faults: tuple[ChainFault, ...]

    @property
    def head(self) -> str:
        """`NUMBER:HASH` of the last link; of the beginning, where there is none."""
        return f"{self.links[-1].number}:{self.links[-1].hash}" if self.links else f"0:{BEGINNING}"

    @property
    def exit_code(self) -> ExitCode:
        """5: something is missing; 1: something is wrong; 0: neither."""
        kinds = {one.kind for one in self.faults}
        return ExitCode.DATA_LOSS if "missing" in kinds else ExitCode.FAILED if kinds else ExitCode.DONE

    def plain(self) -> dict[str, Any]:
        """The JSON object that `-o json` promises for the audited chain."""
        return {
            "head": self.head,
            "decisions": [one.plain() for one in self.links],
            "faults": [{"kind": one.kind, "offset": one.offset, "note": one.note} for one in self.faults],
        }


def audit_decisions(
    records: Sequence[LogRecord],
    head: str = "",
    *,
    requested: Requested = NOTHING_REQUESTED,
    settings: Mapping[str, str] = SETTINGS,
) -> ChainAudit:
    """Check the records of the decisions topic, and what is carried out against them.

    Args:
        records: In the order of the topic.
        head: `NUMBER:HASH` that must be in the chain, as a former audit told it.
        requested: What the hub carries out.
        settings: Settings of the topic, by Kafka's names.
    """
    found = [(one.offset, decode(one)) for one in records]
    links = tuple(link for _, link in found if link is not None)
    end = _behind(found)
    beside = [ChainFault("unrecorded", end, fault) for fault in unrecorded(links, requested)]
    loose = [ChainFault("unprotected", end, fault) for fault in _loosened(settings)]
    return ChainAudit(links, (*_faults(found), *_lacking(found, head), *beside, *loose))


def _loosened(settings: Mapping[str, str]) -> Iterator[str]:
    """A sentence for each setting of the topic that lets decisions go."""
    for name, wanted in SETTINGS.items():
        if settings.get(name, wanted) != wanted:
            yield f"the topic has {name}={settings[name]}, which lets decisions go; set it to {wanted}"


def _behind(found: Sequence[tuple[int, ChainLink | None]]) -> int:
    return found[-1][0] + 1 if found else 0


def _faults(found: Sequence[tuple[int, ChainLink | None]]) -> Iterator[ChainFault]:
    links = [link for _, link in found if link is not None]
    numbers, places = {link.number for link in links}, {link_id(None), *map(link_id, links)}
    last_after = {previous_link_id(link): at for at, (_, link) in enumerate(found) if link and link.hash == link.sealed}
    seen: set[int] = set()
    before: ChainLink | None = None
    for at, (offset, link) in enumerate(found):
        if link is None:
            yield ChainFault("damaged", offset, "is no decision")
            continue
        if link.hash != link.sealed:
            yield ChainFault("altered", offset, f"decision {link.number} is not what was decided: its hash is another")
        if previous_link_id(link) not in places and last_after.get(link_id(before), -1) > at:
            what = f"decision {link.number} does not follow from decision {before.number if before else 0}"
            yield ChainFault("altered", offset, f"{what}, which others do")
            continue
        if link.number in seen:
            yield ChainFault("doubled", offset, f"decision {link.number} is there twice")
        elif before is not None and link.number < before.number:
            yield ChainFault("reordered", offset, f"decision {link.number} stands behind decision {before.number}")
        else:
            yield from _between(offset, before, link, numbers)
        seen.add(link.number)
        before = link


def _between(offset: int, before: ChainLink | None, link: ChainLink, numbers: set[int]) -> Iterator[ChainFault]:
    """The faults between a link and its predecessor."""
    last = before.number if before else 0
    absent = [number for number in range(last + 1, min(link.number, last + 1001)) if number not in numbers]
    if absent:
        which = f"{absent[0]}" if len(absent) == 1 else f"{absent[0]} to {absent[-1]}"
        yield ChainFault("missing", offset, f"decision {which} before decision {link.number}")
    elif link.number == last + 1 and link.previous != (before.hash if before else BEGINNING):
        yield ChainFault("altered", offset, f"decision {link.number} does not follow from decision {last}")


def _lacking(found: Sequence[tuple[int, ChainLink | None]], head: str) -> Iterator[ChainFault]:
    number = head.partition(":")[0]
    heads = {f"{link.number}:{link.hash}" for _, link in found if link is not None}
    if head and number != "0" and head not in heads:
        yield ChainFault("missing", _behind(found), f"decision {number}, which a former audit had seen")
