"""The Helm chart: each of its values is tried, and every manifest that it makes is one that Kubernetes takes.

What Helm renders is tested where Helm is (on PATH, or named by HELM). What Kubernetes takes is tested where
`kubernetes-validate` is, too.
"""

import copy
import importlib
import importlib.util
import json
import re
import shlex
import shutil
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ruamel.yaml import YAML

from aggregator.config.load import load_config
from tests.chart import CHART, HELM, NAMESPACE, Manifests, Refused, at, faults, leaves, merged, render, schema
from tests.documented_commands import check_command

ROOT = Path(__file__).resolve().parents[2]
VALUES = YAML(typ="safe").load((CHART / "values.yaml").read_text(encoding="utf-8"))
KUBERNETES = ("1.27", "1.32", "1.37")
VALIDATES = importlib.util.find_spec("kubernetes_validate") is not None
rendering = [
    pytest.mark.slow,
    pytest.mark.skipif(HELM is None, reason="helm is not installed: no manifest of the chart is rendered (HELM=…)"),
]
HUB = {
    "hub": "retail",
    "central": {"bootstrap_servers": "kafka.central.example:9093"},
    "edges": {"eu": {"bootstrap_servers": "kafka.eu.example:9093", "schemas": "https://registry.eu.example"}},
    "schemas": "https://registry.central.example",
    "topics": [{"match": "bookings", "policy": "policies/demo.yaml"}],
    "keys": {"customer": "file:/run/secrets/aggregator/keys/customer"},
}
FILES = {"policies/demo.yaml": (ROOT / "configs/policies/demo.yaml").read_text(encoding="utf-8")}
SMALL = {"config": HUB, "files": FILES, "secrets": {"keys": "retail-keys"}}
METRICS = {"metrics": {"enabled": True, "tokenSecret": "scrape"}}
PAGE = {"page": {"enabled": True, "tokenSecret": "readers"}}
SPARK = {"spark": {"enabled": True}}
POLICY = {"networkPolicy": {"enabled": True}}
LAKE = {"persistence": {"enabled": True}, "replicas": 1}
MONITOR = {**METRICS, "serviceMonitor": {"enabled": True}}
ALL = {
    **SMALL,
    **METRICS,
    **PAGE,
    **SPARK,
    "networkPolicy": {"enabled": True, "from": [{}], "egress": [{}]},
    "persistence": {"enabled": True, "accessMode": "ReadWriteMany"},
    **{name: {"enabled": True} for name in ("serviceMonitor", "prometheusRule", "grafanaDashboard")},
}


@dataclass(frozen=True)
class Case:
    """One value, changed once.

    Attributes:
        value: Another one than the chart's own.
        shows: Where a manifest shows it.
        expected: What is there; by default the value.
        beside: Further values without which it is for nothing.
    """

    value: Any
    shows: Callable[[Manifests], Any]
    expected: Any = None
    beside: dict[str, Any] = field(default_factory=dict)


def _spark(name: str) -> Callable[[Manifests], Any]:
    return lambda made: made.config["spark"]["conf"][name]


def _probe(name: str, key: str) -> Callable[[Manifests], Any]:
    return lambda made: made.hub[f"{name}Probe"][key]


def _labels(kind: str, suffix: str = "") -> Callable[[Manifests], Any]:
    return lambda made: made.one(kind, suffix)["metadata"]["labels"]["team"]


def _secret(folder: str) -> Callable[[Manifests], Any]:
    def found(made: Manifests) -> Any:
        name = made.mounts[f"/run/secrets/aggregator/{folder}"]
        (volume,) = [one["secret"] for one in made.pod["volumes"] if one["name"] == name]
        assert volume["defaultMode"] == 0o440, "the hub refuses a key that others may read"
        return volume["secretName"]

    return found


def _port(made: Manifests, name: str) -> int:
    (port,) = [one["port"] for one in made.one("Service")["spec"]["ports"] if one["name"] == name]
    (inside,) = [one["containerPort"] for one in made.hub["ports"] if one["name"] == name]
    assert port == inside
    return port


def _claim(made: Manifests) -> dict[str, Any]:
    return made.one("PersistentVolumeClaim")["spec"]


