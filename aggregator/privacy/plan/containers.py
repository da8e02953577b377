"""Decides what happens to containers, after every leaf is decided.

Invariants: a container without live content is dropped. A container without changed content is kept as a whole.
Everything below a dropped container is dropped. A container that has no leaves at all (records that hold only further
ones) is kept only where a rule keeps it, or its nulls: its shape is a value, too. A record at the root always stays,
even without fields, because the record itself is counted and delivered.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from aggregator.privacy.plan.plan import Action, Call, PlanNode
from aggregator.privacy.plan.unions import NULL, Branch, merged
from aggregator.schema.avro import CONTAINERS, Kind


def decide_containers(
    nodes: Sequence[PlanNode], root: int, calls: Sequence[Call], undeclared: set[int]
) -> tuple[PlanNode, ...]:
    """Give containers their action, and unions their output.

    Args:
        nodes: With every leaf decided.
        root: Where a value begins.
        calls: The plan's operator calls.
        undeclared: Null branches, and containers that reach no leaf, that no rule keeps.
    """
    closed = _fixpoint(nodes, lambda number, members: _is_closed(nodes, number, undeclared, members))
    live = _fixpoint(nodes, lambda number, members: number not in closed or _stays(nodes, number, members))
    if nodes[root].kind is Kind.RECORD:
        live.add(root)
    touched = _fixpoint(nodes, lambda number, members: _is_touched(nodes, number, live, members))
    acted = [replace(node, action=_action(number, node, live, touched)) for number, node in enumerate(nodes)]
    reached = _reached(acted, root)
    final = [node if number in reached else replace(node, action=Action.DROP) for number, node in enumerate(acted)]
    return tuple(_with_routes(node, final, calls) for node in final)


def reaching_no_leaf(nodes: Sequence[PlanNode]) -> set[int]:
    """The containers that no leaf lies in, at any depth: types that hold nothing but each other."""
    leafy = _fixpoint(nodes, lambda number, members: _is_leaf(nodes[number]) or _holds_any(nodes, number, members))
    return {number for number in range(len(nodes)) if number not in leafy}


def outermost(nodes: Sequence[PlanNode], root: int, leafless: Collection[int]) -> set[int]:
    """Those containers without leaves that lie in one with leaves, in a record at the root, or are the root."""
    outer = (node for number, node in enumerate(nodes) if number not in leafless or number == root)
    found = {child for node in outer for child in node.children if child in leafless}
    return found | {root} if root in leafless and nodes[root].kind is not Kind.RECORD else found


def _holds_any(nodes: Sequence[PlanNode], number: int, members: set[int]) -> bool:
    """Whether a container holds one of them; a null beside others only says where these end."""
    node = nodes[number]
    return any(child in members and not _is_bare_null(node, nodes[child]) for child in node.children)


def _is_leaf(node: PlanNode) -> bool:
    return node.kind not in CONTAINERS or not node.children


def _fixpoint(nodes: Sequence[PlanNode], holds: Callable[[int, set[int]], bool]) -> set[int]:
    """The smallest set of nodes that the rule closes; only what holds a node that was added is looked at again."""
    above: list[list[int]] = [[] for _ in nodes]
    for number, node in enumerate(nodes):
        for child in node.children:
            above[child].append(number)
    members: set[int] = set()
    waiting = list(range(len(nodes)))  # from the end: children come last
    while waiting:
        number = waiting.pop()
        if number not in members and holds(number, members):
            members.add(number)
            waiting += (outer for outer in above[number] if outer not in members)
    return members


def _is_closed(nodes: Sequence[PlanNode], number: int, undeclared: set[int], members: set[int]) -> bool:
    """Whether something in it is not kept by a rule."""
    node = nodes[number]
    if number in undeclared:
        return True
    return node.action is not Action.KEEP if _is_leaf(node) else not members.isdisjoint(node.children)


def _stays(nodes: Sequence[PlanNode], number: int, members: set[int]) -> bool:
    node = nodes[number]
    if _is_leaf(node):
        return node.action is not Action.DROP
    if node.kind is Kind.MAP:
        return members.issuperset(node.children)
    return _holds_any(nodes, number, members)


def _is_bare_null(union: PlanNode, child: PlanNode) -> bool:
    return union.kind is Kind.UNION and child.kind is Kind.NULL


def _is_touched(nodes: Sequence[PlanNode], number: int, live: set[int], held: set[int]) -> bool:
    node = nodes[number]
    if _is_leaf(node):
        return node.action is not Action.KEEP
    return any(child in held or child not in live for child in node.children)


def _action(number: int, node: PlanNode, live: set[int], touched: set[int]) -> Action:
    if _is_leaf(node) or number in touched:
        return node.action if number in live else Action.DROP
    return Action.KEEP if number in live else Action.DROP


def _reached(nodes: Sequence[PlanNode], root: int) -> set[int]:
    """Nodes that some value can reach without passing through something dropped."""
    reached: set[int] = set()
    waiting = [root]
    while waiting:
        number = waiting.pop()
        if number not in reached:
            reached.add(number)
            waiting += () if nodes[number].action is Action.DROP else nodes[number].children
    return reached


def _with_routes(node: PlanNode, nodes: Sequence[PlanNode], calls: Sequence[Call]) -> PlanNode:
    if node.kind is not Kind.UNION or node.action is Action.DROP:
        return node
    routes, branches = merged([_branch(nodes[child], calls) for child in node.children])
    return replace(node, routes=routes, branches=branches)


def _branch(node: PlanNode, calls: Sequence[Call]) -> Branch:
    if node.kind is Kind.NULL:
        return Branch(NULL)
    if node.action is Action.DROP:
        return Branch(None, to_null=True)
    result = calls[node.call].result if node.call >= 0 else None
    kind = node.kind if result is None else result.kind
    named = kind in (Kind.RECORD, Kind.ENUM, Kind.FIXED)
    return Branch(f"{kind} {node.source}" if named else kind, to_null=result is not None and result.nullable)
