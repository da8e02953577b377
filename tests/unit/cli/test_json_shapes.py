"""docs/json.md says what programs may rely on: its shapes can be read, name real commands, and see what departs."""

import click
import pytest

from aggregator.cli.main import main
from tests.json_shapes import departures, promised, shapes

STATUS = {"hub": "demo", "edges": [{"edge": "eu", "dead": 1, "gap": None}], "lost": {"eu/orders": [[0, 4]]}}
SHAPE = {
    "hub": "text",
    "edges": [{"edge": "text", "dead": "whole", "gap?": {"start": "whole"}}],
    "lost": {"<flow>": [["whole"]]},
}


def test_each_shape_is_a_command_s():
    """A command that was renamed would be promised under a name that nobody can type."""
    for path in shapes():
        command, context = main, click.Context(main)
        for word in path.removesuffix(" --decisions").split():
            command = command.get_command(context, word)
            assert command is not None, path
    assert len(shapes()) > 12


def test_what_fits_departs_nowhere():
    """Null where the page allows it, and names where it says that they are names."""
    assert list(departures(SHAPE, STATUS)) == []


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"new": 1}, ".new is not on the page"),
        ({"hub": 3}, ".hub is int, not text"),
        ({"hub": None}, ".hub is NoneType, not text"),
        ({"edges": {}}, ".edges is no list"),
        ({"edges": [{"edge": "eu", "dead": True}]}, ".edges[0].dead is bool, not whole"),
        ({"edges": [{"edge": "eu"}]}, ".edges[0].dead is missing"),
        ({"edges": [{"edge": "eu", "dead": 1, "gap": {"begin": 1}}]}, ".edges[0].gap.start is missing"),
        ({"lost": {"eu/orders": [["0"]]}}, ".lost.eu/orders[0][0] is str, not whole"),
        ({"lost": []}, ".lost is no object"),
    ],
)
def test_what_departs_is_named(changed, said):
    """With its place in the answer."""
    assert said in list(departures(SHAPE, STATUS | changed))


def test_an_answer_finds_its_shape():
    """By the command that gave it, whatever the program is called; what the page does not speak of may be anything."""
    assert promised("main lake wait", {})["version"] == "whole"
    assert "decisions" in promised("aggregator audit", {"decisions": []})
    assert promised("aggregator audit", {})["ok"] == "flag"
    assert promised("aggregator gaps accept", []) == promised("aggregator gaps list", [])
    assert promised("aggregator config show", {}) == "any"
