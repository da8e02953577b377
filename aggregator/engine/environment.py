"""This module removes secrets from the environment that the JVM and its Python workers inherit from this process.

Invariant: a variable that the configuration refers to as a secret is not in the environment of any process that Spark
starts. Any code that runs in Spark could read it there. Slots and lake tasks can still resolve the reference. They read
it from a file in memory, which this process keeps open and only processes of this user can read. The file ends with
this process.
"""

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pydantic import BaseModel

from aggregator.config.model import HubConfig
from aggregator.config.secrets import HANDED_ON, KeyRing, SecretRef


@contextmanager
def without_secrets(config: HubConfig) -> Iterator[None]:
    """While the block lasts, a process that is started inherits no secret; what runs here can still resolve them.

    On systems without files in memory (macOS), the environment stays as it is.

    Args:
        config: Its references say which variables are secrets.
    """
    found = {name: os.environ[name] for name in sorted(variables(config)) if os.environ.get(name)}
    if sys.platform != "linux" or not found:
        yield
        return
    os.environ[HANDED_ON] = _in_memory(json.dumps(found).encode())
    for name in found:
        del os.environ[name]
    try:
        yield
    finally:
        os.environ.update(found)


def _in_memory(content: bytes) -> str:
    """A file without a name, by the path under which other processes of this user find it."""
    descriptor = os.memfd_create("aggregator-secrets")
    os.write(descriptor, content)
    return f"/proc/{os.getpid()}/fd/{descriptor}"


def variables(part: object) -> frozenset[str]:
    """Names of the environment's variables that a configuration, or a part of one, refers to."""
    return frozenset(_variables(part))


def _variables(part: object) -> Iterator[str]:
    if isinstance(part, SecretRef):
        yield from (part.target,) if part.scheme == "env" else ()
    elif isinstance(part, KeyRing):
        yield from (name for _, reference in part.versions for name in _variables(reference))
    elif isinstance(part, BaseModel):
        yield from (name for field in type(part).model_fields for name in _variables(getattr(part, field)))
    elif isinstance(part, Mapping):
        yield from (name for value in part.values() for name in _variables(value))
    elif isinstance(part, tuple | list):
        yield from (name for value in part for name in _variables(value))
