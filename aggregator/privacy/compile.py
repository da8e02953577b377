"""Compiles writer schema and policy into a plan.

The plan's nodes are pairs of a schema's node and a context (which patterns are still alive, which rules and tags were
inherited): one record type used at two places gets two nodes when the places differ in what happens below them.

Invariants: every leaf is decided by exactly one rule; a container lives only if something below it does, so that no
recursive shell of nothing remains; the result depends on the arguments only.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import date
from typing import NamedTuple

from aggregator.errors import DeadLetterError, Reason
from aggregator.privacy import operators, paths
from aggregator.privacy.derived import derive
from aggregator.privacy.leaf import Leaf, leaf_of
from aggregator.privacy.plan import Action, Call, Plan, PlanNode, Row
from aggregator.privacy.precedence import Decision, Scope
from aggregator.privacy.rules import Drop, Keep
from aggregator.privacy.unions import Branch, merged
from aggregator.schema.avro import Kind, Node, parse

# Places that get nodes and report lines of their own; beyond, equal contexts share them.
MAXIMUM_PLACES = 20_000


class _Context(NamedTuple):
    """What is known on arrival at a node; equal contexts are treated alike."""

    node: int
    alive: frozenset[int]
    rules: frozenset[int]
    tags: frozenset[str]


def compile_plan(text: str, scope: Scope, today: date) -> Plan:
    """Compile a plan.

    Args:
        text: The writer's schema.
        scope: What the policy says about the topic.
        today: Decides which `keep` has expired.

    Raises:
        DeadLetterError: SCHEMA_REFUSED, the text is no Avro schema that is supported.
    """
    compiler = _Compiler(text, scope, today)
    try:
        root = compiler.visit(_Context(compiler.schema.root, compiler.matcher.start, frozenset(), frozenset()), "")
    except RecursionError:
        raise DeadLetterError(
            Reason.SCHEMA_REFUSED, "writer schema refused: it nests too deep", hint="flatten the writer's schema"
        ) from None
    nodes = compiler.settled(root)
    calls = tuple(compiler.calls)
    schema = derive(compiler.schema, nodes, root, calls, scope.policy)
    return Plan(scope.topic, scope.policy, nodes, root, calls, tuple(compiler.rows), schema)


@dataclass(slots=True)
class _Compiler:
    text: str
    scope: Scope
    today: date

    def __post_init__(self) -> None:
        self.schema = parse(self.text)
        self.matcher = paths.Matcher((rule.steps, number) for number, rule in enumerate(self.scope.rules))
        covering = (number for number, rule in enumerate(self.scope.rules) if rule.covers_below)
        self.covering = frozenset(covering)
        self.nodes: list[PlanNode] = []
        self.calls: dict[Call, int] = {}
        self.rows: list[Row] = []
        self.known: dict[_Context, int] = {}
        self.above: dict[_Context, int] = {}
        self.decided: dict[tuple[frozenset[int], frozenset[str]], Decision] = {}
