"""`aggregator import`: where files go, what is never overwritten, exit codes, and the answer as JSON."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.cli.imports import _as_property
from aggregator.mirrormaker import settings
from aggregator.mirrormaker.properties import parse_properties

ONE = "clusters=a,b\na.bootstrap.servers=a:1\nb.bootstrap.servers=b:1\na->b.enabled=true\ntopics=orders\ntasks.max=2\n"
BOTH = f"{ONE}b->a.enabled=true\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a file of MirrorMaker, which is the current one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mm2.properties").write_text(ONE)
    return tmp_path


def test_the_files_go_into_the_current_folder(aggregator, folder):
    """`hub.yaml` and its policy beside it, as `init` has them."""
    done = aggregator("import", "mm2.properties")
    assert done.exit_code == 0
    assert sorted(str(path.relative_to(folder)) for path in folder.rglob("*.yaml")) == [
        "hub.yaml",
        "policies/hub.yaml",
    ]
    assert done.stdout.splitlines()[:6] == [
        "keys                    outcome         becomes, or why not",
        "clusters, a->b.enabled  mapped          edges, central",
        "a.bootstrap.servers     mapped          edges.a.bootstrap_servers",
        "b.bootstrap.servers     mapped          central.bootstrap_servers",
        "topics                  mapped          topics[].match",
        f"tasks.max               not applicable  {settings.reason('tasks.max')}",
    ]
    assert "aggregator config lint --config hub.yaml" in done.stdout
    assert "policy suggest" in done.stdout
    assert "aggregator plan" in done.stdout


def test_each_target_has_a_folder(aggregator, folder):
    """Named as the hub."""
    (folder / "mm2.properties").write_text(BOTH)
    assert aggregator("import", "mm2.properties", "--out", "made/here").exit_code == 0
    assert sorted(str(path.relative_to(folder / "made/here")) for path in (folder / "made").rglob("*.yaml")) == [
        "hub-a/hub.yaml",
        "hub-a/policies/hub-a.yaml",
        "hub-b/hub.yaml",
        "hub-b/policies/hub-b.yaml",
    ]


@pytest.mark.parametrize("name", ["hub.yaml", "policies/hub.yaml"])
def test_nothing_is_overwritten(aggregator, folder, name):
    """One file that is there already, and none is written."""
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text("mine")
    done = aggregator("import", "mm2.properties")
    assert done.exit_code == 1
    assert f"{name} is there already" in done.stderr
    assert "--out" in done.stderr
    assert [path.read_text() for path in folder.rglob("*.yaml")] == ["mine"]


@pytest.mark.usefixtures("folder")
def test_the_answer_as_json_is_a_contract(aggregator):
    """Its keys, and its version."""
    answer = json.loads(aggregator("import", "mm2.properties", "-o", "json").stdout)
    assert answer["version"] == 1
    assert sorted(answer) == ["commands", "form", "hubs", "keys", "remarks", "variables", "version"]
    assert answer["hubs"] == [
        {"hub": "hub", "target": "b", "edges": ["a"], "config": "hub.yaml", "policy": "policies/hub.yaml"}
    ]
    assert answer["keys"][-1] == {
        "key": "tasks.max",
        "file": "mm2.properties",
        "line": 6,
        "outcome": "not applicable",
        "to": "",
        "why": "slots share all partitions: `replication: {slots: …}`; one slot is enough for most",
    }
    assert aggregator("import", "mm2.properties", "--out", "x", "-o", "yaml").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ([], 2, "FILE"),
        (["nothing.properties"], 1, "nothing.properties: cannot be read"),
        (["bad.properties"], 78, "bad.properties: is no configuration of MirrorMaker"),
        (["mm2.properties", "--out", "mm2.properties"], 2, "--out"),
        (["mm2.properties", "--whitelist", "x"], 78, "several forms"),
    ],
)
def test_an_error_names_the_file_and_the_next_step(aggregator, folder, arguments, code, said):
    """And no traceback."""
    (folder / "bad.properties").write_text("hello=world\n")
    done = aggregator("import", *arguments)
    assert (done.exit_code, "Traceback" in done.stderr) == (code, False)
    assert said in done.stderr


def test_what_could_not_be_used_is_not_written(aggregator, folder):
    """Two edges whose topics could meet in one central topic: the loader says so, and the folder stays empty."""
    (folder / "mm2.properties").write_text(
        "clusters=a,b,t\na.bootstrap.servers=a:1\nb.bootstrap.servers=b:1\nt.bootstrap.servers=t:1\n"
        "a->t.enabled=true\nb->t.enabled=true\nb->t.replication.policy.class=x.IdentityReplicationPolicy\n"
    )
    done = aggregator("import", "mm2.properties", "--out", "out")
    assert done.exit_code == 78
    assert "nothing was written" in done.stderr
    assert "different topics could meet" in done.stderr
    assert not (folder / "out").exists()


def test_the_first_generation_takes_its_whitelist(aggregator, folder):
    """As its command line had it."""
    (folder / "consumer.properties").write_text("bootstrap.servers=a:1\ngroup.id=g\n")
    (folder / "producer.properties").write_text("bootstrap.servers=b:1\nacks=1\n")
    done = aggregator("import", "consumer.properties", "producer.properties", "--whitelist", r"a\.b,c")
    assert done.exit_code == 0
    assert r'match: "a\\.b|c"' in (folder / "hub.yaml").read_text()
    assert "bootstrap.servers (consumer.properties)" in done.stdout


@given(st.text(max_size=20))
def test_a_whitelist_arrives_as_it_was_given(text):
    """Whatever its signs, as one property."""
    text = text.encode("utf-8", "replace").decode()
    (found,) = parse_properties(_as_property(text).decode())
    assert (found.key, found.value) == ("whitelist", text.lstrip(" \t\f"))


def test_nothing_that_a_terminal_obeys_comes_out(aggregator, folder):
    """Keys, names of clusters and patterns with escapes of Java."""
    (folder / "mm2.properties").write_text(
        ONE + "a->b.topics=x\\u001b[2J\\u202e\nev\\u001bil=1\na.client.id=\\u009b31m\\nnext: curl\n"
    )
    done = aggregator("import", "mm2.properties", "--out", "out")
    texts = [done.stdout, done.stderr, *(path.read_text() for path in folder.rglob("out/**/*.yaml"))]
    assert len(texts) == (4 if done.exit_code == 0 else 2)
    assert all(line.isprintable() for text in texts for line in text.split("\n"))
    assert not [line for text in texts for line in text.split("\n") if line.startswith("next: curl")]


@pytest.mark.parametrize(
    "lines",
    [
        "a.security.protocol=${env:P}\na.sasl.mechanism=${env:M}\na.sasl.jaas.config=x.ScramLoginModule required;\n",
        "a.security.protocol=SASL_${env:P}\na.sasl.mechanism=SCRAM-SHA-${env:M}\n",
        "a.security.protocol=${env:P}\na.ssl.keystore.location=a.p12\n",
        (
            "a.security.protocol=SASL_SSL\na.sasl.mechanism=OAUTHBEARER\n"
            "a.sasl.oauthbearer.token.endpoint.url=${env:HOST}/token\n"
        ),
        "a.bootstrap.servers=${env:ONE},x-${env:TWO}:9092\n",
    ],
)
def test_what_stands_elsewhere_is_tried_in_its_form(aggregator, folder, lines):
    """A protocol, a mechanism or an address that a variable holds, as a whole or in part, is written."""
    (folder / "mm2.properties").write_text(ONE + lines)
    done = aggregator("import", "mm2.properties")
    assert done.exit_code == 0, done.stderr


def test_a_link_to_nowhere_is_not_written_through(aggregator, folder):
    """Nor is the policy beside it."""
    (folder / "hub.yaml").symlink_to("elsewhere.yaml")
    done = aggregator("import", "mm2.properties")
    assert (done.exit_code, "hub.yaml is there already" in done.stderr) == (1, True)
    assert not (folder / "policies").exists()


def test_a_failure_half_way_leaves_no_file(aggregator, folder):
    """The second target's folder cannot be made."""
    (folder / "mm2.properties").write_text(BOTH)
    (folder / "hub-a").write_text("mine")
    done = aggregator("import", "mm2.properties")
    assert (done.exit_code, "--out" in done.stderr) == (1, True)
    assert not list(folder.rglob("*.yaml"))
