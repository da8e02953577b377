"""What becomes of MirrorMaker's settings: expectations written by hand, of real configurations and of single cases."""

import json
import re

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from aggregator.config.librdkafka import ALLOWED
from aggregator.errors import ConfigError
from aggregator.mirrormaker import settings, sign_in
from aggregator.mirrormaker.client_properties import REASONS, RENAMED
from aggregator.mirrormaker.file_reader import read
from aggregator.mirrormaker.hub_file import hub_text
from aggregator.mirrormaker.references import variable_name
from aggregator.mirrormaker.result import KeyKind
from aggregator.mirrormaker.translate import translate
from tests.unit.mirrormaker.real_files import PLANTED, connector, leaves, properties, real

REAL = {one.name: one for one in real()}
TWO = "clusters=a, b\na.bootstrap.servers=a:1\nb.bootstrap.servers=b:1\na->b.enabled=true\n"


AWS = "tokens of AWS: pip install 'aggregator[msk]'"


def of(*texts, name="mm2.properties"):
    """The import of texts."""
    return translate(
        read([(f"{number}{name}" if number else name, text.encode()) for number, text in enumerate(texts)])
    )


def of_real(name):
    """The import of a real configuration."""
    return translate(read([(file, text.encode()) for file, text in REAL[name].files]))


def fates(found):
    """By key: what became of it, and what it became or why not."""
    return {one.key: (one.kind.value, one.to or one.why) for one in found.outcomes}


# --- real ones


def test_two_clusters_in_both_directions():
    """Two hubs; a name that came from the other one is not sent back, as in MirrorMaker."""
    found = of_real("hifly81/mirror-maker2-tests/mm2.properties")
    assert [(hub.name, hub.target, list(hub.edges)) for hub in found.hubs] == [
        ("hub-dc-y", "DC-Y", ["dc-x"]),
        ("hub-dc-x", "DC-X", ["dc-y"]),
    ]
    first, second = found.hubs
    assert first.central.bootstrap_servers == "localhost:19092,localhost:19093,localhost:19094"
    assert first.edges["dc-x"].bootstrap_servers == "localhost:9092,localhost:9093,localhost:9094"
    (rule,) = first.rules
    assert (rule.match, rule.central, rule.start) == (".*", "DC-X.{topic}", "earliest")
    assert rule.exclude == r"hub-dc-x\..*|(.*\.)?DC-Y\..*"
    assert second.rules[0].central == "DC-Y.{topic}"
    assert fates(found)["sync.topic.acls.enabled"][0] == "not applicable"
    assert found.remarks == ["a hub has one central cluster: each target has a folder with a hub.yaml of its own"]


def test_environment_variables_stay_references():
    """`${env:…}` in an address, in a user and in a password; a password in clear text asks for a variable."""
    found = of_real("sagecontinuum/sage-neon-broker/mm2.properties")
    (hub,) = found.hubs
    primary = hub.edges["primary"]
    assert primary.bootstrap_servers == "${NEON_BOOTSTRAP_SERVER}"
    assert primary.client["sasl.username"] == "${NEON_USERNAME}"
    assert primary.client["sasl.password"] == "env:NEON_PASSWORD"
    assert primary.client["security.protocol"] == "SASL_PLAINTEXT"
    assert "insecure" in primary.client
    assert hub.central.client["sasl.username"] == "env:MIRROR_SASL_USERNAME"
    assert hub.central.client["sasl.password"] == "env:MIRROR_MM2_PASSWORD"
    assert set(found.variables) == {
        "NEON_BOOTSTRAP_SERVER",
        "NEON_USERNAME",
        "NEON_PASSWORD",
        "MIRROR_SASL_USERNAME",
        "MIRROR_MM2_PASSWORD",
    }
    (rule,) = hub.rules
    assert rule.match == (
        "reading.sensor.li7200_raw|reading.sensor.li7200_metrics|reading.sensor.csat3|reading.sensor.csat3b"
    )
    assert (rule.central, rule.start, rule.exclude) == ("{topic}", "latest", r"hub\..*|.*\.heartbeats")
    assert hub.replication_factor == "1"
    told = fates(found)
    assert told["mirror.producer.max.request.size"][0] == "not applicable"
    assert told["primary.consumer.isolation.level"] == (
        "not applicable",
        "an uncommitted read delivers aborted records",
    )
    assert told["config.providers.env.class"][0] == "not applicable"
    assert told["mirror->primary.enabled"] == ("not applicable", "the flow is not enabled")


def test_an_alias_of_its_own_begins_central_names():
    """`source.cluster.alias` at the top wins over the name in `clusters`."""
    found = of_real("stfc/lsst-drp-kafka/mm2.properties")
    (hub,) = found.hubs
    assert (hub.target, list(hub.edges)) == ("target", ["source"])
    assert hub.edges["source"].bootstrap_servers == (
        "kafka-1.example:9094,kafka-2.example:9094,kafka-3.example:9094,kafka-4.example:9094"
    )
    (rule,) = hub.rules
    assert (rule.central, rule.exclude) == ("usdf.{topic}", ".*[-.]internal|.*.replica|__consumer_offsets")
    assert (hub.emit, hub.config_sync, hub.replication_factor) == (False, "apply", "1")


def test_stores_of_java_are_converted():
    """Truststore to PEM, keystore to PKCS12, each by a command; passwords are variables, or are not needed."""
    found = of_real("subhamproject/kafka-with-mirrormaker2/mm2.properties")
    (hub,) = found.hubs
    assert hub.edges["a"].client == {
        "security.protocol": "SSL",
        "ssl.ca.location": "certificates/a-ca.pem",
        "ssl.keystore.location": "certificates/a.p12",
        "ssl.keystore.password": "env:A_SSL_KEYSTORE_PASSWORD",
    }
    assert hub.central.bootstrap_servers == "${B_BOOTSTRAP_SERVERS}"  # `==` in the file begins it with a sign
    assert hub.rules[0].central == "{topic}"  # the empty alias with the empty separator
    store = "-keystore /tmp/secrets/root.truststore.jks"
    assert f"keytool -list -rfc {store} > certificates/a-ca.pem" in found.commands
    told = fates(found)
    assert told["A.ssl.truststore.password"] == ("not applicable", "certificates in PEM have no password")
    assert told["A.ssl.key.password"][0] == "not applicable"
    assert told["exclude.internal.topics"][0] == "not applicable"


