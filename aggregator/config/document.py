"""Parses a YAML document into plain data and remembers the line of every place.

Invariant: scalars remain the text that was written. The model decides what they mean, so `012` and `no` are read as
their author wrote them. No fault quotes a value. Duplicate keys, merge keys, custom tags, several documents, more
values than a file has and aliases that expand without bounds are refused.
"""

import difflib
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.composer import Composer
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.scanner import Scanner

Place = tuple[str | int, ...]
# A hub file has hundreds of values, but nested aliases reach billions in ten lines.
MAXIMUM_VALUES = 50_000
MAXIMUM_DEPTH = 100
# A file that is something else altogether may have a fault in each line.
_LINES_SHOWN = 500
# NUL and halves of a character: YAML can write them as escapes, but no path, Kafka name or UTF-8 text contains them.
_NO_TEXT = re.compile("[\0\ud800-\udfff]")
_KINDS = ("str", "int", "float", "bool", "null", "timestamp", "map", "seq")
_KNOWN_TAGS = {f"tag:yaml.org,2002:{kind}" for kind in _KINDS}
_NULL = "tag:yaml.org,2002:null"
_MERGE = "tag:yaml.org,2002:merge"


@dataclass(frozen=True, slots=True)
class ConfigFault:
    """One fault of the configuration, with its place; the text holds no value."""

    place: Place
    message: str
    line: int | None = None


@dataclass(slots=True)
class Document:
    """Plain data (dict, list, text, None), the line of each place, and what was wrong with the text itself."""

    data: Any = None
    lines: dict[Place, int] = field(default_factory=dict)
    faults: list[ConfigFault] = field(default_factory=list)

    def line(self, place: Place) -> int:
        """Line of a place, or of the nearest thing around it that was written."""
        while place and place not in self.lines:
            place = place[:-1]
        return self.lines.get(place, 1)


def shown_lines(name: object, lines: Sequence[str]) -> list[str]:
    """The lines of a file's faults as they are told: where there are very many, the first ones.

    Args:
        name: The file.
        lines: A line of text for each fault, in the file's order.
    """
    if len(lines) <= _LINES_SHOWN:
        return list(lines)
    return [*lines[:_LINES_SHOWN], f"{name}: more than that: the others follow once these are corrected"]


def is_writable(text: str) -> bool:
    """Whether a file can hold a text: without NUL, and without half of a character."""
    return _NO_TEXT.search(text) is None


def show_place(place: Place) -> str:
    """A place in the document as a path such as `topics[0].match`."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place)
    return text.removeprefix(".") or "the file"


def read_document(text: str) -> Document:
    """Parse one YAML document; faults are collected, not raised."""
    document = Document()
    try:
        _read(text, document)
    except RecursionError:
        return Document(faults=[ConfigFault((), "nests too deep")])
    return document


class _BoundedScanner(Scanner):
    """Ends at the depth that no file has: the library's time grows with the square of open brackets."""

    def fetch_flow_collection_start(self, TokenClass: Any, to_push: Any) -> None:  # noqa: N803 - the library's name
        """Open a bracket.

        Raises:
            RecursionError: too many are open.
        """
        if len(self.flow_context) >= MAXIMUM_DEPTH:
            raise RecursionError
        super().fetch_flow_collection_start(TokenClass, to_push)


class _TooManyValues(Exception):
    """The line of the first value that is too many."""


