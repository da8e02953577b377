"""A registry that speaks Confluent's REST API on loopback, over real sockets, with faults on demand."""

import base64
import json
import ssl
import threading
import urllib.request
import uuid
from collections import defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

from aggregator.schema.avro import parse
from aggregator.schema.compatibility import reads
from aggregator.schema.references import self_contained


class RegistryDouble:
    """Subjects, versions and ids in memory.

    Attributes:
        instead: Path to what answers there, as a gateway does: bytes, with 200; or a status and JSON.
        fault: What every request meets: None, `slow`, `drop`, `html`, or a status.
        user: `name:password` that is asked for.
        token: The bearer token that is asked for.
        level: `BACKWARD` or `NONE`, where a subject has none of its own in `levels`.
        asked: Method and path of every request.
        guids: GUID to id in the default context.
        has_guids: Whether it is of a release that knows GUIDs.
        contexts: Schemas and subjects by the context's name, `.` is the default one.
    """

    def __init__(self, certificate=None):
        self.fault = None
        self.instead = {}
        self.user = self.token = None
        self.level = "BACKWARD"
        self.asked = []
        self.has_guids = True
        self.contexts = defaultdict(_Context)
        self.guids = {}
        self.levels = {}
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

    @property
    def schemas(self):
        """Those of the default context, by id."""
        return self.contexts["."].schemas

    @property
    def subjects(self):
        """Those of the default context: the ids of their versions."""
        return self.contexts["."].subjects

    @property
    def deleted(self):
        """Subject and number of versions of the default context that were deleted, and not for good."""
        return self.contexts["."].deleted

    def add(self, subject, text, *, kind="AVRO", references=(), schema_id=None, tags=None, rules=None, context="."):
        """Register from the side, without any check; what is kept beside a schema makes it another one."""
        schema = {"schema": text, "schemaType": kind, "references": list(references)}
        schema |= {"metadata": {"tags": tags}} if tags is not None else {}
        schema |= {"ruleSet": {"domainRules": rules}} if rules is not None else {}
        with self._lock:
            return self.contexts[context].add(subject, schema, schema_id)

    def ask(self, method, path, body=None):
        """One request as a client sends it; the answer's JSON."""
        content = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.address}{path}", content, method=method)
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.loads(answer.read())

    def rebuild(self):
        """Lose everything, as a registry does whose topic was lost."""
        with self._lock:
            self.contexts.clear()
            self.guids = {}

    def answer(self, method, path, body, **query):
        """Status and JSON of one request."""
        parts = [unquote(part) for part in path.strip("/").split("/")]
        name, _ = _told(query.get("subject", ""))
        for at, part in enumerate(parts):
            if part.startswith(":."):
                name, parts[at] = _told(part)
        deleted = query.get("deleted") == "true"
        with self._lock:
            context = self.contexts[name]
            match [method, *parts]:
                case ["GET", "schemas", "types"]:
                    return 200, ["JSON", "PROTOBUF", "AVRO"]
                case ["GET", "schemas", "ids", number]:
                    schema = context.schemas.get(int(number))
                    return (200, _referring(schema)) if schema else _missing(40403)
                case ["GET", "schemas", "ids", number, "versions"]:
                    known = int(number) in context.schemas
                    return (200, context.homes(int(number), name, deleted=deleted)) if known else _missing(40403)
                case ["GET", "schemas", "guids", guid, "ids"] if self.has_guids:
                    found = self.guids.get(guid)
                    return (200, self._ids(found)) if found in self.schemas else _missing(40403)
                case ["GET", "schemas", "guids", guid] if self.has_guids:
                    schema = self.schemas.get(self.guids.get(guid))
                    return (200, schema) if schema else _missing(40403)
                case ["GET", "subjects"]:
                    return 200, [
                        _called(name, subject)
                        for name, context in self.contexts.items()
                        for subject in context.subjects
                        if context.numbers(subject, deleted=deleted)
                    ]
                case ["GET", "subjects", subject, "versions"]:
                    found = context.numbers(subject, deleted=deleted)
                    return (200, found) if found else _missing(40401)
                case ["GET", "subjects", subject, "versions", version]:
                    return self._version(name, subject, version, deleted=deleted)
                case ["POST", "subjects", subject]:
                    return self._lookup(name, subject, body)
                case ["POST", "subjects", subject, "versions"]:
                    if not self._follows(name, subject, body):
                        return 409, {"error_code": 409, "message": f"Schema {body['schema']} is incompatible"}
                    schema_id = context.add(subject, _plain(body))
                    return 200, {"id": schema_id, **self._guid(name, schema_id)}
                case ["DELETE", "subjects", subject, "versions", version]:
                    return context.delete(subject, int(version), for_good=query.get("permanent") == "true")
                case ["PUT", "config", subject]:
                    self.levels[name, subject] = body["compatibility"]
                    return 200, body
                case ["POST", "compatibility", "subjects", subject, "versions", "latest"]:
                    found = context.numbers(subject, deleted=False)
                    return (200, {"is_compatible": self._follows(name, subject, body)}) if found else _missing(40402)
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}

    def _guid(self, name, schema_id):
        """What a release with GUIDs tells beside an id of the default context."""
        if not self.has_guids or name != ".":
            return {}
        guid = str(uuid.uuid5(uuid.NAMESPACE_OID, json.dumps(self.schemas[schema_id])))
        self.guids[guid] = schema_id
        return {"guid": guid}

    def _ids(self, schema_id):
        """The id of one schema in every context."""
        schema = self.schemas[schema_id]
        return [
            {"context": name, "id": known}
            for name, context in self.contexts.items()
            for known, other in context.schemas.items()
            if other == schema
        ]

    def _version(self, name, subject, version, *, deleted):
        context = self.contexts[name]
        found = context.numbers(subject, deleted=deleted)
        number = max(found, default=0) if version == "latest" else int(version)
        if number not in found:
            return _missing(40402 if found else 40401)
        schema_id = context.subjects[subject][number - 1]
        told = {"subject": _called(name, subject), "version": number, "id": schema_id}
        return 200, {**told, **_referring(context.schemas[schema_id]), **self._guid(name, schema_id)}

    def _lookup(self, name, subject, body):
        context = self.contexts[name]
        for number in context.numbers(subject, deleted=False):
            schema_id = context.subjects[subject][number - 1]
            if context.schemas[schema_id] == _plain(body):
                told = {"subject": _called(name, subject), "version": number, "id": schema_id}
                return 200, {**told, **context.schemas[schema_id]}
        return _missing(40403 if subject in context.subjects else 40401)

    def _follows(self, name, subject, body):
        context = self.contexts[name]
        ids = [context.subjects[subject][number - 1] for number in context.numbers(subject, deleted=False)]
        level = self.levels.get((name, subject), self.level)
        if not ids or level == "NONE" or any(context.schemas[one] == _plain(body) for one in ids):
            return True
        newest = context.schemas[ids[-1]]["schema"]
        return reads(parse(self_contained(body["schema"], [])), parse(newest))


