"""Configurations of MirrorMaker from public repositories, as facts: keys and values, without a word of their texts.

Names of hosts that are somebody's, users and passwords are replaced. Values are those that Java reads.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from aggregator.cli.terminal.output import rendered

FACTS = Path(__file__).parent / "facts"
# Stands in every password of the facts, and in no key.
PLANTED = "planted-"


class Real(NamedTuple):
    """One configuration.

    Attributes:
        name: Repository and path.
        files: Name and text of each of its files, written anew from the facts.
        keys: How many keys it has.
    """

    name: str
    files: tuple[tuple[str, str], ...]
    keys: int


def facts(form: str) -> list[dict]:
    """What is kept of one form."""
    return json.loads((FACTS / f"{form}.json").read_text(encoding="utf-8"))


def properties(pairs) -> str:
    """A file that Java reads as these pairs."""
    return "".join(f"{_escaped(key, ' :=')}={_escaped(value)}\n" for key, value in pairs)


def _escaped(text: str, more: str = "") -> str:
    signs = (f"\\{one}" if one in f"\\{more}" else one for one in text)
    found = "".join(one if one.isprintable() or one > "\uffff" else f"\\u{ord(one):04x}" for one in "".join(signs))
    return f"\\{found}" if found[:1] in (" ", "#", "!") else found


def connector(pairs, name=None) -> str:
    """JSON as Connect's REST takes it; with a name, as it gives it."""
    config = dict(pairs)
    return json.dumps({"name": name, "config": config} if name else config, indent=2)


def leaves(found) -> int:
    """How many scalars and empty sections a document has."""
    below = found.values() if isinstance(found, dict) else found if isinstance(found, list) else ()
    return sum(map(leaves, below)) if below else 1


def real() -> Iterator[Real]:
    """All of them."""
    for one in facts("dedicated"):
        yield Real(_name(one), (("mm2.properties", properties(one["pairs"])),), len(one["pairs"]))
    for one in facts("connect"):
        text = connector(one["pairs"], one["name"])
        yield Real(_name(one), (("connector.json", text),), len(one["pairs"]) + bool(one["name"]))
    for one in facts("strimzi"):
        yield Real(_name(one), (("mm2.yaml", rendered(one["document"], "yaml")),), leaves(one["document"]))
    for one in facts("mirrormaker1"):
        files = tuple((file["path"].replace("/", "-"), properties(file["pairs"])) for file in one["files"])
        name = f"{one['repository']}/{one['files'][0]['path']}"
        yield Real(name, files, sum(len(file["pairs"]) for file in one["files"]))


def _name(one) -> str:
    return f"{one['repository']}/{one['path']}"
