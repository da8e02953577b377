"""Everything that is compiled for one topic's values or keys, by writer schema id.

Invariant: the derived schema is registered before a program can strip anything. A program is compiled anew on another
day, because a `keep` may have expired. Refused schemas are remembered; a registry that was away is asked again.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import date
from types import MappingProxyType
from typing import NamedTuple

from aggregator.config.secrets import KeyRing
from aggregator.errors import DeadLetterError, Reason
from aggregator.privacy import operators
from aggregator.privacy.codec import Codec, Raw
from aggregator.privacy.compile import compile_plan
from aggregator.privacy.distinct import Distinct
from aggregator.privacy.guard import Guard, Malformed
from aggregator.privacy.plan import Call, Plan
from aggregator.privacy.precedence import Scope
from aggregator.privacy.strip import Rejection
from aggregator.privacy.transform import Transform
from aggregator.schema.registry import Registry
from aggregator.schema.wire import frame


class Outcome(NamedTuple):
    """What became of one value or key.

    Attributes:
        content: What is left of it; None for nothing.
        rejection: Why its record can not be delivered.
        counts: (path, operator) to what was removed or changed; of use only if the record is delivered.
    """

    content: bytes | None = None
    rejection: Rejection | None = None
    counts: Mapping[tuple[str, str], int] = MappingProxyType({})


class Program:
    """One plan with all that runs it, and the central id of its derived schema."""

    def __init__(self, plan: Plan, calls: Sequence[Distinct], schema_id: int, central_id: int | None) -> None:
        self.plan = plan
        self.schema_id = schema_id
        self._central_id = central_id
        self._guard = Guard(plan)
        self._codec = Codec(plan)
        self._transform = Transform(plan)
        self._calls = calls

    def strip(self, bodies: Sequence[bytes]) -> list[Outcome]:
        """Strip Avro bodies; framed outcomes in the order of the bodies, without content where a key is all dropped."""
        decoded = [self._decoded(body) for body in bodies]
        wanted: dict[int, set[Raw]] = defaultdict(set)
        for item in decoded:
            if not isinstance(item, Rejection):
                self._transform.collect(item, wanted)
        results = {number: self._calls[number].results(raws) for number, raws in wanted.items()}
        return [
            Outcome(rejection=item) if isinstance(item, Rejection) else self._built(item, results) for item in decoded
        ]

    def _decoded(self, body: bytes) -> Raw | Rejection:
        try:
            self._guard.check(body)
            return self._codec.decode(body)
        except Malformed as error:
            return Rejection(error.reason, self.schema_id)
        except Exception:  # noqa: BLE001 - the guard lets nothing through that fails here; if so, the worker lives
            return Rejection(Reason.UNDECODABLE, self.schema_id)

    def _built(self, value: Raw, results: Mapping[int, Mapping[Raw, Raw]]) -> Outcome:
        counts: Counter[tuple[str, str]] = Counter()
        try:
            left = self._transform.build(value, results, counts)
            if self._central_id is None:
                return Outcome(counts=counts)
            return Outcome(frame(self._central_id, self._codec.encode(left)), counts=counts)
        except Exception:  # noqa: BLE001 - an operator failed, or broke its word about its type: never the input
            return Outcome(rejection=Rejection(Reason.OPERATOR_FAILED, self.schema_id))


class Programs:
    """Programs of one scope.

    Args:
        scope: What the policy says.
        subject: Central subject of the derived schemas.
        edge_registry: Knows the writers' schemas.
        central_registry: Gets the derived ones.
        keys: Key rings by name.
        drops_whole: A value of which nothing is left becomes None instead of an empty one; for keys.
    """

    def __init__(
        self,
        scope: Scope,
        subject: str,
        edge_registry: Registry,
        central_registry: Registry,
        keys: Mapping[str, KeyRing],
        *,
        drops_whole: bool = False,
    ) -> None:
        self._scope = scope
        self._subject = subject
        self._edge_registry = edge_registry
        self._central_registry = central_registry
        self._keys = keys
        self._drops_whole = drops_whole
        self._day: date | None = None
        self._looked = False
        self._known: dict[int, Program | Rejection] = {}
        self._calls: dict[Call, Distinct] = {}

    def begin(self, today: date) -> None:
        """A new batch: what was unknown may be known by now, and what was open may have expired."""
        self._looked = False
        if today != self._day:
            self._day, self._known = today, {}

    def program(self, schema_id: int) -> Program | Rejection:
        """The program of a writer schema id, in the batch that was begun.

        Raises:
            RetryError: a registry does not answer.
            HoldError: central refuses the derived schema, or an id has two meanings.
            ConfigError: a key can not be read.
        """
        known = self._known.get(schema_id)
        if known is not None:
            return known
        try:
            text = self._edge_registry.schema(schema_id, look_again=not self._looked)
        except DeadLetterError as error:  # not remembered: it may be registered in a moment
            self._looked = True
            return Rejection(error.reason, schema_id)
        try:
            self._known[schema_id] = self._compiled(schema_id, text)
        except DeadLetterError as error:
            self._known[schema_id] = Rejection(error.reason, schema_id)
        return self._known[schema_id]

    def _compiled(self, schema_id: int, text: str) -> Program:
        if self._day is None:
            raise AssertionError("`begin` comes before `program`")
        plan = compile_plan(text, self._scope, self._day)
        calls = [self._call(call) for call in plan.calls]
        if plan.dropped and self._drops_whole:
            return Program(plan, calls, schema_id, None)
        return Program(plan, calls, schema_id, self._central_registry.register(self._subject, plan.schema))

    def _call(self, call: Call) -> Distinct:
        """Shared by all schemas of the topic, so that a value seen under one is known under the next."""
        if call not in self._calls:
            self._calls[call] = Distinct(call, operators.build(call.rule, call.leaf, self._keys))
        return self._calls[call]
