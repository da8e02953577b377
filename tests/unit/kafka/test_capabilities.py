"""What the librdkafka at hand cannot do is refused by name, by `config lint` and by whoever makes a client."""

from functools import partial

import pytest
from click.testing import CliRunner

from aggregator.cli.main import main
from aggregator.config.features import MECHANISMS, LibrdkafkaBuild, lacking
from aggregator.config.model import ClusterConfig
from aggregator.errors import ConfigError
from aggregator.kafka.client.capabilities import library
from aggregator.kafka.client.clients import Role, admin, bulk_consumer, connection_options

HUB = """\
hub: demo
central: {bootstrap_servers: "127.0.0.1:1"}
edges:
  eu:
    bootstrap_servers: "127.0.0.1:2"
    schemas: "directory:schemas"
    client: {CLIENT}
schemas: "directory:central"
topics:
  - {match: orders, policy: policy.yaml}
keys: {customer: "file:key"}
"""
# The wheel of confluent-kafka has no Kerberos.
WHEEL = "sasl_gssapi" not in library().features
LOGIN = "sasl.username: hub, sasl.password: 'file:password'"


@pytest.fixture
def lint(tmp_path):
    """The lines about a `client:` block, without the folder; none where it passes."""
    (tmp_path / "policy.yaml").write_text("policy: retail\nversion: 1\n")

    def told(client: str, *, text: str = HUB) -> list[str]:
        path = tmp_path / "hub.yaml"
        path.write_text(text.replace("{CLIENT}", f"{{{client}}}"))
        result = CliRunner().invoke(main, ["config", "lint", "--elsewhere", "--config", str(path)])
        assert result.exit_code in {0, 78}, result.stderr
        lines = result.stderr.replace(f"{tmp_path}/", "").removeprefix("error: ").splitlines()
        return [line for line in lines if line.startswith("hub.yaml:")]

    return told


@pytest.mark.skipif(not WHEEL, reason="this librdkafka has Kerberos")
@pytest.mark.parametrize(
    ("client", "setting"),
    [
        ("security.protocol: SASL_SSL, sasl.mechanism: GSSAPI", "sasl.mechanism"),
        ("security.protocol: SASL_SSL, sasl.mechanisms: GSSAPI", "sasl.mechanisms"),
        ("security.protocol: SASL_SSL", "security.protocol"),
        (f"security.protocol: SASL_SSL, sasl.mechanism: PLAIN, {LOGIN}, sasl.kerberos.principal: h", "sasl.kerberos."),
    ],
)
def test_kerberos_is_refused_by_name(lint, client, setting):
    """Also where nobody wrote it: it is librdkafka's default. The line says what can be used instead."""
    (line,) = lint(client)
    assert line.startswith(f"hub.yaml:7: edges.eu.client.{setting}")
    assert "Kerberos (GSSAPI" in line
    assert "is not in this librdkafka (2." in line
    assert "SCRAM-SHA-512" in line


@pytest.mark.slow
def test_whatever_this_library_has_passes(lint):
    """TLS alone, and each mechanism that it was built with."""
    assert lint("security.protocol: SSL, ssl.ca.location: ca.pem") == []
    here = [name for name, feature in MECHANISMS.items() if feature in library().features]
    assert {"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"} <= set(here)
    for mechanism in here:
        more = "sasl.oauthbearer.method: oidc" if mechanism == "OAUTHBEARER" else LOGIN
        assert lint(f"security.protocol: SASL_SSL, sasl.mechanism: {mechanism}, {more}") == []


@pytest.mark.parametrize("mechanism", ["AWS_MSK_IAM", "DIGEST-MD5", "ANONYMOUS", "scram-sha-512", "''"])
def test_a_mechanism_that_no_librdkafka_has_is_refused(lint, mechanism):
    """Those of Java clients too; the line names those that there are."""
    (line,) = lint(f"security.protocol: SASL_SSL, sasl.mechanism: {mechanism}, {LOGIN}")
    assert "edges.eu.client.sasl.mechanism: is one of PLAIN, SCRAM-SHA-256" in line


