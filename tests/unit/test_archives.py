"""Importers of archives are forgotten, and found again."""

import importlib
import sys
import zipfile

import pytest

from aggregator.engine.archives import forget_archives


@pytest.fixture
def archive(tmp_path, monkeypatch):
    path = tmp_path / "some.zip"
    with zipfile.ZipFile(path, "w") as out:
        out.writestr("zipped_room/__init__.py", "")
        out.writestr("zipped_room/first.py", "WORD = 'first'")
        out.writestr("zipped_room/second.py", "WORD = 'second'")
    monkeypatch.syspath_prepend(str(path))
    yield str(path)
    for name in [name for name in sys.modules if name.startswith("zipped_room")]:
        del sys.modules[name]


def _importers(archive: str) -> list[str]:
    return [path for path in sys.path_importer_cache if path.startswith(archive)]


def test_an_archive_that_was_imported_from_is_forgotten_and_found_again(archive):
    """Importers of the archive and of each package in it go, no other does, and the next import works."""
    assert importlib.import_module("zipped_room.first").WORD == "first"
    assert len(_importers(archive)) == 2, "one for the archive, one for the package in it"
    others = sys.path_importer_cache.keys() - set(_importers(archive))
    forget_archives()
    assert _importers(archive) == []
    assert sys.path_importer_cache.keys() == others
    assert importlib.import_module("zipped_room.second").WORD == "second"
