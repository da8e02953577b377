"""One configuration that is right, as text, and a way to load a changed one."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from aggregator.config.load import load_config
from aggregator.config.model import HubConfig
from aggregator.errors import ConfigError

GOOD = """\
hub: demo
central:
  bootstrap_servers: "127.0.0.1:19292"
edges:
  eu: {bootstrap_servers: "127.0.0.1:19092", schemas: "directory:schemas"}
  us: {bootstrap_servers: "127.0.0.1:19192", schemas: "directory:schemas"}
schemas: "directory:central-schemas"
topics:
  - match: "orders|payments\\\\..*"
    policy: policies/retail.yaml
    central: "{edge}.{topic}"
    start: earliest
    lake: "{topic}"
lake: {path: lake, format: delta, commit_interval: 30s}
keys: {customer: "env:CUSTOMER_KEY"}
"""

# A fixture hands it out: two folders' conftest modules cannot be imported side by side.
Load = Callable[..., HubConfig]
Faults = Callable[..., list[str]]


@pytest.fixture
def good() -> str:
    """The text of a configuration that is right."""
    return GOOD


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Write a text as hub.yaml, beside a policy file, and load it."""

    def written(text: str = GOOD, environ: Mapping[str, str] | None = None) -> HubConfig:
        (tmp_path / "policies").mkdir(exist_ok=True)
        (tmp_path / "policies" / "retail.yaml").touch()
        path = tmp_path / "hub.yaml"
        path.write_text(text, encoding="utf-8")
        return load_config(path, environ or {})

    return written


@pytest.fixture
def faults(load: Load, tmp_path: Path) -> Faults:
    """The fault lines of a text, without the folder; none where it loads."""

    def told(text: str, environ: Mapping[str, str] | None = None) -> list[str]:
        try:
            load(text, environ)
        except ConfigError as error:
            return error.message.replace(f"{tmp_path}/", "").splitlines()
        return []

    return told


@pytest.fixture
def changed(faults: Faults) -> Faults:
    """The fault lines after one piece of the good text is replaced."""

    def told(old: str, new: str, environ: Mapping[str, str] | None = None) -> list[str]:
        assert GOOD.count(old) >= 1, "the piece to replace is in the good text"
        return faults(GOOD.replace(old, new, 1), environ)

    return told