def test_signing_in_by_msk_iam():
    """Tokens of AWS in place of Java's classes; the region stands in the address."""
    (name,) = (name for name in REAL if name.startswith("naturalett/"))
    found = of_real(name)
    (hub,) = found.hubs
    assert hub.central.msk_iam == {"region": "us-east-2"}
    assert hub.central.client == {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
    edge = hub.edges["events-staging"]
    assert edge.client == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "env:EVENTS_STAGING_SASL_USERNAME",
        "sasl.password": "env:EVENTS_STAGING_SASL_PASSWORD",
    }
    assert edge.bootstrap_servers == "${EVENTS_STAGING_BOOTSTRAP_SERVERS}"
    assert hub.rules[0].match == "events-prod"
    assert hub.replication_factor == "6"
    told = fates(found)
    assert told["replication.policy.class"][0] == "not applicable"
    assert told["consumer.group.id"] == ("not applicable", "positions live in the ledger, not in a group")
    assert any("class of Java" in remark for remark in found.remarks)


def test_a_connector_with_overrides():
    """The producer's override goes to central; a consumer's is not obeyed by Connect either."""
    found = of_real("bunyaminonum/mirror-maker-2-production/connect/mm2-source-connector.json")
    (hub,) = found.hubs
    assert hub.central.producer == {"compression.type": "snappy"}
    assert (hub.central.client, hub.edges["source"].consumer) == ({}, {})
    (rule,) = hub.rules
    assert (rule.match, rule.central) == ("orders", "{edge}.{topic}")
    assert rule.exclude == "__.*|.*-internal|connect-.*|_confluent.*|mm2-.*"
    told = fates(found)
    assert told["producer.override.acks"] == ("not applicable", "anything but all loses records")
    assert told["consumer.override.auto.offset.reset"][0] == "not applicable"
    assert told["producer.override.bootstrap.servers"] == ("mapped", "central.bootstrap_servers")


def test_strimzi_with_secrets_of_kubernetes():
    """Two edges with one rule; users stay, passwords are variables, certificates come by a command."""
    found = of_real("dalelane/eventstreams-mirrormaker2-demos/01-aggregate-central/templates/mm2.yaml")
    (hub,) = found.hubs
    assert (hub.target, list(hub.edges)) == ("europe", ["northamerica", "southamerica"])
    assert hub.edges["northamerica"].client == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "mm2-northamerica",
        "sasl.password": "env:NORTHAMERICA_SASL_PASSWORD",
        "ssl.ca.location": "certificates/northamerica-ca.pem",
    }
    (rule,) = hub.rules
    assert (rule.match, rule.edges, rule.central) == ("LH.*", ("northamerica", "southamerica"), "{edge}.{topic}")
    assert (hub.replication_factor, hub.config_sync) == ("3", "apply")
    assert (
        "kubectl get secret na-cluster-ca-cert -o go-template='{{index .data \"ca.crt\" | base64decode}}'"
        " > certificates/northamerica-ca.pem"
    ) in found.commands
    told = fates(found)
    assert told["spec.clusters[0].authentication.passwordSecret.password"] == (
        "mapped",
        "edges.northamerica.client.sasl.password",
    )
    assert told["spec.resources.limits.cpu"] == ("not applicable", "says how MirrorMaker runs on Kubernetes")


def test_strimzi_with_a_target_and_sources():
    """The second version of the format says the same."""
    found = of_real("strimzi/strimzi-kafka-operator/examples/mirror-maker/kafka-mirror-maker-2-tls.yaml")
    (hub,) = found.hubs
    assert (hub.target, list(hub.edges)) == ("cluster-b", ["cluster-a"])
    assert hub.central.client == {"security.protocol": "SSL", "ssl.ca.location": "certificates/cluster-b-ca.pem"}
    assert hub.edges["cluster-a"].client["security.protocol"] == "SSL"
    assert hub.replication_factor == "-1"


def test_the_first_generation():
    """Names stay; the consumer's cluster is the edge; a check of hosts that is off stays on."""
    found = of_real("AnyaBaeva/KafkaSSlDemo/mirror-consumer.properties")
    (hub,) = found.hubs
    assert list(hub.edges) == ["source"]
    assert hub.edges["source"].client["sasl.password"] == "env:SOURCE_SASL_PASSWORD"
    assert "ssl.endpoint.identification.algorithm" not in hub.edges["source"].client
    assert hub.central.client == {"security.protocol": "PLAINTEXT"}
    (rule,) = hub.rules
    assert (rule.match, rule.central) == (".*", "{topic}")
    assert any("--whitelist" in remark for remark in found.remarks)


# --- single cases


@pytest.mark.parametrize(
    ("more", "central"),
    [
        ("", "{edge}.{topic}"),
        ("replication.policy.class=org.apache.kafka.connect.mirror.DefaultReplicationPolicy", "{edge}.{topic}"),
        ("replication.policy.class=org.apache.kafka.connect.mirror.IdentityReplicationPolicy", "{topic}"),
        ("replication.policy.separator=_", "{edge}_{topic}"),
        ("replication.policy.separator=", "{edge}{topic}"),
        ("replication.policy.separator=\nsource.cluster.alias=", "{topic}"),
        ("source.cluster.alias=West_1", "West_1.{topic}"),
        ("replication.policy.separator=/", "{edge}.{topic}"),
        ("a->b.replication.policy.separator=-\nreplication.policy.separator=_", "{edge}-{topic}"),
    ],
)
def test_central_names_are_mirrormakers(more, central):
    """Whoever reads the central topics reads the same ones."""
    assert of(TWO + more).hubs[0].rules[0].central == central


