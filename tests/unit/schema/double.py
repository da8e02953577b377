"""A registry that speaks Confluent's REST API on loopback, over real sockets, with faults on demand."""

import base64
import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

from aggregator.schema.avro import parse
from aggregator.schema.compatibility import reads
from aggregator.schema.references import self_contained


class RegistryDouble:
    """Subjects, versions and ids in memory.

    Attributes:
        fault: What every request meets: None, `slow`, `drop`, `html`, or a status.
        user: `name:password` that is asked for.
        level: `BACKWARD` or `NONE`.
        asked: Method and path of every request.
        guids: GUID to id.
        deleted: Subject and number of versions that were deleted, and not for good.
    """

    def __init__(self, certificate=None):
        self.fault = None
        self.user = None
        self.level = "BACKWARD"
        self.asked = []
        self.schemas = {}
        self.subjects = {}
        self.guids = {}
        self.deleted = set()
        self.released = threading.Event()
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.address = f"http{'s' if certificate else ''}://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self):
        """Stop listening; idempotent."""
        self.released.set()
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()

    def add(self, subject, text, *, kind="AVRO", references=(), schema_id=None, tags=None, rules=None):
        """Register from the side, without any check; what is kept beside a schema makes it another one."""
        schema = {"schema": text, "schemaType": kind, "references": list(references)}
        schema |= {"metadata": {"tags": tags}} if tags is not None else {}
        schema |= {"ruleSet": {"domainRules": rules}} if rules is not None else {}
        with self._lock:
            return self._add(subject, schema, schema_id)

    def _add(self, subject, schema, schema_id=None):
        ids = [known for known, other in self.schemas.items() if other == schema]
        schema_id = schema_id or (ids[0] if ids else max(self.schemas, default=0) + 1)
        self.schemas[schema_id] = schema
        versions = self.subjects.setdefault(subject, [])
        if schema_id not in versions:
            versions.append(schema_id)
        return schema_id

    def rebuild(self):
        """Lose everything, as a registry does whose topic was lost."""
        with self._lock:
            self.schemas, self.subjects, self.guids, self.deleted = {}, {}, {}, set()

    def _numbers(self, subject, *, deleted):
        count = len(self.subjects.get(subject, []))
        return [number for number in range(1, count + 1) if deleted or (subject, number) not in self.deleted]

    def _homes(self, schema_id, *, deleted):
        return [
            {"subject": subject, "version": number}
            for subject, ids in self.subjects.items()
            for number in self._numbers(subject, deleted=deleted)
            if ids[number - 1] == schema_id
        ]

    def answer(self, method, path, body, *, deleted=False):
        """Status and JSON of one request."""
        parts = [unquote(part) for part in path.strip("/").split("/")]
        with self._lock:
            match [method, *parts]:
                case ["GET", "schemas", "ids", number]:
                    schema = self.schemas.get(int(number))
                    return (200, schema) if schema else _missing(40403)
                case ["GET", "schemas", "ids", number, "versions"]:
                    known = int(number) in self.schemas
                    return (200, self._homes(int(number), deleted=deleted)) if known else _missing(40403)
                case ["GET", "schemas", "guids", guid, "ids"]:
                    found = self.guids.get(guid)
                    return (200, [{"context": ".", "id": found}]) if found in self.schemas else _missing(40403)
                case ["GET", "schemas", "guids", guid]:
                    schema = self.schemas.get(self.guids.get(guid))
                    return (200, schema) if schema else _missing(40403)
                case ["GET", "subjects"]:
                    return 200, list(self.subjects)
                case ["GET", "subjects", subject, "versions"]:
                    found = self._numbers(subject, deleted=deleted)
                    return (200, found) if found else _missing(40401)
                case ["GET", "subjects", subject, "versions", version]:
                    return self._version(subject, version, deleted=deleted)
                case ["POST", "subjects", subject]:
                    return self._lookup(subject, body)
                case ["POST", "subjects", subject, "versions"]:
                    if not self._follows(subject, body):
                        return 409, {"error_code": 409, "message": f"Schema {body['schema']} is incompatible"}
                    return 200, {"id": self._add(subject, _plain(body))}
                case ["POST", "compatibility", "subjects", subject, "versions", "latest"]:
                    found = subject in self.subjects
                    return (200, {"is_compatible": self._follows(subject, body)}) if found else _missing(40402)
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}

    def _version(self, subject, version, *, deleted):
        found = self._numbers(subject, deleted=deleted)
        number = max(found, default=0) if version == "latest" else int(version)
        if number not in found:
            return _missing(40402 if found else 40401)
        schema_id = self.subjects[subject][number - 1]
        return 200, {"subject": subject, "version": number, "id": schema_id, **self.schemas[schema_id]}

    def _lookup(self, subject, body):
        for number, schema_id in enumerate(self.subjects.get(subject, []), 1):
            if self.schemas[schema_id] == _plain(body):
                return 200, {"subject": subject, "version": number, "id": schema_id, **self.schemas[schema_id]}
        return _missing(40403 if subject in self.subjects else 40401)

    def _follows(self, subject, body):
        versions = self.subjects.get(subject)
        if not versions or self.level == "NONE" or any(self.schemas[one] == _plain(body) for one in versions):
            return True
        newest = self.schemas[versions[-1]]["schema"]
        return reads(parse(self_contained(body["schema"], [])), parse(newest))


def _plain(body):
    return {"schema": body["schema"], "schemaType": body.get("schemaType", "AVRO"), "references": body["references"]}


def _missing(code):
    return 404, {"error_code": code, "message": "not found"}


def _handler(double):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.serve(None)

        def do_POST(self):
            self.serve(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def serve(self, body):
            path, query = urlsplit(self.path).path, parse_qs(urlsplit(self.path).query)
            double.asked.append(f"{self.command} {path}")
            expected = double.user and f"Basic {base64.b64encode(double.user.encode()).decode()}"
            if double.fault == "slow":
                double.released.wait(30)
            if double.fault == "drop":
                self.close_connection = True
            elif double.fault == "html":
                self.write(404, b"<html>no such page</html>")
            elif expected and self.headers.get("Authorization") != expected:
                self.tell(401, {"error_code": 40101, "message": f"no entry for {self.headers.get('Authorization')}"})
            elif isinstance(double.fault, int):
                self.tell(double.fault, {"error_code": double.fault * 100 + 1, "message": "scripted"})
            else:
                self.tell(*double.answer(self.command, path, body, deleted=query.get("deleted") == ["true"]))

        def tell(self, status, answer):
            self.write(status, json.dumps(answer).encode())

        def write(self, status, content):
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            """Quiet."""

    return Handler
