"""`acls print`: the minimal commands, from the configuration alone."""

import json
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from aggregator.cli.main import main
from tests.secured import bindings

HUB = """\
hub: demo
central: {bootstrap_servers: "c:1"}
edges:
  eu: {bootstrap_servers: "e:1", schemas: "directory:schemas"}
  us: {bootstrap_servers: "u:1", schemas: "directory:schemas"}
schemas: "directory:central"
topics:
  - {match: "orders|payments-(card|cash)", policy: policy.yaml}
  - {match: "log\\\\..*", exclude: "log\\\\.secret", policy: policy.yaml, central: "logs.{topic}", edges: [us]}
keys: {customer: "file:key"}
"""


@pytest.fixture
def printed(tmp_path: Path):
    """What the command prints for somebody."""
    (tmp_path / "policy.yaml").write_text("policy: retail\nversion: 1\n")

    def told(*arguments: str, text: str = HUB):
        path = tmp_path / "hub.yaml"
        path.write_text(text)
        return CliRunner().invoke(main, ["acls", "print", "--config", str(path), *arguments])

    return told


def rights(result) -> set[str]:
    """`Operation name`, a star for a beginning."""
    assert result.exit_code == 0, result.stderr
    return {
        f"{acl.operation.name} {acl.name}{'*' if acl.resource_pattern_type.name == 'PREFIXED' else ''}"
        for acl in bindings(result.stdout)
    }


def of(names: str, operations: str) -> set[str]:
    return {f"{operation} {name}" for name in names.split() for operation in operations.split()}


def test_an_edge_is_read_and_gets_heartbeats(printed):
    """Names are listed; nothing about another edge's topics."""
    found = printed("--for", "edge:eu")
    records = of("orders payments-card payments-cash", "READ DESCRIBE_CONFIGS")
    assert rights(found) == records | of("heartbeats", "READ WRITE CREATE DESCRIBE_CONFIGS")
    assert found.stdout.splitlines()[1] == (
        "kafka-acls --bootstrap-server e:1 --add --allow-principal User:ANONYMOUS"
        " --operation Read --operation DescribeConfigs --topic orders"
    )


def test_a_pattern_gets_its_beginning_and_that_is_said(printed):
    """Unless the topics are given; one that a rule excludes is none."""
    found = printed("--for", "edge:us")
    assert of("log.*", "READ DESCRIBE_CONFIGS") <= rights(found)
    assert r"`log\..*` matches names that cannot be listed" in found.stderr
    named = printed("--for", "edge:us", "--topic", "log.web", "--topic", "log.secret", "--topic", "other")
    names = of("orders payments-card payments-cash log.web", "READ DESCRIBE_CONFIGS")
    assert rights(named) == names | of("heartbeats", "READ WRITE CREATE DESCRIBE_CONFIGS")
    assert named.stderr == ""


def test_an_edge_without_the_hub_s_heartbeats_is_only_read(printed):
    """Somebody else may write them."""
    found = printed("--for", "edge:eu", text=HUB + "heartbeats: {emit: false}\n")
    assert of("heartbeats", "READ DESCRIBE_CONFIGS") <= rights(found)
    assert not of("heartbeats", "WRITE CREATE") & rights(found)


def test_central_s_topics_begin_with_the_edge_s_name(printed):
    """By default, and otherwise as the rule says; the hub's own, its ids, and heartbeats."""
    found = rights(printed("--for", "central"))
    assert of("eu.orders us.orders eu.payments-card logs.log.*", "READ WRITE CREATE ALTER DESCRIBE_CONFIGS") <= found
    assert not of("eu.log.* logs.log.secret orders", "READ") & found
    own = "demo.ledger demo.control demo.requests demo.decisions demo.dead-letters demo.edge-status demo.telemetry"
    assert of(own, "READ WRITE CREATE") <= found
    assert of("demo.driver demo.slot-* demo.decisions", "WRITE") <= found
    assert of("eu.heartbeats us.heartbeats", "READ WRITE CREATE DESCRIBE_CONFIGS") <= found
    assert not {one for one in found if one.startswith(("DELETE", "ALL", "ALTER_CONFIGS"))}
    assert not {one for one in found if one.startswith("ALTER demo.decisions")}


def test_a_takeover_reads_what_mirrormaker_2_keeps(printed):
    """Of each edge of the rule: two topics, its group's members, and the ids of tasks that are fenced."""
    text = HUB.replace("policy: policy.yaml, central", "policy: policy.yaml, start: mirrormaker2, central")
    found = rights(printed("--for", "central", text=text))
    assert of("mm2-offsets.us.internal mm2-configs.us.internal", "READ") <= found
    assert {"DESCRIBE us-mm2", "WRITE us-mm2-MirrorSourceConnector-*"} <= found
    assert not {one for one in found if "eu-mm2" in one or "mm2-offsets.eu" in one}
    assert not {one for one in rights(printed("--for", "central")) if "mm2" in one}


