"""Removes one rule from the real code, in place: functions get other code, and their own again afterwards.

A mutant is the real source with a passage replaced; the passage must be there, exactly once. Every reference to a
function keeps its meaning, because the function itself is changed, in whatever module it was imported.
"""

import functools
import importlib
import types
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Mutant:
    """One rule removed.

    Attributes:
        name: What is removed.
        edits: (module, passage, replacement).
    """

    name: str
    edits: Sequence[tuple[str, str, str]]


@contextmanager
def without(mutant: Mutant) -> Iterator[None]:
    """The code without the rule, for as long as the block runs."""
    changed: list[tuple[types.FunctionType, types.CodeType]] = []
    try:
        for name in dict.fromkeys(name for name, _, _ in mutant.edits):
            for function, code in _different(name, [edit[1:] for edit in mutant.edits if edit[0] == name]):
                changed.append((function, function.__code__))
                function.__code__ = code
        assert changed, f"{mutant.name!r} changes nothing"
        yield
    finally:
        for function, code in reversed(changed):
            function.__code__ = code


def _different(name: str, edits: Sequence[tuple[str, str]]) -> list[tuple[types.FunctionType, types.CodeType]]:
    module = importlib.import_module(name)
    source = Path(module.__file__).read_text(encoding="utf-8")
    for passage, replacement in edits:
        assert source.count(passage) == 1, f"{name}: {passage!r} is there {source.count(passage)} times"
        source = source.replace(passage, replacement)
    twin = types.ModuleType(name)  # the same name: dataclasses look their module up
    vars(twin)["__file__"] = module.__file__
    exec(compile(source, module.__file__, "exec"), vars(twin))
    ours, theirs = dict(_functions(module, name)), dict(_functions(twin, name))
    return [(ours[at], theirs[at].__code__) for at in ours if at in theirs and ours[at].__code__ != theirs[at].__code__]


def _functions(module: types.ModuleType, name: str) -> Iterator[tuple[str, types.FunctionType]]:
    """Functions and methods that a module defines, by where they are."""
    for key, value in vars(module).items():
        if getattr(value, "__module__", None) != name:
            continue
        members = vars(value).items() if isinstance(value, type) else [("", value)]
        for inner, member in members:
            function = _function(member)
            if function is not None and function.__code__.co_filename == module.__file__:
                yield f"{key}.{inner}", function


def _function(member: object) -> types.FunctionType | None:
    match member:
        case types.FunctionType():
            return member
        case staticmethod() | classmethod():
            return member.__func__
        case property():
            return member.fget
        case functools.cached_property():
            return member.func
    return None
