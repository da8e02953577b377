"""Compiles a writer schema and a policy into a plan.

A plan node is a pair of a schema node and a context. The context holds the patterns that are still alive, and the
inherited rules and tags. A record type that is used at two places gets two nodes when their contents differ in what
happens to them.

Invariants: every leaf is decided by exactly one rule. A container lives only if something below it does, so that no
recursive shell without content remains. The result depends on the arguments only.
"""

from collections.abc import Collection
from dataclasses import replace
from datetime import date
from typing import NamedTuple

from aggregator.budgets import LETTERS_OF_A_TAG, SCHEMA_LABELS, SCHEMA_NODES, SCHEMA_PLACES
from aggregator.errors import DeadLetterError, Reason
from aggregator.privacy import operators
from aggregator.privacy.fields import paths
from aggregator.privacy.fields.leaf import Leaf, leaf_of
from aggregator.privacy.operators.drop import Drop
from aggregator.privacy.operators.keep import Keep
from aggregator.privacy.plan.containers import decide_containers, outermost, reaching_no_leaf
from aggregator.privacy.plan.derived import derive
from aggregator.privacy.plan.plan import Action, Call, PlanNode, Row, StripPlan
from aggregator.privacy.plan.side_inputs import with_side_inputs
from aggregator.privacy.policy.precedence import AppliedRule, Scope
from aggregator.privacy.policy.rules import other_field
from aggregator.schema.avro import CONTAINERS, Kind, Node, Schema, parse

# Above this number of places, equal contexts share nodes and report lines.
MAXIMUM_PLACES = SCHEMA_PLACES.limit


class _Context(NamedTuple):
    """The patterns, rules and tags that hold on arrival at a node; equal contexts are treated alike."""

    node: int
    alive: frozenset[int]
    rules: frozenset[int]
    tags: frozenset[str]


def compile_plan(schema: str | Schema, scope: Scope, today: date) -> StripPlan:
    """Compile a writer schema and a policy into a plan.

    Args:
        schema: The writer's: its text, or what was read of it together with the tags that it inherits.
        scope: What the policy says about the topic.
        today: Decides which `keep` has expired.

    Raises:
        DeadLetterError: SCHEMA_REFUSED, the text is no Avro schema that is supported.
    """
    compiler = _Compiler(parse(schema) if isinstance(schema, str) else schema, scope, today)
    try:
        root = compiler.visit(_Context(compiler.schema.root, compiler.matcher.start, frozenset(), frozenset()), "")
    except RecursionError:
        raise _too_deep() from None
    calls = tuple(compiler.calls)
    marked, side_inputs, uncomparable = with_side_inputs(compiler.schema, compiler.nodes, root, scope.side_inputs)
    leafless = reaching_no_leaf(marked)
    decisions = {number: compiler.decide(compiler.containers[number]) for number in leafless}
    kept = {number for number, decision in decisions.items() if isinstance(decision.rule, Keep)}
    nodes = decide_containers(marked, root, calls, compiler.undeclared | (leafless - kept))
    parts = {child for number in leafless - kept for child in marked[number].children if child in kept}
    for number in sorted(outermost(marked, root, leafless) | parts):
        compiler.rows[number] = _container_row(nodes[number], compiler.containers[number].tags, decisions[number])
    seen = {one.path for one in side_inputs}
    lonely = {number for number, call in enumerate(calls) if call.other_field and call.other_field not in seen}
    rows = tuple(_final(row, nodes[number], lonely) for number, row in compiler.rows.items())
    try:
        derived = derive(compiler.schema, nodes, root, calls, scope.policy)
        parse(derived)  # where a field that is dropped held a type, the next one that names it does: it may nest deeper
    except RecursionError:
        raise _too_deep() from None
    except DeadLetterError as error:
        message = f"{error.message}, as it is left"
        raise DeadLetterError(Reason.SCHEMA_REFUSED, message, hint="flatten the writer's schema") from None
    leaves = tuple(compiler.rows)
    return StripPlan(scope.topic, scope.policy, nodes, root, calls, rows, derived, side_inputs, leaves, uncomparable)


