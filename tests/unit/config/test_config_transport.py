"""What a connection may be told: librdkafka's properties by allow-list, and nothing insecure without a reason."""

import ctypes
import itertools
import json
import re
from pathlib import Path

import pytest
from confluent_kafka import cimpl
from pydantic import ValidationError

from aggregator.config.client import REGISTRY_PROPERTIES, why_refused
from aggregator.config.document import read_document
from aggregator.config.lake_model import CatalogConfig
from aggregator.config.librdkafka import ADDRESSES, ALLOWED, REFUSED
from aggregator.config.model import ClusterConfig, EdgeConfig
from aggregator.config.secrets import SecretRef
from aggregator.config.show import shown
from aggregator.config.transport import INSECURE, PROTOCOLS, insecure_client_settings
from aggregator.config.waivers import Waiver, waivers
from aggregator.errors import ConfigError
from aggregator.kafka.client.clients import Role, connection_options
from aggregator.lake.storage.folder import Folder
from aggregator.lake.tables.formats import lake_folder
from aggregator.lake.tables.iceberg import IcebergTables
from aggregator.schema.registries import open_registry

PAGE = Path(__file__).parents[3] / "docs" / "connections.md"
CANARY = "hunter2canary"
SERVER = '  bootstrap_servers: "127.0.0.1:19292"\n'
REASON = "a lab without certificates"
LOGIN = "sasl.mechanism: PLAIN, sasl.username: hub, sasl.password: 'env:PW'"
REGISTRY = 'schemas: "directory:central-schemas"\n'


@pytest.fixture(scope="module")
def printed(tmp_path_factory) -> set[str]:
    """Every property that the library itself prints, as in its CONFIGURATION.md."""
    path = tmp_path_factory.mktemp("librdkafka") / "properties"
    library, c = ctypes.CDLL(cimpl.__file__), ctypes.CDLL(None)
    c.fopen.restype, c.fclose.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    library.rd_kafka_conf_properties_show.argtypes = [ctypes.c_void_p]
    file = c.fopen(str(path).encode(), b"w")
    library.rd_kafka_conf_properties_show(file)
    c.fclose(file)
    return set(re.findall(r"^([A-Za-z_.]+)\s+\|\s+[CP*]\s", path.read_text(), re.MULTILINE))


def test_every_property_of_this_librdkafka_is_allowed_refused_by_name_or_ours(printed):
    """The tables and the library that runs name the same properties, each in one table."""
    assert len(printed) > 180
    assert ALLOWED | REFUSED.keys() | ADDRESSES == printed
    assert len(ALLOWED) + len(REFUSED) + len(ADDRESSES) == len(printed)
    assert {
        name for name in printed if why_refused(name, "true") is None or "secret" in why_refused(name, "true")
    } <= ALLOWED


@pytest.mark.parametrize("name", sorted({*REFUSED, *ADDRESSES}))
def test_a_property_that_is_not_the_users_is_refused_with_the_reason(changed, name):
    """What loads code, runs a command, writes payloads, or is the protocol's own; the line holds no value."""
    (line,) = changed(SERVER, f"{SERVER}  client: {{{name}: {CANARY}}}\n")
    assert line.startswith(f"hub.yaml:4: central.client.{name}: cannot be set")
    assert CANARY not in line


@pytest.mark.parametrize(
    "name",
    [
        "test.mock.num.brokers",
        "test.mock.broker.rtt",
        "ut_handle_ApiVersionResponse",
        "logger",
        "on_delivery",
        "ssl.cipher",
    ],
)
def test_a_property_that_nobody_knows_is_refused(changed, name):
    """Hidden ones of the library, arguments of its Python client, and slips."""
    (line,) = changed(SERVER, f"{SERVER}  client: {{{name}: {CANARY}}}\n")
    assert f"central.client.{name}: is no property that can be set here" in line
    assert CANARY not in line


