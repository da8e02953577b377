"""Who may read the page, and what every answer carries."""

import re

import pytest
from starlette.testclient import TestClient

from aggregator.config.load import load_config
from aggregator.config.model import UiConfig
from aggregator.errors import ConfigError
from aggregator.page.protection import HEADERS
from aggregator.page.rendering import environment
from aggregator.web.access import COOKIE, SESSION_S, TokenAuth, allowed_hosts, token_auth
from tests.unit.page.showing import TOKEN, application, client, troubled

NOW_S = 1_700_000_000
PATHS = ("/", "/edges/eu", "/edges/nobody", "/nowhere", "/sign-in", "/assets/page.css", "/assets/../application.py")
FOREIGN = ("evil.example", "127.0.0.1.evil.example", "evil.example:9465", "", "localhost@evil.example", "127.0.0.1,x")


@pytest.mark.parametrize("host", FOREIGN)
@pytest.mark.parametrize("path", ["/", "/changes", "/sign-in", "/assets/page.js"])
def test_a_request_for_another_host_is_refused(host, path):
    """Whatever page rebinds its name to this machine reads nothing: not even the door, nor a script."""
    answer = client(troubled()).get(path, headers={"host": host})
    assert answer.status_code == 400
    assert "eu" not in answer.text


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("token", [None, TOKEN])
@pytest.mark.slow
def test_every_answer_is_protected(path, token):
    """Pages, refusals, assets: no foreign script, style, picture or frame, nothing kept, no type guessed."""
    headers = client(troubled(), token=token).get(path).headers
    assert headers["cache-control"] == "no-store"
    for name, value in HEADERS.items():
        assert headers[name] == value
    policy = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert {policy[name] for name in ("script-src", "style-src", "img-src", "connect-src", "form-action")} == {"'self'"}
    assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"


def test_an_answer_that_breaks_is_protected_too(monkeypatch):
    """A defect tells nothing of itself, and what it answers carries the same headers."""
    broken = application(troubled())
    monkeypatch.setattr(broken, "_pages", None)
    answer = TestClient(broken.asgi, base_url="http://127.0.0.1", raise_server_exceptions=False).get("/")
    assert answer.status_code == 500
    assert answer.headers["content-security-policy"] == HEADERS["Content-Security-Policy"]
    assert "Traceback" not in answer.text


def test_no_template_has_anything_inline():
    """The policy would refuse it: no style, script or handler within, and no address of somebody else's."""
    names = environment().list_templates()
    assert names
    for name in names:
        text = environment().loader.get_source(environment(), name)[0]
        assert not re.search(r"<style|\sstyle=|<script(?! src=\"/assets/)|\son\w+=|https?://(?!www\.w3\.org/)", text), (
            name
        )
        assert "|safe" not in text, name


def test_without_the_token_only_the_sign_in_page_is_shown():
    """A browser is led to it, a program is told; the stream is closed too, and only the page's own style is open."""
    visitor = client(troubled(), token=TOKEN)
    led = visitor.get("/", headers={"accept": "text/html"})
    assert (led.status_code, led.headers["location"]) == (303, "/sign-in")
    for path in ("/", "/edges/eu", "/changes", "/changes/edges/eu", "/edges/eu/topics/orders", "/nowhere"):
        refused = visitor.get(path)
        assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
        assert "orders" not in refused.text
    door = visitor.get("/sign-in")
    assert door.status_code == 200
    assert TOKEN not in door.text
    assert visitor.get("/assets/page.css").status_code == 200


@pytest.mark.parametrize("said", ["", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "\x00", "ü" * 9])
def test_another_word_does_not_open(said):
    """Not as a bearer's, not at the door, however close."""
    visitor = client(troubled(), token=TOKEN)
    assert visitor.get("/", headers={"authorization": f"Bearer {said}".encode()}).status_code == 401
    posted = visitor.post("/sign-in", data={"token": said})
    assert posted.status_code == 403
    assert "set-cookie" not in posted.headers


@pytest.fixture(autouse=True)
def _no_wait(monkeypatch):
    """A wrong token costs a second; not here."""
    monkeypatch.setattr("aggregator.page.application._WRONG_S", 0.0)


