"""`aggregator init`: what it writes loads, opens nothing, and overwrites nothing. Real brokers are asked elsewhere."""

import json
import os
import pty
import re
import socket
import ssl
import subprocess
import sys
import threading
from contextlib import suppress
from datetime import date
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from aggregator.cli.draft import Draft, DraftEdge, hub_text, policy_text
from aggregator.cli.init import _proven, init, summary
from aggregator.cli.leaves import PolicyLeaf, leaves, value_leaves
from aggregator.cli.main import main
from aggregator.cli.terminal.clusters import SettingType, options_of
from aggregator.cli.topic_discovery import FoundTopic, is_replicable
from aggregator.config.load import load_config
from aggregator.errors import FatalError
from aggregator.privacy.fields.value_format import ValueFormat
from aggregator.privacy.operators.drop import Drop
from aggregator.privacy.policy.closed import closed_policy
from aggregator.privacy.policy.cross_check import read_policies
from aggregator.privacy.policy.file import load_policy
from aggregator.privacy.policy.rules import operator_names
from aggregator.schema.avro import parse
from aggregator.schema.registries import open_registry
from tests.authority import Authority

CENTRAL = ["--central", "127.0.0.1:1"]
EDGE = ["--edge", "eu=127.0.0.1:2"]
TWO = {"eu": DraftEdge("h:2", "directory:s"), "us": DraftEdge("h:3", "directory:t")}
BOOKING = {
    "type": "record",
    "name": "Booking",
    "fields": [
        {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "passenger", "confluent:tags": ["PII"], "type": {"type": "record", "name": "P", "fields": [
            {"name": "email", "type": ["null", "string"], "confluent:tags": ["PII.EMAIL"]},
            {"name": "next", "type": ["null", "P"]},
        ]}},
        {"name": "extras", "type": {"type": "map", "values": {"type": "array", "items": "long"}}},
        {"name": "either", "type": ["int", "string"]},
    ],
}  # fmt: skip


def test_a_listener_that_speaks_tls_is_told_so(tmp_path):
    """To a client without TLS it looks like a broker that does not answer; what to do is another thing."""
    certificate, key = Authority(tmp_path).issue("broker")
    encryption = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    encryption.load_cert_chain(certificate, key)
    with socket.create_server(("127.0.0.1", 0)) as server:
        over = threading.Event()
        server.settimeout(0.05)

        def serve():
            while not over.is_set():
                with suppress(OSError):
                    line, _ = server.accept()
                    line.settimeout(2)
                    with suppress(OSError), encryption.wrap_socket(line, server_side=True) as secured:
                        secured.recv(1)

        thread = threading.Thread(target=serve)
        thread.start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        where = ["--schemas", f"directory:{tmp_path}", "--output", str(tmp_path / "hub.yaml")]
        done = CliRunner().invoke(main, ["init", "--central", address, *EDGE, *where])
        over.set()
        thread.join()
    assert done.exit_code == 1
    assert f"{address} speaks TLS" in done.stderr
    assert "docs/connections.md" in done.stderr


def test_leaves_are_named_as_a_policy_names_them():
    """Records, arrays, maps with their keys, unions and recursion; tags are inherited."""
    assert leaves(parse(json.dumps(BOOKING))) == [
        PolicyLeaf("id", "uuid", frozenset()),
        PolicyLeaf("passenger.email", "string", frozenset({"PII", "PII.EMAIL"})),
        PolicyLeaf("extras.{key}", "map key", frozenset()),
        PolicyLeaf("extras.{}[]", "long", frozenset()),
        PolicyLeaf("either", "int", frozenset()),
        PolicyLeaf("either", "string", frozenset()),
    ]


def test_versions_of_a_schema_are_merged(tmp_path):
    """A field of any version is listed, once, with all its types and tags; an unreadable version is passed over."""
    registry = open_registry(f"directory:{tmp_path}")
    registry.register("orders-value", '{"type":"record","name":"O","fields":[{"name":"a","type":"int"}]}')
    registry.register(
        "orders-value",
        '{"type":"record","name":"O","fields":[{"name":"a","type":"long","confluent:tags":["PII"]},'
        '{"name":"b","type":"string"}]}',
    )
    assert value_leaves(registry, "orders") == (
        PolicyLeaf("a", "int or long", frozenset({"PII"})),
        PolicyLeaf("b", "string", frozenset()),
    )
    assert value_leaves(registry, "payments") is None
    assert value_leaves(None, "orders") is None