def _from(made: Manifests) -> Any:
    (rule,) = made.one("NetworkPolicy")["spec"]["ingress"]
    assert rule["ports"] == [{"port": "metrics"}]
    return rule["from"]


TEAM = {"team": "streams"}
NODES = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}}}
TAINT = [{"key": "kafka", "operator": "Exists", "effect": "NoSchedule"}]
PEER = [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]
BROKERS = [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}], "ports": [{"port": 9093}]}]
DIGEST = "sha256:" + "0123456789abcdef" * 4
NAMED = "in the names of all objects"
CASES = {
    "config": Case({"hub": "other"}, lambda made: made.config["hub"], "other"),
    "files": Case({"a/b_c/d.json": "{}"}, lambda made: made.files["a/b_c/d.json"], "{}"),
    "policyWatch": Case("30s", lambda made: made.config["policy_watch"]),
    "secrets": Case({"eu": "edge-eu"}, _secret("eu"), "edge-eu"),
    "env": Case({"CENTRAL": "c:9093"}, lambda made: made.env["CENTRAL"], "c:9093"),
    "logLevel": Case("debug", lambda made: made.env["AGGREGATOR_LOG_LEVEL"]),
    "replicas": Case(3, lambda made: made.deployment["replicas"]),
    "image.repository": Case("r.example/hub", lambda made: made.hub["image"], "r.example/hub:0.1.0"),
    "image.tag": Case("7", lambda made: made.hub["image"], "aggregator:7"),
    "image.digest": Case(DIGEST, lambda made: made.hub["image"], f"aggregator@{DIGEST}", {"image": {"tag": "7"}}),
    "image.pullPolicy": Case("Always", lambda made: made.hub["imagePullPolicy"]),
    "image.pullSecrets": Case(["pull"], lambda made: made.pod["imagePullSecrets"], [{"name": "pull"}]),
    "nameOverride": Case("hub", lambda made: made.one("Deployment")["metadata"]["name"], "retail-hub"),
    "fullnameOverride": Case("hub", lambda made: {one["metadata"]["name"] for one in made.every}, {"hub"}),
    "resources.requests": Case({"cpu": "8"}, lambda made: made.hub["resources"]["requests"]["cpu"], "8"),
    "resources.limits": Case({"memory": "8Gi"}, lambda made: made.hub["resources"]["limits"]["memory"], "8Gi"),
    "terminationGracePeriodSeconds": Case(60, lambda made: made.pod["terminationGracePeriodSeconds"]),
    **{
        f"probes.{name}.{key}": Case(7, _probe(name, key))
        for name in ("startup", "liveness", "readiness")
        for key in ("periodSeconds", "failureThreshold", "timeoutSeconds")
    },
    "nodeSelector": Case(TEAM, lambda made: [pod["nodeSelector"] for pod in made.pods], [TEAM, TEAM], SPARK),
    "tolerations": Case(TAINT, lambda made: [pod["tolerations"] for pod in made.pods], [TAINT, TAINT], SPARK),
    "affinity": Case(NODES, lambda made: made.pod["affinity"]),
    "topologySpread.keys": Case(
        ["rack"], lambda made: [one["topologyKey"] for one in made.pod["topologySpreadConstraints"]]
    ),
    "topologySpread.whenUnsatisfiable": Case(
        "DoNotSchedule", lambda made: made.pod["topologySpreadConstraints"][1]["whenUnsatisfiable"]
    ),
    "priorityClassName": Case("high", lambda made: [pod["priorityClassName"] for pod in made.pods], ["high"]),
    "podAnnotations": Case(
        TEAM, lambda made: made.deployment["template"]["metadata"]["annotations"]["team"], "streams"
    ),
    "podLabels": Case(TEAM, lambda made: made.deployment["template"]["metadata"]["labels"]["team"], "streams"),
    "podDisruptionBudget.enabled": Case(False, lambda made: made.all("PodDisruptionBudget"), []),
    "podDisruptionBudget.maxUnavailable": Case(
        2, lambda made: made.one("PodDisruptionBudget")["spec"]["maxUnavailable"]
    ),
    "serviceAccount.create": Case(
        False, lambda made: (made.all("ServiceAccount"), made.pod["serviceAccountName"]), ([], "default")
    ),
    "serviceAccount.name": Case(
        "hub", lambda made: {made.one("ServiceAccount")["metadata"]["name"], made.pod["serviceAccountName"]}, {"hub"}
    ),
    "serviceAccount.annotations": Case(TEAM, lambda made: made.one("ServiceAccount")["metadata"]["annotations"]),
    "metrics.enabled": Case(True, lambda made: made.config["metrics"]["listen"], "0.0.0.0:9464", METRICS),
    "metrics.port": Case(9000, lambda made: _port(made, "metrics"), None, METRICS),
    "metrics.tokenSecret": Case("other", _secret("metrics-token"), None, METRICS),
    "metrics.tokenKey": Case(
        "word",
        lambda made: made.config["metrics"]["token"],
        "file:/run/secrets/aggregator/metrics-token/word",
        METRICS,
    ),
    "metrics.partitions": Case(True, lambda made: made.config["metrics"]["partitions"], None, METRICS),
    "serviceMonitor.enabled": Case(
        True,
        lambda made: made.one("ServiceMonitor")["spec"]["endpoints"][0]["authorization"]["credentials"],
        {"name": "scrape", "key": "token"},
        METRICS,
    ),
    "serviceMonitor.interval": Case(
        "10s", lambda made: made.one("ServiceMonitor")["spec"]["endpoints"][0]["interval"], None, MONITOR
    ),
    "serviceMonitor.labels": Case(TEAM, _labels("ServiceMonitor"), "streams", MONITOR),
    "prometheusRule.enabled": Case(
        True,
        lambda made: made.one("PrometheusRule")["spec"],
        YAML(typ="safe").load((ROOT / "configs/alerts/aggregator.rules.yaml").read_text(encoding="utf-8")),
    ),
    "prometheusRule.labels": Case(TEAM, _labels("PrometheusRule"), "streams", {"prometheusRule": {"enabled": True}}),
    "grafanaDashboard.enabled": Case(
        True,
        lambda made: json.loads(made.one("ConfigMap", "-dashboard")["data"]["aggregator.json"]),
        json.loads((ROOT / "configs/grafana/aggregator.json").read_text(encoding="utf-8")),
    ),
    "grafanaDashboard.labels": Case(
        TEAM, _labels("ConfigMap", "-dashboard"), "streams", {"grafanaDashboard": {"enabled": True}}
    ),
    "page.enabled": Case(True, lambda made: made.hub["args"], ["run", "--standby", "--ui"], PAGE),
    "page.port": Case(9000, lambda made: _port(made, "page"), None, PAGE),
    "page.tokenSecret": Case("other", _secret("page-token"), None, PAGE),
    "page.tokenKey": Case(
        "word", lambda made: made.config["ui"]["token"], "file:/run/secrets/aggregator/page-token/word", PAGE
    ),
    "page.hosts": Case(["hub.example"], lambda made: "hub.example" in made.config["ui"]["hosts"], True, PAGE),
    "networkPolicy.enabled": Case(
        True,
        lambda made: {key: made.one("NetworkPolicy")["spec"][key] for key in ("policyTypes", "ingress")},
        {"policyTypes": ["Ingress"], "ingress": None},
    ),
    "networkPolicy.from": Case(PEER, _from, None, {**POLICY, **METRICS}),
    "networkPolicy.egress": Case(BROKERS, lambda made: made.one("NetworkPolicy")["spec"]["egress"][1:], None, POLICY),
    "spark.enabled": Case(
        True, lambda made: made.config["spark"]["master"], "k8s://https://kubernetes.default.svc", SPARK
    ),
    "spark.executors": Case(5, _spark("spark.executor.instances"), "5", SPARK),
    "spark.cores": Case(5, _spark("spark.executor.cores"), "5", SPARK),
    "spark.memory": Case("5g", _spark("spark.executor.memory"), None, SPARK),
    "spark.driverPort": Case(9000, _spark("spark.driver.port"), "9000", SPARK),
    "spark.blockManagerPort": Case(9000, _spark("spark.driver.blockManager.port"), "9000", SPARK),
    "persistence.enabled": Case(True, lambda made: made.mounts["/var/lib/aggregator/lake"], "lake", LAKE),
    "persistence.existingClaim": Case(
        "kept",
        lambda made: (made.all("PersistentVolumeClaim"), made.pod["volumes"][-1]["persistentVolumeClaim"]),
        ([], {"claimName": "kept"}),
        LAKE,
    ),
    "persistence.storageClass": Case("fast", lambda made: _claim(made)["storageClassName"], None, LAKE),
    "persistence.accessMode": Case("ReadWriteMany", lambda made: _claim(made)["accessModes"], ["ReadWriteMany"], LAKE),
    "persistence.size": Case("1Ti", lambda made: _claim(made)["resources"]["requests"]["storage"], None, LAKE),
}
SWITCHED = [SMALL, *(merged(SMALL, values) for values in (METRICS, PAGE, SPARK, POLICY, LAKE, MONITOR)), ALL]


