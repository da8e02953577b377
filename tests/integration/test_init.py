"""`init` on a real edge with topics of nine kinds: what it writes runs as it is, and loses and holds nothing."""

import json
import logging
import re

import pytest
import structlog
from click.testing import CliRunner

from aggregator.cli.main import main
from aggregator.sandbox.sandbox import Sandbox
from tests import nine_topics
from tests.conftest import CALM
from tests.trial import KEY, read_all, without_spark

pytestmark = [pytest.mark.brokers, pytest.mark.slow]

TABLES = {"orders", "clicks", "profiles", "sensors"}


@pytest.fixture(scope="module")
def edge(tmp_path_factory):
    """Clusters of their own, because `init` looks at all topics: their sandbox, and how many records each topic has."""
    folder = tmp_path_factory.mktemp("nine")
    sandbox = Sandbox.up(folder / "clusters", ("eu",), settings=dict.fromkeys(("central", "eu"), CALM))
    ids = nine_topics.register(folder / "schemas")
    nine_topics.create(sandbox.edges["eu"].bootstrap)
    yield sandbox, folder / "schemas", nine_topics.fill(sandbox.edges["eu"].bootstrap, ids)
    sandbox.down()


@pytest.fixture
def said():
    """Runs a command in this process."""
    root = logging.getLogger()
    before = root.handlers[:], root.level
    with without_spark():
        yield lambda *arguments: CliRunner().invoke(main, [str(one) for one in arguments])
    root.handlers[:], root.level = before[0], before[1]
    structlog.reset_defaults()


@pytest.mark.whole
def test_what_init_writes_runs_as_it_is(edge, said, tmp_path):
    """No fault, nothing held, no dead letter, nothing of any value; and once opened, what the policy says."""
    sandbox, schemas, counts = edge
    hub, policy = tmp_path / "hub.yaml", tmp_path / "policies" / "hub.yaml"
    central = sandbox.central.bootstrap
    made = said("init", "--central", central, "--edge", f"eu={sandbox.edges['eu'].bootstrap}",
                "--schemas", f"directory:{schemas}", "--output", hub)  # fmt: skip
    assert made.exit_code == 0, made.output
    assert nine_topics.CANARY not in hub.read_text() + policy.read_text() + made.output
    forms = re.findall(
        r'^  "([a-z-]+)":.*?(?:value_format: (\w+)|fields:)', policy.read_text(), re.DOTALL | re.MULTILINE
    )
    assert {name: form or "avro" for name, form in forms} == nine_topics.FORMS
    assert "      # at.who[]: keep    # string" in policy.read_text()
    assert said("config", "lint", "--config", hub).exit_code == 0
    planned = said("plan", "--config", hub, "-o", "json")
    assert planned.exit_code == 0, planned.output
    assert "held:" not in said("plan", "--config", hub).stdout
    ran = said("run", "--drain", "--config", hub)
    assert ran.exit_code == 0, ran.output
    for name, count in counts.items():
        left = read_all(central, f"eu.{name}")
        assert len(left) == count, name
        assert all(message.key() is None and message.value() is not None for message in left), name
        assert not [message for message in left if b"canary" in message.value()], name
    assert json.loads(said("dlq", "list", "--config", hub, "-o", "json").stdout) == []
    assert said("plan", "--config", hub, "--detailed-exitcode").exit_code == 0
    assert {path.name for path in (tmp_path / "lake").iterdir() if not path.name.startswith("_")} >= TABLES
    opened(policy, hub, tmp_path)
    _later(edge, said, hub)


def opened(policy, hub, folder):
    """Open something of each kind."""
    (folder / "key").touch(0o600)
    (folder / "key").write_text(KEY)
    hub.write_text(hub.read_text() + "keys: {customer: file:key}\n")
    why = "reason: r, owner: o, expires: 2090-01-01"
    text = policy.read_text()
    for name, rule in {
        "access-log": f"{{scrub_text: {{detectors: [email], {why}}}}}",
        "documents": "{pseudonymize: {key: customer, domain: d}}",
        "thumbnails": f"{{keep: {{{why}}}}}",
    }.items():
        head, tail = text.split(f'"{name}":', 1)
        text = f'{head}"{name}":{tail.replace("value: drop", f"value: {rule}", 1)}'
    policy.write_text(text.replace("      # at.lat: keep", "      at.lat: keep"))


def _later(edge, said, hub):
    """New records come out as the policy says now."""
    sandbox, _, _ = edge
    ids = dict.fromkeys(nine_topics.FORMS, 1) | {"clicks": 2, "profiles": 3, "sensors": 4}
    counts = nine_topics.fill(sandbox.edges["eu"].bootstrap, ids)
    ran = said("run", "--drain", "--config", hub)
    assert ran.exit_code == 0, ran.output
    newest = {name: read_all(sandbox.central.bootstrap, f"eu.{name}")[-counts[name]:] for name in counts}  # fmt: skip
    assert newest["access-log"][0].value() == b"2026-11-01T00:00:00Z GET [EMAIL] 200"
    assert {len(message.value()) for message in newest["documents"]} == {len("v1_") + 32}
    assert newest["thumbnails"][0].value() == nine_topics.value("thumbnails", 0, ids)
    assert json.loads(newest["events"][0].value()) == {"at": {"lat": 52.5}}
