"""The full example is full: whoever looks for a key finds it there, with its place."""

import types
import typing
from pathlib import Path

import pytest
from pydantic import BaseModel

from aggregator.config.document import read_document
from aggregator.config.model import HubConfig

FULL = Path(__file__).parents[3] / "configs" / "hub.full.yaml"


def keys(model, place=()):
    """Every key of the model and of what lies in it: `*` stands for names that the user chooses, and for items."""
    for name, field in model.model_fields.items():
        yield (*place, name)
        yield from _inside(field.annotation, (*place, name))


def _inside(annotation, place):
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield from keys(annotation, place)
        return
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (dict, tuple):
        yield from _inside(parts[1] if origin is dict else parts[0], (*place, "*"))
    elif origin in (typing.Union, types.UnionType, typing.Annotated):
        for part in parts:
            yield from _inside(part, place)


def there(data, place):
    """Whether a place is in the document, at any item where the place says `*`."""
    if not place:
        return True
    first, *rest = place
    if first == "*":
        return any(there(item, rest) for item in (data.values() if isinstance(data, dict) else data or ()))
    return isinstance(data, dict) and first in data and there(data[first], rest)


@pytest.mark.parametrize("place", sorted(set(keys(HubConfig))), ids=".".join)
@pytest.mark.slow
def test_every_key_is_in_the_full_example(place):
    """Also those that came last. Central and an edge sign in in the same ways: each way once is enough."""
    if place[:2] == ("central", "msk_iam"):
        place = ("edges", "*", *place[1:])
    assert there(read_document(FULL.read_text(encoding="utf-8")).data, list(place))


def test_the_walk_sees_nested_keys():
    """Of a section, of an edge, of a topic rule."""
    found = set(keys(HubConfig))
    assert {("lake", "path"), ("edges", "*", "schemas_client"), ("topics", "*", "on_gap")} <= found
