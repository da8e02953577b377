"""A schema registry in a folder, `<url-encoded subject>/<version>-<id>.avsc`, for every process that sees the folder.

Invariants: a file appears complete and never changes. Ids are given under one lock, the same text gets the same id in
every subject, and a new id is the highest id plus one. An id that stands for two texts is refused, and so is a schema
with references to other subjects.
"""

import contextlib
import fcntl
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, unquote
from uuid import UUID

from aggregator.coordinates import SchemaName
from aggregator.errors import HoldError, Unreachable
from aggregator.regular_files import read_bytes
from aggregator.schema.compatibility import incompatibility
from aggregator.schema.registry import (
    NO_REQUESTER,
    GoneSchema,
    Listing,
    Requester,
    SchemaOrigin,
    SchemaVersion,
    UnknownSchema,
)
from aggregator.schema.wire import MAXIMUM_ID, Framing

_FILE = re.compile(r"([1-9]\d{0,9})-(\d{1,10})\.avsc")
_LOCK = ".lock"


class _Entry(NamedTuple):
    """One schema file, by what its name says."""

    subject: str
    version: int
    schema_id: int
    path: Path


class DirectoryRegistry:
    """Uses a folder as a registry.

    Args:
        root: Absolute path; created by the first `register` if its parent is there.
    """

    framing = Framing.CONFLUENT
    ids_end = MAXIMUM_ID + 1

    def __init__(self, root: Path) -> None:
        self._root = root
        self._entries: list[_Entry] = []
        self._texts: dict[int, str] = {}
        self._stale: set[int] = set()
        self._is_fresh = False
        self._requester = NO_REQUESTER  # the newest
        self._placed: set[tuple[str, int]] = set()  # topics and ids whose folders were looked for

    def schema(self, schema_id: int, *, requester: Requester = NO_REQUESTER, since_s: float | None = None) -> str:
        """The text of an id; lists the folder again when the id is new, so that no restart is needed."""
        del since_s
        self._requester = requester
        if schema_id in self._stale:
            with contextlib.suppress(Unreachable):  # known schemas stay valid
                self._look_anew(schema_id)
        if schema_id not in self._texts:
            found = self._of(schema_id)
            if not found:
                self._scan()
                found = self._of(schema_id)
            if not found:
                raise UnknownSchema(schema_id, f"directory:{self._root}")
            self._texts[schema_id] = _one_meaning(found)
        return self._texts[schema_id]

    def _of(self, schema_id: int) -> list[_Entry]:
        return [entry for entry in self._entries if entry.schema_id == schema_id]

    def _look_anew(self, schema_id: int) -> None:
        if not self._is_fresh:  # the folder is read once for all of them
            self._scan()
        found = self._of(schema_id)
        if not found:
            raise GoneSchema(schema_id, f"directory:{self._root}")
        self._texts[schema_id] = _one_meaning(found)
        self._stale.discard(schema_id)

    def listing(self, requester: Requester, is_own: Callable[[str], bool], *, since_s: float | None = None) -> Listing:
        """The ids of the files in these folders."""
        del requester, since_s
        self._scan()
        ids = frozenset(entry.schema_id for entry in self._entries if is_own(entry.subject))
        return Listing(f"directory:{self._root}", ids)

    def origin(self, schema_id: int) -> SchemaOrigin:
        """The folders that have a file of the id; files have no tags beside them."""
        topic, opened, _ = self._requester
        if (topic, schema_id) not in self._placed:
            self._scan("" if opened or not topic else f"{topic}-")
            self._placed.add((topic, schema_id))
        newest: dict[str, int] = {}
        for entry in self._of(schema_id):
            newest[entry.subject] = max(entry.version, newest.get(entry.subject, 0))
        return SchemaOrigin(newest, (), str(schema_id))

    def history(self, subject: str, version: int) -> list[SchemaVersion]:
        """The versions of a subject up to this one, from the files of its folder."""
        return [one for one in self._listed(subject) if one.version <= version]

    def refresh(self) -> None:
        """Files are read again, once for each id."""
        self._stale, self._is_fresh, self._placed = set(self._texts), False, set()

    def number(self, _guid: UUID) -> int | None:
        """None: files have no GUIDs."""
        return None

    def name(self, schema_id: int) -> SchemaName | None:
        """The id itself."""
        return schema_id

    def register(self, subject: str, text: str) -> int:
        """Give the text an id, under the lock of the folder; idempotent."""
        return self._registered(subject, text, judge=False)

    def register_compatible(self, subject: str, text: str) -> int:
        """Register, after a look at the newest version under the same lock."""
        return self._registered(subject, text, judge=True)

    def _registered(self, subject: str, text: str, *, judge: bool) -> int:
        with self._locked():
            self._scan()
            same = [entry for entry in self._entries if _text(entry.path) == text]
            own = sorted((entry for entry in self._entries if entry.subject == subject), key=lambda one: one.version)
            kept = [entry.schema_id for entry in same if entry.subject == subject]
            if kept:
                return min(kept)
            if judge:
                _judge(subject, text, own)
            ids = [entry.schema_id for entry in self._entries]
            schema_id = min((entry.schema_id for entry in same), default=max(ids, default=0) + 1)
            if schema_id > MAXIMUM_ID:
                raise HoldError(f"directory:{self._root} has no free id", hint="remove the file of the highest id")
            self._write(subject, own[-1].version + 1 if own else 1, schema_id, text)
            return schema_id

    def subjects(self) -> list[str]:
        """Every subject that has a version, sorted."""
        self._scan()
        return sorted({entry.subject for entry in self._entries})

    def versions(self, subject: str) -> list[SchemaVersion]:
        """Every version of a subject, oldest first."""
        self._scan()
        return self._listed(subject)

    def _listed(self, subject: str) -> list[SchemaVersion]:
        return [
            SchemaVersion(subject, entry.version, entry.schema_id, _text(entry.path))
            for entry in sorted(self._entries, key=lambda entry: entry.version)
            if entry.subject == subject
        ]

    def _scan(self, begins: str = "") -> None:
        """List the folders of the subjects whose names begin so; what is known of others stays."""
        others = [entry for entry in self._entries if not entry.subject.startswith(begins)]
        try:
            self._entries = sorted([*others, *_list(self._root, begins)])
        except OSError as error:
            raise self._away(error) from None
        self._is_fresh = self._is_fresh or not begins

    def _away(self, error: OSError) -> Unreachable:
        return Unreachable(
            f"registry directory:{self._root}: {error.strerror}",
            hint="create the folder, or mount it on every host that runs the hub",
        )

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            # The parents are never created: below an unmounted share, ids would be given a second time.
            self._root.mkdir(exist_ok=True)
            handle = os.open(self._root / _LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise self._away(error) from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def _write(self, subject: str, version: int, schema_id: int, text: str) -> None:
        """Write aside, then link: readers see the whole file or none, and an existing one is never replaced."""
        folder = self._root / _folder_name(subject)
        aside = folder / f".{version}-{schema_id}.{os.getpid()}"
        try:
            folder.mkdir(exist_ok=True)
            with aside.open("w", encoding="utf-8", newline="") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            try:
                os.link(aside, folder / f"{version}-{schema_id}.avsc")
            finally:
                aside.unlink()
        except OSError as error:
            raise self._away(error) from None


def _folder_name(subject: str) -> str:
    name = quote(subject, safe="")
    return name.replace(".", "%2E") if name in (".", "..") else name


def _list(root: Path, begins: str) -> Iterator[_Entry]:
    with os.scandir(root) as folders:
        subjects = [one for one in folders if unquote(one.name).startswith(begins) and one.is_dir()]
    for folder in subjects:
        for path in Path(folder.path).iterdir():
            found = _FILE.fullmatch(path.name)
            if found and int(found[2]) <= MAXIMUM_ID:
                yield _Entry(unquote(folder.name), int(found[1]), int(found[2]), path)


def _text(path: Path) -> str:
    try:
        return read_bytes(path).decode()
    except OSError as error:
        raise Unreachable(f"schema file {path}: {error.strerror}", hint="make the file readable for the hub") from None
    except UnicodeDecodeError:
        raise HoldError(f"schema file {path} is not UTF-8", hint="write the schema as JSON in UTF-8") from None


def _judge(subject: str, text: str, versions: list[_Entry]) -> None:
    refused = incompatibility(subject, text, ((entry.version, _text(entry.path)) for entry in reversed(versions)))
    if refused is not None:
        raise refused


def _one_meaning(entries: list[_Entry]) -> str:
    """The text of one id; files of one id may differ in white space only."""
    texts = {entry.path: _text(entry.path) for entry in entries}
    first = entries[0]
    for entry in entries[1:]:
        if texts[entry.path] != texts[first.path] and _meaning(texts[entry.path]) != _meaning(texts[first.path]):
            raise HoldError(
                f"schema id {first.schema_id} has two meanings: {first.path} and {entry.path}",
                hint="give one of them a free id; which one the records mean cannot be guessed",
            )
    return texts[first.path]


def _meaning(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
