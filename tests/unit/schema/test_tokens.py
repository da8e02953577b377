"""Tokens for a registry: from a token server on loopback, over real HTTP; the clock is the test's."""

import json
import math
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

import pytest

from aggregator.config.secrets import SecretRef
from aggregator.errors import ConfigError, Unreachable
from aggregator.schema.bounded_responses import Exchange
from aggregator.schema.confluent import ConfluentRegistry
from aggregator.schema.registries import open_registry
from aggregator.schema.tokens import ClientCredentials, TokenRefused

CANARY = "jane-example-com"


class TokenServer:
    """Answers with what it is told, and keeps what it was asked."""

    def __init__(self):
        told = {"access_token": "first", "expires_in": 100, "token_type": "Bearer"}
        self.answer: tuple[int, dict | bytes] = 200, told
        self.asked = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                outer.asked.append(parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode()))
                status, told = outer.answer
                content = told if isinstance(told, bytes) else json.dumps(told).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_):
                """Quiet."""

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.http.server_port}/token"
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()

    def gives(self, token, lasts=100):
        """Another token from now on."""
        self.answer = 200, {"access_token": token, "expires_in": lasts, "token_type": "Bearer"}


@pytest.fixture
def server():
    made = TokenServer()
    yield made
    made.http.shutdown()
    made.http.server_close()


@pytest.fixture
def options(server, tmp_path):
    """As `schemas_client` gives them."""
    secret = tmp_path / "secret"
    secret.write_text(CANARY)
    return {
        "bearer.auth.client.id": "hub",
        "bearer.auth.client.secret": SecretRef("file", str(secret)),
        "bearer.auth.issuer.endpoint.url": server.address,
        "bearer.auth.scope": "registry",
        "insecure": "a double on loopback",
    }


def test_a_token_is_used_until_four_fifths_of_its_life_are_over(server, options):
    """One question to the token server, and the next one before the token ends."""
    now = [50.0]
    resolved = {**options, "bearer.auth.client.secret": CANARY}
    tokens = ClientCredentials("r", resolved, Exchange(), timeout_s=5.0, now_s=lambda: now[0])
    assert tokens.token() == "first"
    server.gives("second")
    now[0] = 50 + 79.9
    assert tokens.token() == "first"
    now[0] = 50 + 80.1
    assert tokens.token() == "second"
    assert [one["scope"] for one in server.asked] == [["registry"]] * 2
    tokens.client.close()


@pytest.mark.parametrize(
    ("told", "life"),
    [
        (None, 3600),
        ("300", 300),
        (True, 3600),
        ([], 3600),
        (0, 1),
        (-5, 1),
        pytest.param(10**400, 86_400, id="huge"),
    ],
)
def test_a_token_without_a_sound_life_is_renewed_all_the_same(server, options, told, life):
    """No life, none that is a number, one that never ends or has ended: neither for ever nor with each question."""
    now = [0.0]
    resolved = {**options, "bearer.auth.client.secret": CANARY}
    tokens = ClientCredentials("r", resolved, Exchange(), timeout_s=5.0, now_s=lambda: now[0])
    server.gives("first", told)
    assert tokens.token() == "first"
    server.gives("second", told)
    now[0] = 0.79 * life
    assert tokens.token() == "first"
    now[0] = 0.81 * life
    assert tokens.token() == "second"
    tokens.client.close()


def test_a_registry_gets_the_token_and_what_stands_beside_it(server, options, double):
    """The header of OAuth; Confluent's cloud also reads which registry and which pool are meant."""
    double.add("a", '"string"')
    double.token = "first"
    given = {**options, "bearer.auth.logical.cluster": "lsrc-1", "bearer.auth.identity.pool.id": "pool-1"}
    registry = open_registry(double.address, given)
    assert isinstance(registry, ConfluentRegistry)
    sent = []
    registry._connection.client._rest_client.session.event_hooks["request"].append(
        lambda request: sent.append(dict(request.headers))
    )
    assert registry.schema(1) == '"string"'
    assert (sent[0]["target-sr-cluster"], sent[0]["confluent-identity-pool-id"]) == ("lsrc-1", "pool-1")
    assert len(server.asked) == 1


@pytest.mark.slow
def test_a_token_that_is_refused_is_named_and_asked_for_anew(server, options, double):
    """Revoked before its time: told by the setting; the next question comes with a new one."""
    double.add("a", '"string"')
    double.token = "second"
    registry = open_registry(double.address, options)
    with pytest.raises(Unreachable, match="does not let the hub in") as caught:
        registry.schema(1)
    assert "`bearer.auth.client.id` under `schemas_client`" in caught.value.hint
    server.gives("second")
    assert registry.schema(1) == '"string"'


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (
            (401, {"error": "invalid_client", "error_description": CANARY}),
            "gives the hub no token \\(invalid_client\\)",
        ),
        ((400, {"error": CANARY}), "gives the hub no token \\(no code of the standard\\)"),
        ((500, {"error": CANARY}), "cannot be reached, or answers as none"),
        ((200, CANARY.encode()), "cannot be reached, or answers as none"),
        ((200, {"token": CANARY}), "answers without a token"),
        ((200, {"access_token": "first", "expires_in": math.inf}), "cannot be reached, or answers as none"),
        ((200, {"access_token": "first", "expires_in": CANARY}), "cannot be reached, or answers as none"),
        ((200, {"access_token": f"{CANARY}\r\nX: y"}), "answers without a token"),
    ],
)
@pytest.mark.slow
def test_a_token_server_that_gives_none_holds_the_flow(server, options, double, answer, told):
    """Named with its address, without a word of its text; it goes on by itself, with the secret as it is then."""
    double.add("a", '"string"')
    registry = open_registry(double.address, options)
    server.answer = answer
    with pytest.raises(
        Unreachable, match=f"the token server 127.0.0.1:\\d+ of registry {double.address} {told}"
    ) as caught:
        registry.schema(1)
    assert CANARY not in f"{caught.value}{caught.value.hint}"
    assert isinstance(caught.value, TokenRefused) == ("gives the hub" in told)
    server.gives("first")
    assert registry.schema(1) == '"string"'


def test_an_authority_that_is_not_there_is_told(options, double, tmp_path):
    """Of the token server's certificate."""
    with pytest.raises(ConfigError, match="cannot be set up"):
        open_registry(double.address, {**options, "https.ca.location": str(tmp_path / "none.pem")})


@pytest.mark.parametrize(
    ("block", "setting", "why"),
    [
        ({"bearer.auth.token": "x"}, "bearer.auth.token", "over the network in clear"),
        ({"bearer.auth.scope": "x"}, "bearer.auth.scope", "needs `bearer.auth.client.id`"),
        ({"https.ca.location": "x"}, "https.ca.location", "needs `bearer.auth.client.id`"),
        ({"bearer.auth.token": "x", "basic.auth.user.info": "y"}, "bearer.auth.token", "a second way to sign in"),
        ({"bearer.auth.logical.cluster": "x"}, "bearer.auth.logical.cluster", "beside a token only"),
    ],
)
def test_settings_that_do_not_fit_are_refused(block, setting, why):
    """By name, with what is missing or too much."""
    with pytest.raises(ConfigError, match=f"{setting} .*{why}"):
        open_registry("http://registry", block)


def test_a_token_server_without_tls_needs_a_reason(options):
    """However safe the way to the registry is."""
    given = {name: value for name, value in options.items() if name != "insecure"}
    with pytest.raises(ConfigError, match=r"bearer.auth.issuer.endpoint.url sends the client's secret in clear"):
        open_registry("https://registry", given)
