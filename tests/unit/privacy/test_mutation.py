"""Each rule of the strip is needed: removed from the real code, the search or another named check finds it."""

import pytest

from tests.mutation import without
from tests.unit.privacy.checks import CHECKS, first_finding
from tests.unit.privacy.mutants import MUTANTS

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("foreign")]

FOUND = {}


@pytest.mark.parametrize("name", CHECKS)
def test_the_rules_hold(name):
    """With every rule in place no check finds anything."""
    assert list(CHECKS[name]()) == []


@pytest.mark.mutation
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_rule_is_needed(mutant):
    """Without this rule a canary comes out, or a record is treated as it must not be."""
    with without(mutant):
        found = first_finding()
    assert found is not None, f"{mutant.name}: survives"
    FOUND[mutant.name] = found


def test_the_table():
    """The names are different; the table of those that ran here, and of what found them, is printed."""
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    for name, (check, finding) in FOUND.items():
        print(f"{name} | {check} | {finding}")
