"""A chain is a header that lists the clusters a record has passed; with it, hubs of any name find returning records.

    hub.chain = <cluster>/<cluster>/…/<place>[/<seal>]
    <cluster>   base64url(BLAKE2s-64(cluster id))
    <place>     base64url(BLAKE2s-64(id of the last cluster ‖ "/" ‖ topic there)): where a hub wrote the record
    <seal>      base64url(BLAKE2s-128(sub-key `chain`, all before it)), of a hub that has a key for it    RFC 7693

Invariant: a record whose chain contains this hub's central is not delivered there again. It is suppressed and counted
if a seal proves that a hub wrote this chain into this very topic. Otherwise it is a dead letter, because any producer
at an edge can write a chain. A chain that an application copied from a record of another topic does not count as a
chain of its record. A chain without a valid seal goes on without a seal, and none of its bytes comes out: every hub
digests it once more.
"""

import base64
import hashlib
import hmac
import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from aggregator.bytes_column import BytesColumn, Integers
from aggregator.config.secrets import KeyRing
from aggregator.config.subkeys import Purpose, subkey
from aggregator.coordinates import CHAIN_HEADER
from aggregator.errors import Reason
from aggregator.header_columns import Headers, HeaderTable

# The most clusters that a record may pass; a longer chain is a mistake or a forgery.
MAX_CLUSTERS = 16
_ID_BYTES, _SEAL_BYTES = 8, 16
_ID = rb"[A-Za-z0-9_-]{11}"
_FORM = re.compile(rb"((?:%b/){1,%d})(%b)(?:/([A-Za-z0-9_-]{22}))?" % (_ID, MAX_CLUSTERS, _ID))
_LONGEST = 12 * MAX_CLUSTERS + 11 + 23


class ChainVerdict(IntEnum):
    """The fate of a record because of its chain.

    `CLAIMED`: the record is delivered, but no hub wrote its header for it.
    """

    DELIVERED = 0
    CLAIMED = 1
    CYCLE = 2
    UNPROVEN = 3
    TOO_LONG = 4


_REASONS = {ChainVerdict.UNPROVEN: Reason.UNPROVEN_CYCLE, ChainVerdict.TOO_LONG: Reason.CHAIN_TOO_LONG}


class ChainJudgement(NamedTuple):
    """The fate of a record, and the chain with which it is delivered; empty if it has none."""

    fate: ChainVerdict
    chain: bytes = b""


class BatchJudgement(NamedTuple):
    """Holds what the chains say of the records of a batch.

    Attributes:
        chains: What each record goes on with; None: nothing is written.
        cycles: Places of records that have passed central, by their seal.
        claimed: Places of records that say something of a chain, and are delivered without it.
        rejected: Places of records that become dead letters.
    """

    chains: BytesColumn | None = None
    cycles: frozenset[int] = frozenset()
    claimed: frozenset[int] = frozenset()
    rejected: Mapping[int, Reason] = {}


def chained_topics(returns: Container[str], chain_key: str | None) -> Container[str] | None:
    """Central topics whose records get a chain even where they came with none; None: all.

    A header more costs a tenth of a slot's CPU. A hub never makes a name shorter: a name comes back only where all hubs
    of a circle keep it, and then each of them reads the names that it writes.

    Args:
        returns: Central topics whose names some rule reads at edges.
        chain_key: See the configuration; hubs that share one are meant to follow one another.
    """
    return None if chain_key is not None else returns


def chain_keys(key_rings: Mapping[str, KeyRing], name: str | None) -> tuple[bytes, ...]:
    """The key that seals chains, and behind it its other versions, which may have sealed.

    Args:
        key_rings: Of the hub.
        name: Of the one that it shares with other hubs; None: there is none.

    Raises:
        ConfigError: a key cannot be read.
    """
    if name is None:
        return ()
    ring = key_rings[name]
    versions = sorted(dict(ring.versions), key=lambda version: version != ring.current)
    return tuple(subkey(ring.material(name, version), Purpose.CHAIN) for version in versions)


