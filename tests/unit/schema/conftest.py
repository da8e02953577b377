"""Registries behind an address, each with a double of its own."""

import pytest

from aggregator.schema import connection
from tests.unit.schema.double import RegistryDouble


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """The client tries twice, as ever, with a tenth of the pause."""
    pauses = {name: value if name == "max.retries" else value // 10 for name, value in connection.RETRIES.items()}
    monkeypatch.setattr(connection, "RETRIES", pauses)


@pytest.fixture
def new_double():
    """Makes doubles, and closes them at the end."""
    made = []

    def make(certificate=None):
        made.append(RegistryDouble(certificate))
        return made[-1]

    yield make
    for double in made:
        double.close()


@pytest.fixture
def double(new_double):
    """One of them."""
    return new_double()