@cache
def _rendered(leaf: str) -> Manifests:
    case = CASES[leaf]
    return render(merged(merged(SMALL, case.beside), at(leaf, case.value)))


@cache
def _every() -> tuple[Manifests, ...]:
    """Each value changed once, each part switched on by itself, and all of them."""
    return (*map(_rendered, CASES), *map(render, SWITCHED))


def test_every_value_is_in_the_table():
    """And the table has no other; a value that is added is tried, or this fails."""
    assert sorted(CASES) == sorted(leaves(VALUES, schema()))


def test_the_table_changes_each_value():
    """What a case sets is another value than the chart's own."""
    for path, case in CASES.items():
        own: Any = VALUES
        for name in path.split("."):
            own = own[name]
        assert own != case.value, path


def test_the_schema_takes_the_chart_s_own_values_and_every_case():
    """It is one itself, and closed: a name that nobody knows is refused at every place."""
    checker = jsonschema.Draft7Validator(schema())
    checker.check_schema(schema())
    changed = [merged(merged(VALUES, case.beside), at(path, case.value)) for path, case in CASES.items()]
    for values in (VALUES, *changed):
        assert [one.message for one in checker.iter_errors(values)] == []
    for path in {"", *(path.rpartition(".")[0] for path in CASES)}:
        wrong = merged(VALUES, at(f"{path}.nobody-knows-this".strip("."), 1))
        assert [one.validator for one in checker.iter_errors(wrong)] == ["additionalProperties"], path


