"""Registries in the configuration: addresses, and how to connect to them."""

import json

import pytest

from aggregator.config.model import EdgeConfig
from aggregator.config.secrets import SecretRef
from aggregator.config.show import HIDDEN, shown

CANARY = "jane-secret"
LINE = 'schemas: "directory:central-schemas"\n'
ADDRESS = 'schemas: "https://registry.example"\n'


def client(text: str, registry: str = ADDRESS) -> str:
    """Central's registry with settings."""
    return f"{registry}schemas_client: {{{text}}}\n"


def test_settings_are_references_and_paths(load, tmp_path, good):
    """Credentials by reference, certificates relative to the file, at an edge and at central."""
    text = client("basic.auth.user.info: 'file:user', ssl.ca.location: ca.pem, ssl.key.password: 'env:PW'")
    edge = '{bootstrap_servers: "h:1", schemas: "https://a,https://b", schemas_client: {ssl.ca.location: /ca}}'
    config = load(good.replace(LINE, text))
    assert config.schemas_client == {
        "basic.auth.user.info": SecretRef("file", f"{tmp_path}/user"),
        "ssl.ca.location": f"{tmp_path}/ca.pem",
        "ssl.key.password": SecretRef("env", "PW"),
    }
    first = '{bootstrap_servers: "127.0.0.1:19092", schemas: "directory:schemas"}'
    config = load(good.replace(first, edge))
    assert config.edges["eu"].schemas == "https://a,https://b"
    assert config.edges["eu"].schemas_client == {"ssl.ca.location": "/ca"}


REFUSED = [
    pytest.param(f"basic.auth.user.info: {CANARY}", "basic.auth.user.info: is a secret", id="secret in clear"),
    pytest.param("basic.auth.user.info: '${X:-y}'", "basic.auth.user.info: is a secret field", id="filled in"),
    pytest.param("url: http://x", "url: is not known; known here: basic.auth", id="not a setting"),
    pytest.param("timeout: 60", "timeout: is not known", id="waiting is the hub's matter"),
]


@pytest.mark.parametrize(("text", "told"), REFUSED)
def test_settings_that_cannot_be_used_are_told(changed, text, told):
    """Secrets in clear, expressions in secrets, settings of no registry client; with the place, without the value."""
    (line,) = changed(LINE, client(text))
    assert line.startswith(f"hub.yaml:8: schemas_client.{told}")
    assert CANARY not in line


def test_settings_beside_a_folder_are_told(changed):
    """They would do nothing, which is no one's wish."""
    (line,) = changed(LINE, client("ssl.ca.location: x", LINE))
    assert line.startswith("hub.yaml:8: schemas_client: is for a registry behind")
    edge = 'schemas: "directory:schemas"'
    (line,) = changed(edge, edge + ", schemas_client: {ssl.ca.location: x}")
    assert line.startswith("hub.yaml:5: edges.eu.schemas_client: is for")


@pytest.mark.parametrize(
    "address", [f"https://h,http://u:{CANARY}@h", "https://h,directory:x", "https://h,", "http://"]
)
def test_every_address_of_a_list_is_looked_at(changed, address):
    """Credentials in the second address are credentials too."""
    (line,) = changed(LINE, f'schemas: "{address}"\n')
    assert line.startswith("hub.yaml:7: schemas: ")
    assert CANARY not in line


def test_show_hides_what_could_be_a_secret(load, good):
    """References and paths are shown; a model made in code is shown as carefully."""
    config = load(good.replace(LINE, client("basic.auth.user.info: 'env:USER_INFO', ssl.ca.location: /ca")))
    assert shown(config)["schemas_client"] == {"basic.auth.user.info": "env:USER_INFO", "ssl.ca.location": "/ca"}
    edge = EdgeConfig(bootstrap_servers="h:1")
    object.__setattr__(edge, "schemas", f"http://h,http://u:{CANARY}@h")
    object.__setattr__(edge, "schemas_client", {"basic.auth.user.info": CANARY})
    data = shown(config.model_copy(update={"edges": {"eu": edge}}))
    assert data["edges"]["eu"]["schemas_client"] == {"basic.auth.user.info": HIDDEN}
    assert CANARY not in json.dumps(data)