def test_each_target_has_a_hub():
    """Three clusters, four flows, two of them into the same one."""
    found = of(
        "clusters=a,b,c\na.bootstrap.servers=a:1\nb.bootstrap.servers=b:1\nc.bootstrap.servers=c:1\n"
        "a->c.enabled=true\nb->c.enabled=true\na->b.enabled=true\nc->a.enabled=false\n"
        "topics=orders\na->b.topics=bills\nb->c.topics=orders\n"
    )
    assert [(hub.target, list(hub.edges)) for hub in found.hubs] == [("c", ["a", "b"]), ("b", ["a"])]
    first, second = found.hubs
    assert [(rule.match, rule.exclude, rule.edges) for rule in first.rules] == [
        ("orders", "", ("a",)),
        ("orders", r"hub-b\..*", ("b",)),
    ]
    assert [(rule.match, rule.edges) for rule in second.rules] == [("bills", ("a",))]
    assert set(found.variables) == set()


def test_edge_names_are_unique():
    """MirrorMaker tells `A` from `a`, and knows dots and underscores; an edge does not."""
    found = of(
        "clusters=A,a,a_b,a.b,T\n"
        + "".join(f"{one}.bootstrap.servers=h{number}:1\n" for number, one in enumerate(["A", "a", "a_b", "a.b", "T"]))
        + "".join(f"{one}->T.enabled=true\n" for one in ["A", "a", "a_b", "a.b"])
    )
    assert list(found.hubs[0].edges) == ["a", "a-2", "a-b", "a-b-2"]
    assert {rule.central for rule in found.hubs[0].rules} == {"A.{topic}", "a.{topic}", "a_b.{topic}", "a.b.{topic}"}
    assert found.hubs[0].edges["a-b-2"].bootstrap_servers == "h3:1"


@pytest.mark.parametrize(
    ("pattern", "match", "said"),
    [
        ("orders,(?!x).*", "orders", "a look-ahead"),
        ("a(?<=x)", "", "a look-behind"),
        ("(a)\\\\1", "", "a back-reference"),
        ("a++,b", "b", "a possessive quantifier"),
        ("[a-z&&[^b]],c", "c", "an intersection"),
        ("(,c", "c", "RE2 refuses"),
        ("[${env:X},c", "c", "RE2 refuses"),
        ("${env:X}.*,(?!c)", "${X}.*", "a look-ahead"),
        ("orders,private\\\\Q", "orders", "a quote"),
    ],
)
def test_what_re2_does_not_have_is_named(pattern, match, said):
    """The part is left out, and the rest is taken."""
    found = of(f"{TWO}topics={pattern}")
    assert [rule.match for rule in found.hubs[0].rules] == ([match] if match else [])
    (outcome,) = [one for one in found.outcomes if one.key == "topics"]
    assert said in outcome.why
    assert outcome.kind is (KeyKind.MAPPED if match else KeyKind.NOT_APPLICABLE)


def test_an_exclusion_that_is_lost_is_told():
    """More topics are read than before, and a person has to know."""
    assert any("passed over" in remark for remark in of(f"{TWO}topics.exclude=a,(?!x).*").remarks)
    assert of(f"{TWO}topics.exclude=a").remarks == []


def client(lines, cluster="a"):
    """The `client:` block of an edge with these settings."""
    return of(TWO + "".join(f"{cluster}.{line}\n" for line in lines)).hubs[0].edges["a"].client


def test_a_token_server():
    """Java's OAUTHBEARER is librdkafka's oidc; the client's id and secret are references."""
    assert client(
        [
            "security.protocol=SASL_SSL",
            "sasl.mechanism=OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url=https://idp.example/token",
            "sasl.login.callback.handler.class=org.apache.kafka.OAuthBearerLoginCallbackHandler",
            'sasl.jaas.config=org.x.OAuthBearerLoginModule required clientId="c" clientSecret="planted-c" scope="s";',
        ]
    ) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "env:A_SASL_OAUTHBEARER_CLIENT_ID",
        "sasl.oauthbearer.client.secret": "env:A_SASL_OAUTHBEARER_CLIENT_SECRET",
        "sasl.oauthbearer.scope": "s",
        "sasl.oauthbearer.token.endpoint.url": "https://idp.example/token",
    }


def test_certificates_in_pem():
    """A file with key and certificate, and authorities, need no command."""
    lines = [
        "security.protocol=SSL",
        "ssl.truststore.type=PEM",
        "ssl.truststore.location=/etc/ca.pem",
        "ssl.keystore.type=PEM",
        "ssl.keystore.location=/etc/me.pem",
        "ssl.key.password=planted-key",
    ]
    found = of(TWO + "".join(f"a.{line}\n" for line in lines))
    assert found.commands == ()
    assert found.hubs[0].edges["a"].client == {
        "security.protocol": "SSL",
        "ssl.ca.location": "/etc/ca.pem",
        "ssl.certificate.location": "/etc/me.pem",
        "ssl.key.location": "/etc/me.pem",
        "ssl.key.password": "env:A_SSL_KEY_PASSWORD",
    }


@pytest.mark.parametrize(
    ("value", "reference"),
    [
        ("${env:NAME}", "env:NAME"),
        ("${NAME}", "env:NAME"),
        ("${directory:/run/secrets:key}", "file:/run/secrets/key"),
        ("${directory:/run/secrets/:key.pem}", "file:/run/secrets/key.pem"),
        ("${directory:/run/secrets:key:planted}", "env:A_SSL_KEYSTORE_PASSWORD"),
        ("${directory:/run/my secrets:key}", "env:A_SSL_KEYSTORE_PASSWORD"),
        ("${file:/etc/x.properties:key}", "env:A_SSL_KEYSTORE_PASSWORD"),
        ("${secrets:kafka/user:key}", "env:A_SSL_KEYSTORE_PASSWORD"),
        ("planted-plain", "env:A_SSL_KEYSTORE_PASSWORD"),
        ("x${env:NAME}", "env:A_SSL_KEYSTORE_PASSWORD"),
    ],
)
def test_a_secret_becomes_a_reference(value, reference):
    """Whatever it was: an expression of a provider, or the secret itself."""
    found = client(["security.protocol=SSL", "ssl.keystore.location=a.p12", f"ssl.keystore.password={value}"])
    assert found["ssl.keystore.password"] == reference