@pytest.mark.parametrize(
    ("client", "setting"),
    [
        ("socket.timeout.ms: hunter2", "socket.timeout.ms"),
        ("socket.timeout.ms: 1", "socket.timeout.ms"),
        ("security.protocol: SSL, ssl.ca.certificate.stores: Root", "ssl.ca.certificate.stores"),
    ],
)
def test_a_value_that_the_library_does_not_take_is_told_at_its_line(lint, client, setting):
    """Not by the first client that starts, and without the value."""
    (line,) = lint(client)
    assert line.startswith(f"hub.yaml:7: edges.eu.client.{setting}")
    assert "hunter2" not in line


@pytest.mark.skipif(not WHEEL, reason="this librdkafka has Kerberos")
def test_all_faults_are_told_at_once(lint):
    """What the library lacks stands beside what is wrong with the file."""
    text = HUB.replace("hub: demo", "hub: de/mo")
    lines = lint("security.protocol: SASL_SSL, sasl.mechanism: GSSAPI", text=text)
    assert [line.split(": ")[1] for line in lines] == ["hub", "edges.eu.client.sasl.mechanism"]


@pytest.mark.skipif(not WHEEL, reason="this librdkafka has Kerberos")
def test_no_client_is_made_of_what_the_library_lacks():
    """Whoever did not lint is told the same, as an error of the configuration."""
    cluster = ClusterConfig(bootstrap_servers="h:1", client={"security.protocol": "SASL_SSL"})
    for made in (partial(connection_options, role=Role.PRODUCER), admin):
        with pytest.raises(ConfigError, match=r"client of h:1: security\.protocol: Kerberos"):
            made(cluster)


def test_a_build_without_a_part_is_told_of_each_setting_that_needs_it():
    """Each feature taken away in turn."""
    options = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "compression.codec": "zstd",
    }
    needs = {
        "sasl_oauthbearer": "sasl.mechanism",
        "oidc": "sasl.oauthbearer.method",
        "ssl": "security.protocol",
        "zstd": "compression.codec",
    }
    every = frozenset({*needs, "sasl_gssapi", "sasl_scram"})
    assert list(lacking(options, LibrdkafkaBuild("2", every))) == []
    for feature, setting in needs.items():
        assert [name for name, _ in lacking(options, LibrdkafkaBuild("2", every - {feature}))] == [setting]
    scram = {"security.protocol": "sasl_ssl", "sasl.mechanism": "SCRAM-SHA-512"}
    assert [name for name, _ in lacking(scram, LibrdkafkaBuild("2", every - {"sasl_scram"}))] == ["sasl.mechanism"]


@pytest.mark.parametrize(
    ("more", "place"),
    [
        ("consumer: {fetch.max.bytes: 500000}", "edges.eu.consumer.fetch.max.bytes"),
        ("consumer: {receive.message.max.bytes: 1000000}", "edges.eu.consumer.receive.message.max.bytes"),
        ("producer: {receive.message.max.bytes: 999}", "edges.eu.producer.receive.message.max.bytes"),
    ],
)
def test_settings_that_contradict_each_other_are_told_at_their_line(lint, more, place):
    """Each is allowed alone, and no client could be made of it: not for the first slot to find."""
    (line,) = lint("", text=HUB.replace("    client: {CLIENT}\n", f"    {more}\n"))
    assert line.startswith(f"hub.yaml:7: {place}: ")


@pytest.mark.parametrize("rate", ["100kB/s", "200MB/s", "2.1GB/s", "10GB/s"])
def test_clients_can_be_made_at_every_rate(lint, rate):
    """What a request asks for stays below what an answer may have."""
    more = f"    rate_limit: {rate}\n    consumer: {{receive.message.max.bytes: 60000000}}\n"
    assert lint("", text=HUB.replace("    client: {CLIENT}\n", more)) == []


def test_no_client_is_made_of_a_contradiction():
    """Whoever did not lint is told the role, the cluster and the setting."""
    cluster = ClusterConfig(bootstrap_servers="127.0.0.1:1", consumer={"fetch.max.bytes": "500000"})
    with pytest.raises(ConfigError, match=r"consumer of 127\.0\.0\.1:1: .*fetch\.max\.bytes"):
        bulk_consumer(cluster, buffer_bytes=1 << 20)
