"""Compiles a plan into a program: a row of integers that the machine follows.

Records are laid out inline. A record that occurs at several places, or contains itself, becomes a routine. Adjacent
dropped fields are skipped in one step.

Invariant: every node is laid out at most twice, once as dropped and once as live. The length of a program is therefore
bounded by the size of its plan.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from aggregator.bytes_column import Integers
from aggregator.privacy import operators
from aggregator.privacy.batch.guard import is_read, weightless_nodes
from aggregator.privacy.fields.leaf import INTEGERS
from aggregator.privacy.kernel import opcodes
from aggregator.privacy.kernel.opcodes import STRIDE, Op
from aggregator.privacy.plan.plan import Action, PlanNode, StripPlan
from aggregator.schema.avro import Kind

# Records nested deeper become routines, so that neither this compiler nor a line of code depends on the depth.
_DEEPEST_LINE = 32
_LONG_BYTES, _INT_BYTES = 10, 5
_SIZES = {Kind.FLOAT: 4, Kind.DOUBLE: 8}


@dataclass(frozen=True, slots=True)
class Code:
    """Holds a compiled program.

    Attributes:
        instructions: `STRIDE` integers each; the first one begins a value.
        branches: Two integers per branch of a union: where it goes on, and its number in the output.
        counters: (path, operator) by the number of the counter.
        always: Counters that grow by one with every record, and are in no instruction.
        size: Number of counters of both kinds.
        inner: Union branches, items of arrays, keys and values of maps, with the numbers of their counters.
        askers: For each asker its operator call; behind the last call come the plan's side inputs.
        asking: For each asker its plan node.
    """

    instructions: Integers
    branches: Integers
    counters: tuple[tuple[str, str], ...]
    always: tuple[int, ...]
    size: int
    inner: tuple[tuple[int, int], ...]
    askers: Integers
    asking: tuple[int, ...]


def assembled(plan: StripPlan) -> Code:
    """Compile a plan into its program."""
    layout = _Layout(plan)
    layout.value()
    size, inner = _inner(plan, layout)
    return Code(
        np.array(layout.code, np.int64).reshape(-1),
        np.array(layout.branches or [0], np.int64),
        tuple(layout.counters),
        tuple(layout.always),
        size,
        inner,
        np.array([asker for asker, _ in layout.askers], np.int64),
        tuple(node for _, node in layout.askers),
    )


def _inner(plan: StripPlan, layout: "_Layout") -> tuple[int, tuple[tuple[int, int], ...]]:
    """Give inner nodes counters behind the others. Return the number of all counters, and the counter of each node."""
    first: dict[int, int] = {}
    size, inner = len(layout.counters), []
    for place, number in layout.holders:
        if number not in first:
            node, first[number] = plan.nodes[number], size
            is_union = node.kind is Kind.UNION
            inner += [(child, size + is_union * branch) for branch, child in enumerate(node.children)]
            size += len(node.children) if is_union else 1
        layout.code[place][opcodes.COUNTER] = first[number]
    return size, tuple(inner)


class _Layout:
    """Lays out nodes one after the other; `once` says that every record comes through here exactly once."""

    def __init__(self, plan: StripPlan) -> None:
        self.nodes = plan.nodes
        self.root = plan.root
        self.calls = plan.calls
        self.weightless = weightless_nodes(plan.nodes)
        self.shared = _shared(plan.nodes, plan.root)
        self.is_deep = bool(self.shared)
        self.code: list[list[int]] = []
        self.branches: list[int] = []
        self.counters: dict[tuple[str, str], int] = {}
        self.always: list[int] = []
        self.holders: list[tuple[int, int]] = []
        self.askers: list[tuple[int, int]] = []
        self.routines: dict[tuple[int, bool], int] = {}
        self.waiting: list[tuple[int, bool]] = []
        self.callers: list[tuple[int, tuple[int, bool]]] = []
        self.barrier = 0

    def value(self) -> None:
        """The whole program: the root, then the routines that it asked for."""
        self.live(self.root, 0, once=True)
        self.add(Op.END)
        while self.waiting:
            number, is_live = routine = self.waiting.pop()
            self.routines[routine] = self.here()
            self.fields(number, 0, is_live=is_live, once=False)
            self.add(Op.RETURN)
        for place, routine in self.callers:
            self.code[place][opcodes.ARGUMENT] = self.routines[routine]

    def here(self) -> int:
        """The place of the next instruction, as a target of jumps: nothing before it may be merged with it."""
        self.barrier = len(self.code)
        return len(self.code) * STRIDE

    def add(self, op: Op, *, kept: bool = False, argument: int = 0, depth: int = 0, weight: int = 0) -> int:
        """Add an instruction; returns its number."""
        self.code.append([op, kept, argument, depth, weight, -1, 0, 0])
        return len(self.code) - 1

    def live(self, number: int, depth: int, *, once: bool, is_shown: bool = True) -> None:
        """A node that is not inside of something dropped; not shown if its result becomes null."""
        node = self.nodes[number]
        match node.action:
            case Action.DROP:
                self.cut()
                self.skip(number, depth, once=once, counted=True)
                self.add(Op.RESUME)
            case Action.APPLY:
                self.apply(number, once=once, is_shown=is_shown)
            case _:
                self.structure(number, depth, is_live=True, once=once)

    def skip(self, number: int, depth: int, *, once: bool, counted: bool) -> None:
        """A node whose bytes do not travel on; counted if it is the outermost such node and no null."""
        node = self.nodes[number]
        counter = self.counter(node.path or ".", "drop") if counted and node.kind is not Kind.NULL else -1
        if node.kind is Kind.UNION:
            self.union(number, depth, is_live=False, counter=counter)
            return
        self.structure(number, depth, is_live=False, once=once)
        if counter >= 0:
            self.count(counter, once=once)

    def structure(self, number: int, depth: int, *, is_live: bool, once: bool) -> None:
        node = self.nodes[number]
        match node.kind:
            case Kind.RECORD:
                self.record(number, depth, is_live=is_live, once=once)
            case Kind.UNION:
                self.union(number, depth, is_live=is_live)
            case Kind.ARRAY | Kind.MAP:
                self.blocks(number, depth, is_live=is_live)
            case _:
                self.leaf(number, kept=is_live)

    def record(self, number: int, depth: int, *, is_live: bool, once: bool) -> None:
        if number not in self.shared and depth < _DEEPEST_LINE:
            self.fields(number, depth, is_live=is_live, once=once)
            return
        routine = number, is_live
        if routine not in self.routines:
            self.routines[routine] = -1
            self.waiting.append(routine)
        self.callers.append((self.add(Op.CALL, depth=depth), routine))
        self.is_deep = True

    def fields(self, number: int, depth: int, *, is_live: bool, once: bool) -> None:
        children = self.nodes[number].children
        self.enter(depth, is_weightless=self.weightless.issuperset(children))
        for child in children:
            if is_live:
                self.live(child, depth + 1, once=once)
            else:
                self.skip(child, depth + 1, once=once, counted=False)

    def enter(self, depth: int, *, is_weightless: bool = False) -> None:
        """The checks of a container, where they can fail."""
        if is_weightless or self.is_deep or depth >= _DEEPEST_LINE:
            self.add(Op.ENTER, depth=depth, weight=is_weightless)

    def union(self, number: int, depth: int, *, is_live: bool, counter: int = -1) -> None:
        node = self.nodes[number]
        self.enter(depth)
        table, count = len(self.branches), len(node.children)
        self.holders.append((self.add(Op.UNION, kept=is_live, argument=table, weight=count), number))
        self.branches += [0] * (2 * count)
        jumps = []
        last = count - 1
        for branch, child in enumerate(node.children):
            self.branches[table + 2 * branch] = self.here()
            self.branches[table + 2 * branch + 1] = node.routes[branch] if is_live else branch
            if is_live:
                self.live(child, depth + 1, once=False, is_shown=not _becomes_null(self.nodes, node, branch))
            else:
                self.skip(child, depth + 1, once=False, counted=False)
                if counter >= 0 and self.nodes[child].kind is not Kind.NULL:
                    self.count(counter, once=False)
            if branch < last:
                jumps.append(self.add(Op.JUMP))
        end = self.here()
        for jump in jumps:
            self.code[jump][opcodes.ARGUMENT] = end
        for row in range(table, table + 2 * count, 2):  # a branch without bytes leads straight to the end
            if self.branches[row] // STRIDE in jumps:
                self.branches[row] = end

    def blocks(self, number: int, depth: int, *, is_live: bool) -> None:
        node = self.nodes[number]
        self.enter(depth)
        begin = self.add(Op.BLOCKS)
        body = self.here()
        for child in node.children:
            if is_live:
                self.live(child, depth + 1, once=False)
            else:
                self.skip(child, depth + 1, once=False, counted=False)
        self.code[begin][opcodes.ARGUMENT] = self.here()
        is_weightless = self.weightless.issuperset(node.children)
        self.holders.append((self.add(Op.NEXT, kept=is_live, argument=body, weight=is_weightless), number))
        self.here()

    def leaf(self, number: int, *, kept: bool) -> None:
        node = self.nodes[number]
        self.read(node, kept=kept)
        if node.side_input >= 0:
            is_number = node.kind in INTEGERS or node.kind is Kind.ENUM
            self.add(Op.NUMBER_LOOK if is_number else Op.BYTES_LOOK, argument=len(self.askers))
            self.askers.append((len(self.calls) + node.side_input, number))

    def read(self, node: PlanNode, *, kept: bool) -> None:
        match node.kind:
            case Kind.NULL:
                pass
            case Kind.BOOLEAN:
                self.add(Op.BOOLEAN)
            case Kind.INT | Kind.LONG:
                longest = _INT_BYTES if node.kind is Kind.INT else _LONG_BYTES
                self.add(Op.NUMBER, kept=kept, argument=longest)
            case Kind.ENUM:
                self.add(Op.ENUM, kept=kept, argument=node.size)
            case Kind.STRING | Kind.BYTES:
                is_text = node.kind is Kind.STRING and is_read(node, self.calls)
                self.add(Op.TEXT if is_text else Op.BYTES, kept=kept)
            case _:
                self.add(Op.SIZED, argument=_SIZES.get(node.kind, node.size))

    def apply(self, number: int, *, once: bool, is_shown: bool) -> None:
        node = self.nodes[number]
        self.cut()
        self.leaf(number, kept=False)
        call = self.calls[node.call]
        if operators.reads_value(call.rule):
            op = Op.NUMBER_SPAN if node.kind in INTEGERS or node.kind is Kind.ENUM else Op.BYTES_SPAN
            place = self.add(op, argument=len(self.askers))
            self.askers.append((node.call, number))
        else:
            place = self.add(Op.CONSTANT, argument=node.call)
        self.code[place][opcodes.SHOWN] = is_shown
        counter = self.counter(node.path or ".", call.rule.operator)
        if once:
            self.always.append(counter)
        else:
            self.code[place][opcodes.COUNTER] = counter

    def cut(self) -> None:
        """End what is kept; two neighbours that are dropped are one cut."""
        if len(self.code) > self.barrier:
            last = self.code[-1][0]
            if last == Op.RESUME:
                self.code.pop()
                return
            if last in (Op.BYTES_SPAN, Op.NUMBER_SPAN, Op.CONSTANT):
                return
        self.add(Op.CUT)

    def counter(self, path: str, operator: str) -> int:
        return self.counters.setdefault((path, operator), len(self.counters))

    def count(self, counter: int, *, once: bool) -> None:
        if once:
            self.always.append(counter)
        else:
            self.code[self.add(Op.COUNT)][opcodes.COUNTER] = counter


def _becomes_null(nodes: Sequence[PlanNode], union: PlanNode, branch: int) -> bool:
    """Whether a branch's value is written as the null of the output."""
    position = union.branches[union.routes[branch]]
    return position < 0 or (nodes[union.children[position]].kind is Kind.NULL and position != branch)


def _shared(nodes: Sequence[PlanNode], root: int) -> set[int]:
    """Records that are reached in several ways; every cycle has one."""
    ways: Counter[int] = Counter([root])
    waiting = [root]
    while waiting:
        for child in nodes[waiting.pop()].children:
            ways[child] += 1
            if ways[child] == 1:
                waiting.append(child)
    return {number for number, count in ways.items() if count > 1 and nodes[number].kind is Kind.RECORD}