@pytest.mark.parametrize(
    "value",
    ["${env:PW:-%s}", "${env:PW:%s}", "${PW:-%s}", "${PW:-a:%s}", "${PW:-%s:x}", "${PW:%s:x}", "${PW:?%s}",
     "${PW:=%s:q}", "${file:-a:%s}", "${own:%s:k}", "${file:/a:-%s}"],
)  # fmt: skip
def test_a_default_in_an_expression_is_a_secret_like_any_other(value):
    """Shells and templates know `${NAME:-default}`, Kafka does not: what stands there is said by nobody."""
    found = of(f"{TWO}a.security.protocol=SASL_SSL\na.sasl.mechanism=PLAIN\na.sasl.password={value % PLANTED}\n")
    assert PLANTED not in json.dumps(
        [*map(hub_text, found.hubs), found.outcomes, dict(found.variables), found.commands]
    )


PROVIDERS = ("file", "directory", "secrets", "configmaps", "vault", "aws", "gcp", "azure")


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(
    "body",
    ["a:b:%s", "a:b:c:%s", "a:b|%s", "a:b,%s", "a:b %s", "a:b?default=%s", "a:b=%s", "a?%s:b", "https://root:%s@vault:b",
     "https://root@%s:b", "a//%s b:c", "%s", "a:-%s"],
)  # fmt: skip
@pytest.mark.parametrize("setting", ["sasl.password", "sasl.oauthbearer.scope", "client.id"])
def test_of_a_reference_only_plain_names_are_shown(provider, body, setting):
    """Kafka ends the path at the first colon, and a provider may read a default or a credential in the rest."""
    lines = ["security.protocol=SASL_SSL", "sasl.mechanism=OAUTHBEARER"]
    lines += [f"{setting}=${{{provider}:{body % PLANTED}}}"]
    found = of(TWO + "".join(f"a.{line}\n" for line in lines))
    assert len(found.variables) > 1
    assert PLANTED not in json.dumps(
        [*map(hub_text, found.hubs), found.outcomes, dict(found.variables), found.commands]
    )


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("${file:/etc/x.properties:pass.word}", "what `pass.word` of file /etc/x.properties holds (mm2.properties:5)"),
        ("${file:/etc/x.properties:a b}", "what mm2.properties:5 (ssl.key.password) holds"),
        ("${secrets:kafka/user:key}", "what secrets gives for mm2.properties:5 (ssl.key.password)"),
        ("planted", "what mm2.properties:5 (ssl.key.password) holds"),
    ],
)
def test_a_variable_is_described_by_where_its_value_stands(value, said):
    """A file with its key, another provider by its name, and always the place in MirrorMaker's file."""
    found = of(f"{TWO}a.ssl.key.password={value}\na.security.protocol=SSL\n")
    assert said in found.variables["A_SSL_KEY_PASSWORD"]


@pytest.mark.parametrize("kind", ["PRIVATE KEY", "RSA PRIVATE KEY", "ENCRYPTED PRIVATE KEY"])
@pytest.mark.parametrize(
    ("name", "own"),
    [("ssl.keystore.certificate.chain", "ssl.certificate.pem"), ("ssl.truststore.certificates", "ssl.ca.pem")],
)
def test_a_private_key_beside_a_certificate_is_a_secret(kind, name, own):
    """PEM holds both in one text; a certificate alone is none."""
    certificate = r"-----BEGIN CERTIFICATE-----\nAAA\n-----END CERTIFICATE-----"
    key = rf"-----BEGIN {kind}-----\n{PLANTED}\n-----END {kind}-----"
    lines = ["security.protocol=SSL", f"{name}={certificate}\\n{key}"]
    assert client(lines)[own] == f"env:{variable_name('A', own)}"
    assert "BEGIN CERTIFICATE" in client(["security.protocol=SSL", f"{name}={certificate}"])[own]


def test_text_that_looks_like_an_expression_is_read_literally():
    """In `hub.yaml`, `${` is filled in from the environment."""
    assert client(["client.id=a${b"])["client.id"] == "a$${b"


def test_what_is_never_used_is_said():
    """SASL beside PLAINTEXT, and a store beside it."""
    found = of(f"{TWO}a.sasl.mechanism=PLAIN\na.ssl.truststore.location=x.jks\n")
    told = fates(found)
    assert told["a.sasl.mechanism"][1].startswith("nobody signs in")
    assert told["a.ssl.truststore.location"][1].startswith("nothing is encrypted")
    assert found.hubs[0].edges["a"].client == {}


def test_numbers_that_librdkafka_refuses_are_left_out():
    """Java takes -1 for the system's default."""
    told = fates(of(f"{TWO}b.admin.send.buffer.bytes=9\n"))
    assert told["b.admin.send.buffer.bytes"] == ("mapped", "central.admin.socket.send.buffer.bytes")
    told = fates(of(f"{TWO}a.receive.buffer.bytes=-1\na.consumer.fetch.max.wait.ms=300\na.request.timeout.ms=1e9\n"))
    assert told["a.receive.buffer.bytes"][0] == "not applicable"
    assert told["a.consumer.fetch.max.wait.ms"] == ("mapped", "edges.a.consumer.fetch.wait.max.ms")
    assert told["a.request.timeout.ms"][0] == "not applicable"


def test_what_is_written_twice_is_told():
    """The last one counts, as in Java."""
    found = of(f"{TWO}topics=x\ntopics=y\n")
    assert found.hubs[0].rules[0].match == "y"
    assert [(one.kind, one.why) for one in found.outcomes if one.key == "topics"] == [
        (KeyKind.NOT_APPLICABLE, "is written again in line 6, which wins"),
        (KeyKind.MAPPED, ""),
    ]


