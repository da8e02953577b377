"""Strips whole records of a topic (keys, values and headers), and counts them, for every implementation of programs.

Invariants: output lists are as long as input lists. A rejected or suppressed record has neither key, value nor headers
left and counts nothing. A derived schema is registered before the first record of it is returned. Nothing of a batch is
returned while a registry is away.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import date
from typing import Any

import numpy as np

from aggregator.bytes_column import BytesColumn
from aggregator.config.secrets import KeyRing
from aggregator.coordinates import SchemaName
from aggregator.errors import Reason
from aggregator.header_columns import HeaderTable
from aggregator.privacy.batch.column import Counts, ResultColumn
from aggregator.privacy.batch.strip import Batch, PolicyId, Rejection, ReportRow, Stripped
from aggregator.privacy.ids.glue_frames import glue_to_confluent
from aggregator.privacy.ids.header_schema_ids import ID_HEADERS, NAMING_HEADERS, frame_from_headers
from aggregator.privacy.ids.subjects import Subjects
from aggregator.privacy.ids.unknown_ids import PendingIds
from aggregator.privacy.operators import GCM_OPERATORS
from aggregator.privacy.policy.file import Policy
from aggregator.privacy.policy.precedence import key_scope
from aggregator.privacy.tokens.tokens import HmacTokenSpec
from aggregator.privacy.topic.keys import KeyStripper, TokensOf, other_versions
from aggregator.privacy.topic.programs import Maker, Programs
from aggregator.privacy.topic.suppression import Suppression
from aggregator.privacy.topic.values import values_of
from aggregator.schema.registry import Registry, reportable_id
from aggregator.schema.wire import Framing

HEADERS_PATH = "@headers"


class TopicStrip:
    """Strips the records of one edge topic.

    Args:
        policy: The policy to apply.
        edge_topic: The edge topic of the records; selects the policy's topics.
        central_topic: The central topic; names the subjects of derived schemas.
        edge_registry: The edge's registry.
        central_registry: Central's.
        key_rings: Key rings by name.
        today: The day in UTC, by which a `keep` expires; asked once per batch.
        now_s: Seconds on a clock that only goes forward.
        edge: Name of the edge, for conditions that ask for it.
        patience_s: How long a schema id that the edge's registry does not know is waited for.

    Raises:
        ConfigError: the policy contradicts itself for this topic, or the record key's key cannot be read.
    """

    def __init__(
        self,
        *,
        policy: Policy,
        edge_topic: str,
        central_topic: str,
        edge_registry: Registry,
        central_registry: Registry,
        key_rings: Mapping[str, KeyRing],
        today: Callable[[], date],
        now_s: Callable[[], float],
        edge: str | None = None,
        patience_s: float = 0.0,
    ) -> None:
        view = policy.view(edge_topic)
        self._pending_ids, self._now_s = PendingIds(patience_s, edge_registry.name), now_s
        parts = (edge_registry, central_registry, key_rings)
        common: dict[str, Any] = {"maker": self._maker(), "pending_ids": self._pending_ids}
        opened = view.subjects if all(view.subjects) else ()  # all patterns that match the topic must open a subject
        own = Subjects(edge_topic, "value", view.opens, opened, dict(view.reissued))
        self._values = values_of(
            policy,
            edge_topic,
            key_rings,
            lambda scope: Programs(scope, f"{central_topic}-value", *parts, subjects=own, **common),
            self._tokens_of,
        )
        of_keys = key_scope(policy, edge_topic)
        of_key = own._replace(part="key")
        avro_keys = Programs(of_keys, f"{central_topic}-key", *parts, subjects=of_key, **common, drops_whole=True)
        self._keys = KeyStripper(of_keys, view.format, avro_keys, key_rings, self._tokens_of)
        self._by_schema = (avro_keys, self._values)
        self._former = [
            KeyStripper(of_keys, view.format, avro_keys.under(rings), rings, self._tokens_of)
            for rings in other_versions(of_keys, key_rings)
        ]
        self._suppression = Suppression(view.drop_record, edge, edge_topic)
        # Readers at central look at these headers first, and there an id of the edge's registry means another schema.
        self._headers = frozenset(view.headers) - ID_HEADERS
        self._policy = PolicyId(policy.policy, policy.version, policy.hash)
        self._key_versions = {name: key_rings[name].current for name in sorted(policy.keys()) if name in key_rings}
        self._sealing = [f"{name}/{key_rings[name].current}" for name in sorted(policy.sealing()) if name in key_rings]
        self._edge_registry = edge_registry
        self._keys_by_wire = view.format in (None, "avro")
        self._values_by_wire = view.value_format.has_schema
        self._today = today

    def _maker(self) -> Maker:
        """The function that compiles a plan. Implementations differ only in this and in `_tokens_of`."""
        raise NotImplementedError

    def _tokens_of(self, _token_spec: HmacTokenSpec) -> TokensOf | None:
        """What makes tokens of many record keys, or whole values, at once; None: each is made alone."""
        return None

    @property
    def policy(self) -> PolicyId:
        """The id of the policy that the strip applies."""
        return self._policy

    def key_versions(self) -> Mapping[str, int]:
        """Name of each key that the policy uses to its current version."""
        return self._key_versions

    def report(self) -> list[ReportRow]:
        """The counts so far; see `privacy.batch.strip.Strip`."""
        rows = [*self._values.report(), *self._keys.report()]
        return [row._replace(schema_id=self._name(row.schema_id)) for row in rows]

    def strip(self, batch: Batch) -> Stripped:
        """Apply the plan to every record; see `privacy.batch.strip.Strip`."""
        headers = HeaderTable.of(batch.headers)
        unreadable: dict[int, Rejection] = {}
        glued = self._edge_registry.framing is Framing.GLUE
        named = not glued and not NAMING_HEADERS.isdisjoint(headers.used)
        if glued:
            batch, unreadable = glue_to_confluent(
                batch, self._edge_registry, keys=self._keys_by_wire, values=self._values_by_wire
            )
        elif named:
            batch = frame_from_headers(batch, self._edge_registry, keys=self._keys_by_wire, values=self._values_by_wire)
        today = self._today()
        self._keys.begin(today)
        self._values.begin(today)
        self._pending_ids.begin(
            self._now_s(), numbered=glued or named, source_partition=batch.source_partition, offsets=batch.offsets
        )
        strip_keys, strip_values = self._keys.prepare(batch.keys), self._values.prepare(batch.values)
        self._pending_ids.raise_if_waiting()
        strip_former = self._prepare_former(batch, today) if self._former else []
        values, keys = strip_values(), strip_keys()  # values may be too much for one batch: then no key was counted
        suppressed, undecided = self._suppression.verdicts(batch, values)
        rejected = {**keys.rejected, **values.rejected, **unreadable}
        rejected.update((place, Rejection(Reason.UNDECIDED)) for place in undecided - rejected.keys())
        lost = rejected.keys() | suppressed
        counts = _delivered(keys, lost) + _delivered(values, lost)
        allowed = headers.only(self._headers, lost)
        dropped = headers.total - allowed.total - sum(len(headers[index]) for index in lost)
        if dropped:
            counts[HEADERS_PATH, "drop"] += dropped
        dead = {place: rejected[place] for place in sorted(rejected.keys() - suppressed)}
        dead = {place: self._reportable(one, is_own=not (glued or named)) for place, one in dead.items()}
        left_keys, left_values = (BytesColumn.of(column.contents).without(lost) for column in (keys, values))
        further = _further([strip() for strip in strip_former], left_keys, lost)
        schemas = {name: meaning for programs in self._by_schema for name, meaning in programs.batch_schemas.items()}
        sealed = self._sealed(values.counts) if self._sealing else {}
        return Stripped(left_keys, left_values, allowed, dead, set(suppressed), further, counts, schemas, sealed)

    def _reportable(self, one: Rejection, *, is_own: bool) -> Rejection:
        """A rejection with its schema as others call it; bytes of a value that can be no id are not told as one."""
        name = one.schema_id if is_own else self._name(one.schema_id)
        return one._replace(schema_id=reportable_id(name) if one.reason is Reason.UNKNOWN_SCHEMA else name)

    def _name(self, schema_id: SchemaName | None) -> SchemaName | None:
        """What others call a schema: a number of a GUID means nothing outside of this process."""
        return self._edge_registry.name(schema_id) if isinstance(schema_id, int) else schema_id

    def _sealed(self, counts: Counts) -> Mapping[str, int]:
        """Count the values sealed with AES-GCM, lost records included, for each key that may have sealed them."""
        count = sum(number for (_, operator), number in counts.items() if operator in GCM_OPERATORS)
        return dict.fromkeys(self._sealing, count) if count else {}

    def _prepare_former(self, batch: Batch, today: date) -> list[Callable[[], ResultColumn]]:
        """Functions that transform tombstones' keys under every other key version, so that older copies go, too.

        Raises:
            SchemaIdsPending: a registry is away that one of them needs.
        """
        nulls = BytesColumn.of(batch.values).nulls
        if nulls is None:
            return []
        of_tombstones = BytesColumn.of(batch.keys).without(np.flatnonzero(~nulls).tolist())
        for keys in self._former:
            keys.begin(today)
        found = [keys.prepare(of_tombstones) for keys in self._former]
        self._pending_ids.raise_if_waiting()
        return found


def _further(
    former: Sequence[ResultColumn], written: BytesColumn, lost: Collection[int]
) -> dict[int, tuple[bytes, ...]]:
    """The keys beside those that were written."""
    found: dict[int, dict[bytes, None]] = {}
    for column in former:
        for at, key in enumerate(column.contents):
            if key is not None and at not in lost and written[at] not in (None, key):
                found.setdefault(at, {})[key] = None
    return {at: tuple(keys) for at, keys in found.items()}


def _delivered(column: ResultColumn, lost: Collection[int]) -> Counts:
    """A column's counts without the records that are lost for another reason."""
    others = [place for place in lost if place not in column.rejected]
    return column.counts - column.counts_of(others) if others else Counter(column.counts)