@pytest.mark.parametrize(
    ("topic", "wanted"),
    [
        ("orders", True),
        ("a.b", True),
        ("__consumer_offsets", False),
        (".x", False),
        ("mm2-offset-syncs.eu.internal", False),
        ("x-internal", False),
        ("x.replica", False),
        ("heartbeats", False),
    ],
)
def test_internal_topics_are_left_out(topic, wanted):
    """MirrorMaker 2's rule, and the heartbeats, which are a flow of their own."""
    assert is_replicable(topic) is wanted


TOPIC_NAMES = st.from_regex(r"[a-zA-Z0-9_-][a-zA-Z0-9._-]{0,20}", fullmatch=True).filter(is_replicable)
PATHS = st.sampled_from(["a", "a.b", "items[].sku", "attributes.{key}", "attributes.{}", "{key}", "[]", "*"])
LEAVES = st.lists(
    st.builds(
        PolicyLeaf,
        PATHS,
        st.sampled_from(["string", "int or long"]),
        st.frozensets(st.sampled_from(["PII", "a: b", '"', "#"])),
    ),
    max_size=5,
)
FOUND = st.lists(
    st.builds(
        FoundTopic,
        TOPIC_NAMES,
        st.sampled_from([("eu",), ("us",), ("eu", "us")]),
        st.booleans(),
        st.none() | LEAVES.map(tuple),
        st.sampled_from([None, *ValueFormat]),
        st.sampled_from(["", "a note: of \x1b[2J\nits records"]),
    ),
    max_size=4,
    unique_by=lambda topic: topic.name,
)


@given(FOUND)
@pytest.mark.slow
def test_whatever_is_found_the_two_files_load_and_open_nothing(tmp_path_factory, found):
    """The draft passes the loader, speaks of every topic at its edges, and keeps no field, key or header."""
    folder = tmp_path_factory.mktemp("init")
    draft = Draft("first", "h:1", TWO, found)
    (folder / "policies").mkdir()
    (folder / draft.policy_path).write_text(policy_text(draft), encoding="utf-8")
    (folder / "hub.yaml").write_text(hub_text(draft), encoding="utf-8")
    config = load_config(folder / "hub.yaml", {})
    policy = load_policy(folder / draft.policy_path)
    for topic in found:
        view = policy.view(topic.name)
        assert (view.keys, view.headers, view.fields, view.defaults) == ((Drop(),), (), (), (Drop(),))
        assert (view.value_format, view.values) == (topic.value_format or ValueFormat.AVRO, (Drop(),))
    assert set(policy.tags) == {tag for topic in found for leaf in topic.leaves or () for tag in leaf.tags}
    assert len(read_policies(config, date(2026, 11, 1))) == (1 if found else 0)
    assert {rule.edges for rule in config.topics} <= {None, ("eu",), ("us",)}
    assert sum(len(rule.match.split("|")) for rule in config.topics) == len(found)


def test_every_field_found_is_a_line_to_uncomment(tmp_path):
    """Uncommenting the fields without a tag gives a policy that keeps exactly these."""
    found = tuple(leaves(parse(json.dumps(BOOKING)))[:5])
    draft = Draft("first", "h:1", {"eu": TWO["eu"]}, [FoundTopic("bookings", ("eu",), True, found)])
    text = policy_text(draft)
    assert "compacted" in text
    assert "passenger.email    (string) is dropped by its tag PII, PII.EMAIL" in text
    path = tmp_path / "policy.yaml"
    path.write_text(
        "\n".join(line.replace("# ", "", 1) if ": keep    #" in line else line for line in text.splitlines())
    )
    kept = {name for name, rule in load_policy(path).view("bookings").fields if rule.operator == "keep"}
    assert kept == {"id", "extras.{key}", "extras.{}[]", "either"}


