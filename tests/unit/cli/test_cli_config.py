"""`config lint|show|schema` and what commands share: tables and the three forms of an answer."""

import base64
import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from aggregator.cli.config import config
from aggregator.cli.main import main
from aggregator.cli.terminal.output import config_option, emit, output_option, rendered, table

HUB = """\
hub: demo
central: {bootstrap_servers: "127.0.0.1:1"}
edges:
  eu: {bootstrap_servers: "127.0.0.1:2", schemas: "directory:schemas"}
schemas: "directory:central"
topics:
  - {match: orders, policy: policy.yaml}
keys: {customer: "file:key"}
"""


@pytest.fixture
def hub(tmp_path: Path) -> Path:
    """A configuration and its policy."""
    (tmp_path / "policy.yaml").write_text("policy: retail\nversion: 1\n")
    (tmp_path / "key").write_text(base64.b64encode(bytes(range(32))).decode() + "\n")
    (tmp_path / "key").chmod(0o600)
    path = tmp_path / "hub.yaml"
    path.write_text(HUB)
    return path


def test_lint_is_quiet_about_a_good_file(hub):
    """No fault: one line on stdout, exit 0."""
    result = CliRunner().invoke(config, ["lint", "--config", str(hub)])
    assert (result.exit_code, result.stdout) == (0, f"{hub}: no faults (1 edge, 1 topic rule)\n")


def test_lint_names_what_has_ended_which_is_no_fault(hub):
    """Each place, whatever the rule is about; nothing of one whose day is to come."""
    ended, holds = (f"{{keep: {{reason: r, owner: o, expires: {year}-01-01}}}}" for year in (2020, 2090))
    topic = f"key: {ended}, default: {ended}, fields: {{a: {ended}, b: {holds}}}"
    text = f"policy: retail\nversion: 1\ntags: {{PII: {ended}}}\ntopics: {{orders: {{{topic}}}}}\n"
    (hub.parent / "policy.yaml").write_text(text)
    result = CliRunner().invoke(config, ["lint", "--config", str(hub)])
    assert result.exit_code == 0
    told = [
        line.partition("policy.yaml: ")[2].partition(": keep ended on 2020-01-01")[0]
        for line in result.stderr.splitlines()
    ]
    assert told == ["tags.PII", 'topics."orders".key', 'topics."orders".default', 'topics."orders".fields.a']


def test_lint_tells_every_fault_and_ends_with_78(hub):
    """All faults on stderr, with file and line, exit 78."""
    hub.write_text(HUB.replace("hub: demo", "hub: de/mo").replace("orders", "'['"))
    result = CliRunner().invoke(main, ["config", "lint", "--config", str(hub)])
    assert result.exit_code == 78
    assert f"{hub}:1: hub: " in result.stderr
    assert f"{hub}:7: topics[0].match: " in result.stderr
    assert result.stdout == ""


def test_no_fault_shows_what_a_reference_stands_for(hub, monkeypatch):
    """Also where a reference stands for a setting that is no secret, and where a key stands in place of its name."""
    monkeypatch.setenv("X", "hunter2canary")
    for old, new in (
        ('"127.0.0.1:1"}', '"127.0.0.1:1", producer: {compression.type: "env:X"}}'),
        ('"127.0.0.1:1"}', '"127.0.0.1:1", client: {compression.type: "env:X"}}'),
        ("hub: demo", "hub: demo\nchain_key: ${X}"),
        ("hub: demo", "hub: demo\nchain_key: hunter2canary"),
    ):
        hub.write_text(HUB.replace(old, new))
        assert "hunter2canary" not in CliRunner().invoke(main, ["config", "lint", "--config", str(hub)]).output


def test_lint_knows_files_that_are_not_there_and_one_cluster_under_two_names(hub):
    """Keys, passwords and certificates by their lines, with the faults of policies; `--elsewhere` looks for no file."""
    (hub.parent / "key").unlink()
    (hub.parent / "policy.yaml").write_text("policy: retail\nversion: 1\nfoo: bar\n")
    client = 'client: {security.protocol: SASL_SSL, sasl.mechanism: PLAIN, sasl.username: u, sasl.password: "file:pw"}'
    text = HUB.replace('"127.0.0.1:2",', f'"a:1,127.0.0.1:1", {client},')
    text = text.replace("}\nedges", ", client: {ssl.ca.location: ca, security.protocol: SSL}}\nedges")
    text += 'ui: {token: "file:door"}\nlake: {path: l, format: iceberg, catalog: {options: {credential: "file:c"}}}\n'
    hub.write_text(text)
    result = CliRunner().invoke(main, ["config", "lint", "--config", str(hub)])
    assert result.exit_code == 78
    for line in (f"{hub}:2: central.client.ssl.ca.location: there is no file",
                 f"{hub}:4: edges.eu.bootstrap_servers: names 127.0.0.1:1, as central does",
                 f"{hub}:4: edges.eu.client.sasl.password: there is no file",
                 f"{hub}:8: keys.customer: there is no file", "ui.token: there is no file",
                 "lake.catalog.options.credential: there is no file", "policy.yaml:3: foo"):  # fmt: skip
        assert line in result.stderr
    elsewhere = CliRunner().invoke(main, ["config", "lint", "--elsewhere", "--config", str(hub)])
    assert "there is no file" not in elsewhere.stderr
    assert "as central does" in elsewhere.stderr


