"""Every rule that `make simulation` removes is in the code, so that a change that moves it is told of in seconds."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests import mutation
from tests.simulation import backfill_mutants as of_backfills
from tests.simulation import mutants as of_the_protocol
from tests.simulation import protocol
from tests.unit.privacy import mutants as of_privacy


def _mutants():
    named = {}
    for module in (of_the_protocol, of_backfills, of_privacy):
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


def test_what_stands_in_its_place_names_what_is_there(tmp_path):
    """A rule that is removed by a name that is not there is found by its NameError, and not by a schedule."""
    for number, mutant in enumerate(_mutants()):
        texts = {name: Path(find_spec(name).origin).read_text(encoding="utf-8") for name, _, _ in mutant.edits}
        for name, passage, instead in mutant.edits:
            texts[name] = texts[name].replace(passage, instead)
        for name, text in texts.items():
            (tmp_path / f"{number}-{name}.py").write_text(f"# {mutant.name}\n{text}", encoding="utf-8")
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", "--select", "F821", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
