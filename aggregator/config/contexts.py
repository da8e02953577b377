"""Finds the context of a schema registry that a configuration names, in the registry's address or beside it.

Invariant: pure. One registry has one context here. Two different contexts are refused, because one id would then mean
two schemas.
"""

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

CONTEXT = "context"
DEFAULT = "."
_PLACE = re.compile(r"(?P<base>.*?)/contexts/(?P<name>[^/]+)/*")
_NAME = re.compile(r"\.[A-Za-z0-9._-]{0,127}")


def split_address(address: str) -> tuple[str, str]:
    """An address without `/contexts/<name>` at its end, and that name; empty where there is none."""
    parts = urlsplit(address)
    found = _PLACE.fullmatch(parts.path)
    if found is None:
        return address, ""
    return parts._replace(path=found["base"]).geturl(), found["name"].strip(":")


def context_refusal(value: object) -> str | None:
    """Why the value does not name a context; None if it does."""
    if isinstance(value, str) and _NAME.fullmatch(value):
        return None
    return "is the name of a context, which begins with a dot: .eu"


def context_fault(address: str, options: Mapping[str, object]) -> str | None:
    """Why the context or contexts beside an address are invalid; None if they are valid.

    Args:
        address: Or several, with commas.
        options: The block beside it.
    """
    named = {split_address(one.strip())[1] or DEFAULT for one in address.split(",")}
    if len(named) > 1:
        return "the addresses name several contexts: those of one registry name one"
    (name,) = named
    if name != DEFAULT and (why := context_refusal(name)):
        return f"the context in the address {why}"
    beside = options.get(CONTEXT)
    if name != DEFAULT and beside is not None and beside != name:
        return "is another context than the one in the address: leave one of the two out"
    return None