@pytest.mark.parametrize(
    "wrong",
    [
        {"metrics": {"enabled": True, "tokenSecret": ""}},
        {"page": {"enabled": True, "tokenSecret": ""}},
        {"replicas": 0},
        {"replicas": "2"},
        {"secrets": {"metrics-token": "x"}},
        {"secrets": {"a": ""}},
        {"secrets": {"a": {"value": "x"}}},
        {"secrets": {"../a": "x"}},
        {"files": {"../a.yaml": ""}},
        {"files": {"hub.yaml": ""}},
        {"files": {"a..b": ""}},
        {"podLabels": {"app.kubernetes.io/component": "other"}},
        {"env": {"PASSWORD": {"secretKeyRef": {}}}},
        {"image": {"digest": "latest"}},
        {"persistence": {"accessMode": "ReadOnlyMany"}},
        {"terminationGracePeriodSeconds": 5},
        {"metrics": {"port": 80}},
    ],
    ids=json.dumps,
)
def test_the_schema_refuses(wrong):
    """A server without a token, a file outside its folder, a port that needs root."""
    assert not jsonschema.Draft7Validator(schema()).is_valid(wrong)


def test_the_chart_s_version_is_the_package_s():
    """Whoever installs a version of the chart gets that version of the hub."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    chart = YAML(typ="safe").load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert (chart["version"], chart["appVersion"]) == (project["version"], project["version"])


def test_each_value_has_a_comment():
    """In the line above it; only what a line with braces holds is explained by that line's comment."""
    lines = (CHART / "values.yaml").read_text(encoding="utf-8").splitlines()
    bare = [
        line
        for above, line in pairwise(lines)
        if ":" in line and not line.lstrip().startswith("#") and not above.lstrip().startswith("#")
        if not line.endswith(":")
    ]
    assert bare == []


