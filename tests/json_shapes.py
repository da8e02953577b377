"""The shapes of answers that docs/json.md promises to programs, and what an answer has that they do not say.

Invariant: the shapes are read from the page itself, so that what is promised is what is compared.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from textwrap import indent
from typing import Any

from ruamel.yaml import YAML

PAGE = Path(__file__).parents[1] / "docs" / "json.md"
_BLOCK = re.compile(r"^## `aggregator ([a-z -]+)`\n\n```yaml\n(.*?)```", re.MULTILINE | re.DOTALL)
_KINDS = {"text": str, "whole": int, "number": int | float, "flag": bool}


@cache
def shapes() -> Mapping[str, Any]:
    """The shape of each command's answer, by the command without its first word."""
    blocks = _BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    text = "\n".join(f'"{command}":\n{indent(block, "  ")}' for command, block in blocks)
    return YAML(typ="safe").load(text)


def departures(shape: Any, answer: Any, place: str = "") -> Iterator[str]:
    """What an answer has that its shape does not say, and the other way round.

    Args:
        shape: As the page has it.
        answer: What a command answered, as plain data.
        place: Where it stands in the whole answer.
    """
    match shape:
        case dict():
            yield from _of_object(shape, answer, place)
        case list() if isinstance(answer, list | tuple):
            for number, item in enumerate(answer):
                yield from departures(shape[0], item, f"{place}[{number}]")
        case list():
            yield f"{place} is no list"
        case "any":
            pass
        case str() if shape.endswith("?"):
            yield from departures(shape[:-1], answer, place) if answer is not None else ()
        case _:
            is_flag = isinstance(answer, bool)
            if not isinstance(answer, _KINDS[shape]) or is_flag != (shape == "flag"):
                yield f"{place} is {type(answer).__name__}, not {shape}"


def _of_object(shape: Mapping[str, Any], answer: Any, place: str) -> Iterator[str]:
    if not isinstance(answer, Mapping):
        yield f"{place} is no object"
        return
    (first, inner), *_ = shape.items()
    if first.startswith("<"):
        for name, value in answer.items():
            yield from departures(inner, value, f"{place}.{name}")
        return
    said = {key.removesuffix("?"): (value, key.endswith("?")) for key, value in shape.items()}
    yield from (f"{place}.{key} is not on the page" for key in answer.keys() - said.keys())
    for key, (value, may_miss) in said.items():
        if answer.get(key) is None and may_miss:
            continue
        if key not in answer:
            yield f"{place}.{key} is missing"
        else:
            yield from departures(value, answer[key], f"{place}.{key}")


def promised(command: str, answer: Any) -> Any:
    """The shape of an answer; `any` for one that the page does not speak of.

    Args:
        command: Its path, as click names it: the program's name, then the command's.
        answer: As plain data; `audit` has two kinds.
    """
    path = command.partition(" ")[2].replace("gaps accept", "gaps list")
    return shapes().get("audit --decisions" if path == "audit" and "decisions" in answer else path, "any")