@pytest.mark.parametrize(
    ("location", "told"),
    [
        ("probe", ""),
        ("-----BEGIN CERTIFICATE-----hunter2canary", "client.ssl.ca.location: holds a certificate or a key itself"),
        (
            "-----BEGIN PRIVATE KEY-----hunter2canary",
            "client.ssl.ca.location: holds a private key in clear: keep it in",
        ),
        ("x" * 300, "client.ssl.ca.location: there is no file"),
    ],
)
def test_lint_looks_for_certificates_and_shows_none(hub, location, told):
    """A word of librdkafka for the machine's own store is no file; no file has a name that is too long."""
    options = f'client: {{ssl.ca.location: "{location}", security.protocol: SSL}}'
    hub.write_text(HUB.replace("}\nedges", f", {options}}}\nedges"))
    result = CliRunner().invoke(main, ["config", "lint", "--config", str(hub)])
    assert result.exit_code == (78 if told else 0), result.stderr
    assert told in result.stderr
    assert "hunter2canary" not in result.output


def test_lint_tells_of_variables_that_nobody_has_set_here(hub, monkeypatch):
    """The hub's own environment may have them, so that they are no fault; one that holds no key is."""
    hub.write_text(hub.read_text().replace("file:key", "env:LINTED"))
    monkeypatch.delenv("LINTED", raising=False)
    arguments = ["config", "lint", "--config", str(hub)]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    assert "LINTED: not set here" in result.stderr
    assert "not set here" not in CliRunner().invoke(main, [*arguments, "--elsewhere"]).stderr
    monkeypatch.setenv("LINTED", "c2hvcnQ=")
    refused = CliRunner().invoke(main, arguments)
    assert (refused.exit_code, "has 5 bytes; 32 is the least" in refused.stderr) == (78, True)


@pytest.mark.parametrize(
    ("text", "mode", "told"),
    [
        (None, 0o644, "lies in a file that others may read or write (mode 644): chmod 600"),
        ("no base64\n", 0o600, "is not base64: openssl rand -base64 32"),
        ("\n", 0o600, "the file is empty: write the secret into it"),
        ("c2hvcnQ=\n", 0o600, "has 5 bytes; 32 is the least: openssl rand -base64 32"),
        ("é\n", 0o600, "is not base64: openssl rand -base64 32"),
        (b"\xff\xfe", 0o600, "the file is not text: write the secret into it"),
    ],
)
def test_lint_refuses_a_key_s_file_that_a_run_refuses(hub, text, mode, told):
    """By its line, and without a word of the file; elsewhere there is none to look at."""
    if text is not None:
        (hub.parent / "key").write_bytes(text if isinstance(text, bytes) else text.encode())
    (hub.parent / "key").chmod(mode)
    result = CliRunner().invoke(main, ["config", "lint", "--config", str(hub)])
    assert result.exit_code == 78
    assert f"{hub}:8: keys.customer: " in result.stderr
    assert told in result.stderr
    assert "c2hvcnQ" not in result.stderr
    assert CliRunner().invoke(main, ["config", "lint", "--elsewhere", "--config", str(hub)]).exit_code == 0


@pytest.mark.parametrize(
    ("path", "operator", "told"),
    [
        (
            "amount",
            "mask_email",
            "topic orders: mask_email does not take amount, which is double: the field",
        ),
        ("either", "mask_email", ""),
        ("amount", "drop", ""),
        ("amount", "{round: {digits: 1}}", ""),
        ("'*'", "mask_email", ""),
        ("at", "mask_ip", "mask_ip does not take at, which is long (timestamp-millis)"),
        ("inner", "mask_email", ""),
        ("m.{key}", "{truncate: {length: 3}}", "truncate does not take m.{key}, which is string"),
        ("gone", "mask_email", ""),
    ],
)
def test_lint_knows_operators_that_do_not_take_a_field(hub, path, operator, told):
    """Where a registry is a folder; of a field with several types one that takes it suffices."""
    inner = {"type": "record", "name": "I", "fields": [{"name": "n", "type": "long"}]}
    schema = {"type": "record", "name": "R", "fields": [
        {"name": "amount", "type": ["null", "double"]}, {"name": "either", "type": ["double", "string"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}}, {"name": "inner", "type": inner},
        {"name": "m", "type": {"type": "map", "values": "long"}}]}  # fmt: skip
    (hub.parent / "schemas" / "orders-value").mkdir(parents=True)
    (hub.parent / "schemas" / "orders-value" / "1-1.avsc").write_text(json.dumps(schema))
    rule = f"topics: {{orders: {{fields: {{{path if path[0] == chr(39) else repr(path)}: {operator}}}}}}}"
    (hub.parent / "policy.yaml").write_text(f"policy: retail\nversion: 1\n{rule}\n")
    result = CliRunner().invoke(main, ["config", "lint", "--config", str(hub)])
    assert (result.exit_code, told in result.stderr) == (78 if told else 0, True), result.output
    assert ("policy.yaml" in result.stderr) is bool(told)


