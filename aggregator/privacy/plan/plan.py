"""A plan says what happens to every part of a value of one writer schema, on one topic, under one policy.

The plan is a graph with the shape of the bytes, not of the schema's text. A reader that follows it meets every byte of
a record once and knows what to do with it. A compiled kernel needs the plan only, and neither schema nor policy.

Invariants: a plan is frozen, and holds names of keys but never a key. Every leaf of the writer schema has a row that
says which rule applied. Recursive types are cycles.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from aggregator.privacy.fields.leaf import Leaf
from aggregator.privacy.policy.rules import AnyRule
from aggregator.schema.avro import Kind


class Action(StrEnum):
    """The fate of a node's bytes."""

    KEEP = "keep"  # copied, with everything below
    DROP = "drop"  # skipped, with everything below
    APPLY = "apply"  # a leaf whose value an operator replaces
    WALK = "walk"  # a container whose parts differ


@dataclass(frozen=True, slots=True)
class PlanNode:
    """Describes what happens to one type in one context.

    Attributes:
        kind: The Avro type.
        action: The fate of the node's bytes.
        path: Where it lies, for reports; the shortest way for parts of recursive types.
        source: Number of the node in the writer's schema.
        children: Plan nodes: a record's fields in order, an array's items, a map's key and value, a union's branches.
        call: Number of the operator call of an APPLY leaf, else -1.
        size: Bytes of a fixed; number of symbols of an enum.
        routes: For each branch of a union the branch of the output that it is written to.
        branches: For each branch of the output union the branch that gives its type; -1 is a null that was added.
        published: What the derived schema says was done here; empty for nothing.
        side_input: Number of the side input that this leaf is; -1 for none.
    """

    kind: Kind
    action: Action
    path: str
    source: int
    children: tuple[int, ...] = ()
    call: int = -1
    size: int = 0
    routes: tuple[int, ...] = ()
    branches: tuple[int, ...] = ()
    published: str = ""
    side_input: int = -1


class Call(NamedTuple):
    """An operator on one type of leaf; leaves of the same rule and type share it.

    Attributes:
        rule: The operator with its parameters.
        leaf: The leaf that the call takes.
        result: The leaf that the call makes.
        context: What else its results depend on (a place, a day); empty for most.
        other_field: Path of the field whose value the operator sees beside each of its own; empty for most.
    """

    rule: AnyRule
    leaf: Leaf
    result: Leaf
    context: str = ""
    other_field: str = ""


class SideInput(NamedTuple):
    """A leaf that operators or conditions see beside others; one path has several where a union holds several types."""

    path: str
    leaf: Leaf


class Row(NamedTuple):
    """One leaf of the writer schema, explained."""

    path: str
    type: str
    tags: tuple[str, ...]
    because: str
    operator: str
    privacy_class: str


@dataclass(frozen=True, slots=True)
class StripPlan:
    """Holds the compiled plan.

    Attributes:
        topic: The edge topic.
        policy: Name, version and hash of the policy.
        nodes: The graph of plan nodes.
        root: The number of the node where a value begins.
        calls: The operator calls.
        rows: Every leaf, explained.
        schema: Text of the derived schema.
        side_inputs: Leaves whose values others see.
        leaves: Number of each row's node.
        uncomparable: Paths of side inputs at which something else than a leaf may stand.
    """

    topic: str
    policy: tuple[str, int, str]
    nodes: tuple[PlanNode, ...]
    root: int
    calls: tuple[Call, ...]
    rows: tuple[Row, ...]
    schema: str
    side_inputs: tuple[SideInput, ...] = ()
    leaves: tuple[int, ...] = ()
    uncomparable: frozenset[str] = frozenset()

    @property
    def dropped(self) -> bool:
        """Whether nothing of the value is left, not even a record without fields."""
        return self.nodes[self.root].action is Action.DROP