def test_a_key_that_nobody_knows_is_told_with_what_was_meant():
    """Of MirrorMaker's own, and of clients'."""
    told = fates(of(f"{TWO}replication.factr=3\na.securty.protocol=SSL\nfrob.nicate=1\n"))
    assert fates(of(f"{TWO}replication.policy.seperator=_\n"))["replication.policy.seperator"] == (
        "unknown",
        "did you mean `replication.policy.separator`?",
    )
    assert told["replication.factr"] == ("unknown", "did you mean `replication.factor`?")
    assert told["a.securty.protocol"] == ("unknown", "did you mean `security.protocol`?")
    assert told["frob.nicate"] == ("unknown", "")


def test_a_piece_of_a_secret_on_a_line_of_its_own_is_not_shown():
    """A broken continuation makes keys out of a password."""
    lines = f'a.sasl.jaas.config=X required\n{PLANTED}pass"word;\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQ\n'
    shown = [one.key for one in of(TWO + lines + f"{PLANTED[:4]} and more\n").outcomes]
    assert shown[-3:] == ["(no key)", "(no key)", "(no key)"]
    for line in (f"{PLANTED[:4]}.word", "eyJhbGciOi.eyJzdWIi.SflKxw", "eyJhbGciOi.eyJzdWIi=x", "S3cr.et and more"):
        assert of(f"{TWO}{line}\nfrob.nicate=1\n").outcomes[-2].key == "(no key)"


def test_what_is_said_of_groups_becomes_offsets():
    """Switches, patterns and the interval; nothing said, or all of it off, is no block."""
    said = "a->b.groups=billing, app-.*, (?=x)y\nb.groups.exclude=app-test\nsync.group.offsets.enabled=true\n"
    found = of(f"{TWO}{said}emit.checkpoints.interval.seconds=5\ngroups.exclude=tmp-.*\n")
    text = hub_text(found.hubs[0])
    block = yaml.safe_load(text)["offsets"]
    assert block == {"sync_groups": True, "groups": ["billing|app-.*"], "exclude": ["tmp-.*"], "interval": "5s"}
    assert "one part is left out" in next(one.why for one in found.outcomes if one.key == "a->b.groups")
    off = "emit.checkpoints.enabled=false\n"
    for nothing in ("", off, f"{off}sync.group.offsets.enabled=no\n"):
        assert "offsets" not in yaml.safe_load(hub_text(of(TWO + nothing).hubs[0]))
    only = of(f"{TWO}emit.checkpoints.enabled=true\n")
    assert yaml.safe_load(hub_text(only.hubs[0]))["offsets"] == {"checkpoints": True, "sync_groups": False}


def test_connectors_of_one_flow_are_read_together():
    """The connector of checkpoints adds nothing about topics."""
    ends = [
        ("source.cluster.alias", "a"),
        ("target.cluster.alias", "b"),
        ("source.cluster.bootstrap.servers", "a:1"),
        ("target.cluster.bootstrap.servers", "b:1"),
    ]
    source = connector([("connector.class", "MirrorSourceConnector"), ("topics", "x"), *ends])
    checkpoint = connector([("connector.class", "MirrorCheckpointConnector"), ("topics", "y"), *ends], "cpc")
    found = of(checkpoint, source, name=".json")
    assert [rule.match for rule in found.hubs[0].rules] == ["x"]
    assert [(one.file, one.why) for one in found.outcomes if one.key == "topics"] == [
        (".json", "the connector that copies records decides this"),
        ("1.json", ""),
    ]


def test_a_worker_s_file_is_passed_over():
    """Connect's own settings say nothing about a flow."""
    ends = [(f"{side}.cluster.bootstrap.servers", f"{side}:1") for side in ("source", "target")]
    text = connector([("connector.class", "MirrorSourceConnector"), *ends])
    found = of(text, "bootstrap.servers=b:1\noffset.storage.topic=o\ngroup.id=g\n", name=".json")
    assert {one.why for one in found.outcomes if one.file == "1.json"} == {
        "of Connect's workers, which the hub does not have"
    }


def test_a_whitelist_of_the_first_generation():
    """Commas are alternatives, quotes are the shell's; `smallest` is the old word for earliest."""
    consumer, producer = (
        "bootstrap.servers=a:1\ngroup.id=g\nauto.offset.reset=smallest",
        "bootstrap.servers=b:1\nacks=1",
    )
    found = translate(
        read([("consumer", consumer.encode()), ("producer", producer.encode()), ("--whitelist", b'whitelist="a.*,b"')])
    )
    (rule,) = found.hubs[0].rules
    assert (rule.match, rule.start, rule.central) == ("a.*|b", "earliest", "{topic}")


# --- any


NAMES = st.sampled_from(
    [
        *(name.replace("*", "x") for one in (*settings.MAPPED, *settings.NOT_APPLICABLE) for name in one.names.split()),
        *RENAMED,
        *REASONS,
        "security.protocol",
        "sasl.mechanism",
        "sasl.jaas.config",
        "ssl.truststore.location",
        "ssl.truststore.type",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.key.password",
        "ssl.keystore.key",
        "ssl.endpoint.identification.algorithm",
        "sasl.oauthbearer.token.endpoint.url",
        "nobody.knows.this",
    ]
).filter(lambda name: name not in ("clusters", "enabled"))
PREFIXES = [
    "",
    "a.",
    "b.",
    "a->b.",
    "b->a.",
    "x->b.",
    "consumer.",
    "producer.",
    "a.consumer.",
    "b.producer.",
    "b.admin.",
]
PREFIXES += ["a->b.consumer.", "a->b.producer.override.", "a->b.source.admin.", "a->b.target.producer.", "a->b.admin."]
WORDS = "1 true false SASL_SSL SSL SASL_PLAINTEXT PLAIN OAUTHBEARER AWS_MSK_IAM PEM latest h:1 a.*,(?!b) ${env:X} _"
LOGIN = f'org.x.PlainLoginModule required username="{PLANTED}u" password="{PLANTED}p";'
VALUES = st.sampled_from(
    [
        *WORDS.split(),
        "",
        "${",
        "${file:/p:k}",
        "\x1b[2J\u202e",
        "org.x.IdentityReplicationPolicy",
        LOGIN,
        f"{PLANTED}v",
    ]
)
DRAWN = st.lists(st.tuples(st.sampled_from(PREFIXES), NAMES, VALUES), max_size=25)
SECRET = re.compile(r"passw|jaas|keystore\.key|secret")