OPEN = [
    pytest.param(f"security.protocol: SASL_PLAINTEXT, {LOGIN}", "security.protocol", id="password in clear"),
    pytest.param(f"security.protocol: sasl_plaintext, {LOGIN}", "security.protocol", id="in small letters"),
    pytest.param("security.protocol: SASL_PLAINTEXT, sasl.mechanism: SCRAM-SHA-512", "security.protocol", id="scram"),
    pytest.param(LOGIN, "sasl.mechanism", id="sasl without protocol"),
    pytest.param(f"security.protocol: SSL, {LOGIN}", "sasl.mechanism", id="sasl beside another protocol"),
    pytest.param("ssl.ca.location: ca.pem", "ssl.ca.location", id="tls without protocol"),
    pytest.param("security.protocol: PLAINTEXT, ssl.key.location: k", "ssl.key.location", id="tls beside plain text"),
    pytest.param(
        "security.protocol: SSL, enable.ssl.certificate.verification: false",
        "enable.ssl.certificate.verification",
        id="any certificate",
    ),
    pytest.param(
        "security.protocol: SSL, enable.ssl.certificate.verification: f",
        "enable.ssl.certificate.verification",
        id="any certificate in a letter",
    ),
    pytest.param(
        "security.protocol: SASL_SSL, ssl.endpoint.identification.algorithm: none",
        "ssl.endpoint.identification.algorithm",
        id="any host",
    ),
    pytest.param(
        "security.protocol: SASL_SSL, sasl.oauthbearer.token.endpoint.url: 'http://idp/token'",
        "sasl.oauthbearer.token.endpoint.url",
        id="secret of a client in clear",
    ),
]


@pytest.mark.parametrize("server", ["127.0.0.1:19292", "10.0.0.7:9092", "kafka.example:9092"])
@pytest.mark.parametrize(("client", "setting"), OPEN)
def test_an_open_connection_needs_a_reason_beside_it(changed, server, client, setting):
    """Told at the setting, with both remedies; with a reason it is taken; where the server stands changes nothing."""
    at = SERVER.replace("127.0.0.1:19292", server)
    (line,) = changed(SERVER, f"{at}  client: {{{client}}}\n")
    assert line.startswith(f"hub.yaml:4: central.client.{setting}: ")
    assert f'{INSECURE}: "<reason>"' in line
    assert changed(SERVER, f"{at}  client: {{{client}, insecure: {REASON}}}\n") == []


@pytest.mark.parametrize(
    "client",
    [
        "{}",
        "{security.protocol: PLAINTEXT}",
        f"{{security.protocol: SASL_SSL, {LOGIN}}}",
        "{security.protocol: ssl, ssl.ca.location: ca.pem, ssl.key.location: k, ssl.key.password: 'file:p'}",
        "{security.protocol: SSL, enable.ssl.certificate.verification: true, ssl.curves.list: X25519}",
        "{security.protocol: SSL, ssl.endpoint.identification.algorithm: https}",
    ],
)
def test_a_closed_connection_needs_none_and_takes_none(changed, client):
    """A reason that excuses nothing would excuse what is written beside it later."""
    assert changed(SERVER, f"{SERVER}  client: {client}\n") == []
    (line,) = changed(SERVER, f"{SERVER}  client: {{insecure: {REASON}, {client[1:]}\n")
    assert "central.client.insecure: excuses nothing" in line


@pytest.mark.parametrize(
    "reason", ["''", "'   '", "true", "YES", "'env:REASON'", '"two\\nlines"', '"\\e[2J"', "x" * 201]
)
def test_a_reason_is_a_line_of_words(changed, reason):
    """It is shown on terminals, pages and metrics."""
    (line,) = changed(SERVER, f"{SERVER}  client: {{security.protocol: SASL_PLAINTEXT, insecure: {reason}}}\n")
    assert line.startswith("hub.yaml:4: central.client.insecure: is ")


def test_a_reason_in_another_place_is_sent_to_its_own(changed):
    """Beside the block instead of in it."""
    (line,) = changed(SERVER, f"{SERVER}  insecure: {REASON}\n")
    assert "central.insecure: is for `client:`, `schemas_client:`" in line


