"""Validators for single fields of the configuration: addresses, patterns and names.

Invariant: a check returns the value unchanged, or raises a ValueError whose text does not contain the value. The text
says what to write instead.
"""

import re
from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from aggregator.config.client import is_secret_property
from aggregator.config.constructs import is_list, unsupported_syntax
from aggregator.config.contexts import context_fault
from aggregator.config.glue import is_glue
from aggregator.config.patterns import full_matches

_SERVER = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):(\d{1,5})")
_PLACEHOLDER = re.compile(r"\{[^{}]*\}")
_TOPIC_TEXT = re.compile(r"[A-Za-z0-9._-]*")
AUTHENTICATE = "spark.authenticate"
HIGHEST_PORT = 65_535
STORES = ("s3", "s3a", "abfss", "gs", "file")


def servers(value: str) -> str:
    """`host:port`, several with commas, without a protocol: librdkafka passes over one that `client` does not name."""
    if "://" in value:
        raise ValueError(
            "is `host:port` without a protocol, which `client: {security.protocol: …}` names for all of them"
        )
    for server in value.split(","):
        found = _SERVER.fullmatch(server.strip())
        if found is None or not 0 < int(found[1]) <= HIGHEST_PORT:
            raise ValueError("is one or more `host:port`, separated by commas, without user or password")
    return value


def registry_reference(value: str) -> str:
    """`directory:<path>`, AWS Glue's, or http(s) addresses of one registry, with commas, without credentials."""
    if (value.startswith("directory:") and value != "directory:") or is_glue(value):
        return value
    addresses = value.split(",")
    if all(address.startswith(("http://", "https://")) for address in addresses):
        parts = [urlsplit(address) for address in addresses]
        if any("@" in address or part.query for address, part in zip(addresses, parts, strict=True)):
            raise ValueError("holds credentials in clear; an address names the registry, `schemas_client` the user")
        if all(part.hostname for part in parts):
            if why := context_fault(value, {}):
                raise ValueError(why)
            return value
    raise ValueError("is `directory:<path>`, `glue:<region>/<registry>`, or begins with http:// or https://")


def versions_kept(value: timedelta) -> timedelta:
    """Check how long older versions of a table stay readable."""
    if value < timedelta(hours=1):
        raise ValueError("is an hour at least: a query that runs reads the files of its version")
    if value > timedelta(days=36_500):
        raise ValueError("is a hundred years at most; `upkeep: {vacuum: false}` forgets nothing")
    return value


def topic_pattern(value: str) -> str:
    """A regular expression that RE2 compiles."""
    if not value:
        raise ValueError("is empty; `.*` matches every topic")
    if found := unsupported_syntax(value):
        raise ValueError(f"holds {found}, which RE2 does not have or reads otherwise; `exclude` leaves topics out")
    if is_list(value):
        raise ValueError("holds a comma or a space, which no topic has; several are written as `orders|payments`")
    full_matches(value, [])
    return value


def group_pattern(value: str) -> str:
    """A regular expression on names of consumer groups that RE2 compiles."""
    if found := unsupported_syntax(value):
        raise ValueError(f"holds {found}, which RE2 does not have or reads otherwise; `exclude` leaves groups out")
    full_matches(value, [])
    return value


def central_pattern(value: str) -> str:
    """Text of topic characters around exactly one `{topic}` and at most one `{edge}`."""
    _only_placeholders(value)
    if value.count("{topic}") != 1:
        raise ValueError("holds `{topic}` exactly once; two edge topics would become one otherwise")
    return value


def lake_pattern(value: str) -> str:
    """Name of a table, with or without `{edge}` and `{topic}`."""
    _only_placeholders(value)
    if value.startswith(".") or not value:
        raise ValueError("names a folder below lake.path; it is not empty and does not begin with a dot")
    return value


def _only_placeholders(value: str) -> None:
    if not set(_PLACEHOLDER.findall(value)) <= {"{edge}", "{topic}"} or value.count("{edge}") > 1:
        raise ValueError("knows the placeholders `{edge}`, once, and `{topic}`, nothing else in braces")
    if not _TOPIC_TEXT.fullmatch(_PLACEHOLDER.sub("", value)):
        raise ValueError("holds letters, digits, dot, underscore and hyphen only, besides `{edge}` and `{topic}`")


