"""Numbers at the ends of what is mapped: librdkafka takes them, in the clients that the hub makes."""

import pytest
from click.testing import CliRunner

from aggregator.cli.main import main
from aggregator.mirrormaker.client_properties import RENAMED

TWO = "clusters=a,b\na.bootstrap.servers=a:1\nb.bootstrap.servers=b:1\na->b.enabled=true\n"
ENDS = [(name, number) for name, one in RENAMED.items() if one.least is not None for number in (one.least, one.most)]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "number"), ENDS)
def test_librdkafka_takes_what_is_mapped(tmp_path, name, number):
    """Each by itself; `config lint` makes every client once."""
    (tmp_path / "mm2.properties").write_text(f"{TWO}a.{name}={number}\n")
    assert CliRunner().invoke(main, ["import", f"{tmp_path}/mm2.properties", "--out", f"{tmp_path}"]).exit_code == 0
    assert str(number) in (tmp_path / "hub.yaml").read_text()
    linted = CliRunner().invoke(main, ["config", "lint", "--config", f"{tmp_path}/hub.yaml"])
    assert linted.exit_code == 0, linted.stderr
