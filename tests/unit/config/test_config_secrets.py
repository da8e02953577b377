"""Secrets: references only, filled in nowhere, shown nowhere."""

import base64
import json
import secrets

import pytest
from ruamel.yaml import YAML
from ruamel.yaml.nodes import MappingNode, Node, SequenceNode

from aggregator.cli.terminal.output import rendered
from aggregator.config.client import SECRET_PROPERTIES, is_secret_property
from aggregator.config.librdkafka import ALLOWED
from aggregator.config.load import load_config
from aggregator.config.model import ClusterConfig, HubConfig, SparkConfig
from aggregator.config.secrets import KeyRing, SecretRef, key_ring, secret_ref
from aggregator.config.show import HIDDEN, json_schema, shown
from aggregator.errors import ConfigError

CANARY = "hunter2canary"
SERVER = '  bootstrap_servers: "127.0.0.1:19292"\n'


@pytest.mark.parametrize("name", sorted(SECRET_PROPERTIES & ALLOWED))
def test_a_secret_property_in_clear_is_refused_without_its_value(changed, name):
    """Each secret property takes a reference only; the refusal names the property, not the value."""
    lines = changed(SERVER, f"{SERVER}  client: {{{name}: {CANARY}}}\n")
    assert [line.partition(": ")[2].partition(": ")[0] for line in lines] == [f"central.client.{name}"]
    assert "write a reference" in lines[0]
    assert CANARY not in lines[0]


def test_a_client_property_is_a_word(changed):
    """A list or a section is no librdkafka property."""
    (line,) = changed(SERVER, f"{SERVER}  client: {{client.rack: [a, b]}}\n")
    assert "text, a number or true/false" in line


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("sasl.password", True),
        ("ssl.key.password", True),
        ("sasl.oauthbearer.client.credentials.client.secret", True),
        ("some.future.api.key", True),
        ("fs.s3a.access.key", True),
        ("sasl.oauthbearer.token.endpoint.url", False),
        ("sasl.oauthbearer.client.credentials.client.id", False),
        ("ssl.key.location", False),
        ("security.protocol", False),
    ],
)
def test_secret_properties_are_known_by_name(name, secret):
    """In doubt a property is a secret; addresses, ids and locations are not."""
    assert is_secret_property(name) is secret


@pytest.mark.parametrize(
    "new",
    [
        "customer: '${KEY}'",
        "customer: '${file:key.txt}'",
        "customer: {current: 1, versions: {1: '${KEY}'}}",
        "customer: 'env:${KEY}'",
    ],
)
def test_nothing_is_filled_into_a_key(changed, tmp_path, new):
    """`${…}` under `keys` is refused with the reason, whether or not it has a value."""
    (tmp_path / "key.txt").write_text(CANARY)
    (line,) = changed('customer: "env:CUSTOMER_KEY"', new, {"KEY": CANARY})
    assert line.startswith("hub.yaml:15: keys.customer")
    assert "write a reference" in line
    assert CANARY not in line


def test_nothing_is_filled_into_a_secret_property(changed):
    """`${…}` in a secret property is refused; in any other it is filled in."""
    (line,) = changed(SERVER, f"{SERVER}  client: {{sasl.password: '${{PW}}'}}\n", {"PW": CANARY})
    assert "central.client.sasl.password: is a secret field" in line
    assert CANARY not in line
    assert changed(SERVER, f"{SERVER}  client: {{client.rack: '${{PW}}'}}\n", {"PW": CANARY}) == []


