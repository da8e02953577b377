"""An operator is one module with one descriptor, and whoever asks something of operators asks the registry."""

import ast
import importlib
import sys
from pathlib import Path

import pytest

from aggregator.privacy import operators
from aggregator.privacy.operators.descriptor import Descriptor
from aggregator.privacy.operators.registry import BY_NAME, DESCRIPTORS

AGGREGATOR = Path(sys.modules["aggregator"].__file__).parent
FOLDER = Path(operators.__file__).parent
PACKAGE = operators.__name__
# What the plan itself does; every other operator is one of many.
ACTIONS = {"keep", "drop"}
OTHERS = sorted(path for path in AGGREGATOR.rglob("*.py") if FOLDER not in path.parents)
# A suggestion writes the operators that it suggests; a backfill has rounds; and Strimzi has a custom way to sign in.
WRITTEN = {"privacy/review/suggest.py", "backfill/plan.py", "mirrormaker/strimzi.py"}


@pytest.mark.parametrize("one", DESCRIPTORS, ids=lambda one: one.name)
def test_the_parameters_of_an_operator_lie_in_the_module_of_its_name(one):
    """Whoever looks for an operator finds its file by its name, and in it everything that is known of it."""
    assert one.parameters.__module__ == f"{PACKAGE}.{one.name}"


def test_every_descriptor_is_listed_once():
    """A module that is not in the registry would be an operator that nobody can name."""
    modules = [importlib.import_module(f"{PACKAGE}.{path.stem}") for path in sorted(FOLDER.glob("*.py"))]
    written = {id(value) for module in modules for value in vars(module).values() if isinstance(value, Descriptor)}
    assert written == {id(one) for one in DESCRIPTORS}
    assert len(DESCRIPTORS) == len(written) == len(BY_NAME)


def named(module: ast.Module) -> set[str]:
    """Operators whose modules are imported, or whose names are written as they are in a policy."""
    found = set()
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom) and node.module == PACKAGE:
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{PACKAGE}."):
            found.add(node.module.removeprefix(f"{PACKAGE}."))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
    return (found & set(BY_NAME)) - ACTIONS


@pytest.mark.slow
def test_nothing_else_knows_an_operator():
    """What is true of one operator only is a field of its descriptor; otherwise a new one is forgotten there."""
    found = {str(path.relative_to(AGGREGATOR)): named(ast.parse(path.read_text(encoding="utf-8"))) for path in OTHERS}
    assert {path: names for path, names in found.items() if names and path not in WRITTEN} == {}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("from aggregator.privacy.operators.mask import Mask", {"mask"}),
        ("from aggregator.privacy.operators import encrypt, detectors", {"encrypt"}),
        ('if rule.operator in ("keep", "pseudonymize"):\n    pass', {"pseudonymize"}),
        ("from aggregator.privacy.operators.keep import Keep", set()),
    ],
)
def test_the_search_finds_what_it_looks_for(text, found):
    """A search that never fails proves nothing."""
    assert named(ast.parse(text)) == found
