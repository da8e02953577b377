"""This module finds out what the loaded librdkafka supports, and which settings of a `client:` block it does not.

Invariant: the library itself is asked. This project keeps no list of what a build supports.
"""

import ctypes
from collections.abc import Iterator
from functools import cache

from aggregator.config.features import LibrdkafkaBuild, Options, lacking
from aggregator.config.secrets import SecretRef
from aggregator.config.transport import properties
from aggregator.errors import ConfigError
from aggregator.kafka.native.library import rd

_TEXT_BYTES = 1024
_FOREIGN = "is not in this librdkafka, which was built for another system: leave it out"


@cache
def library() -> LibrdkafkaBuild:
    """Version and features of the librdkafka of this process."""
    conf, text, size = rd.conf_new(), ctypes.create_string_buffer(_TEXT_BYTES), ctypes.c_size_t(_TEXT_BYTES)
    try:
        rd.conf_get(conf, b"builtin.features", text, size)
    finally:
        rd.conf_destroy(conf)
    return LibrdkafkaBuild(rd.version_str().decode(), frozenset(text.value.decode().split(",")))


def unsupported(options: Options) -> Iterator[tuple[str, str]]:
    """Settings of a `client:` block that this library cannot carry out, each with why and what to do."""
    yield from lacking(options, library())
    yield from _refused_settings(options)


def _refused_settings(options: Options) -> Iterator[tuple[str, str]]:
    """The settings that the library refuses in any context. Its own text would quote the value."""
    conf, text = rd.conf_new(), ctypes.create_string_buffer(_TEXT_BYTES)
    try:
        for name, value in properties(options).items():
            if not isinstance(value, SecretRef) and rd.conf_set(conf, name.encode(), value.encode(), text, _TEXT_BYTES):
                foreign = b"not supported in this build" in text.value
                yield name, _FOREIGN if foreign else "takes no such value; docs: librdkafka's CONFIGURATION.md"
    finally:
        rd.conf_destroy(conf)


def require(options: Options, where: str) -> None:
    """Refuse a block that no client can be made of.

    Args:
        options: A cluster's `client:` block.
        where: The cluster's addresses.

    Raises:
        ConfigError: names each setting.
    """
    if found := [f"client of {where}: {name}: {why}" for name, why in lacking(options, library())]:
        raise ConfigError(found, hint="aggregator config lint names file and line")
