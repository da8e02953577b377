"""`offsets export` without a cluster: usage, and what it says where nobody answers."""

import pytest

HUB = """\
hub: demo
central: {bootstrap_servers: "127.0.0.1:1"}
edges:
  eu: {bootstrap_servers: "127.0.0.1:2", schemas: "directory:schemas"}
schemas: "directory:central"
topics:
  - {match: orders, policy: p.yaml, start: mirrormaker2}
"""


@pytest.fixture
def hub(tmp_path):
    """A configuration whose clusters are not there."""
    (tmp_path / "p.yaml").write_text("policy: p\nversion: 1\n")
    (tmp_path / "hub.yaml").write_text(HUB)
    return tmp_path / "hub.yaml"


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        ((), 2, "--mirrormaker2"),
        (("--mirrormaker2", "--write", "--out", "{0}/o"), 2, "takes --out or --write"),
        (("--mirrormaker2", "--edge", "us"), 1, "no edge us is configured"),
        (("--mirrormaker2", "--out", "{0}/hub.yaml"), 1, "is there already"),
        (("--mirrormaker2",), 1, "no broker answers at 127.0.0.1:1"),
    ],
)
def test_what_cannot_be_exported_is_said(aggregator, hub, arguments, code, told):
    """With its exit code, and nothing on stdout."""
    result = aggregator("offsets", "export", *(one.format(hub.parent) for one in arguments), "--config", hub)
    assert (result.exit_code, result.stdout) == (code, "")
    assert told in result.stderr