@pytest.mark.parametrize("name", ["security.protocol", "enable.ssl.certificate.verification", "sasl.mechanism"])
def test_what_decides_stands_in_the_file(changed, name):
    """A variable could open the connection behind the file's back."""
    (line,) = changed(SERVER, f"{SERVER}  client: {{{name}: 'env:ANYTHING'}}\n")
    assert f"central.client.{name}: is no secret, and decides" in line


@pytest.mark.parametrize("value", ["hub; touch /tmp/x", "$(id)", "`id`", '"', "-X", "a b", "a|b", "%{sasl.password}"])
@pytest.mark.parametrize("name", ["principal", "keytab", "service.name"])
def test_nothing_gets_into_the_command_that_runs_kinit(changed, name, value):
    """Librdkafka writes principal and keytab into a command that a shell runs."""
    client = f"security.protocol: SASL_SSL, sasl.kerberos.{name}: '{value}'"
    (line,) = changed(SERVER, f"{SERVER}  client: {{{client}}}\n")
    assert f"central.client.sasl.kerberos.{name}: holds letters" in line


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SASL_PLAINTEXT", "sasl_plaintext", "SSL"])
def test_an_address_names_no_protocol(changed, protocol):
    """`security.protocol` does, for all of them; librdkafka passes over a broker for which two words differ."""
    client = f"  client: {{security.protocol: SASL_SSL, {LOGIN}}}\n"
    for address in (f"{protocol}://h:1", f"h:1,{protocol}://h:2"):
        (line,) = changed(SERVER, f'  bootstrap_servers: "{address}"\n{client}')
        assert line.startswith("hub.yaml:3: central.bootstrap_servers: is `host:port` without a protocol")


def test_a_protocol_is_one_of_four(changed):
    """Another word is told here, and not by every client that starts."""
    (line,) = changed(SERVER, f"{SERVER}  client: {{security.protocol: TLS}}\n")
    assert "security.protocol: is PLAINTEXT, SSL" in line


def test_no_combination_that_sends_a_password_in_clear_passes_without_a_reason():
    """Every protocol with every other setting that decides; the model alone, without the loader."""
    protocols = (None, *PROTOCOLS, *map(str.upper, PROTOCOLS))
    taken = set()
    for protocol, verification, host, password in itertools.product(
        protocols, (None, "true", "false", "0"), (None, "https", "none"), (None, SecretRef("env", "PW"))
    ):
        options = {
            "security.protocol": protocol,
            "enable.ssl.certificate.verification": verification,
            "ssl.endpoint.identification.algorithm": host,
            "sasl.password": password,
        }
        client = {name: value for name, value in options.items() if value is not None}
        try:
            ClusterConfig(bootstrap_servers="h:1", client=client)
        except ValidationError:
            continue
        word = (protocol or "plaintext").lower()
        assert word != "sasl_plaintext"
        assert not (password and word != "sasl_ssl")
        assert verification in {None, "true"}
        assert host != "none"
        taken.add(word)
    assert taken == {"plaintext", "ssl", "sasl_ssl"}


def test_librdkafka_never_sees_the_reason():
    """It knows no such property; a client can be made of every block that is taken."""
    client = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "insecure": REASON}
    assert INSECURE not in connection_options(ClusterConfig(bootstrap_servers="h:1", client=client), Role.CONSUMER)


USER = "basic.auth.user.info: 'env:USER'"


@pytest.mark.parametrize("address", ["http://127.0.0.1:8081", "http://10.0.0.7", "https://a,http://b"])
@pytest.mark.parametrize(
    ("client", "setting"), [(USER, "basic.auth.user.info"), ("ssl.ca.location: x", "ssl.ca.location")]
)
def test_credentials_for_a_registry_without_tls_need_a_reason(changed, address, client, setting):
    """At central and at an edge, one address of several, wherever it stands."""
    block = f'schemas: "{address}"\nschemas_client: {{{client}}}\n'
    (line,) = changed(REGISTRY, block)
    assert line.startswith(f"hub.yaml:8: schemas_client.{setting}: ")
    assert INSECURE in line
    assert changed(REGISTRY, block.replace("}\n", f", insecure: {REASON}}}\n")) == []
    edge = 'schemas: "directory:schemas"'
    (line,) = changed(edge, f'schemas: "{address}", schemas_client: {{{client}}}')
    assert line.startswith(f"hub.yaml:5: edges.eu.schemas_client.{setting}: ")
    with pytest.raises(ConfigError, match=setting):
        open_registry(address, {setting: "x"})


