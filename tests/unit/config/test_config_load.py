"""What a loaded configuration holds: paths made absolute, values filled in, defaults."""

import subprocess
import sys
from pathlib import Path

import pytest

from aggregator.config.load import load_config
from aggregator.config.secrets import SecretRef
from tests.growth import cpu_s

ROOT = Path(__file__).resolve().parents[3]


def test_relative_paths_are_relative_to_the_file(load, tmp_path, good):
    """Policy, lake, registries, `file:` references and certificate locations become absolute, seen from the file."""
    text = good.replace("env:CUSTOMER_KEY", "file:key.txt").replace(
        '"127.0.0.1:19292"',
        '"127.0.0.1:19292"\n  client: {security.protocol: SASL_SSL, sasl.password: "file:pw", ssl.ca.location: ca.pem}',
    )
    config = load(text)
    assert config.topics[0].policy == tmp_path / "policies" / "retail.yaml"
    assert config.lake is not None
    assert config.lake.path == str(tmp_path / "lake")
    assert config.schemas == f"directory:{tmp_path}/central-schemas"
    assert config.edges["eu"].schemas == f"directory:{tmp_path}/schemas"
    assert config.keys["customer"].versions == ((1, SecretRef("file", f"{tmp_path}/key.txt")),)
    assert config.central.client == {
        "security.protocol": "SASL_SSL",
        "sasl.password": SecretRef("file", f"{tmp_path}/pw"),
        "ssl.ca.location": f"{tmp_path}/ca.pem",
    }


def test_absolute_paths_and_addresses_stay(load, good):
    """What is absolute already, or no path, is left alone."""
    config = load(
        good.replace("path: lake", "path: /var/lake").replace("directory:central-schemas", "https://registry:8081")
    )
    assert config.lake is not None
    assert config.lake.path == "/var/lake"
    assert config.schemas == "https://registry:8081"
    assert config.keys["customer"].versions == ((1, SecretRef("env", "CUSTOMER_KEY")),)


def test_scalars_mean_what_the_model_says_not_what_yaml_guesses(load, good):
    """`no`, `012` and numbers arrive as written: Norway is an edge, a setting is text, a count is a number."""
    text = good.replace("  us:", "  no:").replace(
        "start: earliest", "start: 2026-11-01T00:00Z\n    central_config: {retention.ms: 60000, x: 012, y: true}"
    )
    config = load(text + "replication: {slots: 2}\nheartbeats: {emit: false}\n")
    assert list(config.edges) == ["eu", "no"]
    assert config.topics[0].central_config == {"retention.ms": "60000", "x": "012", "y": "true"}
    assert str(config.topics[0].start) == "2026-11-01 00:00:00+00:00"
    assert config.replication.slots == 2
    assert config.heartbeats.emit is False


def test_variables_defaults_and_files_are_filled_in(load, tmp_path, good):
    """`${NAME}`, `${NAME:-default}`, `${file:…}` and the escape `$${` in values of every kind."""
    (tmp_path / "servers.txt").write_text("h:1,h:2\n")
    text = (
        good.replace("127.0.0.1:19292", "${file:servers.txt}")
        .replace("127.0.0.1:19092", "${HOST}:${PORT:-9092}")
        .replace("{edge}.{topic}", "${PATTERN:-{edge}-{topic}}")
        .replace("earliest", "earliest\n    central_config: {note: '$${HOST}'}")
    )
    config = load(text + "replication: {slots: '${SLOTS:-3}'}\n", {"HOST": "broker", "SLOTS": ""})
    assert config.central.bootstrap_servers == "h:1,h:2"
    assert config.edges["eu"].bootstrap_servers == "broker:9092"
    assert config.topics[0].central == "{edge}-{topic}"
    assert config.topics[0].central_config == {"note": "${HOST}"}
    assert config.replication.slots == 3


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("${NOWHERE}", "environment variable NOWHERE is not set"),
        ("${EMPTY}", "environment variable EMPTY is not set"),
        ("${file:nowhere.txt}", "nowhere.txt cannot be read: No such file"),
        ("${file:binary}", "binary is not UTF-8"),
        ("${1x}", "an expression is"),
        ("${HOST", "not closed"),
    ],
)
def test_an_expression_without_a_value_is_refused(changed, tmp_path, expression, reason):
    """A variable that is not set, a file that cannot be read and a slip of the pen are told, each once."""
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    lines = changed("127.0.0.1:19292", expression, {"EMPTY": ""})
    assert len(lines) == 1
    assert "hub.yaml:3: central.bootstrap_servers: " in lines[0]
    assert reason in lines[0]


@pytest.mark.slow
def test_loading_is_quick_and_starts_no_engine(load):
    """A tenth of a second at most, after the imports; neither Spark nor a Kafka client nor pandas is imported."""
    load()
    assert cpu_s(load, enough_s=0.1) < 0.1
    code = (
        "import sys\nimport aggregator.config.load\nfrom aggregator.config.patterns import full_matches\n"
        "assert full_matches('a|b', ['a', 'ab']) == [True, False]\n"
        "print([name for name in ('pyspark', 'confluent_kafka', 'pandas') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "[]\n"


def test_the_examples_load():
    """Every example configuration that is shipped loads as it stands, without environment variables."""
    paths = sorted((ROOT / "configs").glob("hub*.yaml"))
    assert len(paths) > 1
    for path in paths:
        assert load_config(path, {}).edges
