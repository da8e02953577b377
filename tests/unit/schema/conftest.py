"""Registries behind an address, each with a double of its own."""

import pytest

from tests.unit.schema.double import RegistryDouble


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
