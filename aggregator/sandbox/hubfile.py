"""Writes the configuration beside the clusters: `hub.yaml`, the policy, the demo schemas, and a key in a file.

Invariant: the files work as they are, without environment variables. An existing file is never overwritten, because a
person may have edited it.
"""

import base64
import os
import secrets
import shutil
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

from aggregator import shipped

HUB_FILE = "hub.yaml"
KEY_FILE = "customer.key"
SCHEMAS = "schemas"
POLICIES = "policies"
CENTRAL_SCHEMAS = "central-schemas"
LAKE = "lake"
# Names that an edge cannot have, because its folder would be one of these.
RESERVED = frozenset({"central", SCHEMAS, POLICIES, CENTRAL_SCHEMAS, LAKE})
WRITTEN = (HUB_FILE, KEY_FILE, SCHEMAS, POLICIES, CENTRAL_SCHEMAS, LAKE)


def write_hub(folder: Path, central: str, edges: Mapping[str, str]) -> Path:
    """Write whatever is not there yet.

    Args:
        folder: The sandbox's folder.
        central: `host:port` of central.
        edges: Edge name to `host:port`.

    Returns:
        Path of `hub.yaml`.
    """
    if not (folder / SCHEMAS).exists():
        shutil.copytree(shipped.SCHEMAS, folder / SCHEMAS)
    if not (folder / POLICIES).exists():
        shutil.copytree(shipped.CONFIGS / POLICIES, folder / POLICIES)
    _write_key(folder / KEY_FILE)
    hub = folder / HUB_FILE
    if not hub.exists():
        hub.write_text(hub_text(central, edges), encoding="utf-8")
    return hub


def hub_text(central: str, edges: Mapping[str, str]) -> str:
    """The text of `hub.yaml` for these clusters."""
    lines = [
        f'  {name}: {{bootstrap_servers: "{address}", schemas: "directory:{SCHEMAS}"}}'
        for name, address in edges.items()
    ]
    template = files(__package__).joinpath("hub.template.yaml").read_text(encoding="utf-8")
    return template.replace("@central@", central).replace("@edges@", "\n".join(lines))


def _write_key(path: Path) -> None:
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(base64.b64encode(secrets.token_bytes(32)).decode() + "\n")
