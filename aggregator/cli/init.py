"""`aggregator init`: a first `hub.yaml` and a policy that drops everything, from running clusters.

Invariant: nothing is overwritten, and what is written has passed the loader; prompts appear on a terminal only.
"""

import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import click
from pydantic import TypeAdapter, ValidationError

from aggregator.cli.draft import Draft, hub_text, policy_text
from aggregator.cli.survey import survey
from aggregator.cli.terminal.output import progress, say
from aggregator.config.load import load_config
from aggregator.config.model import ClusterConfig
from aggregator.config.secrets import SecretRef
from aggregator.config.value_types import EdgeName, HubName, RegistryOptions
from aggregator.errors import ConfigError, Failed
from aggregator.kafka.cluster.topics import topic_names
from aggregator.kafka.probes.listener import Address, Obstacle
from aggregator.kafka.probes.listener_probe import probe
from aggregator.privacy.policy.file import load_policy
from aggregator.schema.registries import open_registry

# For each step of a connection.
_LOOK_S = 5.0
_EDGE_NAME: TypeAdapter[str] = TypeAdapter(EdgeName)
_HUB_NAME: TypeAdapter[str] = TypeAdapter(HubName)
_REGISTRY_OPTIONS: TypeAdapter[dict[str, str | SecretRef]] = TypeAdapter(RegistryOptions)


class ServerType(click.ParamType[str]):
    """`host:port`, several with commas."""

    name = "HOST:PORT"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check with the configuration's own rule."""
        try:
            return ClusterConfig(bootstrap_servers=value).bootstrap_servers
        except ValidationError:
            self.fail("an address is host:port, several separated by commas", param, ctx)


class EdgeType(click.ParamType[tuple[str, str]]):
    """`name=host:port`."""

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


def _hub_name(_ctx: click.Context, _param: click.Parameter, value: str) -> str:
    try:
        return _HUB_NAME.validate_python(value)
    except ValidationError:
        raise click.BadParameter("1 to 64 letters, digits, dots, underscores and hyphens") from None


def _registry_options(
    _ctx: click.Context, _param: click.Parameter, given: tuple[str, ...]
) -> dict[str, str | SecretRef]:
    """Settings of the registry's client; paths as absolute ones, because the file may lie elsewhere."""
    found = {}
    for one in given:
        name, separator, value = one.partition("=")
        if not separator:
            raise click.BadParameter("a setting is name=value, like basic.auth.user.info=env:REGISTRY_USER")
        scheme, _, target = value.partition(":")
        if scheme == "file":
            value = f"file:{Path(target).absolute()}"
        found[name] = str(Path(value).absolute()) if name.endswith(".location") else value
    try:
        return _REGISTRY_OPTIONS.validate_python(found)
    except ValidationError as error:
        faults = "; ".join(f"{item['loc'][-1]} {item['msg']}" for item in error.errors(include_input=False))
        raise click.BadParameter(faults) from None


EXAMPLE = """\b
Examples:
  aggregator init --central c:9092 --edge eu=e:9092 --edge us=u:9092 --schemas directory:schemas
  aggregator init --central c:9092 --edge eu=e:9092 --schemas https://registry.eu.example \\
    --schemas-client basic.auth.user.info=env:REGISTRY_USER
  aggregator config lint
"""


