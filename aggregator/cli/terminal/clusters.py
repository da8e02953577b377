"""Reads arguments that name clusters and registries and say how to connect to them, for all edges or for one.

Invariant: the configuration's own rules check each argument, so every accepted argument can be written into a file.
"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import click
from pydantic import TypeAdapter, ValidationError

from aggregator.config.model import ClusterConfig
from aggregator.config.secrets import SecretRef
from aggregator.config.value_types import EdgeName, RegistryOptions

_EDGE_NAME: TypeAdapter[str] = TypeAdapter(EdgeName)
_REGISTRY_OPTIONS: TypeAdapter[dict[str, str | SecretRef]] = TypeAdapter(RegistryOptions)


class ServerType(click.ParamType[str]):
    """Reads `host:port`, or several of them with commas between."""

    name = "HOST:PORT"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check with the configuration's own rule."""
        try:
            return ClusterConfig(bootstrap_servers=value).bootstrap_servers
        except ValidationError:
            self.fail("an address is host:port, several separated by commas", param, ctx)


class EdgeType(click.ParamType[tuple[str, str]]):
    """Reads an edge that is given as `name=host:port`."""

    name = "NAME=HOST:PORT"

    def convert(
        self, value: str | tuple[str, str], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        """Check with the configuration's own rules."""
        if isinstance(value, tuple):
            return value
        name, separator, server = value.partition("=")
        try:
            _EDGE_NAME.validate_python(name)
        except ValidationError:
            separator = ""
        if not separator:
            self.fail("an edge is name=host:port, its name 1 to 32 of a-z, 0-9 and hyphen", param, ctx)
        return name, ServerType().convert(server, param, ctx)


class ClientSetting(NamedTuple):
    """A setting that an option gives as `[NAME:]PROPERTY=VALUE`.

    Attributes:
        name: The cluster that it is for; empty for all of them.
        option: The property.
        value: The value in the form that is valid in a file in any folder.
    """

    name: str
    option: str
    value: str


class SettingType(click.ParamType[ClientSetting]):
    """Reads `property=value` or `cluster:property=value`. Paths become absolute, because the configuration file may lie
    in another folder.
    """

    name = "[NAME:]PROPERTY=VALUE"

    def convert(
        self, value: str | ClientSetting, param: click.Parameter | None, ctx: click.Context | None
    ) -> ClientSetting:
        """Split a setting into the cluster, the option and its value."""
        if isinstance(value, ClientSetting):
            return value
        left, separator, given = value.partition("=")
        cluster, _, option = left.rpartition(":")
        if not separator or not option:
            self.fail("a setting is name=value, like basic.auth.user.info=env:REGISTRY_USER", param, ctx)
        scheme, _, target = given.partition(":")
        if scheme == "file":
            given = f"file:{Path(target).absolute()}"
        return ClientSetting(cluster, option, str(Path(given).absolute()) if option.endswith(".location") else given)


class SchemasType(click.ParamType[tuple[str, str]]):
    """Reads a registry, or `edge=registry`."""

    name = "[EDGE=]REGISTRY"

    def convert(
        self, value: str | tuple[str, str], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        """An address may have an equals sign, and no name of an edge has a colon."""
        del param, ctx
        if isinstance(value, tuple):
            return value
        edge, separator, reference = value.partition("=")
        return (edge, reference) if separator and ":" not in edge else ("", value)


def options_of(flag: str, name: str, settings: Sequence[ClientSetting], known: Collection[str]) -> dict[str, str]:
    """The settings of one cluster, its own last, which win.

    Args:
        flag: The option that they were given by.
        name: The cluster's.
        settings: The settings of all clusters.
        known: Names of clusters.

    Raises:
        UsageError: one is for another cluster.
    """
    strange = next((one.name for one in settings if one.name and one.name not in known), None)
    if strange is not None:
        raise click.UsageError(f"{flag} {strange}:…: no cluster has this name; there are {', '.join(known)}")
    return {one.option: one.value for scope in ("", name) for one in settings if one.name == scope}


def of_each(names: Collection[str], schemas: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Each edge's registry: its own, or the one for all.

    Raises:
        UsageError: an edge has two or none, or there is no such edge.
    """
    said = dict(schemas)
    if len(said) < len(schemas):
        raise click.UsageError("--schemas names two registries for one edge, or for all of them")
    strange = sorted(said.keys() - {"", *names})
    if strange:
        raise click.UsageError(f"--schemas {strange[0]}=…: no edge has this name; there are {', '.join(names)}")
    missing = sorted(name for name in names if name not in said and "" not in said)
    if missing:
        raise click.UsageError(f"--schemas {missing[0]}=… is missing")
    return {name: said.get(name, said.get("", "")) for name in names}


def cluster_of(server: str, options: Mapping[str, str]) -> ClusterConfig:
    """The configuration of a cluster with its `client:` options.

    Raises:
        BadParameter: a setting is refused; told without its value.
    """
    try:
        return ClusterConfig.model_validate({"bootstrap_servers": server, "client": dict(options)})
    except ValidationError as error:
        raise click.BadParameter(_validation_text(error), param_hint="--client") from None


def registry_options(options: Mapping[str, str]) -> dict[str, str | SecretRef]:
    """A registry's `schemas_client:` block; raises as `cluster_of`."""
    try:
        return _REGISTRY_OPTIONS.validate_python(dict(options))
    except ValidationError as error:
        raise click.BadParameter(_validation_text(error), param_hint="--schemas-client") from None


def _validation_text(error: ValidationError) -> str:
    return "; ".join(
        f"{item['loc'][-1] if item['loc'] else 'client'} {item['msg'].removeprefix('Value error, ')}"
        for item in error.errors(include_input=False)
    )


def as_written(options: Mapping[str, str | SecretRef]) -> dict[str, str]:
    """A block as a file has it: secrets as references."""
    return {name: str(value) for name, value in options.items()}
