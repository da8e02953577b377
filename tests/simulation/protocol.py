"""The product's protocol code as the simulation takes it, and ways to remove one rule from it.

A mutant is the real module with one passage of its source replaced; the passage must be there, exactly once.
"""

import importlib
import sys
import types
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# Each imports only from those before it.
MODULES = (
    "aggregator.kafka.readers.log",
    "aggregator.state.ledger",
    "aggregator.replicate.leadership.settlement",
    "aggregator.replicate.leadership.ledger_settlement",
    "aggregator.replicate.epoch.opening",
    "aggregator.replicate.flow.gaps",
    "aggregator.replicate.flow.cursor",
    "aggregator.replicate.flow.flow",
    "aggregator.replicate.flow.added_flows",
    "aggregator.replicate.slot.plan",
    "aggregator.replicate.epoch.plan",
    "aggregator.replicate.epoch.additions",
    "aggregator.replicate.epoch.edge_follower",
    "aggregator.replicate.slot.partition_guard",
    "aggregator.replicate.slot.topic_identity",
    "aggregator.replicate.slot.readers",
    "aggregator.replicate.slot.slot",
)


@dataclass(frozen=True)
class Mutant:
    """One rule removed.

    Attributes:
        name: What is removed.
        edits: (module, passage, replacement).
        switches: Rules that live in the simulated driver or world.
        situation: The kind of schedule that shows it.
        seed: Of a schedule that shows it, where the search begins.
    """

    name: str
    edits: Sequence[tuple[str, str, str]] = ()
    switches: frozenset[str] = frozenset()
    situation: str = "mixed"
    seed: int = 0

    def seeds(self, count: int) -> range:
        """`count` seeds to look through, from the one that showed it on."""
        return range(self.seed, self.seed + count)


@dataclass
class Protocol:
    """Functions and classes under test."""

    modules: dict[str, types.ModuleType]
    switches: frozenset[str] = field(default_factory=frozenset)

    def __getattr__(self, name: str):
        for module in self.modules.values():
            if name in vars(module):
                return vars(module)[name]
        raise AttributeError(name)


def protocol(mutant: Mutant | None = None) -> Protocol:
    """The real code, or the real code with one rule removed."""
    modules = {name: importlib.import_module(name) for name in MODULES}
    copied: list[str] = []
    for name, source in edited(MODULES, mutant).items():
        text = source
        for other in copied:  # who imports from a copy is copied, too
            text = text.replace(f"from {other} import", f"from copy.{other} import")
        if text != Path(modules[name].__file__).read_text():
            modules[name] = compiled(name, compile(text, name, "exec"))
            copied.append(name)
    return Protocol(modules, mutant.switches if mutant else frozenset())


def edited(names: Sequence[str], mutant: Mutant | None) -> dict[str, str]:
    """The modules' sources without the mutant's rule; every passage must be there, exactly once."""
    sources = {name: Path(importlib.import_module(name).__file__).read_text() for name in names}
    for name, passage, replacement in mutant.edits if mutant else ():
        count = sources[name].count(passage)
        assert count == 1, f"{name}: the passage of {mutant.name!r} is there {count} times"
        sources[name] = sources[name].replace(passage, replacement)
    return sources


def compiled(name: str, code: types.CodeType) -> Any:
    """A module of this code beside the real one."""
    made = types.ModuleType(f"copy.{name}")
    sys.modules[made.__name__] = made  # dataclasses look their module up
    exec(code, vars(made))
    return made
