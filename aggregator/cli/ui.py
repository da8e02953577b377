"""`aggregator ui`: serves the page, independently of a hub. The hub may run anywhere, or not run.

Invariants: the command only reads. It serves until SIGTERM or Ctrl-C, and then ends with exit code 0. stdout holds the
page's address. The page begins anew when the hub's file or a policy of it changes: no hub is shown by former files.
"""

import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click
from pydantic import ValidationError

from aggregator.cli.status import monitoring
from aggregator.cli.terminal.output import config_option, progress, say
from aggregator.cli.terminal.signals import stopping_on_signals
from aggregator.config.load import load_config
from aggregator.config.model import HubConfig, UiConfig
from aggregator.errors import AggregatorError
from aggregator.threads import Threads

# How often the files are read again; that takes some milliseconds.
_LOOK_S = 5.0

if TYPE_CHECKING:
    from aggregator.privacy.policy.file import Policy


@click.command()
@config_option
@click.option("--listen", metavar="HOST:PORT", help="Serve it here; a port alone means loopback.")
@click.option("--token", metavar="REFERENCE", help="The token that readers need, as env:NAME or file:PATH.")
@click.option("--host", "hosts", multiple=True, metavar="NAME", help="Another host name under which readers reach it.")
def ui(config: Path, listen: str | None, token: str | None, hosts: tuple[str, ...]) -> None:
    """Serve the page: every edge at a glance, what is stripped, the lake, backfills, and what happened.

    On loopback nobody is asked for anything; any other address asks every reader for a token.
    """

    def read() -> _Files:
        hub = with_ui(load_config(config, os.environ), listen=listen, token=token, hosts=hosts)
        return _Files(hub, policies_of(hub))

    stop, shown = threading.Event(), read()
    with stopping_on_signals(stop):
        while not stop.is_set():
            shown = _served(shown, read, stop)


class _Files(NamedTuple):
    """What the hub's file and its policies say."""

    hub: HubConfig
    policies: "Mapping[Path, Policy]"


def _served(shown: _Files, read: Callable[[], _Files], stop: threading.Event) -> _Files:
    """Serve the page until `stop`, or until the files say something else; returns what they say then."""
    from aggregator.page.server import PageServer

    threads, fault = Threads(stop), ""
    server = PageServer(*shown, threads)
    try:
        with monitoring(shown.hub, threads) as monitor:
            server.serve(monitor)
            say(server.address)
            progress("Ctrl-C ends it; the hub does not notice")
            while not stop.wait(_LOOK_S):
                try:
                    now = read()
                except AggregatorError as error:
                    if fault != (fault := error.message):
                        progress(f"the files have changed, and the page stays as it was: {fault}")
                    continue
                if now != shown:
                    progress("the files have changed: the page begins anew")
                    return now
    finally:
        server.close()
    return shown


def with_ui(hub: HubConfig, *, listen: str | None, token: str | None, hosts: tuple[str, ...]) -> HubConfig:
    """The configuration with what the command line says of the page.

    Raises:
        click.UsageError: what it says cannot be used.
    """
    said = {"listen": listen, "token": token, "hosts": (*hub.ui.hosts, *hosts)}
    settings = dict(hub.ui) | {name: value for name, value in said.items() if value}
    try:
        return hub.model_copy(update={"ui": UiConfig.model_validate(settings)})
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        option = "--host" if "hosts" in first["loc"] else f"--{(*first['loc'], 'listen')[0]}"
        raise click.BadParameter(first["msg"].removeprefix("Value error, "), param_hint=option) from None


def policies_of(hub: HubConfig) -> "Mapping[Path, Policy]":
    """The policies of its rules, by path; a page needs none of the hub's keys.

    Raises:
        ConfigError: one cannot be used.
    """
    from aggregator.privacy.policy.file import load_policy

    return {rule.policy: load_policy(rule.policy) for rule in hub.topics}
