"""Every rule that `make simulation` removes is in the code, so that a change that moves it is told of in seconds."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from tests import mutation
from tests.simulation import mutants as of_the_protocol
from tests.simulation import protocol
from tests.unit.privacy import mutants as of_privacy


def _mutants():
    named = {}
    for module in (of_the_protocol, of_privacy):
        for entry in (entry for value in vars(module).values() if isinstance(value, list) for entry in value):
            for part in entry if isinstance(entry, tuple) else (entry,):
                if isinstance(part, mutation.Mutant | protocol.Mutant):
                    named[part.name] = part
    return named.values()


@pytest.mark.parametrize("mutant", _mutants(), ids=lambda mutant: mutant.name)
def test_its_passage_is_there_once(mutant):
    """What is replaced can be found, and is one place."""
    for name, passage, _ in mutant.edits:
        assert Path(find_spec(name).origin).read_text(encoding="utf-8").count(passage) == 1
