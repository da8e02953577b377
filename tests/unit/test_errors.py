"""The error tree, wherever its classes are defined: its picture is complete, and every error has a next step."""

import ast
import pickle
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from aggregator import errors

ROOT = Path(__file__).resolve().parents[2] / "aggregator"
ROOT_CLASS = "AggregatorError"


class Class(NamedTuple):
    """A class of the tree: where it is defined, what it is a kind of, and its syntax."""

    module: str
    base: str
    syntax: ast.ClassDef


@pytest.fixture(scope="module")
def modules():
    """The syntax of every module of the program."""
    return {str(path.relative_to(ROOT)): ast.parse(path.read_text(encoding="utf-8")) for path in ROOT.rglob("*.py")}


def tree_of(modules: Mapping[str, ast.Module]) -> dict[str, Class]:
    """Every class below the root, and the root."""
    found = {
        node.name: Class(module, last_name(node.bases[0]), node)
        for module, syntax in modules.items()
        for node in ast.walk(syntax)
        if isinstance(node, ast.ClassDef) and node.bases
    }

    def belongs(name: str) -> bool:
        return name == ROOT_CLASS or (name in found and belongs(found[name].base))

    return {name: one for name, one in found.items() if belongs(name)}


def last_name(node: ast.expr) -> str:
    """`b` of `a.b`."""
    return ast.unparse(node).rpartition(".")[2]


def gives_hint(name: str, classes: Mapping[str, Class]) -> bool:
    """Whether a class, or what it is a kind of, has a next step of its own."""
    if name not in classes:
        return False
    inits = [one for one in classes[name].syntax.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"]
    for init in inits:
        named = [*init.args.args, *init.args.kwonlyargs]
        defaults = [*init.args.defaults, *init.args.kw_defaults]
        default = dict(zip(reversed([one.arg for one in named]), reversed(defaults), strict=False)).get("hint")
        passed = any(has_hint(node) for node in ast.walk(init) if isinstance(node, ast.Call))
        return passed and ("hint" not in {one.arg for one in named} or (default is not None and not is_empty(default)))
    return gives_hint(classes[name].base, classes)


def is_empty(node: ast.expr) -> bool:
    """An empty text."""
    return isinstance(node, ast.Constant) and not node.value


def has_hint(call: ast.Call) -> bool:
    """Whether a call names a next step."""
    return any(keyword.arg == "hint" and not is_empty(keyword.value) for keyword in call.keywords)


def without_hint(modules: Mapping[str, ast.Module], classes: Mapping[str, Class]) -> Iterator[str]:
    """Places where an error is made that has no next step."""
    for module, syntax in modules.items():
        for call in (node for node in ast.walk(syntax) if isinstance(node, ast.Call)):
            name = last_name(call.func)
            if name in classes and not has_hint(call) and not gives_hint(name, classes):
                yield f"{module}:{call.lineno} {name}"


@pytest.mark.slow
def test_every_error_has_a_next_step(modules):
    """Whoever makes one names it, or its class does; for errors that the hub itself recovers from, too."""
    classes = tree_of(modules)
    assert len(classes) > 15
    assert sorted(without_hint(modules, classes)) == []


FAULTY = {
    "raise FatalError('x')": 1,
    "raise errors.FatalError('x', hint='')": 1,
    "found = FatalError('x')": 1,
    "raise FatalError('x', hint=why)": 0,
    "raise ValueError('x')": 0,
    "class Mine(FatalError): ...\nraise Mine('x')": 1,
    "class Mine(FatalError):\n    def __init__(self): super().__init__('x', hint='look')\nraise Mine()": 0,
    "class Mine(FatalError):\n    def __init__(self, *, hint=''): super().__init__('x', hint=hint)\nraise Mine()": 1,
    "class Mine(FatalError):\n    def __init__(self, *, hint='see'): super().__init__('x', hint=hint)\nraise Mine()": 0,
}


@pytest.mark.parametrize(("text", "count"), FAULTY.items())
def test_the_search_for_missing_steps_finds_what_it_looks_for(text, count):
    """Each way to make an error, and each way in which a class can have a next step."""
    root = f"class {ROOT_CLASS}(Exception): ...\nclass FatalError({ROOT_CLASS}): ...\n"
    modules = {"m.py": ast.parse(root + text)}
    assert len(list(without_hint(modules, tree_of(modules)))) == count


@pytest.mark.slow
def test_the_tree_of_errors_is_the_tree(modules):
    """Every error is in the picture, below the family that it is of, with its module; the exit codes are theirs."""
    shown, path = {}, []
    for line in (errors.__doc__ or "").splitlines():
        if found := re.fullmatch(r"    ((?:[│ ]   )*)(?:[├└]── )?(\w+)(?: +(.*))?", line):
            indent, name, text = found.groups()
            depth = len(indent) // 4 + ("── " in line)
            path[depth:] = [name]
            module = re.match(r"([\w/]+\.py): ", text or "")
            shown[name] = (module[1] if module else "errors.py", path[depth - 1] if depth else "Exception")
            if code := re.match(r"(\d+):", text or ""):
                assert getattr(errors, name).exit_code == int(code[1]), name
    assert shown == {name: (one.module, one.base) for name, one in tree_of(modules).items()}


def test_an_error_that_is_shown_in_one_line_keeps_its_next_step():
    """A cell of a table, a line of the log or of an audit: no escape in front of anybody, and nothing left out."""
    error = errors.FatalError("central refuses orders", hint="give the principal Write")
    assert errors.in_one_line(str(error)) == "central refuses orders; next: give the principal Write"
    assert errors.in_one_line("fine") == "fine"


def test_an_errors_line_ends_somewhere():
    """A broker's own words may be of any length; how long they were is told."""
    error = errors.FatalError(["short", "x" * 1_000_000], hint="y" * 1_000_000)
    assert error.lines[0] == "short"
    assert error.lines[1].endswith("x… (1,000,000 characters)")
    assert len(str(error)) < 10_000
    signs = errors.FatalError("\x1b" * 3_000)
    assert all(str(pickle.loads(pickle.dumps(one))) == str(one) for one in (error, signs))
