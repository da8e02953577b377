"""`docs/from-mirrormaker.md` tells what becomes of MirrorMaker's keys as the code does it."""

import re
from pathlib import Path

import pytest

from aggregator.config.librdkafka import ROLES
from aggregator.mirrormaker import settings
from aggregator.mirrormaker.client_properties import REASONS, RENAMED
from tests.documented_commands import check_command, shown_commands

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "from-mirrormaker.md").read_text(encoding="utf-8")


def _names(names) -> str:
    return " ".join(f"`{name}`" for name in names)


def of_settings() -> str:
    """One row for each setting."""
    rows = ["| MirrorMaker | here | note |", "|---|---|---|"]
    for one in settings.MAPPED:
        to = ", ".join(f"`{name}`" for name in one.to.split(", "))
        rows.append(f"| {_names(one.names.split())} | {to} | {one.why} |")
    rows += [f"| {_names(one.names.split())} | | {one.why} |" for one in settings.NOT_APPLICABLE]
    return "\n".join(rows)


def of_clients() -> str:
    """One row for each property that is mapped, and one for each reason."""
    rows = ["| Java's clients | here | note |", "|---|---|---|"]
    for name, one in RENAMED.items():
        block = next((role for role, names in ROLES.items() if one.name in names), "client")
        bound = "" if one.least is None else f"from {one.least:,} to {one.most:,}"
        rows.append(f"| `{name}` | `{block}: {{{one.name}}}` | {bound} |")
    by_reason: dict[str, list[str]] = {}
    for name, why in REASONS.items():
        if name not in RENAMED:
            by_reason.setdefault(why, []).append(name)
    rows += [f"| {_names(names)} | | {why} |" for why, names in by_reason.items()]
    return "\n".join(rows)


@pytest.mark.parametrize(("mark", "table"), [("settings", of_settings), ("clients", of_clients)])
def test_the_tables_are_the_codes(mark, table):
    """Every setting and every property, and no other."""
    (found,) = re.findall(rf"<!-- {mark}: begin -->\n(.*?)\n?<!-- {mark}: end -->", PAGE, re.DOTALL)
    assert found == table(), f"put this between the marks:\n{table()}"


@pytest.mark.parametrize("words", shown_commands(PAGE), ids=" ".join)
def test_every_command_that_is_shown_exists(words):
    """Every option that is shown with it exists, too."""
    check_command(words)