def test_a_registry_that_is_closed_takes_no_reason(changed):
    """As a cluster's block does not; and one without credentials may be plain, as a broker may."""
    block = f'schemas: "https://r"\nschemas_client: {{{USER}, insecure: {REASON}}}\n'
    (line,) = changed(REGISTRY, block)
    assert "schemas_client.insecure: excuses nothing" in line
    assert changed(REGISTRY, 'schemas: "http://r"\n') == []
    assert INSECURE not in REGISTRY_PROPERTIES


def test_whatever_is_open_is_told_with_its_reason(load, good):
    """Of every cluster and registry; `config show` shows the reason too."""
    text = good.replace(
        SERVER, f"{SERVER}  client: {{security.protocol: SASL_PLAINTEXT, {LOGIN}, insecure: {REASON}}}\n"
    ).replace(
        'schemas: "directory:schemas"', f'schemas: "http://r", schemas_client: {{{USER}, insecure: moves in May}}', 1
    )
    config = load(text)
    found = waivers(config)
    assert found == (
        Waiver("central", "security.protocol", "sends password and records in clear", REASON),
        Waiver("registry of edge eu", "basic.auth.user.info", "goes over the network in clear", "moves in May"),
    )
    data = json.dumps(shown(config))
    assert REASON in data
    assert "moves in May" in data
    assert waivers(load(good)) == ()
    catalog = "catalog: {options: {type: rest, uri: 'http://c', token: 'env:T', insecure: a tunnel of our own}}"
    lake = good.replace("format: delta", f"format: iceberg, {catalog}")
    assert waivers(load(lake)) == (
        Waiver("catalogue of the lake", "uri", "sends the catalogue's credential in clear", "a tunnel of our own"),
    )
    storage = "storage: {aws_endpoint_url: 'http://minio:9000', aws_allow_http: true, insecure: in one rack}"
    store = load(good.replace("path: lake", f"path: 's3://b/l', {storage}"))
    told = "sends tables, and what the store lets the hub in by, in clear"
    assert waivers(store) == (
        Waiver("store of the lake", "aws_endpoint_url", told, "in one rack"),
        Waiver("store of the lake", "aws_allow_http", told, "in one rack"),
    )
    assert set(lake_folder(store).resolved()) == {"aws_endpoint_url", "aws_allow_http"}


def test_the_environment_sets_nothing_of_a_catalogue(monkeypatch, tmp_path):
    """Pyiceberg would merge it into what the file says: an address, a token, the store's endpoint."""
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__S3__ENDPOINT", "http://127.0.0.1:9")
    catalog = CatalogConfig(options={"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db"})
    tables = IcebergTables("hub", Folder(str(tmp_path), "iceberg"), catalog=catalog)
    with pytest.raises(ConfigError, match=r"settings of its own for a catalogue named lake \(s3\.endpoint\)"):
        tables.open("orders")


def test_the_documentation_shows_what_can_be_written():
    """The examples of the page load, and its table names every setting that can leave a connection open."""
    text = PAGE.read_text(encoding="utf-8")
    closed, by_role, opened = (read_document(block).data for block in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL))
    assert insecure_client_settings(ClusterConfig.model_validate(closed["central"]).client) == ()
    assert insecure_client_settings(EdgeConfig.model_validate(by_role["edges"]["eu"]).client) == ()
    (eu,) = (ClusterConfig.model_validate(edge) for edge in opened["edges"].values())
    (one,) = insecure_client_settings(eu.client)
    assert one.fault.startswith("sends password and records in clear: write SASL_SSL; or say why")
    assert all(setting.partition(".")[0] in text for _, setting in (param.values for param in OPEN))
