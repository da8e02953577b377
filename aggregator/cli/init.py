"""`aggregator init`: writes a first `hub.yaml` and a policy that drops everything, from running clusters.

Invariant: nothing is overwritten, and the files that are written have passed the loader. Prompts appear on a terminal
only.
"""

import os
import shlex
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import click
from pydantic import TypeAdapter, ValidationError

from aggregator.cli.draft import Draft, DraftEdge, hub_text, policy_text
from aggregator.cli.terminal.clusters import (
    ClientSetting,
    EdgeType,
    SchemasType,
    ServerType,
    SettingType,
    as_written,
    cluster_of,
    of_each,
    options_of,
    registry_options,
)
from aggregator.cli.terminal.output import progress, refuse_overwriting, say
from aggregator.cli.topic_discovery import Source, survey
from aggregator.config.load import load_config
from aggregator.config.model import ClusterConfig
from aggregator.config.secrets import SecretRef
from aggregator.config.value_types import HubName
from aggregator.coordinates import CENTRAL
from aggregator.count_text import format_count
from aggregator.errors import ConfigError, FatalError
from aggregator.kafka.client.address import Address
from aggregator.kafka.cluster.topics import topic_names
from aggregator.kafka.probes.listener import Obstacle
from aggregator.kafka.probes.listener_probe import probe
from aggregator.privacy.fields.value_format import ValueFormat
from aggregator.privacy.policy.file import load_policy
from aggregator.schema.registries import open_registry

# Seconds for each step of a connection.
_LOOK_S = 5.0
_ENCRYPTED = ("ssl", "sasl_ssl")
_OUTPUT = Path("hub.yaml")
# The name of the central cluster in settings.
_HUB_NAME: TypeAdapter[str] = TypeAdapter(HubName)


def _hub_name(_ctx: click.Context, _param: click.Parameter, value: str) -> str:
    try:
        return _HUB_NAME.validate_python(value)
    except ValidationError:
        raise click.BadParameter("1 to 64 letters, digits, dots, underscores and hyphens") from None


EXAMPLE = """\b
Examples:
  aggregator init --central c:9092 --edge eu=e:9092 --edge us=u:9092 --schemas directory:schemas
  aggregator init --central c:9092 --edge eu=e:9092 --schemas https://registry.eu.example \\
    --schemas-client basic.auth.user.info=env:REGISTRY_USER
  aggregator init --central c:9093 --edge eu=e:9093 --edge us=u:9093 --schemas eu=https://r.example \\
    --schemas us=directory:us --client security.protocol=SSL --client ssl.ca.location=ca.pem \\
    --client eu:ssl.certificate.location=hub.crt --client eu:ssl.key.location=hub.key
  aggregator config lint
"""


@click.command(epilog=EXAMPLE)
@click.option("--central", type=ServerType(), help="The central cluster.")
@click.option("--edge", "edges", type=EdgeType(), multiple=True, help="A regional cluster; once per edge.")
@click.option(
    "--client",
    "clients",
    type=SettingType(),
    multiple=True,
    help="How to connect to clusters: a property of `client:`, of all of them or of one (`central:` or `<edge>:` before"
    " it); secrets as references; once per setting.",
)
@click.option(
    "--schemas",
    type=SchemasType(),
    multiple=True,
    default=("directory:schemas",),
    show_default=True,
    help="The registry of all edges, or of one: a folder, an address, or `glue:…`; once per registry.",
)
@click.option(
    "--schemas-client",
    "schemas_clients",
    type=SettingType(),
    multiple=True,
    help="How to connect to a registry's address: basic.auth.user.info (a reference), ssl.*; of all edges or of one;"
    " once per setting.",
)
@click.option("--hub", default="hub", show_default=True, callback=_hub_name, help="The hub's name.")
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    default=_OUTPUT,
    show_default=True,
    help="The file to write; the policy goes into policies/ beside it.",
)
def init(
    central: str | None,
    edges: tuple[tuple[str, str], ...],
    *,
    clients: tuple[ClientSetting, ...],
    schemas: tuple[tuple[str, str], ...],
    schemas_clients: tuple[ClientSetting, ...],
    hub: str,
    output: Path,
) -> None:
    """Write a first hub.yaml and policy from running clusters.

    Lists the topics of every edge, looks at a few records of each and at their schemas and tags, and writes a policy
    that drops everything until you open it, field by field. How the values of a topic are written (Avro, JSON, text,
    bytes) is told by these records.
    """
    policy = output.parent / "policies" / f"{hub}.yaml"
    refuse_overwriting([output, policy], "name another file with --output")
    central, edges = _asked(central, edges)
    clusters = _clusters(central, dict(edges), clients)
    registries = _registries(dict(edges), schemas, schemas_clients, output.absolute().parent)
    for cluster in clusters.values():
        _require_plain(cluster)
    topic_names(clusters[CENTRAL])
    progress(f"asking {format_count(len(edges), 'edge')} for topics …")
    found = survey(
        {name: Source(clusters[name], open_registry(one.reference, one.client)) for name, one in registries.items()}
    )
    drafted = {
        name: DraftEdge(
            clusters[name].bootstrap_servers,
            one.written,
            as_written(one.client),
            as_written(clusters[name].client),
        )
        for name, one in registries.items()
    }
    draft = Draft(hub, central, drafted, found, as_written(clusters[CENTRAL].client))
    _proven(draft)
    policy.parent.mkdir(parents=True, exist_ok=True)
    for path, text in ((policy, policy_text(draft)), (output, hub_text(draft))):
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    for line in summary(draft, output, policy):
        say(line)


