"""The Helm chart, rendered: what it makes of values, and what the restricted Pod Security Standard says of its pods.

Invariant: rendering is Helm's own. What is looked up here is there exactly once.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

CHART = Path(__file__).resolve().parents[1] / "configs" / "helm" / "aggregator"
HELM = os.environ.get("HELM") or shutil.which("helm")
RELEASE, NAMESPACE = "retail", "streams"
# Volumes that the restricted standard lets a pod have.
_VOLUMES = {
    *("configMap", "csi", "downwardAPI", "emptyDir"),
    *("ephemeral", "persistentVolumeClaim", "projected", "secret"),
}


class Refused(Exception):
    """Helm renders nothing; its own words."""


@dataclass(frozen=True)
class Manifests:
    """Everything that one rendering makes."""

    every: tuple[dict[str, Any], ...]

    def all(self, kind: str) -> list[dict[str, Any]]:
        """Each of a kind."""
        return [one for one in self.every if one["kind"] == kind]

    def one(self, kind: str, suffix: str = "") -> dict[str, Any]:
        """The one of a kind whose name ends so."""
        (found,) = [one for one in self.all(kind) if one["metadata"]["name"].endswith(suffix)]
        return found

    @property
    def deployment(self) -> dict[str, Any]:
        """What the Deployment asks for."""
        return self.one("Deployment")["spec"]

    @property
    def pod(self) -> dict[str, Any]:
        """What its pods are."""
        return self.deployment["template"]["spec"]

    @property
    def hub(self) -> dict[str, Any]:
        """The hub's container."""
        (found,) = self.pod["containers"]
        return found

    @property
    def env(self) -> dict[str, Any]:
        """Variables of the hub's container."""
        return {one["name"]: one.get("value") for one in self.hub["env"]}

    @cached_property
    def files(self) -> dict[str, str]:
        """What lies in /etc/aggregator, by its path there: as the volume puts it."""
        (volume,) = [one["configMap"] for one in self.pod["volumes"] if one["name"] == "config"]
        made = [one for one in self.all("ConfigMap") if one["metadata"]["name"] == volume["name"]]
        return {one["path"]: made[0]["data"][one["key"]] for one in volume["items"]}

    @property
    def config(self) -> dict[str, Any]:
        """hub.yaml."""
        return YAML(typ="safe").load(self.files["hub.yaml"])

    @property
    def executors(self) -> bool:
        """Whether Spark has executors of its own."""
        return "spark/executor.yaml" in self.files

    @property
    def executor(self) -> dict[str, Any]:
        """The pod that Spark makes its executors from."""
        return YAML(typ="safe").load(self.files["spark/executor.yaml"])

    @property
    def pods(self) -> list[dict[str, Any]]:
        """What every pod is, executors' too."""
        return [self.pod, *([self.executor["spec"]] if self.executors else [])]

    @property
    def mounts(self) -> dict[str, str]:
        """Volumes of the hub's container by where they are seen."""
        return {one["mountPath"]: one["name"] for one in self.hub["volumeMounts"]}


def render(values: Mapping[str, Any] | None, *options: str, folder: Path | None = None) -> Manifests:
    """Render the chart.

    Args:
        values: Beside those of the chart; None: only what `options` say.
        options: Further ones of `helm template`.
        folder: Where it runs.

    Raises:
        Refused: Helm, the schema or the chart refuses them.
    """
    given = () if values is None else ("-f", "-")
    done = subprocess.run(
        [
            str(HELM),
            "template",
            RELEASE,
            str(CHART),
            "--namespace",
            NAMESPACE,
            "--kube-version",
            "1.32",
            *given,
            *options,
        ],
        input=json.dumps(values),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        cwd=folder,
    )
    if done.returncode:
        raise Refused(done.stderr)
    return Manifests(tuple(one for one in YAML(typ="safe").load_all(done.stdout) if one))


def merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Values with others over them, as Helm lays them: sections are merged, all else is replaced."""
    both = dict(first)
    for name, value in second.items():
        was = both.get(name)
        both[name] = merged(was, value) if isinstance(was, dict) and isinstance(value, dict) else value
    return both


def at(path: str, value: Any) -> dict[str, Any]:
    """Values that hold one, at a path with dots."""
    for name in reversed(path.split(".")):
        value = {name: value}
    return value


def leaves(values: Mapping[str, Any], schema: Mapping[str, Any], above: str = "") -> Iterator[str]:
    """Paths of all values. A section that is empty, or whose names are the user's, is one."""
    for name, value in values.items():
        known = schema["properties"][name]
        known = {**_referred(known), **known}
        if known.get("additionalProperties") is False and value:
            yield from leaves(value, known, f"{above}{name}.")
        else:
            yield f"{above}{name}"


def _referred(part: Mapping[str, Any]) -> Mapping[str, Any]:
    name = part.get("$ref", "").rpartition("/")[2]
    return schema()["definitions"][name] if name else {}


def schema() -> dict[str, Any]:
    """The schema of the chart's values."""
    return json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))


def faults(pod: Mapping[str, Any]) -> list[str]:
    """What the restricted Pod Security Standard refuses in a pod.

    Source: https://kubernetes.io/docs/concepts/security/pod-security-standards/
    """
    found = [f"{name} is set" for name in ("hostNetwork", "hostPID", "hostIPC") if pod.get(name)]
    found += [f"volume {one['name']}" for one in pod.get("volumes", ()) if not (one.keys() - {"name"}) <= _VOLUMES]
    whole = pod.get("securityContext", {})
    found += ["sysctls are set"] if whole.get("sysctls") else []
    for container in (*pod["containers"], *pod.get("initContainers", ())):
        own = {**{name: whole.get(name) for name in ("runAsNonRoot", "runAsUser", "seccompProfile")}}
        own |= container.get("securityContext", {})
        wrong = {
            "runs as root": own["runAsNonRoot"] is not True or own["runAsUser"] == 0,
            "has no seccomp profile": (own["seccompProfile"] or {}).get("type") not in ("RuntimeDefault", "Localhost"),
            "may gain privileges": own.get("allowPrivilegeEscalation") is not False or own.get("privileged", False),
            "keeps capabilities": own.get("capabilities", {}).get("drop") != ["ALL"],
            "adds capabilities": not set(own.get("capabilities", {}).get("add", ())) <= {"NET_BIND_SERVICE"},
            "has a port of the host": any(port.get("hostPort") for port in container.get("ports", ())),
            "has another /proc": own.get("procMount", "Default") != "Default",
        }
        found += [f"{container['name']} {what}" for what, is_so in wrong.items() if is_so]
    return found