def _too_deep() -> DeadLetterError:
    return DeadLetterError(
        Reason.SCHEMA_REFUSED, "writer schema refused: it nests too deep", hint="flatten the writer's schema"
    )


def _final(row: Row, node: PlanNode, lonely: Collection[int]) -> Row:
    """A leaf may be lost with its container, whatever its own rule says: a map without keys, for example."""
    if node.call in lonely:
        row = row._replace(because=f"{row.because}; the field that it looks at is not there: redacted")
    if node.action is not Action.DROP or row.operator == "drop":
        return row
    return row._replace(because=f"{row.because}; its container is dropped", operator="drop", privacy_class="removed")


def _container_row(node: PlanNode, tags: frozenset[str], decision: AppliedRule) -> Row:
    """Explain a container without leaves by what became of it; no operator takes one, so it is kept or dropped."""
    rule, because = decision
    if node.action is Action.DROP and not isinstance(rule, Drop):
        why = "what lies in it is dropped" if isinstance(rule, Keep) else f"{rule.operator} does not take a {node.kind}"
        rule, because = Drop(), f"{because}; {why}"
    elif node.action is not Action.DROP and not isinstance(rule, Keep):
        rule, because = Keep(), f"{because}; a part of it is kept"
    privacy_class = AppliedRule(rule, because).privacy_class
    return Row(node.path, node.kind.value, tuple(sorted(tags)), because, rule.operator, privacy_class)