def test_the_word_opens():
    """As a bearer's; and at the door, which gives a session that no script reads and no other site sends."""
    assert client(troubled(), token=TOKEN).get("/", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
    visitor = client(troubled(), token=TOKEN)
    entered = visitor.post("/sign-in", data={"token": TOKEN})
    assert (entered.status_code, entered.headers["location"]) == (303, "/")
    kept = entered.headers["set-cookie"]
    assert "HttpOnly" in kept
    assert "SameSite=strict" in kept
    assert TOKEN not in kept
    assert visitor.get("/").status_code == 200


@pytest.mark.slow
def test_far_too_long_a_word_is_not_read():
    """Whoever sends megabytes to the door is refused after a few kilobytes."""
    assert client(troubled(), token=TOKEN).post("/sign-in", data={"token": "x" * 10_000_000}).status_code == 403


@pytest.mark.parametrize(
    "change",
    [lambda s: "9" + s, lambda s: s[:-1] + ("0" if s[-1] != "0" else "1"), lambda s: s.partition(".")[0], str.swapcase],
)
def test_a_session_is_ours_or_none(change):
    """One that was changed in a single place, or is over, or is another process's, opens nothing."""
    gate = TokenAuth(TOKEN, key=b"k" * 32)
    session = gate.session(NOW_S)
    admitted = lambda kept, now_s, by=gate: by.admits({"cookie": f"{COOKIE}={kept}"}, now_s)  # noqa: E731 - three words
    assert admitted(session, NOW_S + SESSION_S - 1)
    assert not admitted(session, NOW_S + SESSION_S)
    assert not admitted(session, NOW_S, TokenAuth(TOKEN, key=b"x" * 32))
    assert change(session) != session
    assert not admitted(change(session), NOW_S)


@pytest.mark.parametrize("listen", ["0.0.0.0:1", "[::]:1", "10.1.2.3:1", "hub.example.com:1"])
def test_an_address_that_others_reach_asks_for_a_token(listen, tmp_path):
    """Refused with its place when the configuration is read, and once more before anything listens."""
    file = tmp_path / "hub.yaml"
    head = 'hub: h\ncentral: {bootstrap_servers: "c:1"}\nedges: {eu: {bootstrap_servers: "e:1"}}\n'
    file.write_text(f'{head}ui: {{listen: "{listen}"}}\n')
    with pytest.raises(ConfigError, match=r"hub\.yaml:4: ui: others reach this address"):
        load_config(file, {})
    with pytest.raises(ConfigError, match="asks for no token"):
        token_auth(UiConfig.model_construct(listen=listen, token=None, hosts=()), "the page")


@pytest.mark.parametrize("section", ["ui", "metrics"])
@pytest.mark.parametrize("listen", ["127.0.0.1:9", "9465"])
def test_a_name_by_which_others_come_asks_for_a_token(section, listen, tmp_path):
    """A proxy on this machine lets the network in, whatever the address that it is led to."""
    file, head = (
        tmp_path / "hub.yaml",
        'hub: h\ncentral: {bootstrap_servers: "c:1"}\nedges: {eu: {bootstrap_servers: "e:1"}}\n',
    )
    for hosts, is_taken in (("hub.example.com", False), ("10.0.0.1", False), ("localhost", True), ('"[::1]"', True)):
        file.write_text(f'{head}{section}: {{listen: "{listen}", hosts: [{hosts}]}}\n')
        if is_taken:
            assert load_config(file, {})
        else:
            with pytest.raises(ConfigError, match=rf"hub\.yaml:4: {section}: others reach this address"):
                load_config(file, {})
        file.write_text(f'{head}{section}: {{listen: "{listen}", hosts: [{hosts}], token: "env:T"}}\n')
        assert load_config(file, {})


@pytest.mark.parametrize("listen", ["127.0.0.1:0", "[::1]:0", "localhost:0", "9465"])
def test_loopback_asks_nobody(listen):
    """Whoever is on this machine may read."""
    assert token_auth(UiConfig(listen=listen), "the page").is_open


def test_a_token_is_a_reference_and_long(tmp_path, monkeypatch):
    """In clear it is refused without being shown; one that can be guessed, or is not there, is refused by its name."""
    file = tmp_path / "token"
    with pytest.raises(ValueError, match="never a value in clear") as refused:
        UiConfig(listen="0.0.0.0:1", token=TOKEN)
    assert TOKEN not in str(refused.value)
    file.write_text("short\n")
    with pytest.raises(ConfigError, match="shorter than 16") as short:
        token_auth(UiConfig.model_validate({"listen": "0.0.0.0:1", "token": f"file:{file}"}), "the page")
    assert "short\n" not in short.value.message
    monkeypatch.setenv("PAGE_TOKEN", TOKEN)
    assert token_auth(UiConfig.model_validate({"listen": "0.0.0.0:1", "token": "env:PAGE_TOKEN"}), "the page").knows(
        TOKEN
    )


@pytest.mark.parametrize(
    ("listen", "hosts"),
    [
        ("127.0.0.1:1", {"127.0.0.1", "localhost", "[::1]", "hub.example.com"}),
        ("10.1.2.3:1", {"127.0.0.1", "localhost", "[::1]", "hub.example.com", "10.1.2.3"}),
        ("0.0.0.0:1", {"127.0.0.1", "localhost", "[::1]", "hub.example.com", "10.9.9.9", "[fe80::1]", "box"}),
    ],
)
def test_the_names_by_which_the_page_answers(listen, hosts):
    """Loopback, the address that it listens on, and the configured ones; this machine's own where it listens on all."""
    ui = UiConfig.model_construct(listen=listen, token=None, hosts=("hub.example.com",))
    assert set(allowed_hosts(ui, name="Box", addresses=["10.9.9.9", "fe80::1%eth0"])) == hosts