def test_what_the_chart_takes_from_elsewhere_is_the_same():
    """Alerts and dashboard are the shipped ones."""
    for mine, shipped in (
        ("aggregator.rules.yaml", "alerts/aggregator.rules.yaml"),
        ("dashboard.json", "grafana/aggregator.json"),
    ):
        assert (CHART / "files" / mine).resolve() == (ROOT / "configs" / shipped).resolve()


def test_the_page_shows_commands_and_values_that_there_are():
    """Commands of the hub, also within those of docker and kubectl, and values that Helm is given."""
    text = (ROOT / "docs" / "kubernetes.md").read_text(encoding="utf-8")
    shown = re.findall(r"^(?:aggregator|.* -- aggregator|docker run .*:\d[\d.]+) (\w.*)$", text, re.MULTILINE)
    assert len(shown) >= 3
    for words in shown:
        check_command(words.split())
    known = set(leaves(VALUES, schema()))
    given = re.findall(r"--set-file '?(\w+)", text) + re.findall(
        r"`([a-z]\w+\.[a-z]\w+)`", text.partition("| value |")[2]
    )
    assert len(given) >= 8
    assert [name for name in given if name not in known and name != "replication.slots"] == []
    (values,) = re.findall(r"```yaml\n# values\.yaml\n(.*?)```", text, re.DOTALL)
    jsonschema.Draft7Validator(schema()).validate(YAML(typ="safe").load(values))


@pytest.mark.parametrize(
    ("wrong", "fault"),
    [
        (lambda pod: pod.update(hostNetwork=True), "hostNetwork is set"),
        (lambda pod: pod["volumes"].append({"name": "v", "hostPath": {"path": "/"}}), "volume v"),
        (lambda pod: pod["securityContext"].update(runAsNonRoot=False), "c runs as root"),
        (lambda pod: pod["securityContext"].update(runAsUser=0), "c runs as root"),
        (lambda pod: pod["securityContext"].pop("seccompProfile"), "c has no seccomp profile"),
        (lambda pod: pod["containers"][0].pop("securityContext"), "c may gain privileges"),
        (lambda pod: pod["containers"][0]["securityContext"].update(capabilities={}), "c keeps capabilities"),
        (lambda pod: pod["containers"][0].update(ports=[{"hostPort": 1}]), "c has a port of the host"),
    ],
)
def test_the_check_of_pods_finds_what_it_looks_for(wrong, fault):
    """A pod that satisfies the standard has no fault; with one thing changed it has that fault."""
    inner = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    outer = {"runAsNonRoot": True, "runAsUser": 10001, "seccompProfile": {"type": "RuntimeDefault"}}
    pod = {"securityContext": outer, "volumes": [], "containers": [{"name": "c", "securityContext": inner}]}
    assert faults(pod) == []
    wrong(pod)
    assert fault in faults(pod)