PEM = f"-----BEGIN CERTIFICATE-----\\nAAA\\n-----BEGIN RSA PRIVATE KEY-----\\n{CANARY}\\n-----END RSA PRIVATE KEY-----"
SSL = '  client: {security.protocol: SSL, "%s": "%s"}\n'
NAMES = ("ssl.certificate.pem", "ssl.ca.pem", "https.ca.pem", "ssl.certificate.location", "ssl.key.pem", "client.id")
PLACES = [
    *((SERVER, SERVER + SSL % (name, "KEY"), f"central.client.{name}") for name in NAMES),
    (SERVER, f'{SERVER}  consumer: {{client.rack: "KEY"}}\n', "central.consumer.client.rack"),
    ("hub: demo", 'hub: demo\nschemas_client: {ssl.ca.location: "KEY"}', "schemas_client.ssl.ca.location"),
    ("format: delta", 'format: delta, storage: {cert: "KEY"}', "lake.storage.cert"),
    ("format: delta", 'format: iceberg, catalog: {options: {x: "KEY"}}', "lake.catalog.options.x"),
    ("hub: demo", 'hub: demo\nspark: {conf: {spark.x: "KEY"}}', "spark.conf.spark.x"),
    ("start: earliest", 'start: earliest\n    central_config: {x: "KEY"}', "topics[0].central_config.x"),
]  # fmt: skip


@pytest.mark.parametrize("case", PLACES, ids=[place for *_, place in PLACES])
@pytest.mark.parametrize("written", [PEM, "${PEM}", "${file:key.pem}", "x ${PEM}"])
def test_a_private_key_stands_in_no_setting(changed, tmp_path, case, written):
    """Neither written nor filled in: whatever holds it is told by its place, with the next step, and never shown."""
    old, new, place = case
    key = PEM.replace("\\n", "\n")
    (tmp_path / "key.pem").write_text(key)
    (line,) = changed(old, new.replace("KEY", written), {"PEM": key})
    assert line.partition(": ")[2].startswith(f"{place}: ")
    assert "a reference, `file:path` or `env:NAME`" in line or "write a reference" in line
    assert CANARY not in line


def test_a_certificate_is_no_private_key(load, good):
    """PEM of certificates may stand in the file; what holds a key beside it is named by a reference."""
    written = SSL % ("ssl.ca.pem", "-----BEGIN CERTIFICATE-----")
    assert load(good.replace(SERVER, SERVER + written)).central.client["ssl.ca.pem"] == "-----BEGIN CERTIFICATE-----"
    written = SSL % ("ssl.certificate.pem", "env:PEM")
    config = load(good.replace(SERVER, SERVER + written), {"PEM": PEM})
    assert config.central.client["ssl.certificate.pem"] == SecretRef("env", "PEM")


KEYS = [
    pytest.param(CANARY, "never a value in clear", id="in clear"),
    pytest.param(f"vault:{CANARY}", "never a value in clear", id="unknown scheme"),
    pytest.param(f"{{currant: {CANARY}}}", "exactly `current` and `versions`", id="other keys"),
    pytest.param("{current: 2, versions: {1: 'env:A'}}", "names one of `versions`", id="current not listed"),
    pytest.param("{current: 1, versions: {1: 'env:A', 01: 'env:B'}}", "each version is there once", id="version twice"),
    pytest.param("{current: 1, versions: {0: 'env:A', 1: 'env:B'}}", "from 1 to 255", id="version 0"),
    pytest.param(f"{{current: 1, versions: {{1: {CANARY}}}}}", "never a value in clear", id="version in clear"),
]


@pytest.mark.parametrize(("written", "reason"), KEYS)
def test_a_key_is_a_reference_or_versions_of_references(changed, written, reason):
    """Every other shape of a key is refused, without its value."""
    (line,) = changed('"env:CUSTOMER_KEY"', written)
    assert line.startswith("hub.yaml:15: keys.customer: ")
    assert reason in line
    assert CANARY not in line


def test_key_rings_read_both_forms():
    """A bare reference is version 1; versions are sorted."""
    assert key_ring("env:A") == KeyRing(1, ((1, SecretRef("env", "A")),))
    assert key_ring({"current": "2", "versions": {"2": "file:b", "1": "env:A"}}) == KeyRing(
        2, ((1, SecretRef("env", "A")), (2, SecretRef("file", "b")))
    )


def test_a_reference_is_resolved_where_it_is_used(tmp_path, monkeypatch):
    """`env:` reads the variable, `file:` the file without its last newline."""
    monkeypatch.setenv("A_SECRET", CANARY)
    (tmp_path / "s").write_text(f"{CANARY}\n")
    assert secret_ref("env:A_SECRET").resolve() == CANARY
    assert secret_ref(f"file:{tmp_path}/s").resolve() == CANARY