def test_positions_of_groups_take_rights_only_where_they_are_told(printed):
    """Describe on the groups at edges; topics of their own at central, and Read on groups to commit for them."""
    assert not {one for word in ("edge:eu", "central") for one in rights(printed("--for", word)) if "internal" in one}
    text = HUB + "offsets: {}\n"
    assert "DESCRIBE *" in rights(printed("--for", "edge:eu", text=text))
    found = rights(printed("--for", "central", text=text))
    assert of("eu.checkpoints.internal us.checkpoints.internal", "READ WRITE CREATE") <= found
    assert not {one for one in found if "mm2-offset-syncs" in one or one == "READ *"}
    text = HUB + "offsets: {syncs: true, sync_groups: true, groups: ['billing', 'app-.*', 'app-x']}\n"
    assert of("billing app-*", "DESCRIBE") < rights(printed("--for", "edge:eu", text=text))
    found = rights(printed("--for", "central", text=text))
    assert of("mm2-offset-syncs.eu.internal", "READ WRITE CREATE") | of("billing app-*", "READ") <= found
    assert "READ app-x" not in found


def test_a_reader_reads_what_arrives(printed):
    """Topics, and a group of its own name."""
    found = rights(printed("--for", "reader", "--principal", "User:ann"))
    assert of("eu.orders us.payments-cash logs.log.* ann", "READ") <= found
    assert {one.split()[0] for one in found} == {"READ"}
    assert not {one for one in found if "demo." in one}


def test_the_principal_is_the_one_that_signs_in(printed):
    """Or the one that is named; a token's is asked for."""
    login = "security.protocol: SASL_SSL, sasl.mechanism: SCRAM-SHA-512, sasl.username: hub, sasl.password: 'file:p'"
    text = HUB.replace('"c:1"', f'"c:1", client: {{{login}}}')
    assert "--allow-principal User:hub " in printed("--for", "central", text=text).stdout
    named = printed("--for", "central", "--principal", "User:CN=a b,O=x", text=text).stdout
    assert {acl.principal for acl in bindings(named)} == {"User:CN=a b,O=x"}
    token = "security.protocol: SASL_SSL, sasl.mechanism: OAUTHBEARER, sasl.oauthbearer.method: oidc"
    asked = printed("--for", "central", text=HUB.replace('"c:1"', f'"c:1", client: {{{token}}}'))
    assert asked.exit_code == 1
    assert "--principal User:" in asked.stderr


@pytest.mark.parametrize("whom", ["edge:ap", "edge:", "eu", "", "central "])
def test_nobody_else_is_known(printed, whom):
    """The error names those that are."""
    found = printed("--for", whom)
    assert found.exit_code == 2
    assert "edge:eu, edge:us, central, reader" in found.stderr


def test_no_name_gets_into_the_shell(printed):
    """Whatever is given is one word of the command."""
    word = "$(touch /tmp/x); 'a' \"b\""
    found = printed("--for", "reader", "--principal", f"User:{word}", "--group", word, "--command-config", word)
    commands = [words for line in found.stdout.splitlines() if (words := shlex.split(line, comments=True))]
    assert (found.exit_code, bool(commands)) == (0, True)
    for words in commands:
        assert words[words.index("--command-config") + 1] == word
        assert words[words.index("--allow-principal") + 1] == f"User:{word}"


def test_the_answer_is_data_too(printed):
    """The contract of `-o json`."""
    (first, *_) = json.loads(printed("--for", "edge:eu", "-o", "json").stdout)
    assert first == {
        "principal": "User:ANONYMOUS",
        "resource": "topic",
        "name": "orders",
        "pattern": "literal",
        "operations": ["Read", "DescribeConfigs"],
        "why": "records, and how long they are kept",
        "command": "kafka-acls --bootstrap-server e:1 --add --allow-principal User:ANONYMOUS"
        " --operation Read --operation DescribeConfigs --topic orders",
    }


def test_a_hub_that_carries_settings_over_may_alter_them(printed):
    """As `config_sync: apply` and `plan --apply` do; that right implies to read them."""
    found = rights(printed("--for", "central", text=HUB + "config_sync: apply\n"))
    assert {"ALTER_CONFIGS eu.orders", "ALTER_CONFIGS logs.log.*"} <= found
    assert "DESCRIBE_CONFIGS eu.orders" not in found
    assert "ALTER_CONFIGS eu.orders" not in rights(printed("--for", "central"))


@pytest.mark.parametrize(
    "arguments",
    [("--topic", "\udcff"), ("--topic", "a\nrm b"), ("--principal", "User:\x1b[31m"), ("--command-config", "a\u202eb")],
)
def test_a_name_that_cannot_be_shown_as_it_is_goes_into_no_command(printed, arguments):
    """Its escape would be another name."""
    result = printed("--for", "edge:eu", *arguments)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "characters that no command can be printed with" in result.stderr