@given(DRAWN)
def test_no_key_is_lost_and_no_secret_shown(drawn):
    """Each key of any file has one outcome; what is written holds only what librdkafka may be told."""
    pairs = [(prefix + name, value) for prefix, name, value in drawn if SECRET.search(name) or PLANTED not in value]
    found = of(TWO + properties(pairs))
    assert len(found.outcomes) == 4 + len(pairs)
    assert all(one.to if one.kind is KeyKind.MAPPED else not one.to for one in found.outcomes)
    assert all(one.why for one in found.outcomes if one.kind is KeyKind.NOT_APPLICABLE)
    (hub,) = found.hubs
    for cluster in (hub.central, *hub.edges.values()):
        assert {*cluster.client, *cluster.consumer, *cluster.producer, *cluster.admin} - {"insecure"} <= ALLOWED
    everything = json.dumps([hub_text(hub), found.outcomes, dict(found.variables), found.commands, found.remarks])
    assert PLANTED not in everything
    assert all(one.isprintable() for one in hub_text(hub).split("\n"))


def told_once(found, count) -> None:
    """Each key has an outcome, with a key of `hub.yaml` or a reason."""
    assert len(found.outcomes) == count
    assert all(one.to if one.kind is KeyKind.MAPPED else not one.to for one in found.outcomes)
    assert all(one.why for one in found.outcomes if one.kind is KeyKind.NOT_APPLICABLE)
    assert PLANTED not in json.dumps([*map(hub_text, found.hubs), found.outcomes, found.variables, found.commands])


SIDES = [
    "",
    "source.cluster.",
    "target.cluster.",
    "source.",
    "target.",
    "consumer.override.",
    "producer.override.",
    "admin.",
]


@given(st.dictionaries(st.tuples(st.sampled_from(SIDES), NAMES).map("".join), VALUES, max_size=20))
def test_no_key_of_a_connector_is_lost(drawn):
    """As it is of a dedicated file."""
    config = {name: value for name, value in drawn.items() if SECRET.search(name) or PLANTED not in value}
    config |= {"connector.class": "MirrorSourceConnector"}
    told_once(of(connector(config.items()), name=".json"), len(config))


@given(st.dictionaries(NAMES, VALUES, max_size=12), st.dictionaries(NAMES, VALUES, max_size=12))
def test_no_key_of_the_first_generation_is_lost(consumer, producer):
    """Of neither file."""
    files = [
        {name: value for name, value in drawn.items() if SECRET.search(name) or PLANTED not in value}
        for drawn in (consumer, producer)
    ]
    ours = ["group.id=g\nmax.poll.records=1\nconsumer.timeout.ms=1\n", "acks=1\nbatch.size=1\nlinger.ms=1\n"]
    told = ["group.id max.poll.records consumer.timeout.ms", "acks batch.size linger.ms"]
    files = [{k: v for k, v in file.items() if k not in names.split()} for file, names in zip(files, told, strict=True)]
    texts = [first + properties(file.items()) for first, file in zip(ours, files, strict=True)]
    try:
        found = translate(read([("consumer", texts[0].encode()), ("producer", texts[1].encode())]))
    except ConfigError:  # drawn names can make a connector, a worker or another consumer of either file
        return
    told_once(found, 6 + sum(map(len, files)))


FIELDS = ["alias", "bootstrapServers", "tls", "authentication", "config", "type", "trustedCertificates", "secretName"]
FIELDS += ["certificateAndKey", "passwordSecret", "username", "password", "clusters", "mirrors", "source", "target"]
FIELDS += ["sourceCluster", "targetCluster", "topicsPattern", "sourceConnector", "heartbeatConnector", "tasksMax"]
SCALARS = st.sampled_from(
    ["a", "b", "tls", "scram-sha-512", "oauth", "custom", "gssapi", "h:1", "", True, 3, None, ".*"]
)
DOCUMENTS = st.recursive(
    SCALARS,
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.sampled_from(FIELDS) | NAMES, below, max_size=5),
    max_leaves=25,
)
FLOW = {"sourceCluster": "a", "targetCluster": "b", "sourceConnector": {}}


@given(
    st.lists(DOCUMENTS, max_size=2),
    st.lists(DOCUMENTS, max_size=2),
    st.dictionaries(st.sampled_from(FIELDS), DOCUMENTS),
)
def test_no_leaf_of_a_document_is_lost(clusters, mirrors, more):
    """Of whatever shape."""
    ends = [{"alias": "a", "bootstrapServers": "a:1"}, {"alias": "b", "bootstrapServers": "b:1"}]
    spec = {**more, "clusters": [*ends, *clusters], "mirrors": [FLOW, *mirrors]}
    document = {"kind": "KafkaMirrorMaker2", "spec": spec}
    told_once(of(json.dumps(document), name=".yaml"), leaves(document))


@pytest.mark.parametrize(
    ("cluster", "client"),
    [
        ({"tls": {}}, {"security.protocol": "SSL"}),
        ({"tls": {"trustedCertificates": []}}, {"security.protocol": "SSL"}),
        ({"authentication": {"type": "gssapi"}}, {}),
        (
            {
                "authentication": {
                    "type": "custom",
                    "sasl": True,
                    "config": {"sasl.mechanism": "PLAIN", "security.protocol": "SASL_SSL"},
                }
            },
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "env:A_SASL_USERNAME",
                "sasl.password": "env:A_SASL_PASSWORD",
            },
        ),
        (
            {
                "tls": {},
                "authentication": {"type": "oauth", "clientId": "c", "tokenEndpointUri": "https://u:planted-p@h"},
            },
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.client.id": "c",
                "sasl.oauthbearer.client.secret": "env:A_SASL_OAUTHBEARER_CLIENT_SECRET",
                "sasl.oauthbearer.token.endpoint.url": "${A_SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL}",
            },
        ),
    ],
)
def test_how_strimzi_signs_in(cluster, client):
    """TLS without an authority of its own, other ways, and an address that holds a password."""
    ends = [{"alias": "a", "bootstrapServers": "a:1", **cluster}, {"alias": "b", "bootstrapServers": "b:1"}]
    text = json.dumps({"kind": "KafkaMirrorMaker2", "spec": {"clusters": ends, "mirrors": [FLOW]}})
    found = of(text, name=".yaml")
    assert found.hubs[0].edges["a"].client == client
    assert PLANTED not in hub_text(found.hubs[0])