@pytest.mark.parametrize("kind", ["env", "file", "empty"])
def test_a_reference_to_nothing_names_itself_and_the_next_step(tmp_path, kind):
    """A missing variable, a missing file and an empty file are configuration errors."""
    (tmp_path / "empty").touch()
    reference = secret_ref(
        {"env": "env:NOT_SET_ANYWHERE", "file": f"file:{tmp_path}/no"}.get(kind, f"file:{tmp_path}/empty")
    )
    with pytest.raises(ConfigError) as caught:
        reference.resolve({})
    assert str(reference) in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(("material", "reason"), [(f"!{CANARY}", "is not base64"), ("QUJD", "has 3 bytes")])
def test_key_material_is_base64_of_32_bytes(monkeypatch, material, reason):
    """Material that is no base64 or too short is refused with the reference, never the value."""
    monkeypatch.setenv("KEY", material)
    with pytest.raises(ConfigError) as caught:
        key_ring("env:KEY").material("customer")
    assert reason in caught.value.message
    assert "env:KEY" in caught.value.message
    assert material not in str(caught.value)
    monkeypatch.setenv("KEY", base64.b64encode(bytes(range(32))).decode())
    assert key_ring("env:KEY").material("customer") == bytes(range(32))


@pytest.mark.parametrize("typed", [bytes(32), b"\xff" * 64, b"a" * 32, b"ab" * 32, b"secret" * 8, bytes(range(7)) * 9])
def test_a_key_that_was_typed_is_refused(monkeypatch, typed):
    """Zeros, one letter, a word again and again; without the value. What was drawn passes, every time."""
    monkeypatch.setenv("KEY", base64.b64encode(typed).decode())
    with pytest.raises(ConfigError, match=r"key customer \(env:KEY\) is a few bytes again and again") as caught:
        key_ring("env:KEY").material("customer")
    assert base64.b64encode(typed).decode() not in str(caught.value)
    for _ in range(2000):
        monkeypatch.setenv("KEY", base64.b64encode(secrets.token_bytes(32)).decode())
        key_ring("env:KEY").material("customer")


@pytest.mark.parametrize(
    ("mode", "is_taken"),
    [
        (0o600, True),
        (0o400, True),
        (0o440, True),
        (0o640, True),
        (0o644, False),
        (0o604, False),
        (0o666, False),
        (0o660, False),
        (0o602, False),
    ],
)
def test_a_key_that_others_read_or_write_is_refused(tmp_path, mode, is_taken):
    """By the file that a link leads to, as clusters mount secrets; other secrets are their owner's matter."""
    file, link = tmp_path / "key", tmp_path / "link"
    file.write_text(base64.b64encode(bytes(range(32))).decode())
    link.symlink_to(file)
    file.chmod(mode)
    for path in (file, link):
        if is_taken:
            assert key_ring(f"file:{path}").material("customer") == bytes(range(32))
        else:
            with pytest.raises(ConfigError, match=f"mode {mode:o}") as caught:
                key_ring(f"file:{path}").material("customer")
            assert f"chmod 600 {path}" in caught.value.hint
    assert secret_ref(f"file:{file}").resolve()


def places(good: str) -> list[str]:
    """The good text with a canary in place of each single value."""
    found = []

    def walk(node: Node) -> None:
        if isinstance(node, MappingNode):
            for _key, value in node.value:
                walk(value)
        elif isinstance(node, SequenceNode):
            for value in node.value:
                walk(value)
        else:
            found.append(good[: node.start_mark.index] + CANARY + good[node.end_mark.index :])

    walk(YAML(typ="rt").compose(good))
    assert len(found) == 16
    return found


def test_no_fault_holds_a_value(faults, good):
    """A canary in place of any value of the file shows in no line."""
    for text in places(good):
        assert all(CANARY not in line for line in faults(text))