def lake_path(value: object) -> object:
    """A folder that every executor sees, or the address of one in an object store."""
    text = str(value) if isinstance(value, Path) else value
    if isinstance(text, str) and "://" in text:
        parts = urlsplit(text)
        if parts.scheme not in STORES:
            raise ValueError(f"is a folder, or an address that begins with {', '.join(f'{one}://' for one in STORES)}")
        if parts.query or parts.password is not None:
            raise ValueError("holds more than a place: keys and tokens go into `lake.storage`, as references")
        text = text.rstrip("/")
        if not parts.path.strip("/"):
            raise ValueError("names a folder of its own for the tables, below the bucket or container")
    if text in ("", "."):
        raise ValueError("names a folder of its own for the tables")
    return text


def lake_format(value: object) -> object:
    """Refuse a format that the lake does not have."""
    if value not in ("delta", "iceberg"):
        raise ValueError("is `delta` or `iceberg`")
    return value


def table_columns(value: tuple[str, ...]) -> tuple[str, ...]:
    """Refuse columns that are empty or named twice."""
    if len({name.casefold() for name in value}) != len(value) or not all(value):
        raise ValueError("names each column once")
    return value


def listen_address(value: str) -> str:
    """`host:port`, or a port alone, which is one of loopback."""
    found = value if ":" in value else f"127.0.0.1:{value}"
    host, _, port = found.rpartition(":")
    if not host or not re.fullmatch(r"\d{1,5}", port) or int(port) > HIGHEST_PORT:
        raise ValueError("is `host:port`, as 127.0.0.1:9464; a port alone is one of loopback")
    return found


def is_loopback(listen: str) -> bool:
    """Whether only this machine reaches a `host:port`."""
    host = listen.rpartition(":")[0].strip("[]")
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def web_address(value: str) -> str:
    """An address of a service, http:// or https://, without a word that lets somebody in."""
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("is the address of a service, as https://lineage.example.com")
    if parts.username or parts.password:
        raise ValueError("holds a user or a password, which logs would show: refer to it beside the address")
    return value


def refuse_in_clear(setting: str, secret: object, address: str) -> None:
    """A secret goes to a service over https alone.

    Args:
        setting: Its key in the configuration.
        secret: What is there; nothing is refused where it is empty.
        address: Where it would go.

    Raises:
        ValueError: it would go in clear.
    """
    if secret and not address.startswith("https://"):
        raise ValueError(f"`{setting}` would go over the network in clear: write an https:// address")


def lineage_target(value: str) -> str:
    """`file:<path>`, or the address of a service."""
    return value if value.startswith("file:") and len(value) > len("file:") else web_address(value)


def host_name(value: str) -> str:
    """A name or an address, without a port."""
    if not re.fullmatch(r"[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\]", value):
        raise ValueError("is the name of a host, as hub.example.com, without a port; IPv6 in brackets")
    return value.lower()


def hub_name(value: str) -> str:
    """A name whose topics and transactional ids are nobody else's."""
    if value.endswith(".backfill"):
        raise ValueError("ends in .backfill: backfills of another hub have topics and transactional ids of such names")
    return value


def broker_count(value: int) -> int:
    """-1 leaves it to the broker's default."""
    if value != -1 and not 0 < value < 2**15:
        raise ValueError("is -1 (the broker's default) or at least 1")
    return value


def spark_conf(conf: dict[str, str]) -> dict[str, str]:
    """Spark shows its settings on its page and in its logs, so that no secret may be one.

    Raises:
        ValidationError: one entry per refused setting, at its own place.
    """
    refused = [
        InitErrorDetails(type=PydanticCustomError("spark_conf", reason), loc=(name,), input=None)
        for name in conf
        if (reason := _spark_refusal(name))
    ]
    if refused:
        raise ValidationError.from_exception_data("conf", refused, hide_input=True)
    return conf


def _spark_refusal(name: str) -> str | None:
    if is_secret_property(name):
        return "looks like a secret, and Spark shows its settings; secrets are `env:` or `file:` references elsewhere"
    if name == "spark.master":
        return "cannot be set here: `spark.master` of the configuration, outside `conf`, is its one home"
    if name == "spark.speculation":
        return "cannot be set: a second copy of a slot would only fence the first"
    return None
