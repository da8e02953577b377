"""`aggregator config lint|show|schema`: the configuration before anything runs.

Invariant: nothing here connects to a cluster, reads a secret or prints one.
"""

import os
from pathlib import Path

import click

from aggregator.cli.output import config_option, rendered
from aggregator.config.load import load_config
from aggregator.config.model import HubConfig
from aggregator.config.show import json_schema, shown
from aggregator.errors import ConfigError
from aggregator.privacy.policy import load_policy


@click.group()
def config() -> None:
    """Check, show and describe the configuration."""


@config.command(epilog="\b\nExample:\n  aggregator config lint --config hub.yaml && echo fine")
@config_option
def lint(config: Path) -> None:
    """Tell every fault at once, with file and line; exit 78 if there is one.

    Policies that the configuration names are read too.
    """
    loaded = load_config(config, os.environ)
    faults = policy_faults(loaded)
    if faults:
        raise ConfigError("\n".join(faults), hint=f"correct this, then: aggregator config lint --config {config}")
    click.echo(f"{config}: no faults ({len(loaded.edges)} edges, {len(loaded.topics)} topic rules)")


@config.command(epilog="\b\nExample:\n  aggregator config show -o json | jq .edges")
@config_option
@click.option("-o", "--output", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True, help="Format.")
def show(config: Path, output: str) -> None:
    """Print the effective configuration: defaults filled in, paths absolute, secrets as references."""
    click.echo(rendered(shown(load_config(config, os.environ)), output), nl=False)


@config.command(epilog="\b\nExample:\n  aggregator config schema > hub.schema.json")
def schema() -> None:
    """Print the JSON Schema of the file, for editors."""
    click.echo(rendered(json_schema(), "json"), nl=False)


def policy_faults(config: HubConfig) -> list[str]:
    """What is wrong with the policies that a configuration names, and with the keys that these name in turn."""
    faults = []
    for path in sorted({rule.policy for rule in config.topics}):
        try:
            policy = load_policy(path)
        except ConfigError as error:
            faults.append(error.message)
            continue
        missing = sorted(policy.keys() - config.keys.keys())
        faults += [
            f"{path}: key {name} is used here, and is not under `keys:` of the configuration" for name in missing
        ]
    return faults
