"""Holds all compiled programs for one topic's values or keys, by writer schema id.

Invariant: the derived schema is registered before a program can strip anything. A program is compiled anew on another
day, because a `keep` may have expired. Refused schemas are remembered. A registry that was away is asked again. An id
about which the registry has said nothing decides nothing: its record waits.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from functools import partial
from typing import Protocol

from aggregator.bytes_column import Integers
from aggregator.config.secrets import KeyRing
from aggregator.errors import AggregatorError, DeadLetterError, HoldError, Reason, Unreachable, kind_and_place
from aggregator.privacy.batch.column import ResultColumn, joined, refused
from aggregator.privacy.batch.distinct import OperatorCache
from aggregator.privacy.batch.strip import FoundSchema, Rejection, ReportRow
from aggregator.privacy.batch.tally import NodeCounts, report_rows, summed
from aggregator.privacy.ids.schema_ids import FramedValues, Groups
from aggregator.privacy.ids.subjects import Subjects
from aggregator.privacy.ids.unknown_ids import PendingIds
from aggregator.privacy.plan.compile import compile_plan
from aggregator.privacy.plan.plan import Call, StripPlan
from aggregator.privacy.policy.precedence import Scope
from aggregator.privacy.policy.rules import is_deterministic
from aggregator.schema.avro import Schema, parse
from aggregator.schema.inherited_tags import fingerprint, with_inherited_tags
from aggregator.schema.registry import Listing, Registry, Requester, UnknownSchema


class Program(Protocol):
    """One plan with all that runs it: turns bodies of a writer's schema into framed bodies of its derived schema."""

    def strip(self, batch: FramedValues, members: Integers) -> ResultColumn:
        """Strip framed values.

        Args:
            batch: The batch.
            members: Places of the values of the plan's schema; the rows of the result.
        """
        ...

    def node_counts(self) -> NodeCounts:
        """The counts so far."""
        ...


# (plan, operators by call, writer schema id, id of the derived schema) to what runs it. Without a derived schema
# nothing is left of a value.
Maker = Callable[[StripPlan, Sequence[OperatorCache], int, int | None], Program]