@pytest.mark.parametrize("existing", ["hub.yaml", "policies/hub.yaml"])
def test_nothing_is_overwritten(tmp_path, monkeypatch, existing):
    """A file that is there stays, and the message says so before any cluster is asked."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "policies").mkdir()
    (tmp_path / existing).write_text("mine")
    result = CliRunner().invoke(main, ["init", *CENTRAL, *EDGE])
    assert result.exit_code == 1
    assert f"{existing} is there already" in result.stderr
    assert (tmp_path / existing).read_text() == "mine"


USAGE = [
    pytest.param([*EDGE], "--central is missing", id="no central"),
    pytest.param([*CENTRAL], "--edge is missing", id="no edge"),
    pytest.param([*CENTRAL, *EDGE, *EDGE], "given twice", id="edge twice"),
    pytest.param([*CENTRAL, "--edge", "eu.west=h:1"], "name=host:port", id="edge name"),
    pytest.param([*CENTRAL, "--edge", "eu"], "name=host:port", id="edge without address"),
    pytest.param([*CENTRAL, "--edge", "eu=h"], "host:port", id="edge without port"),
    pytest.param(["--central", "h", *EDGE], "host:port", id="central without port"),
    pytest.param([*CENTRAL, *EDGE, "--hub", "a/b"], "letters", id="hub name"),
]


@pytest.mark.parametrize(("arguments", "words"), USAGE)
def test_usage_errors_are_told_without_a_prompt(tmp_path, monkeypatch, arguments, words):
    """Off a terminal nothing is asked: a missing or malformed option is a usage error."""
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(init, arguments)
    assert (result.exit_code, words in result.stderr) == (2, True), result.output
    assert list(tmp_path.iterdir()) == []


def test_a_registry_folder_must_be_there(tmp_path, monkeypatch):
    """A mistyped folder would look like a registry without schemas."""
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["init", *CENTRAL, *EDGE, "--schemas", "directory:nowhere"])
    assert result.exit_code == 1
    assert "there is no folder" in result.stderr


@pytest.mark.slow
def test_on_a_terminal_a_person_is_asked(tmp_path):
    """What the options left out is asked for on a terminal, and a wrong answer is asked for again."""
    ours, theirs = pty.openpty()
    code = "from aggregator.cli.main import main; main()"
    command = [sys.executable, "-c", code, "init", "--schemas", "directory:nowhere"]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=tmp_path) as started:
        os.close(theirs)
        os.write(ours, b"c\nc:9092\neu=e:9092\n")
        said = b""
        while b"next:" not in said:
            said += os.read(ours, 1000)
        assert started.wait(20) == 1
    os.close(ours)
    assert said.count(b"central cluster (host:port): ") == 2
    assert b"an edge (name=host:port): " in said
    assert b"there is no folder" in said


def test_connections_are_written_as_they_were_made(tmp_path):
    """References and paths, never a secret; the file lies elsewhere and still means the same."""
    registry = {"basic.auth.user.info": "env:REGISTRY_USER", "ssl.ca.location": "/etc/ca.pem"}
    client = {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "hub",
              "sasl.password": "file:/etc/hub/password"}  # fmt: skip
    edges = {
        "eu": DraftEdge("h:2", "https://registry.example", registry, client),
        "us": DraftEdge("h:3", "directory:t"),
    }
    (tmp_path / "hub.yaml").write_text(hub_text(Draft("first", "h:1", edges, [], client)), encoding="utf-8")
    config = load_config(tmp_path / "hub.yaml", {})
    edge = config.edges["eu"]
    assert edge.schemas == "https://registry.example"
    assert {name: str(value) for name, value in edge.schemas_client.items()} == registry
    assert {name: str(value) for name, value in edge.client.items()} == client
    assert {name: str(value) for name, value in config.central.client.items()} == client
    assert (config.edges["us"].schemas.endswith("/t"), config.edges["us"].client) == (True, {})


TOPICS = [
    FoundTopic("orders", ("eu", "us"), False, (), ValueFormat.AVRO),
    FoundTopic("log", ("eu", "us"), False, None, ValueFormat.TEXT),
    FoundTopic("images", ("eu", "us"), False, None, ValueFormat.BYTES),
    FoundTopic("events", ("eu",), False, (PolicyLeaf("a", "string", frozenset()),), ValueFormat.JSON),
    FoundTopic("flags", ("eu", "us"), True, (), ValueFormat.JSON),
    FoundTopic("profiles", ("eu", "us"), True, (), ValueFormat.AVRO),
    FoundTopic("new", ("eu", "us"), False, None, None, "; ".join(["its edges differ: avro, json, text"] * 6)),
]
LINE = 160  # letters that an editor shows


def test_each_kind_of_topic_has_a_rule_of_its_own(tmp_path):
    """Those that a table can hold, those that it cannot, and compacted ones, whose keys are dropped yet."""
    draft = Draft("first", "h:1", TWO, TOPICS)
    (tmp_path / "policies").mkdir()
    (tmp_path / draft.policy_path).write_text(policy_text(draft), encoding="utf-8")
    (tmp_path / "hub.yaml").write_text(hub_text(draft), encoding="utf-8")
    config = load_config(tmp_path / "hub.yaml", {})
    assert {rule.match: (rule.edges, rule.lake, dict(rule.central_config)) for rule in config.topics} == {
        "orders|new": (None, "{topic}", {}),
        "log|images": (None, None, {}),
        "events": (("eu",), None, {}),
        "flags": (None, None, {"cleanup.policy": "delete", "retention.ms": "-1"}),
        "profiles": (None, "{topic}", {"cleanup.policy": "delete", "retention.ms": "-1"}),
    }
    assert max(map(len, policy_text(draft).splitlines())) <= LINE
    (policy,) = read_policies(config, date(2026, 11, 1)).values()
    forms = {name: policy.view(name).value_format.value for name in ("orders", "log", "images", "events", "new")}
    assert forms == {"orders": "avro", "log": "text", "images": "bytes", "events": "json", "new": "avro"}
    opened = re.sub(r"    value: drop\n    # (value: \{(?:scrub_text|keep): .*)", r"    \1", policy_text(draft))
    path = tmp_path / "opened.yaml"
    path.write_text(opened.replace('"…"', "why").replace("owner: …", "owner: dpo"), encoding="utf-8")
    opened_policy = load_policy(path)
    opened_rules = [rule for name in ("log", "images") for rule in opened_policy.view(name).values]
    assert [rule.operator for rule in opened_rules] == ["scrub_text", "keep"]


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("basic.auth.user.info=joe:hunter2", "is a secret: write a reference"),
        ("acks=1", "is not known"),
        ("ssl.ca.location", "a setting is name=value"),
        ("us:ssl.ca.location=a", "--schemas-client us:…: no cluster has this name; there are eu"),
    ],
)
def test_settings_of_a_registry_that_cannot_be_used_are_usage_errors(setting, told):
    """Before anybody is asked, and without a secret in the answer."""
    result = CliRunner().invoke(init, [*CENTRAL, *EDGE, "--schemas", "https://r.example", "--schemas-client", setting])
    assert result.exit_code == 2
    assert told in result.output
    assert "hunter2" not in result.output


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--client", "sasl.password=hunter2"], "sasl.password is a secret: write a reference"),
        (["--client", "eu:security.protocl=SSL"], "did you mean `security.protocol`?"),
        (["--client", "us:security.protocol=SSL"], "--client us:…: no cluster has this name; there are central, eu"),
        (["--client", "security.protocol"], "a setting is name=value"),
        (["--client", "security.protocol=SASL_PLAINTEXT"], "insecure"),
        (["--schemas", "us=directory:x"], "--schemas us=…: no edge has this name; there are eu"),
        (["--schemas", "directory:y", "--schemas", "directory:x"], "two registries"),
        (["--edge", "us=h:1", "--schemas", "eu=directory:x"], "--schemas us=… is missing"),
        (["--edge", "central=h:1"], "no edge can be called central"),
    ],
)
def test_settings_of_a_cluster_that_cannot_be_used_are_usage_errors(arguments, told):
    """Before anybody is asked, by the configuration's own rules, and without a secret in the answer."""
    result = CliRunner().invoke(init, [*CENTRAL, *EDGE, *arguments])
    assert result.exit_code == 2
    assert told in " ".join(result.output.split())
    assert "hunter2" not in result.output