class TestRendered:
    """What Helm makes of the chart."""

    pytestmark = rendering

    @pytest.mark.parametrize("leaf", CASES)
    def test_each_value_shows(self, leaf):
        """Changed once, it is where it is for, and was not there before."""
        case = CASES[leaf]
        expected = case.value if case.expected is None else case.expected
        assert case.shows(_rendered(leaf)) == expected
        if leaf not in case.beside and not leaf.endswith(".enabled"):
            try:
                before = case.shows(render(merged(SMALL, case.beside)))
            except (KeyError, TypeError, ValueError, IndexError):
                return
            assert before != expected

    @pytest.mark.parametrize("version", KUBERNETES)
    @pytest.mark.skipif(
        not VALIDATES, reason="kubernetes-validate is not installed: no manifest is compared with Kubernetes"
    )
    def test_kubernetes_takes_every_manifest(self, version):
        """By the schemas of its own API, without a name that they do not know; objects of the operator have none."""
        kubernetes_validate = importlib.import_module("kubernetes_validate")
        foreign = {"ServiceMonitor", "PrometheusRule"}
        made = [one for each in _every() for one in (*each.every, *([each.executor] if each.executors else []))]
        for text in {json.dumps(one) for one in made if one["kind"] not in foreign}:
            kubernetes_validate.validate(json.loads(text), version, strict=True)

    def test_every_pod_satisfies_the_restricted_standard(self):
        """Whatever the values; the executors' pods, too."""
        for made in _every():
            for pod in made.pods:
                assert faults(pod) == []
                assert pod["securityContext"]["fsGroup"] == 10001, "else the hub could not read its secrets"

    def test_no_manifest_holds_a_secret(self):
        """No Secret is made, no variable is filled from one, and a reference to a variable is refused."""
        for made in _every():
            assert made.all("Secret") == []
            assert "secretKeyRef" not in json.dumps(made.every)

    @pytest.mark.parametrize(
        "given",
        [
            {"keys": {"customer": "env:KEY"}},
            'keys: {customer: "env:KEY"}',
            "keys:\n  customer: env:KEY\n",
            {"keys": {"customer": "clear-text"}},
            {"keys": {"customer": {"current": 1, "versions": {"1": "clear-text"}}}},
            {"central": {"client": {"sasl.password": "clear-text"}}},
            {"central": {"client": {"ssl.key.password": "clear-text"}}},
            {"schemas_client": {"basic.auth.user.info": "hub:clear-text"}},
            "edges: {eu: {schemas_client: {bearer.auth.token: 'clear-text'}}}",
            {"lake": {"storage": {"s3.secret-access-key": "clear-text"}}},
            {"metrics": {"token": "clear-text"}},
        ],
        ids=json.dumps,
    )
    def test_a_secret_in_the_configuration_is_refused(self, given):
        """Before it is in a ConfigMap; the refusal says how secrets are given, and not what this one is."""
        with pytest.raises(Refused, match="as files only") as refused:
            render({**SMALL, "config": given if isinstance(given, str) else merged(HUB, given)})
        assert "clear-text" not in str(refused.value)

    def test_unknown_names_are_refused(self):
        """By Helm, by the schema."""
        with pytest.raises(Refused, match="replica"):
            render({**SMALL, "replica": 3})

    def test_the_commands_of_the_page_render(self, tmp_path):
        """In a folder with the files that they name, with the values that the page shows."""
        text = (ROOT / "docs" / "kubernetes.md").read_text(encoding="utf-8")
        (tmp_path / "policies").mkdir()
        (tmp_path / "policies" / "demo.yaml").write_text(FILES["policies/demo.yaml"])
        (tmp_path / "hub.yaml").write_text(json.dumps(HUB))
        (tmp_path / "values.yaml").write_text(re.findall(r"```yaml\n(# values\.yaml\n.*?)```", text, re.DOTALL)[0])
        shown = re.findall(r"^helm (?:install|upgrade) retail configs/helm/aggregator (.*)$", text, re.MULTILINE)
        assert len(shown) == 2
        for options in shown:
            made = render(None, *shlex.split(options), folder=tmp_path)
            assert made.config == HUB
            assert made.files["policies/demo.yaml"] == FILES["policies/demo.yaml"]
            assert made.hub["image"] == "registry.example/aggregator:0.1.0"

    def test_without_a_configuration_nothing_is_made(self):
        """It says what is missing."""
        with pytest.raises(Refused, match=r"--set-file config=hub\.yaml"):
            render({})

    @pytest.mark.parametrize("mode", ["ReadWriteOnce", "ReadWriteOncePod"])
    def test_a_lake_of_one_node_allows_no_standby(self, mode):
        """Two pods are refused with what to do; one is replaced, and not joined by another."""
        lake = {"persistence": {"enabled": True, "accessMode": mode}}
        with pytest.raises(Refused, match="set replicas to 1, use ReadWriteMany, or keep the lake in an object store"):
            render({**SMALL, **lake})
        with pytest.raises(Refused, match="executors on other nodes"):
            render({**SMALL, **lake, **SPARK, "replicas": 1})
        assert render({**SMALL, **lake, "replicas": 1}).deployment["strategy"] == {"type": "Recreate"}

    def test_the_standby_comes_before_the_old_pod_goes(self):
        """Two pods wait for each other's lease, on different nodes where there are some."""
        made = render(SMALL)
        assert made.deployment["replicas"] == 2
        assert made.hub["args"] == ["run", "--standby"]
        assert made.deployment["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
        assert [one["topologyKey"] for one in made.pod["topologySpreadConstraints"]] == VALUES["topologySpread"]["keys"]
        assert not made.pod["automountServiceAccountToken"]
        selector = made.deployment["selector"]["matchLabels"].items()
        assert selector <= made.deployment["template"]["metadata"]["labels"].items()
        assert made.one("PodDisruptionBudget")["spec"]["selector"]["matchLabels"].items() == selector

    def test_a_changed_policy_starts_new_pods(self):
        """So does a changed hub.yaml; the same text does not."""

        def checksum(values: dict[str, Any]) -> str:
            return render(values).deployment["template"]["metadata"]["annotations"]["checksum/config"]

        first = checksum(SMALL)
        assert checksum(SMALL) == first
        assert checksum(merged(SMALL, {"files": {"policies/demo.yaml": "policy: other"}})) != first
        assert checksum(merged(SMALL, {"config": {"hub": "other"}})) != first

    def test_a_changed_policy_starts_no_pods_where_hubs_look_for_it(self):
        """Every other file does."""
        watched = merged(SMALL, {"policyWatch": "30s", "files": {"expectations.json": "{}"}})

        def checksum(values: dict[str, Any]) -> str:
            return render(merged(watched, values)).deployment["template"]["metadata"]["annotations"]["checksum/config"]

        first = checksum({})
        assert checksum({"files": {"policies/demo.yaml": "policy: other"}}) == first
        assert checksum({"files": {"expectations.json": "[]"}}) != first
        assert checksum({"config": {"hub": "other"}}) != first

    def test_spark_may_make_pods_and_nothing_else(self):
        """Only in its namespace, only with `spark.enabled`; executors have no rights and no token."""
        made = render(merged(SMALL, SPARK))
        (rule,) = made.one("Role", "-spark")["rules"]
        assert (rule["apiGroups"], rule["resources"]) == ([""], ["pods"])
        (subject,) = made.one("RoleBinding", "-spark")["subjects"]
        assert (subject["name"], subject["namespace"]) == (made.pod["serviceAccountName"], NAMESPACE)
        assert made.pod["automountServiceAccountToken"]
        assert not made.executor["spec"]["automountServiceAccountToken"]
        assert made.executor["spec"]["containers"][0]["command"][-1] == "/usr/local/bin/spark-executor"
        assert render(SMALL).all("Role") == []

    @pytest.mark.parametrize("more", [{}, METRICS, PAGE, SPARK, merged(METRICS, {**PAGE, **SPARK})])
    def test_the_hub_reads_what_the_chart_writes(self, more, tmp_path):
        """Every key of the full configuration arrives as it was given, as text and as values."""
        text = (ROOT / "configs/hub.full.yaml").read_text(encoding="utf-8")
        text = text.replace("env:", "file:/run/").replace("spark://spark.example:7077", "local")
        text = re.sub("^  secret: .*$", "", text, flags=re.MULTILINE)
        given = YAML(typ="safe").load(text)
        environ = {"POD_IP": "10.0.0.7", "POD_NAME": "hub-1"}
        (tmp_path / "hub.yaml").write_text(text)
        for name in ("expectations", "policies"):
            shutil.copytree(ROOT / "configs" / name, tmp_path / name)
        before = load_config(tmp_path / "hub.yaml", environ)
        for config in (text, given):
            made = render(merged({**SMALL, "config": copy.deepcopy(config)}, more))
            (tmp_path / "hub.yaml").write_text(made.files["hub.yaml"])
            after = load_config(tmp_path / "hub.yaml", environ)
            left = {"metrics", "ui", "spark"} if more else set()
            assert after.model_dump(exclude=left) == before.model_dump(exclude=left)
            for name, wanted in before.spark.conf.items():
                assert after.spark.conf[name] == wanted
