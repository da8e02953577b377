"""This module makes the settings that protect Spark's own connections from other clients on the network.

Through an open port of an executor, any client could run code in it.

Invariant: pure. Unless the master is a single JVM, Spark's processes authenticate each other by a secret and encrypt
with AES. They accept no weaker protocol from a client that asks for one. Only `spark.authenticate: false` in the
configuration opens the ports.
"""

import re
import secrets
from collections.abc import Mapping

from aggregator.config.fields import AUTHENTICATE
from aggregator.config.model import SparkConfig
from aggregator.errors import ConfigError

LOCAL_CLUSTER = re.compile(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,\s*\d+\s*\]")
_CLOSED = {
    AUTHENTICATE: "true",
    "spark.network.crypto.enabled": "true",
    # Otherwise a client that asks for SASL gets it: DIGEST-MD5, without encryption.
    "spark.network.crypto.saslFallback": "false",
    # The handshake of version 1 is not bound to its transcript (CVE-2021-38296).
    "spark.network.crypto.authEngineVersion": "2",
}


def is_alone(url: str) -> bool:
    """Whether everything runs in one JVM, which nobody reaches over a network."""
    return url == "local" or url.startswith("local[")


def port_settings(spark: SparkConfig, url: str) -> dict[str, str]:
    """The Spark settings that override all others.

    Args:
        spark: The `spark:` block.
        url: The master's URL.
    """
    if is_alone(url):
        return {}
    return _CLOSED if _is_closed(spark) else {AUTHENTICATE: "false", "spark.network.crypto.enabled": "false"}


def port_secret(spark: SparkConfig, url: str) -> str | None:
    """What Spark's processes know each other by, where Spark does not draw it itself (as on YARN and Kubernetes).

    Raises:
        ConfigError: it is missing, or cannot be read.
    """
    if is_alone(url) or not _is_closed(spark):
        return None
    if LOCAL_CLUSTER.fullmatch(url):
        return secrets.token_hex(32)
    if spark.secret is None and url.startswith("spark://"):
        raise ConfigError(
            f"spark.master {url} asks for the secret of its cluster",
            hint=f"`spark: {{secret: file:…}}` refers to the cluster's {AUTHENTICATE}.secret",
        )
    return spark.secret.resolve() if spark.secret else None


def check_ports(known: Mapping[str, str], spark: SparkConfig, url: str) -> None:
    """Refuse a session whose settings, which spark-submit may have made, leave its processes open.

    Args:
        known: The session's settings.
        spark: The `spark:` block.
        url: The master.

    Raises:
        ConfigError: with the settings that are to be there.
    """
    if is_alone(url) or not _is_closed(spark):
        return
    lacking = [f"--conf {name}={value}" for name, value in _CLOSED.items() if known.get(name) != value]
    if lacking:
        raise ConfigError(
            "Spark's processes would take each other's word, and everybody else's, over the network",
            hint=f"spark-submit {' '.join(lacking)} …, or say `{AUTHENTICATE}: false` in `spark.conf` of the "
            "configuration, on a network of their own",
        )


def _is_closed(spark: SparkConfig) -> bool:
    return spark.conf.get(AUTHENTICATE, "true").lower() != "false"