@pytest.mark.parametrize(
    "text", [f"hub: '{CANARY}", f"hub: *{CANARY}", f"a: !{CANARY} b", f'hub: "\\{CANARY}"', f"{CANARY}"]
)
def test_no_fault_of_the_parser_quotes_the_text(faults, text):
    """What the YAML parser would quote is cut off."""
    lines = faults(text)
    assert lines
    assert all(CANARY not in line for line in lines)


def test_show_hides_whatever_could_be_a_secret(load, tmp_path, good):
    """References are shown; clear values of properties only where the property can hold no secret."""
    client = (
        f"  client: {{sasl.password: 'env:PW', sasl.username: '{CANARY}', client.rack: a, "
        "security.protocol: SASL_SSL, socket.timeout.ms: 1000, ssl.ca.location: ca.pem}\n"
    )
    data = shown(
        load(good.replace(SERVER, SERVER + client) + f"spark: {{conf: {{spark.x: {CANARY}, spark.cores.max: 4}}}}\n")
    )
    assert data["central"]["client"] == {
        "sasl.password": "env:PW",
        "sasl.username": HIDDEN,
        "client.rack": "a",
        "security.protocol": "SASL_SSL",
        "socket.timeout.ms": "1000",
        "ssl.ca.location": f"{tmp_path}/ca.pem",
    }
    assert data["spark"]["conf"] == {"spark.x": HIDDEN, "spark.cores.max": "4"}
    assert data["keys"] == {"customer": {"current": 1, "versions": {"1": "env:CUSTOMER_KEY"}}}
    for form in ("json", "yaml"):
        assert CANARY not in rendered(data, form)


def test_show_hides_secrets_of_a_model_made_in_code():
    """A model that never met the loader is shown as carefully."""
    cluster = ClusterConfig(bootstrap_servers="h:1")
    object.__setattr__(cluster, "client", {"sasl.password": CANARY})
    config = HubConfig(hub="h", central=cluster, edges={})
    object.__setattr__(config, "schemas", f"https://user:{CANARY}@registry/?token={CANARY}")
    object.__setattr__(config, "spark", SparkConfig.model_construct(conf={"spark.password": "1234"}))
    text = json.dumps(shown(config))
    assert CANARY not in text
    assert "1234" not in text
    assert "https://registry/" in text


def test_what_is_shown_loads_again_and_means_the_same(load, tmp_path, good):
    """The effective configuration is itself a configuration, with every default filled in."""
    text = good + "replication: {commit_interval: 1500ms, drain_patience: PT1H, fetch_buffer: 1.5MiB}\n"
    more = "rate_limit: 1.5MiB/s, consumer: {client.rack: a}, producer: {compression.type: lz4}, admin: {client.id: b}"
    first = load(text.replace('"directory:schemas"}\n  us', f'"directory:schemas", {more}}}\n  us'))
    assert first.edges["eu"].rate_limit == 3 * 2**19
    path = tmp_path / "shown.yaml"
    path.write_text(rendered(shown(first), "yaml"), encoding="utf-8")
    assert load_config(path, {}) == first


def test_a_spark_setting_that_looks_like_a_secret_is_refused(faults, good):
    """Spark shows its settings, so that no secret may be one; the refusal holds no value."""
    (line,) = faults(good + f"spark: {{conf: {{spark.hadoop.fs.s3a.secret.key: {CANARY}}}}}\n")
    assert "looks like a secret" in line
    assert CANARY not in line


def test_the_json_schema_speaks_of_the_file():
    """Editors learn the keys, and that durations, sizes and references are text."""
    schema = json_schema()
    assert schema["additionalProperties"] is False
    assert set(schema["properties"]) == set(HubConfig.model_fields)
    assert schema["$defs"]["LakeConfig"]["properties"]["commit_interval"]["type"] == "string"
    assert schema["properties"]["keys"]["additionalProperties"]["anyOf"][0]["pattern"] == "^(env|file):.+"


def test_errors_of_the_model_itself_hold_no_value():
    """Pydantic echoes what it refuses unless told not to, at every level."""
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the text is what is looked at
        HubConfig.model_validate(
            {"hub": f"{CANARY} x", "central": {"bootstrap_servers": CANARY, "client": {"acks": CANARY}}}
        )
    assert CANARY not in str(caught.value)