class _BoundedComposer(Composer):
    """Ends at the number of values that no file has: each of them costs memory and time before any is read."""

    left = MAXIMUM_VALUES

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Compose a value, or the key of one.

        Raises:
            _TooManyValues: there were enough before it.
        """
        is_key = isinstance(parent, MappingNode) and index is None
        self.left -= not is_key
        if self.left < 0:
            raise _TooManyValues(self.parser.peek_event().start_mark.line + 1)
        return super().compose_node(parent, index)


def _read(text: str, document: Document) -> None:
    try:
        yaml = YAML(typ="safe", pure=True)
        yaml.Scanner = _BoundedScanner
        yaml.Composer = _BoundedComposer
        # YAML allows an anchor to be written twice. The library's warning of it would quote the text.
        yaml.composer.warn_double_anchors = False
        root = yaml.compose(text)
    except _TooManyValues as error:
        what = f"holds more than {MAXIMUM_VALUES:,} values: one file needs fewer, and patterns stand for many topics"
        document.faults.append(ConfigFault((), what, error.args[0]))
        return
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        document.faults.append(ConfigFault((), _problem(error), mark.line + 1 if mark else 1))
        return
    except (YAMLError, ValueError):
        document.faults.append(ConfigFault((), "is not YAML: it holds characters that YAML does not allow"))
        return
    if root is not None:
        document.data = _Reader(document).read(root, ())


def _problem(error: MarkedYAMLError) -> str:
    """The parser's message without the piece of text that it quotes."""
    problem = str(error.problem or error.context or "cannot be parsed")
    if problem == "but found another document":
        return "holds several YAML documents, and one is read"
    quoted = ("alias", "anchor", "tag", "escape", "key")
    if "'" in problem and any(word in problem for word in quoted):
        problem = problem.partition("'")[0].rstrip()
    return f"is not YAML: {problem}"


class _Reader:
    """Walks composed nodes once; remembers the lines and the faults in its document."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.left = MAXIMUM_VALUES
        self.above: list[int] = []

    def read(self, node: Node, place: Place) -> Any:
        self.document.lines.setdefault(place, node.start_mark.line + 1)
        self.left -= 1
        if self.left < 0 or id(node) in self.above:
            if self.left >= 0 or self.left == -1:
                self.fault(node, place, "aliases grow without bound; write the values out")
            return None
        if len(self.above) > MAXIMUM_DEPTH:
            self.fault(node, place, "nests too deep")
            return None
        if str(node.tag) not in _KNOWN_TAGS:
            self.fault(node, place, "custom tags are not read; write plain YAML")
            return None
        self.above.append(id(node))
        try:
            return self.value(node, place)
        finally:
            self.above.pop()

    def value(self, node: Node, place: Place) -> Any:
        if isinstance(node, MappingNode):
            return self.mapping(node, place)
        if isinstance(node, SequenceNode):
            return [self.read(item, (*place, index)) for index, item in enumerate(node.value)]
        if str(node.tag) == _NULL:
            return None
        return self.text(node, place)

    def text(self, node: Node, place: Place) -> str:
        text = str(node.value)
        if not is_writable(text):
            self.fault(node, place, "holds a character that no text has: NUL, or half of one")
            return ""
        return text

    def mapping(self, node: MappingNode, place: Place) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in node.value:
            if not isinstance(key, ScalarNode):
                self.fault(key, place, "a key is a plain word")
            elif str(key.tag) == _MERGE:
                self.fault(key, place, "merge keys (<<) are not read; write the keys out")
            elif key.value in found:
                first = self.document.lines[(*place, key.value)]
                self.fault(key, (*place, key.value), f"is written twice, first in line {first}")
            else:
                name = self.text(key, place)
                self.document.lines[(*place, name)] = key.start_mark.line + 1
                found[name] = self.read(value, (*place, name))
        return found

    def fault(self, node: Node, place: Place, message: str) -> None:
        self.document.faults.append(ConfigFault(place, message, node.start_mark.line + 1))


def unknown(name: str, known: Collection[str]) -> str:
    """The text for an unknown key: the likely meant key, or all known keys of its place."""
    return "is not known; " + (did_you_mean(name, known) or f"known here: {', '.join(known)}")


def did_you_mean(name: str, known: Collection[str], *, likeness: float = 0.6) -> str:
    """`did you mean …?`, or nothing where no known name is as like as that, on difflib's scale from 0 to 1."""
    close = difflib.get_close_matches(name, known, n=1, cutoff=likeness)
    return f"did you mean `{close[0]}`?" if close else ""
