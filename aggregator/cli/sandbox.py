"""`aggregator sandbox up|down|status|traffic|fetch`: runs real Kafka clusters on loopback, and writes a `hub.yaml` for
them.

Invariant: stdout holds only the answer; progress goes to stderr. The JSON of `up` and `status` has fixed names.
"""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import click

from aggregator.cli.terminal.command_group import CommandGroup
from aggregator.cli.terminal.output import emit, output_option, progress, say, table
from aggregator.sandbox.classes import archive_kafka
from aggregator.sandbox.jars import ensure_jars, kafka
from aggregator.sandbox.java import find_java
from aggregator.sandbox.releases import KAFKA_VERSION, NEWEST_FIRST, release
from aggregator.sandbox.sandbox import DEFAULT_EDGES, Sandbox

folder_option = click.option(
    "--dir",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(".sandbox"),
    show_default=True,
    help="Folder of the clusters.",
)


@click.group(cls=CommandGroup)
def sandbox() -> None:
    """Real Kafka clusters on loopback, without Docker."""


@sandbox.command()
@click.option(
    "--edges",
    metavar="NAME,…",
    help=f"Names of the regional clusters.  [default: those of the folder, or {','.join(DEFAULT_EDGES)}]",
)
@click.option(
    "--brokers",
    metavar="N|NAME=N,…",
    callback=lambda _context, _option, given: _sizes(given),
    help="Brokers of every cluster, or of those named; with 3, everything is on all three, and a write needs two."
    "  [default: those of the folder, or 1]",
)
@click.option(
    "--kafka-version",
    "versions",
    metavar="V|NAME=V,…",
    callback=lambda _context, _option, given: _versions(given),
    help=f"Kafka of every cluster, or of those named: {', '.join(NEWEST_FIRST)}."
    f"  [default: those of the folder, or {KAFKA_VERSION}]",
)
@folder_option
@output_option
def up(
    edges: str | None,
    brokers: int | dict[str, int] | None,
    versions: str | dict[str, str] | None,
    folder: Path,
    output: str,
) -> None:
    """Start a cluster per edge and one as central, and write hub.yaml beside them.

    Addresses and data stay over down and up. What runs already is left alone.
    """
    names = None if edges is None else [name.strip() for name in edges.split(",")]
    running = Sandbox.up(folder, names, brokers=brokers, versions=versions, say=progress)
    emit(addresses(running), output, lambda: _welcome(running))


@sandbox.command()
@folder_option
@click.option(
    "--delete", is_flag=True, help="Also remove what the sandbox wrote: data, lake, schemas, key and hub.yaml."
)
def down(folder: Path, *, delete: bool) -> None:
    """Stop every process of the sandbox; data and addresses stay."""
    stopped = Sandbox.load(folder)
    running = stopped.running()
    if running:
        progress(f"stopping {len(running)} Kafka clusters …")
    stopped.down(delete=delete)
    say(f"stopped: {', '.join(cluster.name for cluster in running) or 'nothing ran'}")


@sandbox.command()
@folder_option
@output_option
def status(folder: Path, output: str) -> None:
    """Show which clusters run and where."""
    found = Sandbox.load(folder)
    answer = addresses(found) | {"pids": {cluster.name: cluster.pid for cluster in found.clusters}}
    rows = [(broker.name, broker.bootstrap, str(broker.pid or "-")) for broker in found.brokers]
    lines = [*table(("broker", "address", "process"), rows), f"config: {found.config}"]
    emit(answer, output, lambda: lines)


@sandbox.command()
@click.option("--records", type=click.IntRange(min=1), default=30_000, show_default=True, help="Over all edges.")
@folder_option
@output_option
def traffic(records: int, folder: Path, output: str) -> None:
    """Produce the demo's flights and bookings into the running edges, whatever their names."""
    # These imports take two seconds, and no other command here needs them.
    from aggregator.config.load import load_config
    from aggregator.sandbox.demo_run import produce_to_edges

    config = load_config(Sandbox.load(folder).config, {})
    made = {edge: asdict(produced) for edge, produced in produce_to_edges(config, records).items()}
    columns = ("edge", "flights", "bookings", "tombstones", "poison")
    emit({"produced": made}, output, lambda: table(columns, [(edge, *made[edge].values()) for edge in made]))


@sandbox.command()
@click.option("--kafka-version", "version", type=click.Choice(NEWEST_FIRST), default=KAFKA_VERSION, show_default=True)
def fetch(version: str) -> None:
    """Fetch Kafka's jars into the cache, if they are not there; `up` does it too.

    Kafka is started once, to archive its classes: every later start takes half the time.
    """
    wanted = release(version)
    archive_kafka(wanted, find_java(), ensure_jars(kafka(wanted), progress), progress)


def addresses(running: Sandbox) -> dict[str, object]:
    """The contract of `-o json`: `central`, `edges`, `config`, `dir`, and `brokers` by cluster."""
    return {
        "central": running.central.bootstrap,
        "edges": {name: edge.bootstrap for name, edge in running.edges.items()},
        "config": str(running.config),
        "dir": str(running.dir),
        "brokers": {
            cluster.name: [
                {"node": broker.node, "address": broker.bootstrap, "pid": broker.pid} for broker in cluster.brokers
            ]
            for cluster in running.clusters
        },
    }


def _sizes(given: str | None) -> int | dict[str, int] | None:
    """Parse `--brokers`: one number for all clusters, or numbers by name."""
    if given is None:
        return None
    try:
        if "=" not in given:
            return int(given)
        return {name: int(size) for name, size in _by_name(given).items()}
    except ValueError:
        raise click.BadParameter(f"{given!r} is neither a number nor NAME=N,…") from None


def _versions(given: str | None) -> str | dict[str, str] | None:
    """Parse `--kafka-version`: one version for all clusters, or versions by name."""
    if given is None or "=" not in given:
        return given
    try:
        return _by_name(given)
    except ValueError:
        raise click.BadParameter(f"{given!r} is neither a version nor NAME=V,…") from None


def _by_name(given: str) -> dict[str, str]:
    """Read `NAME=VALUE,…` into a mapping."""
    pairs = [part.split("=") for part in given.split(",")]
    return {name.strip(): value.strip() for name, value in pairs}


def _welcome(running: Sandbox) -> Iterator[str]:
    yield from table(("broker", "address"), [(broker.name, broker.bootstrap) for broker in running.brokers])
    yield f"run it:  aggregator run --config {running.config}"
    yield f"stop it: aggregator sandbox down --dir {running.dir}"