def test_a_name_stands_in_one_row():
    """A setting is mapped, or it is not."""
    names = [name for one in (*settings.MAPPED, *settings.NOT_APPLICABLE) for name in one.names.split()]
    assert sorted(names) == sorted(set(names))


def test_what_copies_nothing_is_refused():
    """No flow is enabled."""
    with pytest.raises(ConfigError, match="copies nothing"):
        of(TWO.replace("enabled=true", "enabled=false"))


# --- what an attack found


def two_named(first, second, of_first, of_second):
    """The clients of two clusters that sign in, by name and password."""
    login = 'org.x.PlainLoginModule required username="{0}" password="{0}";'
    lines = [f"clusters={first},{second},t\nsecurity.protocol=SASL_SSL\nsasl.mechanism=PLAIN"]
    lines += [f"{one}.bootstrap.servers={one}:1\n{one}->t.enabled=true" for one in (first, second)]
    lines += [f"{first}.sasl.jaas.config={login.format(of_first)}", f"{second}.sasl.jaas.config={of_second}"]
    return of("\n".join(lines).replace(of_second, login.format(of_second)))


@pytest.mark.parametrize(("first", "second"), [("a-b", "a--b"), ("1", "cluster-1")])
def test_two_secrets_never_have_one_variable(first, second):
    """Where the names of two clusters make one name of a variable, the second has a number."""
    found = two_named(first, second, "planted-1", "planted-2")
    passwords = [edge.client["sasl.password"] for edge in found.hubs[0].edges.values()]
    assert len(set(passwords)) == 2
    assert {one.removeprefix("env:") for one in passwords} <= found.variables.keys()


def test_a_cluster_that_is_read_and_written_by_two_users_has_two_passwords():
    """Each hub has the one of its flow."""
    login = 'x.PlainLoginModule required username="u" password="{}";'
    found = of(
        f"{TWO}b->a.enabled=true\nsecurity.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n"
        f"a->b.source.cluster.sasl.jaas.config={login.format('planted-reader')}\n"
        f"b->a.target.cluster.sasl.jaas.config={login.format('planted-writer')}\n"
    )
    into_b, into_a = found.hubs
    assert into_b.edges["a"].client["sasl.password"] != into_a.central.client["sasl.password"]
    assert into_b.edges["a"].client["sasl.username"] == into_a.central.client["sasl.username"]


def test_a_secret_s_variable_is_none_that_the_file_names():
    """The name that would be made is taken by an expression of another setting."""
    login = 'x.PlainLoginModule required username="${env:A_SASL_PASSWORD}" password="planted";'
    found = client(["security.protocol=SASL_SSL", "sasl.mechanism=PLAIN", f"sasl.jaas.config={login}"])
    assert found["sasl.username"] == "${A_SASL_PASSWORD}"
    assert found["sasl.password"] == "env:A_SASL_PASSWORD_2"


@pytest.mark.parametrize("line", [PLANTED, f"{PLANTED}==", f"{PLANTED}.abc", f"a.{PLANTED}="])
def test_a_word_alone_on_a_line_is_not_shown(line):
    """The last line of a key in PEM, a password behind a lost continuation; also where it is written twice."""
    for text in (f"{TWO}{line}\n", f"{TWO}{line}\n{line}\n"):
        assert not [one.key for one in of(text).outcomes if PLANTED in one.key]
    worker = f"plugin.path=x\n{line}\n"
    assert not [one.key for one in of(TWO, worker).outcomes if PLANTED in one.key]


@pytest.mark.parametrize(
    "text",
    ["https://u:planted@idp/token", "https://idp/token?secret=planted", "${env:HOST}/token", "https://idp/t;secret=planted",
     "https://idp/t#planted", "https://idp/t&secret=planted", "https://idp/%3Fsecret%3Dplanted", "https://idp/planted:p"],
)  # fmt: skip
def test_an_address_with_a_secret_or_without_its_beginning_is_a_variable(text):
    """Of the whole; what the file holds is told by its place."""
    found = client(
        ["security.protocol=SASL_SSL", "sasl.mechanism=OAUTHBEARER", f"sasl.oauthbearer.token.endpoint.url={text}"]
    )
    assert found["sasl.oauthbearer.token.endpoint.url"] == "${A_SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL}"


def test_extensions_of_a_token_are_a_variable():
    """They hold whatever a server asks for."""
    found = client(
        ["security.protocol=SASL_SSL", "sasl.mechanism=OAUTHBEARER", "sasl.oauthbearer.extensions=x=planted"]
    )
    assert found["sasl.oauthbearer.extensions"] == "${A_SASL_OAUTHBEARER_EXTENSIONS}"


def test_strimzis_options_of_a_login_module():
    """Its callback handler has names of its own."""
    login = 'x.OAuthBearerLoginModule required oauth.client.id="c" oauth.client.secret="planted-s"'
    found = client(
        [
            "security.protocol=SASL_SSL",
            "sasl.mechanism=OAUTHBEARER",
            f'sasl.jaas.config={login} oauth.scope="s" oauth.token.endpoint.uri="https://idp/token";',
        ]
    )
    assert found["sasl.oauthbearer.token.endpoint.url"] == "https://idp/token"
    assert found["sasl.oauthbearer.scope"] == "s"
    assert found["sasl.oauthbearer.client.secret"] == "env:A_SASL_OAUTHBEARER_CLIENT_SECRET"


