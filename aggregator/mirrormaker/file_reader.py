"""Reads the files of an import: it recognises their form and returns every key with its line.

Invariant: a file that is not a configuration of MirrorMaker is refused with its name and line. No refusal holds a
value. Bytes, keys and nesting are bounded, so that no file takes long.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from aggregator.config.document import Document, Place, read_document, show_place
from aggregator.errors import ConfigError
from aggregator.mirrormaker import connect, dedicated, mirrormaker1, strimzi
from aggregator.mirrormaker.properties import PropertiesFault, parse_properties
from aggregator.mirrormaker.result import FileKey
from aggregator.mirrormaker.scoped_settings import Mirror

# The largest files that people have are some thousand lines; these bounds keep the work within a second or two.
MAX_BYTES = 262_144
MAX_KEYS = 5_000
LONGEST_KEY = 300
MAX_OPEN = 100
LONGEST_VALUE = 65_536
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f]")
_HALF = re.compile(r"[\ud800-\udfff]")
_BRACKETS = re.compile(r"[\[\]{}]")
_KIND = re.compile(r"^[\"']?kind[\"']?\s*:", re.MULTILINE)
_READS = "a dedicated file (`clusters = …`), connectors as JSON, a KafkaMirrorMaker2, or MirrorMaker 1's two files"
_NEXT = f"give {_READS}"
# Used instead of a file's name for settings from the command line.
WHITELIST = "--whitelist"
_WORKER = frozenset({"config.storage.topic", "offset.storage.topic", "plugin.path", "offset.storage.file.filename"})
_STRIMZI = "KafkaMirrorMaker2"


class Read(NamedTuple):
    """Holds what the files say.

    Attributes:
        mirror: MirrorMaker's settings, taken apart.
        entries: The entries of all keys, in order.
    """

    mirror: Mirror
    entries: tuple[FileKey, ...]


def read(files: Sequence[tuple[str, bytes]]) -> Read:
    """Read all files, which have to be of one form.

    Args:
        files: Name and content of each.

    Raises:
        ConfigError: with file, line and what to do.
    """
    reader = _Reader()
    for name, content in files:
        reader.file(name, _text(name, content))
    return reader.done()


def _text(name: str, content: bytes) -> str:
    if len(content) > MAX_BYTES:
        raise ConfigError(f"{name}: has more than {MAX_BYTES:,} bytes; no configuration is so large", hint=_NEXT)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError(f"{name}: is not UTF-8 text", hint="save the file as UTF-8") from None
    if found := _CONTROL.search(text):
        line = text.count("\n", 0, found.start()) + 1
        raise ConfigError(f"{name}:{line}: holds a control character", hint="save the file as plain text, in UTF-8")
    return text


class _Reader:
    """Files of one form, one after another."""

    def __init__(self) -> None:
        self._entries: list[FileKey] = []
        self._dedicated: list[FileKey] = []
        self._connectors: list[Sequence[FileKey]] = []
        self._plain: dict[str, list[FileKey]] = {}
        self._workers: list[FileKey] = []
        self._twice: list[tuple[FileKey, int]] = []
        self._strimzi: list[Mirror] = []

    def file(self, name: str, text: str) -> None:
        """Add one configuration file."""
        is_json = text.lstrip()[:1] in ("{", "[")
        if name.lower().endswith((".yaml", ".yml")) or _KIND.search(text) or (is_json and f'"{_STRIMZI}"' in text):
            self._yaml(name, text)
        elif is_json:
            self._json(name, text)
        else:
            self._properties(name, text)

    def done(self) -> Read:
        """What all files say together.

        Raises:
            ConfigError: they are of several forms, or of none.
        """
        given = [bool(one) for one in (self._dedicated, self._connectors, self._strimzi, self._plain)]
        if sum(given) > 1 and not (self._dedicated and self._workers):
            raise ConfigError(
                "these files are of several forms, which cannot be read together", hint=f"{_NEXT}, one at a time"
            )
        mirror = self._mirror()
        if len(set(mirror.clusters)) > dedicated.MAX_CLUSTERS:
            what = f"{self._entries[0].file}: names more than {dedicated.MAX_CLUSTERS} clusters"
            raise ConfigError(what, hint=_NEXT)
        for entry in self._workers:
            mirror.fates.not_applicable(entry, "of Connect's workers, which the hub does not have")
        for entry, line in self._twice:
            mirror.fates.not_applicable(entry, f"is written again in line {line}, which wins")
        return Read(mirror, tuple(self._entries))

    def _mirror(self) -> Mirror:
        if self._dedicated:
            return dedicated.take_apart(self._dedicated)
        if self._connectors:
            return connect.take_apart(self._connectors)
        if len(self._strimzi) > 1:
            raise ConfigError(f"several {_STRIMZI} are given", hint="import one at a time")
        if self._strimzi:
            return self._strimzi[0]
        return self._first_generation()

    def _first_generation(self) -> Mirror:
        files = {name: entries for name, entries in self._plain.items() if name != WHITELIST}
        told = {name: mirrormaker1.is_consumer(name, entries) for name, entries in files.items()}
        consumers = [name for name, verdict in told.items() if verdict]
        unclear = [name for name, verdict in told.items() if verdict is None]
        if len(unclear) == 1 and len(told) > 1:
            consumers += [] if consumers else unclear
            unclear = []
        if unclear:
            raise ConfigError(f"{unclear[0]}: is no configuration of MirrorMaker that is known here", hint=_NEXT)
        if not consumers:
            raise ConfigError(
                "MirrorMaker 1 reads from what its consumer's properties name, and none of these is a consumer's",
                hint="give both files: aggregator import consumer.properties producer.properties",
            )
        return mirrormaker1.take_apart(self._plain, consumers)

    def _entry(self, key: str, value: str, file: str, line: int) -> FileKey:
        if len(self._entries) >= MAX_KEYS:
            raise ConfigError(f"{file}:{line}: is beyond {MAX_KEYS:,} keys; no configuration has so many", hint=_NEXT)
        if len(key) > LONGEST_KEY or len(value) > LONGEST_VALUE:
            raise ConfigError(
                f"{file}:{line}: has a key or a value that is longer than any of MirrorMaker's", hint=_NEXT
            )
        if _HALF.search(key) or _HALF.search(value):
            raise ConfigError(f"{file}:{line}: holds half of a character (\\ud800 to \\udfff)", hint="write it out")
        entry = FileKey(key, value.strip(), file, line, len(self._entries))
        self._entries.append(entry)
        return entry

    def _once(self, entries: Sequence[FileKey]) -> list[FileKey]:
        """The entries that count: of a key that is written twice the last one."""
        last = {entry.key: entry for entry in entries}
        self._twice += [(entry, last[entry.key].line) for entry in entries if last[entry.key] is not entry]
        return list(last.values())

    def _properties(self, name: str, text: str) -> None:
        try:
            found = parse_properties(text)
        except PropertiesFault as fault:
            raise ConfigError(f"{name}:{fault.line}: {fault.what}", hint="correct it as Java would have it") from None
        if not found:
            raise ConfigError(f"{name}: holds no key", hint=_NEXT)
        entries = self._once([self._entry(one.key, one.value, name, one.line) for one in found])
        keys = {entry.key for entry in entries}
        classes = [entry.value for entry in entries if entry.key == "connector.class"]
        if any(map(connect.is_connector, classes)):
            self._connectors.append(entries)
        elif "clusters" in keys or any("->" in key for key in keys):
            self._dedicated += entries
        elif keys & _WORKER and "clusters" not in keys:
            self._workers += entries
        else:
            self._plain[name] = entries

    def _json(self, name: str, text: str) -> None:
        try:
            data = json.loads(text, object_pairs_hook=_Pairs)
        except RecursionError:
            raise ConfigError(f"{name}: is nested too deep", hint=_NEXT) from None
        except json.JSONDecodeError as error:
            raise ConfigError(f"{name}:{error.lineno}: is not JSON", hint="correct it, or save the file anew") from None
        except ValueError:
            raise ConfigError(f"{name}: holds a number that nobody can read", hint=_NEXT) from None
        found = list(_configs(data))
        if not found:
            raise ConfigError(f"{name}: holds no connector of MirrorMaker 2 (`connector.class`)", hint=_NEXT)
        lines = _Lines(text)
        for config in found:
            entries = [self._entry(key, value, name, lines.of(key)) for key, value in _leaves_of(config)]
            self._connectors.append(self._once(entries))

    def _yaml(self, name: str, text: str) -> None:
        if _depth(text) > MAX_OPEN:
            raise ConfigError(f"{name}: is nested too deep", hint=_NEXT)
        try:
            document = read_document(text)
        except RecursionError:
            raise ConfigError(f"{name}: is nested too deep", hint=_NEXT) from None
        if document.faults:
            fault = document.faults[0]
            line = fault.line or document.line(fault.place)
            hint = f"give one document, of kind {_STRIMZI}, as plain YAML"
            raise ConfigError(f"{name}:{line}: {show_place(fault.place)}: {fault.message}", hint=hint)
        data = document.data
        if not isinstance(data, dict) or data.get("kind") != _STRIMZI:
            line = document.line(("kind",))
            raise ConfigError(f"{name}:{line}: is no {_STRIMZI}", hint=_NEXT)
        leaves = {place: self._entry(*one, name, document.line(place)) for place, one in _leaves(document)}
        self._strimzi.append(strimzi.take_apart(data, leaves))


def _depth(text: str) -> int:
    """The deepest nesting of brackets, in any context: the parser takes long over many."""
    depth = deepest = 0
    for sign in _BRACKETS.findall(text):
        depth += 1 if sign in "[{" else -1
        deepest = max(deepest, depth)
    return deepest


def _leaves(document: Document) -> Iterator[tuple[Place, tuple[str, str]]]:
    """Scalars and empty sections, each with its place in words."""
    waiting: list[tuple[Place, Any]] = [((), document.data)]
    while waiting:
        place, found = waiting.pop()
        steps = list(
            found.items() if isinstance(found, Mapping) else enumerate(found) if isinstance(found, list) else ()
        )
        if steps:
            waiting += [((*place, step), below) for step, below in reversed(steps)]
        else:
            yield place, (show_place(place), found if isinstance(found, str) else "")


class _Pairs(list[tuple[str, Any]]):
    """A JSON object as a list of pairs, including duplicate keys."""


def _configs(data: Any) -> Iterator[_Pairs]:
    """Objects with MirrorMaker's `connector.class`: a whole file, `config` of one, several in a list or by name."""
    if isinstance(data, _Pairs):
        named = dict(data)
        if _is_connector(data):
            yield data
        elif isinstance(named.get("config"), _Pairs) and _is_connector(named["config"]):
            yield _Pairs([*((key, value) for key, value in data if key != "config"), *named["config"]])
        else:
            for below in named.values():
                yield from _configs(below) if isinstance(below, list) else ()
    elif isinstance(data, list):
        for one in data:
            yield from _configs(one)


def _is_connector(config: _Pairs) -> bool:
    return any(connect.is_connector(str(value)) for key, value in config if key == "connector.class")


def _leaves_of(config: _Pairs) -> Iterator[tuple[str, str]]:
    for key, value in config:
        if isinstance(value, bool):
            yield key, str(value).lower()
        else:
            yield key, "" if value is None or isinstance(value, list) else str(value)


class _Lines:
    """Finds the lines of keys in a JSON text: each key is searched for behind the previous one."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._line = 1

    def of(self, key: str) -> int:
        """The line of the next such key; that of the one before where it is written in another way."""
        found = self._text.find(json.dumps(key), self._at)
        if found < 0:
            found = self._text.find(json.dumps(key, ensure_ascii=False), self._at)
        if found >= 0:
            self._line += self._text.count("\n", self._at, found)
            self._at = found
        return self._line
