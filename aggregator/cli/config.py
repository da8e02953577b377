"""`aggregator config lint|show|schema`: the configuration before anything runs.

Invariant: nothing here connects to a cluster, reads a secret or prints one.
"""

import os
from datetime import UTC, datetime
from pathlib import Path

import click

from aggregator.cli.terminal.output import config_option, emit, say
from aggregator.config.load import load_config
from aggregator.config.show import json_schema, shown
from aggregator.privacy.policy.cross_check import read_policies


@click.group()
def config() -> None:
    """Check, show and describe the configuration."""


@config.command(epilog="\b\nExample:\n  aggregator config lint --config hub.yaml && echo fine")
@config_option
def lint(config: Path) -> None:
    """Tell every fault at once, with file and line; exit 78 if there is one.

    Policies that the configuration names are read too, and the client library is asked what it cannot do: each
    client is made once, without a connection.
    """
    from aggregator.kafka.client.capabilities import unsupported
    from aggregator.kafka.client.trial_clients import unmakeable

    loaded = load_config(config, os.environ, unsupported, unmakeable)
    read_policies(loaded, datetime.now(UTC).date())
    say(f"{config}: no faults ({len(loaded.edges)} edges, {len(loaded.topics)} topic rules)")


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