class _Context:
    """Schemas by id, and the ids of each subject's versions; 0 is one that was deleted for good."""

    def __init__(self):
        self.schemas = {}
        self.subjects = {}
        self.deleted = set()

    def add(self, subject, schema, schema_id=None):
        ids = [known for known, other in self.schemas.items() if other == schema]
        schema_id = schema_id or (ids[0] if ids else max(self.schemas, default=0) + 1)
        self.schemas[schema_id] = schema
        versions = self.subjects.setdefault(subject, [])
        numbers = self.numbers(subject, deleted=False)
        if schema_id not in [versions[number - 1] for number in numbers]:
            versions.append(schema_id)
        return schema_id

    def numbers(self, subject, *, deleted):
        ids = self.subjects.get(subject, [])
        there = [number for number, schema_id in enumerate(ids, 1) if schema_id]
        return [number for number in there if deleted or (subject, number) not in self.deleted]

    def homes(self, schema_id, name, *, deleted):
        return [
            {"subject": _called(name, subject), "version": number}
            for subject, ids in self.subjects.items()
            for number in self.numbers(subject, deleted=deleted)
            if ids[number - 1] == schema_id
        ]

    def delete(self, subject, number, *, for_good):
        if number not in self.numbers(subject, deleted=for_good):
            return _missing(40402)
        if not for_good:
            self.deleted.add((subject, number))
        else:
            gone, self.subjects[subject][number - 1] = self.subjects[subject][number - 1], 0
            if not any(gone in ids for ids in self.subjects.values()):
                del self.schemas[gone]
        return 200, number


def _told(subject):
    """Context and plain name of a subject."""
    if not subject.startswith(":."):
        return ".", subject
    _, name, plain = subject.split(":", 2)
    return name, plain


def _called(name, subject):
    return subject if name == "." else f":{name}:{subject}"


def _referring(schema):
    return {key: value for key, value in schema.items() if key != "references" or value}


def _plain(body):
    return {
        "schema": body["schema"],
        "schemaType": body.get("schemaType", "AVRO"),
        "references": body.get("references", []),
    }


def _missing(code):
    return 404, {"error_code": code, "message": "not found"}


def _handler(double):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.serve(None)

        def do_DELETE(self):
            self.serve(None)

        def do_POST(self):
            self.serve(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def do_PUT(self):
            self.do_POST()

        def serve(self, body):
            path, query = urlsplit(self.path).path, parse_qs(urlsplit(self.path).query)
            double.asked.append(f"{self.command} {path}")
            given = self.headers.get("Authorization")
            expected = double.user and f"Basic {base64.b64encode(double.user.encode()).decode()}"
            expected = expected or (double.token and f"Bearer {double.token}")
            if double.fault == "slow":
                double.released.wait(30)
            if double.fault == "drop":
                self.close_connection = True
            elif double.fault == "html":
                self.write(404, b"<html>no such page</html>")
            elif path in double.instead:
                told = double.instead[path]
                self.write(200, told) if isinstance(told, bytes) else self.tell(*told)
            elif expected and given != expected:
                self.tell(401, {"error_code": 40101, "message": f"no entry for {given}"})
            elif isinstance(double.fault, int):
                self.tell(double.fault, {"error_code": double.fault * 100 + 1, "message": "scripted"})
            else:
                told = {name: value[-1] for name, value in query.items()}
                self.tell(*double.answer(self.command, path, body, **told))

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