class Programs:
    """The programs of one scope, made when a schema id is first met.

    `batch_schemas` maps each schema id of the present batch to its meaning.

    Args:
        scope: What the policy says.
        subject: Central subject of the derived schemas.
        edge_registry: Knows the writers' schemas.
        central_registry: Gets the derived ones.
        key_rings: Key rings by name.
        subjects: Which of the edge's subjects are the topic's.
        maker: Makes programs; where implementations differ.
        pending_ids: Ids that are waited for.
        drops_whole: A value of which nothing is left becomes None instead of an empty one; for keys.
    """

    def __init__(
        self,
        scope: Scope,
        subject: str,
        edge_registry: Registry,
        central_registry: Registry,
        key_rings: Mapping[str, KeyRing],
        *,
        subjects: Subjects,
        maker: Maker,
        pending_ids: PendingIds,
        drops_whole: bool = False,
    ) -> None:
        self._scope = scope
        self._subjects = subjects
        self._subject = subject
        self._edge_registry = edge_registry
        self._central_registry = central_registry
        self._key_rings = key_rings
        self._maker = maker
        self._pending_ids = pending_ids
        self._drops_whole = drops_whole
        self._day: date | None = None
        self._known: dict[int, Program | Rejection] = {}
        self._meanings: dict[int, tuple[str, FoundSchema]] = {}
        self.batch_schemas: dict[str, FoundSchema] = {}
        self._calls: dict[Call, OperatorCache] = {}
        self._running: list[tuple[int, StripPlan, Program]] = []
        self._past: list[ReportRow] = []

    def under(self, key_rings: Mapping[str, KeyRing]) -> "Programs":
        """The same with other key rings."""
        return Programs(
            self._scope,
            self._subject,
            self._edge_registry,
            self._central_registry,
            key_rings,
            subjects=self._subjects,
            maker=self._maker,
            pending_ids=self._pending_ids,
            drops_whole=self._drops_whole,
        )

    def begin(self, today: date) -> None:
        """A new batch: what was unknown may be known by now, and what was open may have expired."""
        self.batch_schemas = {}
        if today != self._day:
            self._past, self._running = self.report(), []
            self._day, self._known = today, {}
            self._calls = {call: made for call, made in self._calls.items() if is_deterministic(call.rule)}

    def prepare(self, values: Sequence[bytes | None]) -> Callable[[], ResultColumn]:
        """A function that strips the values of the batch that was begun. Nothing is counted before it is called.

        Raises:
            RetryError, HoldError, ConfigError: as `programs`.
        """
        batch = FramedValues(values)
        groups = batch.groups()
        return partial(_stripped, batch, groups, self.programs(groups))

    def programs(self, groups: Groups) -> dict[int, Program | Rejection]:
        """The program of every schema id in the batch that was begun.

        Raises:
            RetryError: a registry does not answer.
            HoldError: central refuses the derived schema, or an id has two meanings or none for this topic.
            ConfigError: a key cannot be read.
        """
        members = groups.members
        self._pending_ids.expect(one for one in members if one not in self._known)
        programs = {one: self._program(one, int(places[0])) for one, places in members.items()}
        self.batch_schemas = dict(
            self._meanings[one] for one, made in programs.items() if not isinstance(made, Rejection)
        )
        return programs

    def report(self) -> list[ReportRow]:
        """Every leaf of every schema met so far, on other days under other rules perhaps."""
        rows = [
            row for schema_id, plan, made in self._running for row in report_rows(schema_id, plan, made.node_counts())
        ]
        return summed([*self._past, *rows])

    def _program(self, schema_id: int, place: int) -> Program | Rejection:
        """The program of an id that this record is the first to name; an id that is put off counts nothing."""
        if schema_id >= self._edge_registry.ids_end and not self._pending_ids.is_numbered:
            return Rejection(Reason.UNKNOWN_SCHEMA, schema_id)  # else it would stand for whichever GUID has the number
        known = self._known.get(schema_id)
        if known is not None:
            return known
        if self._pending_ids.should_ask(schema_id, place, self._edge_registry.ids_end, self._listing):
            try:
                return self._asked(schema_id, place)
            except Unreachable as error:  # what stands before it goes on
                self._pending_ids.put_off(schema_id, place, error)
        return Rejection(Reason.UNKNOWN_SCHEMA, schema_id)

    def _requester(self) -> Requester:
        return Requester(self._subjects.topic, self._subjects.opened, self._pending_ids.source_partition)

    def _listing(self, since_s: float) -> Listing:
        return self._edge_registry.listing(self._requester(), self._subjects.may_own, since_s=since_s)

    def _asked(self, schema_id: int, place: int) -> Program | Rejection:
        since_s = self._pending_ids.since_s(schema_id, place)
        try:
            text = self._edge_registry.schema(schema_id, requester=self._requester(), since_s=since_s)
        except UnknownSchema as error:  # not remembered here: it may be registered in a moment
            self._pending_ids.mark_missing(schema_id, place, error.asked_s, error.where)
            return Rejection(error.reason, schema_id)
        except DeadLetterError as error:
            self._pending_ids.mark_known(schema_id)
            self._known[schema_id] = Rejection(error.reason, schema_id)
            return self._known[schema_id]
        self._pending_ids.mark_known(schema_id)
        try:
            self._known[schema_id] = self._compile_and_register(schema_id, text)
        except DeadLetterError as error:
            self._known[schema_id] = Rejection(error.reason, schema_id)
        except AggregatorError:
            raise
        except Exception as error:  # noqa: BLE001 - a foreign error may quote the schema: its kind and place get out
            raise HoldError(
                f"the schema of id {schema_id} cannot be compiled: {kind_and_place(error)}",
                hint="report it with this place; the flow goes on once the writer's schema is another one",
            ) from None
        return self._known[schema_id]

    def _compile_and_register(self, schema_id: int, text: str) -> Program:
        if self._day is None:
            raise AssertionError("`begin` comes before `program`")
        schema = self._with_inherited_tags(schema_id, text)
        plan = compile_plan(schema, self._scope, self._day)
        calls = [self._call(call) for call in plan.calls]
        leaves_nothing = plan.dropped and self._drops_whole
        central_id = None if leaves_nothing else self._central_registry.register_compatible(self._subject, plan.schema)
        made = self._maker(plan, calls, schema_id, central_id)
        self._running.append((schema_id, plan, made))
        return made

    def _with_inherited_tags(self, schema_id: int, text: str) -> Schema:
        """What the id means on this topic: its text, and all tags that its subject has given its fields."""
        origin = self._edge_registry.origin(schema_id)
        bare = parse(text)
        bound = self._subjects.bound(origin, bare.nodes[bare.root].name)
        self._pending_ids.mark_own(schema_id)
        earlier = [one for subject in bound for one in self._edge_registry.history(subject, origin.versions[subject])]
        schema = with_inherited_tags(text, origin.tags, earlier)
        self._meanings[schema_id] = self._subjects.meaning(origin, bound[0], fingerprint(text, schema))
        return schema

    def _call(self, call: Call) -> OperatorCache:
        """Shared by all schemas of the topic, so that a value seen under one is known under the next."""
        if call not in self._calls:
            self._calls[call] = OperatorCache.of(call, self._key_rings)
        return self._calls[call]


def _stripped(batch: FramedValues, groups: Groups, programs: Mapping[int, Program | Rejection]) -> ResultColumn:
    """By schema: each group is one call per operator."""
    parts = [refused(groups.unframed, Rejection(Reason.WRONG_MAGIC))]
    for schema_id, members in groups.members.items():
        program = programs[schema_id]
        if isinstance(program, Rejection):
            parts.append(refused(members, program))
        else:
            parts.append((members, program.strip(batch, members)))
    return joined(len(batch), parts)
