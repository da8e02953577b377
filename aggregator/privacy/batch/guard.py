"""The guard of the walk over a record's bytes: its limits, and the parts of a record that are checked as text.

The kernel walks a record before any of it is used. No byte outside the record is read. Nesting and work are bounded by
limits and by the number of bytes. Every correct reader decodes an accepted record to the same values. The walk refuses
bytes that the specification does not allow: bad indices, sizes and booleans, numbers that are too long, text that is
not UTF-8, and bytes left over.
"""

from collections.abc import Sequence

from aggregator.budgets import DEPTH, WEIGHTLESS
from aggregator.errors import Reason
from aggregator.privacy import operators
from aggregator.privacy.plan.plan import Action, Call, PlanNode
from aggregator.schema.avro import Kind

MAXIMUM_DEPTH, MAXIMUM_WEIGHTLESS = DEPTH.limit, WEIGHTLESS.limit


class Malformed(Exception):
    """The bytes are not a value of the schema. It stays in this package; callers see a `Rejection`."""

    def __init__(self, reason: Reason = Reason.UNDECODABLE) -> None:
        super().__init__(reason)
        self.reason = reason


def is_read(node: PlanNode, calls: Sequence[Call]) -> bool:
    """Whether this text travels on or is looked at; what is dropped may be any bytes."""
    if node.side_input >= 0:
        return True
    if node.action is Action.APPLY:
        return operators.reads_value(calls[node.call].rule)
    return node.action is Action.KEEP


def weightless_nodes(nodes: Sequence[PlanNode]) -> set[int]:
    """Nodes whose values can have no bytes at all; each node is looked at once for every place where it stands."""
    above: list[list[int]] = [[] for _ in nodes]
    for number, node in enumerate(nodes):
        for child in node.children:
            above[child].append(number)
    heavy = [len(node.children) for node in nodes]
    waiting = [number for number, node in enumerate(nodes) if _is_empty(node)]
    found: set[int] = set()
    while waiting:
        found.add(waiting[-1])
        for outer in above[waiting.pop()]:
            heavy[outer] -= 1
            if heavy[outer] == 0 and nodes[outer].kind is Kind.RECORD:
                waiting.append(outer)
    return found


def _is_empty(node: PlanNode) -> bool:
    return (
        node.kind is Kind.NULL
        or (node.size == 0 and node.kind is Kind.FIXED)
        or (node.kind is Kind.RECORD and not node.children)
    )
