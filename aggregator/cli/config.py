"""`aggregator config lint|show|schema`: checks and shows the configuration before anything runs.

Invariant: these commands connect to no cluster and to no registry's address. They neither read nor print a secret.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aggregator.cli.terminal.command_group import CommandGroup
from aggregator.cli.terminal.output import config_option, emit, progress, say
from aggregator.config.load import load_config, placed_faults
from aggregator.config.show import json_schema, shown
from aggregator.count_text import format_count
from aggregator.errors import ConfigError
from aggregator.machine_clock import utc_today
from aggregator.privacy.policy.cross_check import read_policies

if TYPE_CHECKING:
    from aggregator.config.model import HubConfig
    from aggregator.privacy.policy.file import Policy

_ANOTHER = "name another operator, or `drop`; aggregator policy explain shows every field"


@click.group(cls=CommandGroup)
def config() -> None:
    """Check, show and describe the configuration."""


@config.command(epilog="\b\nExample:\n  aggregator config lint --config hub.yaml && echo fine")
@config_option
@click.option(
    "--elsewhere", is_flag=True, help="Do not look for keys, passwords and certificates, in files or variables."
)
def lint(config: Path, *, elsewhere: bool) -> None:
    """Tell every fault at once, with file and line; exit 78 if there is one.

    Policies that the configuration names are read too, and the client library is asked what it cannot do: each
    client is made once, without a connection. Operators that do not take the type of the field that they name are
    told where an edge's registry is a folder; `policy explain` does it for any schema.
    """
    from aggregator.config.lint import unset_variables
    from aggregator.plan.void_rules import void_rules

    loaded, policies, errors = _looked_through(config, elsewhere=elsewhere)
    if policies and (void := list(void_rules(loaded, policies, utc_today()))):
        errors.append(ConfigError(void, hint=_ANOTHER))
    _refuse(errors)
    unset = () if elsewhere else tuple(unset_variables(loaded, os.environ))
    if unset:
        progress(f"{', '.join(unset)}: not set here; the hub needs each of these variables, and says so when it starts")
    for path, policy in policies.items():
        for line in policy.ended(utc_today()):
            progress(f"{path}: {line}, which closes its place whatever else is written there: take it out")
    edges, rules = format_count(len(loaded.edges), "edge"), format_count(len(loaded.topics), "topic rule")
    say(f"{config}: no faults ({edges}, {rules})")


def linted(config: Path) -> "tuple[HubConfig, Mapping[Path, Policy]]":
    """A configuration in which nothing is that a run refuses, and its policies.

    Raises:
        ConfigError: every fault, with file and line.
    """
    loaded, policies, errors = _looked_through(config, elsewhere=False)
    _refuse(errors)
    return loaded, policies


def _looked_through(config: Path, *, elsewhere: bool) -> "tuple[HubConfig, Mapping[Path, Policy], list[ConfigError]]":
    """A configuration that the client library can do, its policies, and what a start would stumble over.

    Raises:
        ConfigError: nothing can be made of the file; every fault, with its line.
    """
    from aggregator.config.lint import missing_files, one_cluster_twice
    from aggregator.kafka.client.capabilities import unsupported
    from aggregator.kafka.client.trial_clients import unmakeable

    loaded = load_config(config, os.environ, unsupported, unmakeable)
    missing = () if elsewhere else missing_files(loaded)
    faults = placed_faults(config, [*one_cluster_twice(loaded), *missing])
    errors = [faults] if faults else []
    try:
        return loaded, read_policies(loaded, utc_today()), errors
    except ConfigError as error:
        return loaded, {}, [*errors, error]


def _refuse(errors: Sequence[ConfigError]) -> None:
    if errors:
        raise ConfigError([line for error in errors for line in error.lines], hint=errors[0].hint)


@config.command(epilog="\b\nExample:\n  aggregator config show -o json | jq .edges")
@config_option
@click.option("-o", "--output", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True, help="Format.")
def show(config: Path, output: str) -> None:
    """Print the effective configuration: defaults filled in, paths absolute, secrets as references."""
    emit(shown(load_config(config, os.environ)), output, lambda: ())


@config.command(epilog="\b\nExample:\n  aggregator config schema > hub.schema.json")
def schema() -> None:
    """Print the JSON Schema of the file, for editors."""
    emit(json_schema(), "json", lambda: ())