def test_of_a_setting_for_all_and_one_for_an_edge_the_edges_own_wins():
    """Central's likewise; what nobody said of a cluster is not there."""
    settings = [SettingType().convert(one, None, None) for one in ("eu:a=1", "a=2", "central:b=c:d=e", "b.location=x")]
    assert options_of("--client", "eu", settings, ["central", "eu"]) == {"a": "1", "b.location": f"{Path.cwd()}/x"}
    of_central = options_of("--client", "central", settings, ["central", "eu"])
    assert of_central == {"a": "2", "b": "c:d=e", "b.location": f"{Path.cwd()}/x"}


def test_the_policies_of_init_and_import_begin_alike():
    """One text says what the operators are and that nothing passes."""
    head = closed_policy("eu", ["open some."])
    assert head[0] == "# Nothing passes yet: open some."
    assert head[-3:] == ['policy: "eu"', "version: 1", "default: drop"]
    assert all(len(line) <= 120 and line.startswith("#") for line in head[:-3])
    assert all(any(name in line for line in head) for name in operator_names())


def test_a_rule_speaks_of_a_hundred_topics_at_most(tmp_path):
    """RE2 takes no pattern of ten thousand long names, and nobody reads one."""
    names = [f"t{number:05}.{'x' * 240}" for number in range(250)]
    draft = Draft(
        "first", "h:1", TWO, [FoundTopic(name, ("eu", "us"), False, None, ValueFormat.TEXT) for name in names]
    )
    (tmp_path / "policies").mkdir()
    (tmp_path / draft.policy_path).write_text(policy_text(draft), encoding="utf-8")
    (tmp_path / "hub.yaml").write_text(hub_text(draft), encoding="utf-8")
    rules = load_config(tmp_path / "hub.yaml", {}).topics
    assert [len(rule.match.split("|")) for rule in rules] == [100, 100, 50]
    assert "|".join(rule.match for rule in rules).replace("\\", "").split("|") == names