@click.command(epilog=EXAMPLE)
@click.option("--central", type=ServerType(), help="The central cluster.")
@click.option("--edge", "edges", type=EdgeType(), multiple=True, help="A regional cluster; once per edge.")
@click.option(
    "--schemas", default="directory:schemas", show_default=True, help="The edges' registry: a folder or an address."
)
@click.option(
    "--schemas-client",
    multiple=True,
    callback=_registry_options,
    metavar="NAME=VALUE",
    help="How to connect to its address: basic.auth.user.info (a reference), ssl.*; once per setting.",
)
@click.option("--hub", default="hub", show_default=True, callback=_hub_name, help="The hub's name.")
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("hub.yaml"),
    show_default=True,
    help="The file to write; the policy goes into policies/ beside it.",
)
def init(
    central: str | None,
    edges: tuple[tuple[str, str], ...],
    *,
    schemas: str,
    schemas_client: dict[str, str | SecretRef],
    hub: str,
    output: Path,
) -> None:
    """Write a first hub.yaml and policy from running clusters.

    Lists the topics of every edge, looks up their schemas and tags, and writes a policy that drops everything until
    you open it, field by field.
    """
    policy = output.parent / "policies" / f"{hub}.yaml"
    _refuse_overwriting([output, policy])
    central, edges = _asked(central, edges)
    reference, registry = _registry(schemas, output.absolute().parent)
    _require_plain(central)
    for _, server in edges:
        _require_plain(server)
    topic_names(ClusterConfig(bootstrap_servers=central))
    clusters = {name: ClusterConfig(bootstrap_servers=server) for name, server in edges}
    progress(f"asking {len(clusters)} edges for their topics …")
    found = survey(clusters, open_registry(registry, schemas_client))
    draft = Draft(hub, central, dict(edges), reference, found, {name: str(v) for name, v in schemas_client.items()})
    _proven(draft)
    policy.parent.mkdir(parents=True, exist_ok=True)
    for path, text in ((policy, policy_text(draft)), (output, hub_text(draft))):
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    _tell(draft, output, policy)


def _require_plain(server: str) -> None:
    """Refuse a listener that speaks TLS, which looks to a client without it like one that does not answer.

    Raises:
        Failed: names it.
    """
    for one in map(Address.parse, server.split(",")):
        if probe(one, {}, None, patience_s=_LOOK_S).obstacle is Obstacle.SPEAKS_TLS:
            raise Failed(
                f"{one} speaks TLS, and `init` connects without",
                hint="name a plain listener, or write hub.yaml with a `client:` block by hand: docs/connections.md",
            )


def _refuse_overwriting(paths: Sequence[Path]) -> None:
    for path in paths:
        if path.exists():
            raise Failed(f"{path} is there already", hint="move it away, or name another file with --output")


def _asked(central: str | None, edges: tuple[tuple[str, str], ...]) -> tuple[str, tuple[tuple[str, str], ...]]:
    """What the options left out, from a person; without one it is a usage error."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        for option, value in (("--central", central), ("--edge", edges)):
            if not value:
                raise click.UsageError(f"{option} is missing")
    central = central or click.prompt("central cluster (host:port)", type=ServerType())
    while not edges:
        edges = (click.prompt("an edge (name=host:port)", type=EdgeType()),)
    twice = sorted({name for name, _ in edges if [other for other, _ in edges].count(name) > 1})
    if twice:
        raise click.UsageError(f"--edge {twice[0]} is given twice")
    return central, edges


def _registry(schemas: str, folder: Path) -> tuple[str, str]:
    """The reference as hub.yaml in `folder` should say it, and with an absolute path."""
    scheme, _, target = schemas.partition(":")
    if scheme != "directory":
        return schemas, schemas
    path = Path(target).absolute()
    if not path.is_dir():
        raise Failed(f"there is no folder {path}", hint="name the edges' registry: --schemas directory:<folder>")
    written = path.relative_to(folder) if path.is_relative_to(folder) else path
    return f"directory:{written}", f"directory:{path}"


def _proven(draft: Draft) -> None:
    """Load both files from a scratch folder, so that a refusal leaves nothing behind."""
    with tempfile.TemporaryDirectory(prefix="aggregator-init-") as folder:
        hub, policy = Path(folder, "hub.yaml"), Path(folder, draft.policy_path)
        policy.parent.mkdir()
        policy.write_text(policy_text(draft), encoding="utf-8")
        hub.write_text(hub_text(draft), encoding="utf-8")
        try:
            load_config(hub, os.environ)
            load_policy(policy)
        except ConfigError as error:
            lines = [line.replace(f"{folder}/", "") for line in error.lines]
            hint = "change --hub, --edge or --schemas"
            raise Failed(["nothing was written, because it could not be used:", *lines], hint=hint) from None


def _tell(draft: Draft, output: Path, policy: Path) -> None:
    known = [topic for topic in draft.topics if topic.leaves is not None]
    tagged = {leaf.path for topic in known for leaf in topic.leaves or () if leaf.tags}
    say(f"{output}: {len(draft.edges)} edges, {len(draft.topics)} topics")
    say(f"{policy}: {len(known)} topics with a schema, {len(tagged)} tagged fields; nothing passes yet")
    say(f"next: open the fields that may pass in {policy}, then: aggregator config lint --config {output}")
