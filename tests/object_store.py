"""An object store on loopback that speaks as much of S3 as pyarrow and delta-rs ask: a dictionary behind HTTP.

What it keeps of S3: a put with `If-None-Match: *` is refused where the key is there, at once and for whoever comes
second; a multipart upload is seen when it is complete, or never. It checks no signature. On request a put takes effect
and is answered with an error, as behind a gateway whose answer gets lost.
"""

import hashlib
import itertools
import re
import signal
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from email.utils import format_datetime
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qs, unquote, urlencode, urlsplit
from urllib.request import Request, urlopen
from xml.sax.saxutils import escape

BUCKET, REGION = "lake", "us-east-1"
_REFUSE = "/.refuse"


class Stored(NamedTuple):
    """An object."""

    content: bytes
    at: datetime

    @property
    def etag(self) -> str:
        """Of its content."""
        return f'"{hashlib.md5(self.content).hexdigest()}"'


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Request)
        self.objects: dict[str, Stored] = {}
        self.uploads: dict[str, dict[int, bytes]] = {}
        self.numbers = itertools.count(1)
        self.lock = threading.Lock()
        self.away = False
        self.refusals: list[tuple[str, int, bool]] = []


class ObjectStore:
    """A store of one bucket, in a process of its own: delta-rs keeps Python's lock while it waits for an answer."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.object_store"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1])
        self._address = f"http://127.0.0.1:{self._process.stdout.readline().strip()}"

    def turn(self) -> None:
        """From now on, or no longer, every answer is a 503."""
        self._process.send_signal(signal.SIGUSR1)
        time.sleep(0.2)

    def refuse(self, pattern: str, status: int, *, then_away: bool = False) -> None:
        """Apply the next put of a key that the pattern is found in, and answer it with an error.

        Args:
            pattern: A regular expression.
            status: The answer's.
            then_away: From that put on every answer is a 503, until `turn`.
        """
        asked = urlencode({"match": pattern, "status": status, "away": int(then_away)})
        with urlopen(Request(f"{self._address}{_REFUSE}?{asked}", method="POST")) as answer:
            assert answer.status == HTTPStatus.OK

    def end(self) -> None:
        """Take it down, with all that it holds."""
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()

    def options(self, form: str) -> dict[str, str]:
        """How the library of a format reaches it."""
        return storage_options(self._address, form)


def storage_options(address: str, form: str) -> dict[str, str]:
    """How the library of a format reaches an S3 that is on loopback."""
    if form == "iceberg":
        keys = {"s3.access-key-id": "x", "s3.secret-access-key": "y"}
        return keys | {"s3.endpoint": address, "s3.region": REGION, "insecure": "loopback"}
    keys = {"aws_access_key_id": "x", "aws_secret_access_key": "y", "aws_region": REGION}
    where = {"aws_endpoint_url": address, "aws_allow_http": "true", "insecure": "loopback"}
    return keys | where | {"max_retries": "1"}


class _Request(BaseHTTPRequestHandler):
    server: _Server
    wbufsize = -1  # head and body at once: else each answer waits for the other side's acknowledgement
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def handle_expect_100(self) -> bool:
        """Let the client send its body, now."""
        done = super().handle_expect_100()
        self.wfile.flush()
        return done

    def _route(self) -> None:
        parts = urlsplit(self.path)
        _, _, key = unquote(parts.path).lstrip("/").partition("/")
        asked = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        body = self._body()
        with self.server.lock:
            if parts.path == _REFUSE:
                self.server.refusals.append((asked["match"], int(asked["status"]), asked["away"] == "1"))
                self._answer(200)
            elif self.server.away:
                self._answer(503)
            else:
                getattr(self, f"_{self.command.lower()}")(key, asked, body)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _route  # noqa: N815 - the server's names

    def _body(self) -> bytes:
        content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.headers.get("Transfer-Encoding") == "chunked":
            while size := int(self.rfile.readline(), 16):
                content += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        if "aws-chunked" not in self.headers.get("Content-Encoding", ""):
            return content
        plain = b""
        while content:
            head, _, content = content.partition(b"\r\n")
            size = int(head.partition(b";")[0], 16)
            if not size:
                break
            plain, content = plain + content[:size], content[size + 2 :]
        return plain

    def _answer(self, status: int, body: bytes = b"", length: int | None = None, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _told(self, found: Stored) -> dict[str, str]:
        return {"ETag": found.etag, "Last_Modified": format_datetime(found.at, usegmt=True)}

    def _head(self, key: str, _: dict[str, str], __: bytes) -> None:
        found = self.server.objects.get(key)
        if not key or found is None:
            self._answer(404 if key else 200)
        else:
            self._answer(200, length=len(found.content), **self._told(found))

    def _get(self, key: str, asked: dict[str, str], _: bytes) -> None:
        if not key:
            self._list(asked)
            return
        found = self.server.objects.get(key)
        if found is None:
            self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
            return
        wanted = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        size = len(found.content)
        if wanted is None:
            self._answer(200, found.content, **self._told(found))
            return
        start = int(wanted[1]) if wanted[1] else max(0, size - int(wanted[2]))
        end = min(size, int(wanted[2]) + 1) if wanted[1] and wanted[2] else size
        told = self._told(found) | {"Content_Range": f"bytes {start}-{end - 1}/{size}"}
        self._answer(206, found.content[start:end], **told)

    def _list(self, asked: dict[str, str]) -> None:
        prefix, delimiter = asked.get("prefix", ""), asked.get("delimiter", "")
        after = asked.get("start-after", "")
        files, folders = [], set()
        for key in sorted(key for key in self.server.objects if key.startswith(prefix) and key > after):
            rest = key.removeprefix(prefix)
            if delimiter and delimiter in rest:
                folders.add(prefix + rest.partition(delimiter)[0] + delimiter)
            else:
                files.append(key)
        rows = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(one.content)}</Size><ETag>{escape(one.etag)}</ETag>"
            f"<LastModified>{one.at.strftime('%Y-%m-%dT%H:%M:%S.000Z')}</LastModified></Contents>"
            for key in files
            for one in [self.server.objects[key]]
        )
        rows += "".join(f"<CommonPrefixes><Prefix>{escape(one)}</Prefix></CommonPrefixes>" for one in sorted(folders))
        count = f"<KeyCount>{len(files) + len(folders)}</KeyCount><IsTruncated>false</IsTruncated>"
        body = (
            f"<ListBucketResult><Name>{BUCKET}</Name><Prefix>{escape(prefix)}</Prefix>{count}{rows}</ListBucketResult>"
        )
        self._answer(200, body.encode(), Content_Type="application/xml")

    def _put(self, key: str, asked: dict[str, str], body: bytes) -> None:
        if "uploadId" in asked:
            self.server.uploads[asked["uploadId"]][int(asked["partNumber"])] = body
            self._answer(200, ETag=f'"{len(body)}"')
            return
        if self.headers.get("If-None-Match") == "*" and key in self.server.objects:
            self._answer(412, b"<Error><Code>PreconditionFailed</Code></Error>")
            return
        self._store(key, body)
        refusal = next((one for one in self.server.refusals if re.search(one[0], key)), None)
        if refusal:
            self.server.refusals.remove(refusal)
            _, status, self.server.away = refusal
            self._answer(status)
            return
        self._answer(200, ETag=self.server.objects[key].etag)

    def _post(self, key: str, asked: dict[str, str], body: bytes) -> None:
        if "delete" in asked:
            gone = re.findall(r"<Key>(.*?)</Key>", body.decode())
            for one in gone:
                self.server.objects.pop(one, None)
            told = "".join(f"<Deleted><Key>{one}</Key></Deleted>" for one in gone)
            self._answer(200, f"<DeleteResult>{told}</DeleteResult>".encode())
        elif "uploads" in asked:
            number = str(next(self.server.numbers))
            self.server.uploads[number] = {}
            told = f"<Bucket>{BUCKET}</Bucket><Key>{escape(key)}</Key><UploadId>{number}</UploadId>"
            self._answer(200, f"<InitiateMultipartUploadResult>{told}</InitiateMultipartUploadResult>".encode())
        else:
            parts = self.server.uploads.pop(asked["uploadId"])
            self._store(key, b"".join(parts[number] for number in sorted(parts)))
            told = f"<Key>{escape(key)}</Key><ETag>{escape(self.server.objects[key].etag)}</ETag>"
            self._answer(200, f"<CompleteMultipartUploadResult>{told}</CompleteMultipartUploadResult>".encode())

    def _delete(self, key: str, asked: dict[str, str], _: bytes) -> None:
        self.server.uploads.pop(asked.get("uploadId", ""), None)
        if "uploadId" not in asked:
            self.server.objects.pop(key, None)
        self._answer(204)

    def _store(self, key: str, content: bytes) -> None:
        self.server.objects[key] = Stored(content, datetime.now(UTC))


if __name__ == "__main__":
    server = _Server()
    signal.signal(signal.SIGUSR1, lambda *_: setattr(server, "away", not server.away))
    print(server.server_port, flush=True)
    server.serve_forever()
