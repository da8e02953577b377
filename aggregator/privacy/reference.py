"""The reference implementation of stripping, on fastavro: slow, independent of the kernel, and complete.

Invariants: lists out are as long as lists in; a rejected record has neither key, value nor headers left; a derived
schema is registered before the first record of it is returned; nothing is returned of a batch when a registry is away.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime

from aggregator.config.secrets import KeyRing
from aggregator.errors import DeadLetterError
from aggregator.privacy.keys import Keys
from aggregator.privacy.policy import Policy
from aggregator.privacy.precedence import key_scope, value_scope
from aggregator.privacy.programs import Outcome, Program, Programs
from aggregator.privacy.strip import Batch, Headers, Rejection, Stripped
from aggregator.schema.registry import Registry
from aggregator.schema.wire import split

HEADERS_PATH = "@headers"


def utc_today() -> date:
    """The day in UTC; the default of what decides whether a `keep` has expired."""
    return datetime.now(UTC).date()


class ReferenceStrip:
    """Strips the records of one edge topic.

    Args:
        policy: What happens.
        edge_topic: Where the records come from; selects the policy's topics.
        central_topic: Where they go; names the subjects of derived schemas.
        edge_registry: The edge's registry.
        central_registry: Central's.
        keys: Key rings by name.
        today: Asked once per batch.

    Raises:
        ConfigError: the policy contradicts itself for this topic, or the record key's key can not be read.
    """

    def __init__(
        self,
        *,
        policy: Policy,
        edge_topic: str,
        central_topic: str,
        edge_registry: Registry,
        central_registry: Registry,
        keys: Mapping[str, KeyRing],
        today: Callable[[], date] = utc_today,
    ) -> None:
        view = policy.view(edge_topic)
        registries = (edge_registry, central_registry, keys)
        self._values = Programs(value_scope(policy, edge_topic), f"{central_topic}-value", *registries)
        of_key = Programs(key_scope(policy, edge_topic), f"{central_topic}-key", *registries, drops_whole=True)
        self._keys = Keys(view.key, view.format, of_key, keys)
        self._headers = frozenset(view.headers)
        self._today = today

    def strip(self, batch: Batch) -> Stripped:
        """Apply the plan to every record; see `privacy.strip.Strip`."""
        today = self._today()
        self._keys.begin(today)
        self._values.begin(today)
        keys = [self._keys.transform(key) for key in batch.keys]
        values = self._stripped(batch.values)
        out = Stripped(keys=[], values=[], headers=[])
        for index, (key, value, headers) in enumerate(zip(keys, values, batch.headers, strict=True)):
            rejection = value.rejection or key.rejection
            if rejection is None:
                out.counts.update(key.counts)
                out.counts.update(value.counts)
            else:
                out.rejected[index] = rejection
            out.keys.append(key.content if rejection is None else None)
            out.values.append(value.content if rejection is None else None)
            out.headers.append(self._allowed(headers, out.counts) if rejection is None else [])
        return out

    def _stripped(self, values: Sequence[bytes | None]) -> list[Outcome]:
        """Values by schema: each group is one call per operator."""
        outcomes = [Outcome()] * len(values)
        groups: dict[int, list[tuple[int, bytes]]] = defaultdict(list)
        for index, value in enumerate(values):
            if value is None:
                continue
            try:
                schema_id, body = split(value)
            except DeadLetterError as error:
                outcomes[index] = Outcome(rejection=Rejection(error.reason))
            else:
                groups[schema_id].append((index, body))
        for schema_id, members in groups.items():
            for (index, _), outcome in zip(members, self._group(schema_id, members), strict=True):
                outcomes[index] = outcome
        return outcomes

    def _group(self, schema_id: int, members: Sequence[tuple[int, bytes]]) -> list[Outcome]:
        program = self._values.program(schema_id)
        if isinstance(program, Program):
            return program.strip([body for _, body in members])
        return [Outcome(rejection=program)] * len(members)

    def _allowed(self, headers: Headers | None, counts: Counter[tuple[str, str]]) -> list[tuple[str, bytes | None]]:
        allowed = [(name, value) for name, value in headers or () if name in self._headers]
        if headers and len(allowed) < len(headers):
            counts[HEADERS_PATH, "drop"] += len(headers) - len(allowed)
        return allowed
