"""Everything that is compiled for one topic's values or keys, by writer schema id.

Invariant: the derived schema is registered before a program can strip anything. A program is compiled anew on another
day, because a `keep` may have expired. Refused schemas are remembered; a registry that was away is asked again.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import Protocol

from aggregator.budgets import UNKNOWN_IDS
from aggregator.bytes_column import Integers
from aggregator.config.secrets import KeyRing
from aggregator.errors import DeadLetterError, Reason
from aggregator.privacy import operators
from aggregator.privacy.column import Column, joined, refused
from aggregator.privacy.compile import compile_plan
from aggregator.privacy.distinct import CAPACITY, Distinct
from aggregator.privacy.plan import Call, Plan
from aggregator.privacy.precedence import Scope
from aggregator.privacy.rules import is_steady
from aggregator.privacy.schema_ids import Pile
from aggregator.privacy.strip import Rejection, ReportRow
from aggregator.privacy.tally import Met, report_rows, summed
from aggregator.schema.registry import Registry


class Program(Protocol):
    """One plan with all that runs it: turns bodies of a writer's schema into framed bodies of its derived schema."""

    def strip(self, pile: Pile, members: Integers) -> Column:
        """Strip framed values.

        Args:
            pile: The batch.
            members: Places of the values of the plan's schema; the rows of the result.
        """
        ...

    def met(self) -> Met:
        """What was met so far."""
        ...


# (plan, operators by call, writer schema id, id of the derived schema) to what runs it. Without a derived schema
# nothing is left of a value.
Maker = Callable[[Plan, Sequence[Distinct], int, int | None], Program]


class Programs:
    """Programs of one scope.

    Args:
        scope: What the policy says.
        subject: Central subject of the derived schemas.
        edge_registry: Knows the writers' schemas.
        central_registry: Gets the derived ones.
        keys: Key rings by name.
        maker: Makes programs; where implementations differ.
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
        maker: Maker,
        drops_whole: bool = False,
    ) -> None:
        self._scope = scope
        self._subject = subject
        self._edge_registry = edge_registry
        self._central_registry = central_registry
        self._keys = keys
        self._maker = maker
        self._drops_whole = drops_whole
        self._day: date | None = None
        self._missed = 0
        self._known: dict[int, Program | Rejection] = {}
        self._calls: dict[Call, Distinct] = {}
        self._running: list[tuple[int, Plan, Program]] = []
        self._past: list[ReportRow] = []

    def begin(self, today: date) -> None:
        """A new batch: what was unknown may be known by now, and what was open may have expired."""
        self._missed = 0
        if today != self._day:
            self._past, self._running = self.report(), []
            self._day, self._known = today, {}
            self._calls = {call: made for call, made in self._calls.items() if is_steady(call.rule)}

    def strip(self, values: Sequence[bytes | None]) -> Column:
        """Strip the values of the batch that was begun, by schema: each group is one call per operator.

        Raises:
            RetryError, HoldError, ConfigError: as `program`.
        """
        pile = Pile(values)
        groups = pile.groups()
        parts = [refused(groups.unframed, Rejection(Reason.WRONG_MAGIC))]
        for schema_id, members in groups.members.items():
            program = self.program(schema_id)
            if isinstance(program, Rejection):
                parts.append(refused(members, program))
            else:
                parts.append((members, program.strip(pile, members)))
        return joined(len(pile), parts)

    def report(self) -> list[ReportRow]:
        """Every leaf of every schema met so far, on other days under other rules perhaps."""
        rows = [row for schema_id, plan, made in self._running for row in report_rows(schema_id, plan, made.met())]
        return summed([*self._past, *rows])

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
        if self._missed >= UNKNOWN_IDS.limit:
            return Rejection(Reason.UNKNOWN_SCHEMA, schema_id)
        try:
            text = self._edge_registry.schema(schema_id, look_again=not self._missed)
        except DeadLetterError as error:  # not remembered: it may be registered in a moment
            self._missed += 1
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
        leaves_nothing = plan.dropped and self._drops_whole
        central_id = None if leaves_nothing else self._central_registry.admit(self._subject, plan.schema)
        made = self._maker(plan, calls, schema_id, central_id)
        self._running.append((schema_id, plan, made))
        return made

    def _call(self, call: Call) -> Distinct:
        """Shared by all schemas of the topic, so that a value seen under one is known under the next."""
        if call not in self._calls:
            named = call.rule, call.leaf, self._keys
            made = operators.build(*named, call.context)
            capacity = CAPACITY if operators.remembers(call.rule) else 0
            self._calls[call] = Distinct(call, made, operators.build_raw(*named), capacity)
        return self._calls[call]
