"""Opens the registry that a configuration names.

Invariant: an open connection setting without a reason is refused before any request is sent.
"""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from aggregator.config.glue import is_glue
from aggregator.config.secrets import SecretRef
from aggregator.config.transport import registry_faults
from aggregator.errors import ConfigError
from aggregator.schema.directory import DirectoryRegistry
from aggregator.schema.registry import Registry


def open_registry(reference: str, client: Mapping[str, str | SecretRef] = MappingProxyType({})) -> Registry:
    """The registry that a configuration names; for the process that asks it, never to be shipped.

    Args:
        reference: `directory:<absolute path>`, `glue:<region>/<registry>`, or an http(s) address; several addresses of
            one registry with commas.
        client: How to connect to it (credentials, TLS); secrets are resolved here.

    Raises:
        ConfigError: another kind of reference, a setting that cannot be used, or an open connection without a reason.
    """
    scheme, _, target = reference.partition(":")
    if scheme == "directory" and Path(target).is_absolute():
        return DirectoryRegistry(Path(target))
    if scheme in ("http", "https") or is_glue(reference):
        for setting, why in registry_faults(reference, client):
            raise ConfigError(f"the registry's {setting} {why}", hint="correct `schemas` or `schemas_client`")
    if scheme in ("http", "https"):
        from aggregator.schema.confluent import ConfluentRegistry  # noqa: PLC0415 - loads slowly

        return ConfluentRegistry(reference, client)
    if is_glue(reference):
        from aggregator.schema.glue import GlueRegistry  # noqa: PLC0415 - as above

        return GlueRegistry(reference, client)
    raise ConfigError(
        "a registry is named as directory:<absolute path>, glue:<region>/<registry> or by an http(s) address",
        hint="correct the line of `schemas:`",
    )