@pytest.mark.parametrize("tag", ["x" * 2000, "\u2028" * 200, "a: b" * 300])
def test_a_long_tag_has_a_rule(tmp_path, tag):
    """YAML takes a key of a thousand characters in front of its colon, and a longer one on a line of its own."""
    draft = Draft(
        "first", "h:1", TWO, [FoundTopic("t", ("eu",), False, (PolicyLeaf("a", "string", frozenset([tag])),))]
    )
    (tmp_path / "p.yaml").write_text(policy_text(draft), encoding="utf-8")
    assert set(load_policy(tmp_path / "p.yaml").tags) == {tag}


@pytest.mark.parametrize("tag", ["a\0b", "\ud800", ""])
def test_a_tag_that_no_file_can_hold_keeps_nobody_from_writing_one(tmp_path, tag):
    """It has no rule, and its field stays dropped like any other; tags beside it have theirs."""
    leaves = (PolicyLeaf("a", "string", frozenset([tag])), PolicyLeaf("b", "string", frozenset([tag, "PII"])))
    text = policy_text(Draft("first", "h:1", TWO, [FoundTopic("t", ("eu",), False, leaves)]))
    (tmp_path / "p.yaml").write_text(text, encoding="utf-8")
    policy = load_policy(tmp_path / "p.yaml")
    assert (set(policy.tags), policy.view("t").fields, policy.view("t").defaults) == ({"PII"}, (), (Drop(),))
    assert "# a    (string) is dropped: no file can name its tag" in text
    assert "# b    (string) is dropped by its tag PII" in text


@pytest.mark.slow
def test_more_topics_than_a_policy_can_name_are_told_with_what_to_do():
    """Nothing is written; no alias is to blame, and fewer edges are asked."""
    found = [FoundTopic(f"t{number}", ("eu",), False, None, ValueFormat.TEXT) for number in range(13_000)]
    with pytest.raises(FatalError, match=r"policies/first\.yaml:.*holds more than 50,000 values") as refused:
        _proven(Draft("first", "h:1", TWO, found))
    assert "ask fewer edges" in refused.value.hint


def test_edges_without_topics_are_told_as_such(tmp_path):
    """There is no field to open: the next step is the same command again, not `config lint`."""
    draft = Draft("hub", "c:9092", {"eu": DraftEdge("e:9092", "directory:schemas")}, ())
    told = "\n".join(summary(draft, tmp_path / "hub.yaml", tmp_path / "policies" / "hub.yaml"))
    assert "1 edge, 0 topics" in told
    assert "no edge has a topic yet" in told
    assert "config lint" not in told
    assert yaml.safe_load(hub_text(draft))["topics"] == []
