"""The configuration beside the clusters: `hub.yaml`, the policy, the demo schemas, and a key in a file.

Invariant: what is written runs as it stands, without environment variables. Refuses: to overwrite what is there,
because a person may have edited it.
"""

import base64
import os
import secrets
import shutil
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

from aggregator.errors import Failed

HUB_FILE = "hub.yaml"
KEY_FILE = "customer.key"
SCHEMAS = "schemas"
POLICIES = "policies"
CENTRAL_SCHEMAS = "central-schemas"
LAKE = "lake"
# Names that an edge cannot have, because its folder would be one of these.
RESERVED = frozenset({"central", SCHEMAS, POLICIES, CENTRAL_SCHEMAS, LAKE})
WRITTEN = (HUB_FILE, KEY_FILE, SCHEMAS, POLICIES, CENTRAL_SCHEMAS, LAKE)


def checkout() -> Path:
    """Root of the source tree, where `schemas/` and `configs/` lie.

    Raises:
        Failed: the package was installed without them.
    """
    root = Path(__file__).resolve().parents[2]
    if not (root / "schemas").is_dir() or not (root / "configs" / "policies").is_dir():
        raise Failed("the demo's schemas and policy are not installed", hint="run the sandbox from a source checkout")
    return root


def write_hub(folder: Path, central: str, edges: Mapping[str, str]) -> Path:
    """Write whatever is not there yet.

    Args:
        folder: The sandbox's folder.
        central: `host:port` of central.
        edges: Edge name to `host:port`.

    Returns:
        Path of `hub.yaml`.
    """
    root = checkout()
    if not (folder / SCHEMAS).exists():
        shutil.copytree(root / "schemas", folder / SCHEMAS)
    if not (folder / POLICIES).exists():
        shutil.copytree(root / "configs" / "policies", folder / POLICIES)
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
