"""Settings of Spark's own connections: closed for every master but one JVM, and each rule of it is needed."""

import os
import re
from collections.abc import Callable, Iterator

import pytest

from aggregator.config.model import SparkConfig
from aggregator.engine.ports import check_ports, is_alone, port_secret, port_settings
from aggregator.errors import ConfigError
from tests.mutation import Mutant, without

PORTS = "aggregator.engine.ports"
CLUSTERS = ("local-cluster[2,2,1024]", "spark://m:7077", "yarn", "k8s://https://m:6443")
# Spark's own words, written down once more: what is said here is said by nobody else.
CLOSED = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.network.crypto.saslFallback": "false",
    "spark.network.crypto.authEngineVersion": "2",
}
REFERRED = "env:TEST_PORTS_SECRET"


def block(master: str, **conf: str) -> SparkConfig:
    closed = conf.get("spark.authenticate", "true") != "false"
    secret = {"secret": REFERRED} if master.startswith("spark://") and closed else {}
    return SparkConfig.model_validate({"master": master, "conf": conf, **secret})


def settings_are_closed() -> Iterator[str]:
    """Of every cluster, also where the configuration says something weaker."""
    for master in CLUSTERS:
        for conf in ({}, {"spark.network.crypto.enabled": "false"}, {"spark.network.crypto.saslFallback": "true"}):
            made = conf | port_settings(block(master, **conf), master)
            yield from (f"{master}: {name}={made.get(name)}" for name in CLOSED if made.get(name) != CLOSED[name])
    for master in ("local", "local[4,4]"):
        if port_settings(block(master), master):
            yield f"{master}: one JVM needs nothing"
    opened = port_settings(block("yarn", **{"spark.authenticate": "false"}), "yarn")
    if opened != {"spark.authenticate": "false", "spark.network.crypto.enabled": "false"}:
        yield f"opened by name: {opened}"


def sessions_are_looked_at() -> Iterator[str]:
    """Each setting that is missing or weaker stops a session that spark-submit made."""
    for master in CLUSTERS:
        if _refused(CLOSED, master):
            yield f"{master}: closed, and refused"
        for name, value in CLOSED.items():
            for weaker in ("true" if value == "false" else "false", "1", None):
                known = {**CLOSED, name: weaker} if weaker else {one: CLOSED[one] for one in CLOSED if one != name}
                told = _refused(known, master)
                if f"--conf {name}={value} " not in told:
                    yield f"{master}: {name}={weaker}: {told or 'passes'}"
    for master in ("local", "local[4,4]"):
        if _refused({}, master):
            yield f"{master}: one JVM is refused"
    if _refused({}, "yarn", **{"spark.authenticate": "false"}):
        yield "opened by name, and refused"


def _refused(known: dict[str, str], master: str, **conf: str) -> str:
    try:
        check_ports(known, block(master, **conf), master)
    except ConfigError as error:
        return str(error)
    return ""


def secrets_are_had() -> Iterator[str]:
    """Drawn anew for a local cluster, the cluster's own for a standalone one, and none where Spark draws it."""
    drawn = {port_secret(block(CLUSTERS[0]), CLUSTERS[0]) for _ in range(3)}
    if len(drawn) != 3 or not all(secret and re.fullmatch("[0-9a-f]{64}", secret) for secret in drawn):
        yield "a local cluster's secret is not drawn each time"
    os.environ[REFERRED.removeprefix("env:")] = "the cluster's own"
    if port_secret(block(CLUSTERS[1]), CLUSTERS[1]) != "the cluster's own":
        yield "a standalone cluster's secret is another"
    for master in ("yarn", CLUSTERS[3], "local[2,4]"):
        if port_secret(block(master), master) is not None:
            yield f"{master}: has a secret of ours"
    if port_secret(block("yarn", **{"spark.authenticate": "false"}), CLUSTERS[0]) is not None:
        yield "opened by name, and has a secret"
    try:
        port_secret(SparkConfig(), CLUSTERS[1])
        yield "a standalone cluster without a secret passes"
    except ConfigError:
        pass


CHECKS: tuple[Callable[[], Iterator[str]], ...] = (settings_are_closed, sessions_are_looked_at, secrets_are_had)
SETTINGS = "return _CLOSED if _is_closed(spark) else {"
MUTANTS = [
    *(
        Mutant(f"{name} is not set", [(PORTS, SETTINGS, SETTINGS.replace("_CLOSED", f"{{**_CLOSED, {name!r}: ''}}"))])
        for name in CLOSED
    ),
    *(
        Mutant(
            f"{name} is not looked for",
            [(PORTS, "if known.get(name) != value]", f"if known.get(name) != value and name != {name!r}]")],
        )
        for name in CLOSED
    ),
    *(
        Mutant(
            f"{name} is taken when it is merely there",
            [(PORTS, "if known.get(name) != value]", f"if known.get(name) != value and not known.get({name!r})]")],
        )
        for name in CLOSED
    ),
    Mutant("a local cluster is one JVM", [(PORTS, 'url.startswith("local[")', 'url.startswith("local")')]),
    Mutant("a cluster is one JVM", [(PORTS, 'return url == "local" or', "return True or")]),
    Mutant("nobody opens them by name", [(PORTS, '"true").lower() != "false"', '"true") != "maybe"')]),
    Mutant("they are open by default", [(PORTS, 'get(AUTHENTICATE, "true").lower()', 'get(AUTHENTICATE, "false")')]),
    Mutant("the secret is one for all", [(PORTS, "return secrets.token_hex(32)", 'return "0" * 64')]),
    Mutant("the secret is short", [(PORTS, "return secrets.token_hex(32)", "return secrets.token_hex(4)")]),
    Mutant("a standalone cluster needs none", [(PORTS, 'url.startswith("spark://")', "not url")]),
    Mutant("a standalone cluster's is drawn", [(PORTS, "if LOCAL_CLUSTER.fullmatch(url)", 'if url != "yarn"')]),
    Mutant("a session is not looked at", [(PORTS, "    if lacking:", "    if lacking and not url:")]),
]  # fmt: skip


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_spark_s_ports_are_closed(check):
    """Each rule, for every kind of master."""
    assert list(check()) == []


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_each_rule_is_needed(mutant):
    """Without it, a check finds something."""
    with without(mutant):
        assert any(next(check(), None) for check in CHECKS), f"{mutant.name}: survives"


@pytest.mark.parametrize(("url", "alone"), [("local", True), ("local[2]", True), ("local-cluster[1,1,1]", False)])
def test_one_jvm_is_alone(url, alone):
    """Nobody reaches it over a network."""
    assert is_alone(url) is alone
