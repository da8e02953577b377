"""Makes edge names from names of clusters, and patterns of central topics from MirrorMaker's replication policy.

Invariant: a central topic has the name that MirrorMaker gave it, if the hub can express that name. Edge names are
unique, even if MirrorMaker's names differ only in capital letters.
"""

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

_HUB = "hub"
_LONGEST = 32
_NO_LETTER = re.compile(r"[^a-z0-9-]+")
_IN_TOPICS = re.compile(r"[A-Za-z0-9._-]*", re.ASCII)
_IDENTITY = ("IdentityReplicationPolicy",)
_DEFAULT = "DefaultReplicationPolicy"
_OWN_CLASS = "a class of Java, which the hub does not load: see `central` of the rule, and write the names by hand"


class Naming(NamedTuple):
    """The pattern of central topic names, with remarks for the report.

    Attributes:
        pattern: The pattern in the form of a rule's `central`.
        why: The reason why the policy's class is not applicable; empty if it is.
        note: The difference from MirrorMaker's names.
        remark: A remark for a person; may be empty.
    """

    pattern: str
    why: str = ""
    note: str = ""
    remark: str = ""


def edge_names(aliases: Sequence[str]) -> Mapping[str, str]:
    """Map MirrorMaker's names to edge names: lower-case letters, digits and hyphens, at most 32."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    counts: dict[str, int] = {}
    for alias in dict.fromkeys(aliases):
        name = _NO_LETTER.sub("-", alias.lower()).strip("-")[:_LONGEST].strip("-") or "edge"
        tried = name
        while tried in taken:
            counts[name] = counts.get(name, 1) + 1
            end = f"-{counts[name]}"
            tried = f"{name[: _LONGEST - len(end)]}{end}"
        taken.add(tried)
        names[alias] = tried
    return names


def hub_names(targets: Sequence[str], edges: Mapping[str, str], aliases: Sequence[str]) -> Mapping[str, str]:
    """Map targets to hub names; no cluster has such a name, because central names begin with clusters' names.

    Args:
        targets: MirrorMaker's names of the clusters that something is copied into.
        edges: Edge names by MirrorMaker's names.
        aliases: Every name that a central topic may begin with.
    """
    taken = {*aliases, *edges.values()}
    names: dict[str, str] = {}
    for target in targets:
        wanted = _HUB if len(targets) == 1 else f"{_HUB}-{edges[target]}"
        numbered = (f"{wanted}-{number}" for number in itertools.count(2))
        names[target] = next(name for name in itertools.chain([wanted], numbered) if name not in taken)
        taken.add(names[target])
    return names


def central_pattern(alias: str, edge: str, policy: str, separator: str | None, *, keeps_names: bool) -> Naming:
    """The pattern of central names that MirrorMaker's policy makes.

    Args:
        alias: MirrorMaker's name of the source; may be empty.
        edge: The edge's name.
        policy: The class; empty for MirrorMaker's default.
        separator: The separator; None for the policy's default.
        keeps_names: Whether this MirrorMaker keeps names, as its first generation does.
    """
    if keeps_names or policy.rpartition(".")[2] in _IDENTITY:
        return Naming("{topic}")
    why = "" if policy.rpartition(".")[2] in ("", _DEFAULT) else _OWN_CLASS
    separator = "." if separator is None else separator
    remark = f"names at central: a class of Java made them; `central` of {edge} is MirrorMaker's default" if why else ""
    if not _IN_TOPICS.fullmatch(alias + separator):
        note = "no topic can have this in its name: the edge's name and a dot stand in its place"
        return Naming("{edge}.{topic}", why, note, remark)
    if not alias + separator:
        return Naming("{topic}", why, "", remark)
    beginning = "{edge}" if alias == edge else alias
    return Naming(f"{beginning}{separator}{{topic}}", why, "", remark)


class Circles:
    """Finds cycles of MirrorMaker: clusters whose records could come back to them along the flows.

    Args:
        flows: Source and target of each.
    """

    def __init__(self, flows: Sequence[tuple[str, str]]) -> None:
        self._next: dict[str, list[str]] = {}
        self._reached: dict[str, frozenset[str]] = {}
        for source, target in flows:
            self._next.setdefault(source, []).append(target)

    def closes(self, source: str, target: str) -> bool:
        """Whether a record that goes this way could come back to the source."""
        if target not in self._reached:
            reached, waiting = {target}, [target]
            while waiting:
                further = [one for one in self._next.get(waiting.pop(), ()) if one not in reached]
                reached.update(further)
                waiting += further
            self._reached[target] = frozenset(reached)
        return source in self._reached[target]
