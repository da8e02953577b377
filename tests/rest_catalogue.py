"""An Iceberg REST catalogue on loopback: the protocol's requests over pyiceberg's own SQL catalogue.

What it keeps of a real one: a commit's requirements are checked against the newest metadata; a refused one is a 409.
On request a commit takes effect and is answered with an error, as behind a gateway whose answer gets lost.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit
from urllib.request import Request, urlopen

from pyiceberg.catalog.rest import CreateTableRequest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchNamespaceError, NoSuchTableError
from pyiceberg.table import CommitTableRequest, Table

from tests.loopback import serving

_REFUSE = "/refuse"
_ERRORS = {CommitFailedException: 409, NoSuchTableError: 404, NoSuchNamespaceError: 404}


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, folder: Path, words: dict[str, Any]) -> None:
        super().__init__(("127.0.0.1", 0), _Request)
        self.words = words
        self.catalog = SqlCatalog("rest", uri=f"sqlite:///{folder / 'rest.db'}", warehouse=f"file://{folder}")
        self.lock = threading.Lock()
        self.refusals: list[tuple[str, int]] = []


@contextmanager
def rest_catalogue(folder: Path, **words: Any) -> Iterator[str]:
    """Address of a catalogue that runs and keeps its tables' addresses in a folder.

    Args:
        folder: Where.
        words: What it tells its clients to use: `defaults`, `overrides`, and of each table its `config`.
    """
    server = _Server(folder, words)
    try:
        with serving(server) as address:
            yield address
    finally:
        server.catalog.close()


def refuse(address: str, table: str, status: int) -> None:
    """Apply the next commit to a table and answer it with an error.

    Args:
        address: The catalogue's.
        table: The table's name.
        status: The answer's.
    """
    asked = urlencode({"table": table, "status": status})
    with urlopen(Request(f"{address}{_REFUSE}?{asked}", method="POST")) as answer:
        assert answer.status == HTTPStatus.OK


class _Request(BaseHTTPRequestHandler):
    server: _Server
    wbufsize = -1  # head and body at once: else each answer waits for the other side's acknowledgement

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _route(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        _, *place = self.path.partition("?")[0].strip("/").split("/")
        with self.server.lock:
            try:
                status, told = self._answered(place, body)
            except tuple(_ERRORS) as error:
                status = _ERRORS[type(error)]
                told = {"error": {"message": "refused", "type": type(error).__name__, "code": status}}
        answer = b"" if self.command == "HEAD" else json.dumps(told).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_HEAD = do_POST = _route  # noqa: N815 - the server's names

    def _answered(self, place: list[str], body: bytes) -> tuple[int, dict[str, Any]]:
        if self.path.startswith(_REFUSE):
            asked = parse_qs(urlsplit(self.path).query)
            self.server.refusals.append((asked["table"][0], int(asked["status"][0])))
            return 200, {}
        told = self._told(place, body)
        refusal = next((one for one in self.server.refusals if one[0] == place[-1]), None)
        if refusal is None or self.command != "POST":
            return 200, told
        self.server.refusals.remove(refusal)
        return refusal[1], {"error": {"message": "refused", "type": "Refused", "code": refusal[1]}}

    def _told(self, place: list[str], body: bytes) -> dict[str, Any]:
        catalog = self.server.catalog
        match place:
            case ["config"]:
                return {"defaults": {}, "overrides": {}} | self.server.words
            case ["namespaces"]:
                (name,) = json.loads(body)["namespace"]
                catalog.create_namespace_if_not_exists(name)
                return {"namespace": [name], "properties": {}}
            case ["namespaces", name]:
                return {"namespace": [name], "properties": dict(catalog.load_namespace_properties(name))}
            case ["namespaces", name, "tables"] if self.command == "GET":
                found = [{"namespace": [name], "name": table} for _, table in catalog.list_tables(name)]
                return {"identifiers": found}
            case ["namespaces", name, "tables"]:
                return self._staged(name, CreateTableRequest.model_validate_json(body))
            case ["namespaces", name, "tables", table] if self.command == "POST":
                return self._committed((name, table), CommitTableRequest.model_validate_json(body))
            case ["namespaces", name, "tables", table]:
                return self._answer(catalog.load_table((name, table)))
        raise AssertionError(f"{self.command} {self.path}")

    def _staged(self, namespace: str, asked: CreateTableRequest) -> dict[str, Any]:
        assert asked.stage_create
        staged = self.server.catalog.create_table_transaction(
            (namespace, asked.name), asked.table_schema, asked.location, properties=asked.properties
        )
        return {"metadata": json.loads(staged.table_metadata.model_dump_json()), "config": self._config()}

    def _config(self) -> dict[str, Any]:
        return self.server.words.get("config", {})

    def _committed(self, name: tuple[str, str], asked: CommitTableRequest) -> dict[str, Any]:
        catalog = self.server.catalog
        try:
            table = catalog.load_table(name)
        except NoSuchTableError:
            table = Table(name, None, "", None, catalog)  # as for a table that is made
        catalog.commit_table(table, asked.requirements, asked.updates)
        return self._answer(catalog.load_table(name))

    def _answer(self, table: Table) -> dict[str, Any]:
        told = json.loads(table.metadata.model_dump_json())
        return {"metadata-location": table.metadata_location, "metadata": told, "config": self._config()}