def _clusters(central: str, edges: Mapping[str, str], settings: Sequence[ClientSetting]) -> dict[str, ClusterConfig]:
    """The configurations of central and of the edges, by name."""
    if CENTRAL in edges:
        raise click.UsageError(f"no edge can be called {CENTRAL} here: settings are told apart by name")
    named = {CENTRAL: central, **edges}
    return {name: cluster_of(server, options_of("--client", name, settings, named)) for name, server in named.items()}


class _Registry(NamedTuple):
    """An edge's registry: its reference in hub.yaml, the same with an absolute path, and how to connect to it."""

    written: str
    reference: str
    client: dict[str, str | SecretRef]


def _registries(
    edges: Mapping[str, str], schemas: Sequence[tuple[str, str]], settings: Sequence[ClientSetting], folder: Path
) -> dict[str, _Registry]:
    """The registry of each edge."""
    found = {}
    for name, reference in of_each(edges, schemas).items():
        options = options_of("--schemas-client", name, settings, edges)
        found[name] = _Registry(*_registry(reference, folder), registry_options(options))
    return found


def _require_plain(cluster: ClusterConfig) -> None:
    """Refuse a listener that speaks TLS to a client without, to which it looks like one that does not answer.

    Raises:
        FatalError: names it.
    """
    if str(cluster.client.get("security.protocol", "")).lower() in _ENCRYPTED:
        return
    for one in map(Address.parse, cluster.bootstrap_servers.split(",")):
        if probe(one, {}, None, timeout_s=_LOOK_S).obstacle is Obstacle.SPEAKS_TLS:
            raise FatalError(
                f"{one} speaks TLS, and `init` connects without",
                hint="say how to connect: --client security.protocol=SSL, and what else docs/connections.md names",
            )


def _asked(central: str | None, edges: tuple[tuple[str, str], ...]) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Ask a person for what the options left out; without a person that is a usage error."""
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
        hint = "name the edges' registry: --schemas https://registry.example, or directory:<folder>"
        raise FatalError(f"there is no folder {path}", hint=hint)
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
            hint = "change --hub, --edge or --schemas; of very many topics ask fewer edges, or write patterns by hand"
            raise FatalError(["nothing was written, because it could not be used:", *lines], hint=hint) from None


def summary(draft: Draft, output: Path, policy: Path) -> Iterator[str]:
    """What was written, and what to do next.

    Args:
        draft: What the files say.
        output: The configuration file.
        policy: The policy's file.
    """
    counts = Counter(topic.value_format or "without records" for topic in draft.topics)
    forms = ", ".join(f"{count} {one.spoken if isinstance(one, ValueFormat) else one}" for one, count in counts.items())
    tagged = {leaf.path for topic in draft.topics for leaf in topic.leaves or () if leaf.tags}
    found = f"{format_count(len(draft.edges), 'edge')}, {format_count(len(draft.topics), 'topic')}"
    yield f"{output}: {found}{f' ({forms})' if forms else ''}"
    yield f"{policy}: {format_count(len(tagged), 'tagged field')}; nothing passes yet"
    yield from (f"{topic.name}: {topic.note}" for topic in draft.topics if topic.note)
    if not draft.topics:
        yield "no edge has a topic yet: once there are some, remove both files and run this command again"
        return
    where = "" if output == _OUTPUT else f" --config {shlex.quote(str(output))}"
    if first := next((topic for topic in draft.topics if topic.value_format), None):
        look = f"aggregator policy suggest --edge {first.edges[0]} --topic {shlex.quote(first.name)}{where}"
        yield f"next: {look}    looks for personal data in fields that no tag names; so for each topic"
    yield f"then: open the fields that may pass in {policy}, and aggregator config lint{where}"
