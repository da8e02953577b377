"""This module finds records of this hub that come back to it through an edge, and tells them from forged ones.

    hub.origin.mac = 32 hex digits of BLAKE2s-128(sub-key `origin`, hub.origin)        RFC 7693

Invariant: a record is a cycle only if its origin names this hub and, where the hub has a key, its seal was made by this
hub. Records with any other header from a producer at an edge are delivered. Only central topics whose names are read at
edges are sealed, because records can come back only through these. Without a key, the origin alone decides.
"""

import hashlib
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from aggregator.budgets import ORIGIN_HEADERS
from aggregator.bytes_column import BytesColumn, ends_of
from aggregator.config.model import TopicRule
from aggregator.config.patterns import full_matches
from aggregator.config.secrets import KeyRing
from aggregator.config.subkeys import Purpose, subkey
from aggregator.coordinates import ORIGIN_HEADER, SEAL_HEADER
from aggregator.header_columns import Headers

_BYTES = 16
_HEX = 2 * _BYTES


class ReturningTopics(Container[str]):
    """The names of central topics that some rule reads at edges: what is written there may come back.

    Args:
        rules: The configuration's.
    """

    def __init__(self, rules: Iterable[TopicRule]) -> None:
        self._rules = tuple(rules)
        self._found: dict[str, bool] = {}

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        if name not in self._found:
            self._found[name] = any(full_matches(rule.match, [name])[0] for rule in self._rules)
        return self._found[name]


def seal_keys(key_rings: Mapping[str, KeyRing]) -> tuple[bytes, ...]:
    """The key that seals, and behind it all that may have sealed.

    The first key by name seals, in its current version; another name may have been the first when a record was sealed.

    Raises:
        ConfigError: a key cannot be read.
    """
    return tuple(
        subkey(ring.material(name, version), Purpose.ORIGIN)
        for name, ring in sorted(key_rings.items())
        for version in sorted(dict(ring.versions), key=lambda version: version != ring.current)
    )


@dataclass(frozen=True, slots=True)
class Cycles:
    """Holds what a hub needs to recognise its own records.

    Attributes:
        hub: Name in `hub.origin`.
        written: Central topics of this hub; a record of ours in an edge topic of such a name is a cycle.
        sealed: Central topics whose names are read at edges.
        keys: The first one seals, any of them may have sealed; none: nothing is sealed.
    """

    hub: str
    written: frozenset[str] = frozenset()
    sealed: Container[str] = frozenset()
    keys: tuple[bytes, ...] = field(default=(), repr=False)

    def seals(self, central: str, origins: BytesColumn) -> list[tuple[str, BytesColumn]]:
        """The header that seals these origins, where one is needed."""
        if not self.keys or central not in self.sealed:
            return []
        macs = b"".join(_macs(self.keys[0], [origin or b"" for origin in origins.tolist()])).hex().encode()
        return [(SEAL_HEADER, BytesColumn(np.frombuffer(macs, np.uint8), ends_of(np.full(len(origins), _HEX))))]

    def find_cycles(self, topic: str, headers: Sequence[Headers | None]) -> tuple[set[int], set[int]]:
        """Places of records that are cycles, and of those that only say so.

        Args:
            topic: At the edge.
            headers: Each record's.
        """
        cycles, forged = set[int](), set[int]()
        if topic in self.written:
            ours = f"{self.hub}/".encode()
            for place, own in enumerate(headers):
                origins = [value for name, value in own or () if name == ORIGIN_HEADER and value]
                if any(origin.startswith(ours) for origin in origins):
                    seals = [value for name, value in own or () if name == SEAL_HEADER and value]
                    (cycles if self._is_cycle(origins, seals) else forged).add(place)
        return cycles, forged

    def _is_cycle(self, origins: Sequence[bytes], seals: Sequence[bytes]) -> bool:
        """A hub writes one header of each name. A record with several of them is forged, and is not suppressed."""
        if max(len(origins), len(seals)) > ORIGIN_HEADERS.limit:
            return False
        return not self.keys or any(_vouches(key, origins, seals) for key in self.keys)


def _vouches(key: bytes, origins: Sequence[bytes], seals: Sequence[bytes]) -> bool:
    """Whether a seal belongs to an origin. Both are hashed once more, so that the time it takes tells nothing."""
    made = [mac.hex().encode() for mac in _macs(key, origins)]
    return not set(_macs(key, made)).isdisjoint(_macs(key, seals))


def _macs(key: bytes, origins: Sequence[bytes]) -> list[bytes]:
    """One of each origin; the key is hashed in once, then copied: half a microsecond instead of one and a half."""
    keyed, macs = hashlib.blake2s(key=key, digest_size=_BYTES), []
    for origin in origins:
        mac = keyed.copy()
        mac.update(origin)
        macs.append(mac.digest())
    return macs