class _Compiler:
    """Walks schema and patterns together; every node gets its number before its children."""

    def __init__(self, schema: Schema, scope: Scope, today: date) -> None:
        self.scope = scope
        self.today = today
        self.schema = schema
        self.matcher = paths.Matcher((rule.steps, number) for number, rule in enumerate(scope.rules))
        for path in (*scope.side_inputs, *scope.lifts):
            self.matcher.tell_apart(paths.steps(path))
        self.covering = frozenset(number for number, rule in enumerate(scope.rules) if rule.covers_below(today))
        self.nodes: list[PlanNode] = []
        self.calls: dict[Call, int] = {}
        self.rows: dict[int, Row] = {}
        self.undeclared: set[int] = set()
        self.containers: dict[int, _Context] = {}
        self.known: dict[_Context, int] = {}
        self.above: dict[_Context, int] = {}
        self.decided: dict[tuple[frozenset[int], frozenset[str]], AppliedRule] = {}
        self.labels = 0

    def visit(self, at: _Context, path: str) -> int:
        node = self.schema.nodes[at.node]
        shared = self.above.get(at, self.known.get(at) if len(self.nodes) > MAXIMUM_PLACES else None)
        if shared is not None:
            return shared
        here = self.matcher.matched(at.alive)
        tags = at.tags if node.tags <= at.tags else at.tags | node.tags
        tags |= self.inherited(node.inherited, path)
        self.afford(path, tags)
        if node.kind not in CONTAINERS or (node.kind is Kind.RECORD and not node.fields):
            return self.leaf(leaf_of(node), at._replace(rules=at.rules | here, tags=tags), path)
        number = self.add(PlanNode(node.kind, Action.WALK, path, at.node))
        self.containers[number] = at._replace(rules=at.rules | here, tags=tags)
        inside = at._replace(rules=at.rules | (here & self.covering), tags=tags)
        if node.kind is Kind.RECORD:  # every cycle passes through one
            self.above[at] = self.known[at] = number
        children = self.children(node, inside, path)
        self.above.pop(at, None)
        self.nodes[number] = replace(self.nodes[number], children=children)
        return number

    def children(self, node: Node, inside: _Context, path: str) -> tuple[int, ...]:
        match node.kind:
            case Kind.RECORD:
                return tuple(
                    self.step(
                        inside._replace(node=item.node, tags=inside.tags | item.tags),
                        path,
                        item.name,
                        item.inherited,
                    )
                    for item in node.fields
                )
            case Kind.UNION:
                return tuple(self.branch(inside._replace(node=branch), path) for branch in node.children)
            case Kind.ARRAY:
                return (self.step(inside._replace(node=node.children[0]), path, paths.ITEMS),)
            case _:
                return (
                    self.key(inside, paths.join(path, paths.KEYS), node.inherited_keys),
                    self.step(inside._replace(node=node.children[0]), path, paths.VALUES),
                )

    def step(self, inside: _Context, path: str, step: str, inherited: frozenset[str] = frozenset()) -> int:
        way = paths.join(path, step)
        tags = inside.tags | self.inherited(inherited, way)
        return self.visit(inside._replace(alive=self.matcher.advance(inside.alive, step), tags=tags), way)

    def inherited(self, tags: frozenset[str], path: str) -> frozenset[str]:
        """Tags of earlier versions, but those that the policy lifts at this very place."""
        return tags - self.scope.lifts.get(path, frozenset()) if tags else tags

    def branch(self, inside: _Context, path: str) -> int:
        """A branch has no step of its own; a null beside others says nothing that the others do not."""
        if self.schema.nodes[inside.node].kind is not Kind.NULL:
            return self.visit(inside, path)
        number = self.add(PlanNode(Kind.NULL, Action.KEEP, path, inside.node))
        reaching = inside._replace(rules=inside.rules | self.matcher.matched(inside.alive))
        if not isinstance(self.decide(reaching).rule, Keep):
            self.undeclared.add(number)
        return number

    def key(self, inside: _Context, path: str, inherited: frozenset[str]) -> int:
        tags = inside.tags | self.inherited(inherited, path)
        self.afford(path, tags)
        alive = self.matcher.advance(inside.alive, paths.KEYS)
        at = inside._replace(alive=alive, rules=inside.rules | self.matcher.matched(alive), tags=tags)
        return self.leaf(Leaf(Kind.STRING), at, path, of_map=True)

    def leaf(self, leaf: Leaf, at: _Context, path: str, *, of_map: bool = False) -> int:
        decision = self.decide(at)
        rule, because = decision.rule, decision.because
        call = None
        if leaf.kind is not Kind.NULL and not isinstance(rule, Keep | Drop):
            # A record without fields is a value, too: which one of a union it is.
            result = None if leaf.kind is Kind.RECORD else operators.result(rule, leaf)
            if result is None or (of_map and not operators.is_injective(rule, result)):
                because = f"{because}; {rule.operator} does not take {'map keys' if of_map else leaf.kind}"
                rule = Drop()
            else:
                context = operators.context(rule, self.scope.topic, path, self.today)
                made = Call(rule, leaf, result, context, other_field(rule))
                call = self.calls.setdefault(made, len(self.calls))
        action = Action.DROP if isinstance(rule, Drop) else Action.KEEP if call is None else Action.APPLY
        published = rule.operator if call is not None or (at.tags and action is Action.KEEP) else ""
        node = PlanNode(leaf.kind, action, path, at.node, size=leaf.size or len(leaf.symbols), published=published)
        number = self.add(node if call is None else replace(node, call=call))
        decision = AppliedRule(rule, because)
        shown = leaf.kind.value if leaf.logical is None else f"{leaf.kind.value} ({leaf.logical.name})"
        tags = tuple(sorted(at.tags))
        self.rows[number] = Row(path, shown, tags, because, rule.operator, decision.privacy_class)
        return number

    def decide(self, at: _Context) -> AppliedRule:
        asked = (at.rules, at.tags)
        if asked not in self.decided:
            self.decided[asked] = self.scope.decide(at.rules, at.tags, self.today)
        return self.decided[asked]

    def afford(self, path: str, tags: Collection[str]) -> None:
        """Count one more place against the schema's budget.

        Raises:
            DeadLetterError: the schema means more places, or more words about them, than its budget.
        """
        self.labels += len(path) + LETTERS_OF_A_TAG * len(tags)
        if len(self.nodes) >= SCHEMA_NODES.limit or self.labels > SCHEMA_LABELS.limit:
            raise DeadLetterError(
                Reason.SCHEMA_REFUSED,
                "writer schema refused: with its tags and the policy's rules it means more places than "
                f"{SCHEMA_NODES.limit:,}, or longer paths than {SCHEMA_LABELS.limit:,} characters over all of them",
                hint="use fewer tags in the types that it names again and again, or flatten it",
            )

    def add(self, node: PlanNode) -> int:
        self.nodes.append(node)
        return len(self.nodes) - 1
