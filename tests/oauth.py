"""A token server on loopback, over TLS: mock-oauth2-server, for tests only; its jars are pinned beside this module."""

import json
import os
import subprocess
import time
import urllib.parse
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from ssl import create_default_context

from aggregator.sandbox.jars import Distribution, ensure_jars, pins_of
from aggregator.sandbox.java import find_java
from aggregator.sandbox.ports import LOOPBACK, free_ports
from tests.authority import Authority

PINS = Path(__file__).with_suffix(".sha512")
ISSUER = "kafka"
AUDIENCE = "brokers"
_MAIN = "no.nav.security.mock.oauth2.StandaloneMockOAuth2ServerKt"


def jars() -> Path:
    """Folder of its verified jars, fetched once."""
    pins = pins_of(PINS.read_text())
    group = "no.nav.security"
    return ensure_jars(Distribution("oauth", "mock-oauth2-server", "29 MB", pins, group, "2.3.0"))


class TokenServer:
    """Where tokens come from, and where brokers find what they are checked with."""

    def __init__(self, port: int, authority: Authority) -> None:
        self.authority = authority
        self.issuer = f"https://{LOOPBACK}:{port}/{ISSUER}"
        self.tokens = f"{self.issuer}/token"
        self.keys = f"{self.issuer}/jwks"

    def issue(self, scope: str = "hub") -> str:
        """A token, as a client gets one."""
        asked = {"grant_type": "client_credentials", "client_id": "check", "client_secret": "any", "scope": scope}
        trusted = create_default_context(cafile=self.authority.path)
        content = urllib.parse.urlencode(asked).encode()
        with urllib.request.urlopen(self.tokens, content, timeout=10, context=trusted) as answer:
            return json.loads(answer.read())["access_token"]

    def answers(self) -> bool:
        """Whether it hands out its keys."""
        try:
            trusted = create_default_context(cafile=self.authority.path)
            with urllib.request.urlopen(self.keys, timeout=2, context=trusted) as answer:
                return answer.status == 200
        except OSError:
            return False


@contextmanager
def token_server(folder: Path, authority: Authority, *, lifetime_s: int):
    """The server, until the block ends; a token's subject is the scope that was asked for."""
    (port,) = free_ports(1)
    keystore = authority.keystore("tokens", "changeit")
    told = [{"requestParam": "scope", "match": name, "claims": {"sub": name, "aud": [AUDIENCE]}} for name in ("hub",)]
    settings = {
        "interactiveLogin": False,
        "httpServer": {
            "type": "NettyWrapper",
            "ssl": {
                "keyPassword": "changeit",
                "keystoreFile": str(keystore),
                "keystoreType": "PKCS12",
                "keystorePassword": "changeit",
            },
        },
        "tokenCallbacks": [{"issuerId": ISSUER, "tokenExpiry": lifetime_s, "requestMappings": told}],
    }
    log = (folder / "tokens.log").open("w")
    command = [find_java(), "-Xmx96m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", f"{jars()}/*", _MAIN]
    environ = os.environ | {"JSON_CONFIG": json.dumps(settings), "SERVER_PORT": str(port), "SERVER_HOSTNAME": LOOPBACK}
    process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environ)
    server = TokenServer(port, authority)
    try:
        deadline = time.monotonic() + 90
        while not server.answers():
            assert process.poll() is None, (folder / "tokens.log").read_text()[-2000:]
            assert time.monotonic() < deadline, (folder / "tokens.log").read_text()[-2000:]
            time.sleep(0.1)
        yield server
    finally:
        process.terminate()
        process.wait(20)
        log.close()