@pytest.mark.parametrize(
    ("jaas", "said"),
    [
        (
            'IAMLoginModule required awsRoleArn="r" awsRoleExternalId="x" awsDebugCreds=true pass word="q";',
            f"{AWS}; without `awsDebugCreds`, `awsRoleExternalId`, 1 other option, which the hub does not have",
        ),
        ('IAMLoginModule required awsProfileName="p";', AWS),
        ('Krb5LoginModule required keyTab="k" useKeyTab=true;', "without `useKeyTab`, which the hub does not have"),
        ('ScramLoginModule required username="u" password="p";', ""),
    ],
)
def test_options_of_a_login_module_that_are_lost_are_named(jaas, said):
    """By names that login modules have; any other word may be a piece of a password."""
    kinds = {"IAM": "AWS_MSK_IAM", "Krb": "GSSAPI", "Scr": "SCRAM-SHA-512"}
    lines = f"a.security.protocol=SASL_SSL\na.sasl.mechanism={kinds[jaas[:3]]}\na.sasl.jaas.config=x.{jaas}\n"
    (found,) = [one for one in of(TWO + lines).outcomes if one.key == "a.sasl.jaas.config"]
    assert (found.kind, found.why) == (KeyKind.MAPPED, said)


@pytest.mark.parametrize(("line", "told"), [("pause: true", True), ("state: stopped", True), ("state: running", False)])
def test_a_connector_that_stands_still_is_told(line, told):
    """The hub would read its edge at once."""
    text = (
        "kind: KafkaMirrorMaker2\nspec:\n  clusters: [{alias: a, bootstrapServers: 'a:1'}, "
        "{alias: b, bootstrapServers: 'b:1'}]\n  mirrors:\n  - sourceCluster: a\n    targetCluster: b\n"
        f"    sourceConnector:\n      {line}\n"
    )
    key = f"spec.mirrors[0].sourceConnector.{line.partition(':')[0]}"
    assert ("stands still" in fates(of(text))[key][1]) is told


def test_a_user_who_is_an_expression_in_part_is_a_variable():
    """The other part is who signs in; a whole expression names a variable already."""
    lines = ["security.protocol=SASL_SSL", "sasl.mechanism=PLAIN"]
    for user, reference in (("planted${env:X}", "env:A_SASL_USERNAME"), ("${env:X}", "${X}")):
        login = f'x.PlainLoginModule required username="{user}" password="p";'
        assert client([*lines, f"sasl.jaas.config={login}"])["sasl.username"] == reference


def test_what_an_unknown_key_means_is_guessed_once(monkeypatch):
    """Not for each cluster of each hub anew: a guess takes a while."""
    asked = []
    monkeypatch.setattr(sign_in, "did_you_mean", lambda name, _: asked.append(name) or "")
    clusters = [f"c{number}" for number in range(6)]
    flows = "".join(f"{one}->{other}.enabled=true\n" for one in clusters for other in clusters if one != other)
    of(f"clusters={','.join(clusters)}\n{flows}security.protocol=SASL_SSL\nsasl.q1=x\nsasl.q2=x\n")
    assert sorted(asked) == ["sasl.q1", "sasl.q2"]


def test_an_expression_behind_a_dollar_sign_is_a_variable():
    """The hub would read it literally."""
    assert client(["client.id=a$${env:X}"])["client.id"] == "${A_CLIENT_ID}"


@pytest.mark.parametrize("clusters", [("hub", "b"), ("hub-2", "hub"), ("b", "hub")])
def test_a_hub_is_called_as_no_cluster_is(clusters):
    """Its own topics begin with its name, and those of a cluster with the cluster's."""
    source, target = clusters
    found = of(f"clusters={source},{target}\n{source}->{target}.enabled=true\n")
    assert found.hubs[0].name not in clusters


def test_enabled_without_a_flow_names_none():
    """And is not taken elsewhere."""
    assert fates(of(f"{TWO}enabled=true\n"))["enabled"][1].startswith("names no flow")


def test_a_connector_that_is_off_copies_nothing():
    """Neither of Connect's nor of Strimzi's; the other connectors' word is about themselves."""
    ends = {"source.cluster.alias": "a", "target.cluster.alias": "b"}
    on, off = ({"connector.class": "MirrorSourceConnector", **ends, "enabled": one} for one in ("true", "false"))
    beside = {"connector.class": "MirrorHeartbeatConnector", **ends, "enabled": "false"}
    with pytest.raises(ConfigError, match="copies nothing"):
        of(json.dumps(off))
    found = of(json.dumps([on, beside]))
    assert [(one.kind, one.to) for one in found.outcomes if one.key == "enabled"] == [
        (KeyKind.MAPPED, "edges, central"),
        (KeyKind.NOT_APPLICABLE, ""),
    ]
    spec = {
        "clusters": [{"alias": "a"}, {"alias": "b"}],
        "mirrors": [{"sourceCluster": "a", "targetCluster": "b", "sourceConnector": {"config": {"enabled": "false"}}}],
    }
    with pytest.raises(ConfigError, match="copies nothing"):
        of(json.dumps({"kind": "KafkaMirrorMaker2", "spec": spec}))


@pytest.mark.parametrize("pattern", ["[[:alpha:]]+", "x[[:digit:]-]"])
def test_a_class_of_posix_is_named(pattern):
    """Java reads its letters one by one, so that other topics would be copied."""
    (outcome,) = [one for one in of(f"{TWO}topics={pattern}\n").outcomes if one.key == "topics"]
    assert (outcome.kind, "[:…:]" in outcome.why) == (KeyKind.NOT_APPLICABLE, True)


# Of Apache Kafka 4.3 and 4.4, by `ConfigDef.names()`: those that no row of the tables had.
NEWER = (
    "bootstrap.controllers connector.plugin.version metric.names.formats share.acknowledgement.mode share.acquire.mode"
    " tasks.max.enforce transaction.two.phase.commit.enable internal.throw.on.fetch.stable.offset.unsupported"
)


@pytest.mark.parametrize("name", NEWER.split())
def test_a_setting_of_a_newer_release_is_named(name):
    """With the reason for which the hub does not have it."""
    assert fates(of(f"{TWO}{name}=x\n"))[name][0] == "not applicable"