@dataclass(frozen=True)
class Chains:
    """Holds what a hub knows about the clusters that it connects.

    Attributes:
        central: Cluster id; empty: it tells none, and no chain is written or judged.
        edges: Cluster id by edge.
        keys: The first one seals, any of them may have sealed; none: nothing is sealed.
        begins: Central's topics whose records get a chain even where they came with none; None: all.
    """

    central: str = ""
    edges: Mapping[str, str] = field(default_factory=dict)
    keys: tuple[bytes, ...] = field(default=(), repr=False)
    begins: Container[str] | None = None

    def judge_batch(
        self,
        edge: str,
        topic: str,
        written: str,
        headers: Sequence[Headers | None],
        asked: frozenset[int] = frozenset(),
    ) -> BatchJudgement:
        """Judge the records of a batch by their chains.

        Args:
            edge: The edge that the batch was read from.
            topic: The edge topic.
            written: The central topic that the batch is written to.
            headers: The headers of each record.
            asked: Places of records that a person wants to be delivered, whatever their chains say.
        """
        if not self.central:
            return BatchJudgement()
        new, table = self.judge(edge, topic, written, None), HeaderTable.of(headers)
        is_chain = _are_chains(table)
        if is_chain is None:
            begins = self.begins is None or written in self.begins
            return BatchJudgement(_repeated(new.chain, len(table)) if begins else None)
        # Of several headers with this name only the last is judged, as is usual in Kafka.
        at = np.flatnonzero(is_chain)
        owners = np.searchsorted(table.ends, at, side="right") - 1
        counts = np.append(owners[1:] != owners[:-1], True)
        is_chain[at[~counts]] = False
        values, codes = _distinct(table.values.where(is_chain))
        choices = [new, *(self.judge(edge, topic, written, value) for value in values)]
        which = np.zeros(len(table), np.int64)
        which[owners[counts]] = codes + 1
        fates = np.fromiter((one.fate for one in choices), np.int64, len(choices))[which]
        for place in asked:
            fates[place] = ChainVerdict.DELIVERED if fates[place] in _REASONS else fates[place]
        chains = [one.chain for one in choices]
        places = {
            fate: np.flatnonzero(fates == fate).tolist()
            for fate in (ChainVerdict.CLAIMED, ChainVerdict.CYCLE, *_REASONS)
        }
        return BatchJudgement(
            _repeated(chains[which[0]], len(which)) if (which == which[:1]).all() else _chosen(chains, which),
            frozenset(places[ChainVerdict.CYCLE]),
            frozenset(places[ChainVerdict.CLAIMED]),
            {place: reason for fate, reason in _REASONS.items() for place in places[fate]},
        )

    def judge(self, edge: str, topic: str, written: str, header: bytes | None) -> ChainJudgement:
        """Judge one record; arguments as of `judge_batch`."""
        here, place = digest(self.edges.get(edge, "")), place_of(self.edges.get(edge, ""), topic)
        new = self._chain((here,) if self.edges.get(edge) else (), written, sealed=True)
        if header is None:
            return ChainJudgement(ChainVerdict.DELIVERED, new)
        form = _FORM.fullmatch(header) if len(header) <= _LONGEST else None
        if form is None:
            return ChainJudgement(ChainVerdict.CLAIMED, new)
        passed = tuple(form[1].split(b"/")[:-1])
        is_ours = form[2] == place
        if passed[-1] == here and not is_ours:
            return ChainJudgement(ChainVerdict.CLAIMED, new)
        proven = is_ours and self._sealed(header, form[3])
        onward = passed if proven else tuple(map(_again, passed))
        if not self._own.isdisjoint(passed):
            chain = self._chain(onward, written, sealed=False)
            return ChainJudgement(ChainVerdict.CYCLE if proven else ChainVerdict.UNPROVEN, chain)
        if passed[-1] != here and self.edges.get(edge):
            onward = (*onward, here)
        if len(onward) >= MAX_CLUSTERS:
            return ChainJudgement(ChainVerdict.TOO_LONG, new)
        return ChainJudgement(ChainVerdict.DELIVERED, self._chain(onward, written, sealed=proven))

    @cached_property
    def _own(self) -> frozenset[bytes]:
        """All that central's id becomes on its way."""
        found = [digest(self.central)]
        for _ in range(MAX_CLUSTERS):
            found.append(_again(found[-1]))
        return frozenset(found)

    def _chain(self, passed: tuple[bytes, ...], written: str, *, sealed: bool) -> bytes:
        clusters = (*passed, digest(self.central))[-MAX_CLUSTERS:]
        chain = b"/".join((*clusters, place_of(self.central, written)))
        return chain + b"/" + _seal(self.keys[0], chain) if sealed and self.keys else chain

    def _sealed(self, header: bytes, seal: bytes | None) -> bool:
        if seal is None:
            return False
        chain = header[: -len(seal) - 1]
        return any([hmac.compare_digest(_seal(key, chain), seal) for key in self.keys])  # noqa: C419 - in equal time


@lru_cache(4096)
def digest(text: str) -> bytes:
    """A cluster id as a chain has it; of one length, whatever the id is. Remembered for ids and topics, never more."""
    return _again(text.encode())


def place_of(cluster_id: str, topic: str) -> bytes:
    """A topic of a cluster as a chain has it."""
    return digest(f"{cluster_id}/{topic}")


def _again(digested: bytes) -> bytes:
    return base64.urlsafe_b64encode(hashlib.blake2s(digested, digest_size=_ID_BYTES).digest()).rstrip(b"=")


def _seal(key: bytes, chain: bytes) -> bytes:
    made = hashlib.blake2s(chain, key=key, digest_size=_SEAL_BYTES).digest()
    return base64.urlsafe_b64encode(made).rstrip(b"=")


def _are_chains(table: HeaderTable) -> "np.ndarray[tuple[int], np.dtype[np.bool_]] | None":
    """Which headers of a table are chains; None: not one is."""
    if CHAIN_HEADER not in table.names:
        return None
    found = table.codes == table.names.index(CHAIN_HEADER)
    return found if found.any() else None


def _distinct(cells: BytesColumn) -> tuple[list[bytes], Integers]:
    """The different values, and which of them each cell has; records that came the same way have one."""
    sizes, first = cells.sizes, cells[0] or b""
    if len(first) and (sizes == len(first)).all():
        rows = cells.data[cells.ends[0] : cells.ends[-1]].reshape(len(cells), len(first))
        if (rows == rows[0]).all():
            return [first], np.zeros(len(cells), np.int64)
    known: dict[bytes, int] = {}
    codes = [known.setdefault(value or b"", len(known)) for value in cells.tolist()]
    return list(known), np.array(codes, np.int64)


def _repeated(value: bytes, count: int) -> BytesColumn:
    data = np.tile(np.frombuffer(value, np.uint8), count)
    return BytesColumn(data, np.arange(count + 1, dtype=np.int64) * len(value))


def _chosen(values: Sequence[bytes], which: Integers) -> BytesColumn:
    return BytesColumn.of([values[at] for at in which.tolist()])