def test_lint_reads_the_policies_too(hub):
    """A fault of a policy that the configuration names is a fault."""
    (hub.parent / "policy.yaml").write_text("policy: retail\nversion: 1\nfoo: bar\n")
    result = CliRunner().invoke(main, ["config", "lint", "--config", str(hub)])
    assert result.exit_code == 78
    assert "policy.yaml:3: " in result.stderr


def test_lint_refuses_a_pattern_that_cannot_be_matched_as_a_whole(hub):
    """In a policy and in the configuration: what lint takes, every later command can match with names."""
    (hub.parent / "policy.yaml").write_text("policy: retail\nversion: 1\ntopics: {'private\\Q': {}}\n")
    result = CliRunner().invoke(main, ["config", "lint", "--config", str(hub)])
    assert (result.exit_code, "policy.yaml:3: topics" in result.stderr) == (78, True), result.output
    hub.write_text(hub.read_text().replace("{match: orders,", "{match: orders, exclude: 'private\\Q',"))
    result = CliRunner().invoke(main, ["config", "lint", "--config", str(hub)])
    assert (result.exit_code, "topics[0].exclude: RE2 refuses" in result.stderr) == (78, True), result.output
    assert "that no `\\E` ends" in result.stderr


def test_lint_tells_a_key_that_a_policy_uses_and_nobody_names(hub):
    """A policy's key must be under `keys:`."""
    (hub.parent / "policy.yaml").write_text(
        "policy: retail\nversion: 1\ntags: {PII: {pseudonymize: {key: partner, domain: x}}}\n"
    )
    result = CliRunner().invoke(main, ["config", "lint", "--config", str(hub)])
    assert result.exit_code == 78
    assert "partner" in result.stderr


def test_the_configuration_may_come_from_the_environment(hub, monkeypatch):
    """AGGREGATOR_CONFIG stands for --config."""
    monkeypatch.setenv("AGGREGATOR_CONFIG", str(hub))
    assert CliRunner().invoke(config, ["lint"]).exit_code == 0


def test_show_prints_one_configuration_in_two_forms(hub):
    """YAML and JSON hold the same, references and absolute paths included."""
    as_yaml = CliRunner().invoke(config, ["show", "--config", str(hub)]).stdout
    as_json = CliRunner().invoke(config, ["show", "--config", str(hub), "-o", "json"]).stdout
    shown = json.loads(as_json)
    assert YAML(typ="safe").load(as_yaml) == shown
    assert shown["keys"]["customer"]["versions"]["1"] == f"file:{hub.parent}/key"
    assert shown["topics"][0]["policy"] == f"{hub.parent}/policy.yaml"


def test_schema_is_json_schema():
    """Editors read it from stdout."""
    printed = json.loads(CliRunner().invoke(config, ["schema"]).stdout)
    assert printed["$schema"].startswith("https://json-schema.org/")
    assert "hub" in printed["required"]


def test_one_answer_in_three_forms():
    """Text for people, JSON and YAML with the same content for programs; the lines for people are made on demand."""

    @click.command()
    @config_option
    @output_option
    def status(config: Path, output: str) -> None:
        answer = {"edges": [{"edge": "eu", "lag_records": 3, "heartbeat_age_ms": None}], "config": str(config)}
        emit(answer, output, lambda: table(["edge", "lag"], [("eu", 3)]))

    text, as_json, as_yaml = (CliRunner().invoke(status, ["-o", form]).stdout for form in ("text", "json", "yaml"))
    assert text == "edge  lag\neu      3\n"
    assert json.loads(as_json) == YAML(typ="safe").load(as_yaml)
    assert json.loads(as_json)["config"] == "hub.yaml"


def test_tables_align_numbers_right_and_words_left():
    """Thousands are grouped, None is a dash, booleans are words."""
    assert table(["edge", "lag", "up"], [("eu", 1234567, True), ("us-west", None, False)]) == [
        "edge           lag  up",
        "eu       1,234,567  yes",
        "us-west          -  no",
    ]
    assert table(["edge"], []) == ["edge"]


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text("aé:#-{}[]'\"%@ \n0", max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", min_size=1, max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.text("abc", min_size=1, max_size=4), PLAIN, max_size=4))
def test_both_forms_hold_the_same_answer(answer):
    """Whatever the answer, what a program reads from JSON and from YAML is equal."""
    assert json.loads(rendered(answer, "json")) == answer
    assert YAML(typ="safe").load(rendered(answer, "yaml")) == answer
