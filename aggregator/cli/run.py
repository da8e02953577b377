"""`aggregator run`: runs the hub itself, composed of the Spark session, the replication driver and the lake driver.

Invariant: SIGTERM and SIGINT end the hub cleanly with exit code 0. Every other end has the exit code of its error.
"""

import logging
import os
import secrets
import socket
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import click
from pydantic import ValidationError

from aggregator.cli.catchup import CatchUp
from aggregator.cli.run_ending import report_end
from aggregator.cli.services import commit_traces, lineage, pushed_metrics
from aggregator.cli.terminal.arguments import LENGTH
from aggregator.cli.terminal.missing_rights import require_own_clusters
from aggregator.cli.terminal.output import config_option, progress
from aggregator.cli.terminal.signals import stopping_on_signals
from aggregator.config.load import load_config
from aggregator.config.model import HubConfig, MetricsConfig
from aggregator.errors import AnotherHub
from aggregator.health.beacon import Beacon
from aggregator.health.beats import Stage
from aggregator.state.names import HubNames
from aggregator.threads import Pulse, Supervised, Threads

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from aggregator.lake.cycle.report import CycleReport
    from aggregator.lake.driver import LakeDriver
    from aggregator.lake.hold_publisher import HoldPublisher
    from aggregator.lake.upkeep.background import BackgroundUpkeep
    from aggregator.lineage.publisher import LineagePublisher
    from aggregator.observe.observation import HubObserver
    from aggregator.otlp.traces import CommitTraces
    from aggregator.page.server import PageServer
    from aggregator.privacy.policy.file import Policy
    from aggregator.replicate.discovery.edge_watch import EdgeWatch

log = logging.getLogger(__name__)
_LAKE_LEAVES_S = 10.0
# Added to the pause between two cycles: a cycle of many tables on slow storage may take so long.
_LAKE_CYCLE_S = 1800.0


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The behaviour of one run: the command's options, and whether the hub's file has changed since it was read."""

    drain: bool = False
    for_s: float | None = None
    only: Literal["replicate", "lake"] | None = None
    standby: bool = False
    take_over: bool = False
    report: Path | None = None
    ui: bool = False
    is_stale: Callable[[], bool] = bool


class _Process(NamedTuple):
    """This process: the event that ends it, its threads, and the beacon that reports its health."""

    stop: threading.Event
    threads: Threads
    beacon: Beacon


@click.command()
@config_option
@click.option("--drain", is_flag=True, help="Stop when everything that exists now is at central and in the lake.")
@click.option(
    "--for", "lasts", type=LENGTH, metavar="DURATION", help="Stop cleanly after leading for so long: 60s, 5m."
)
@click.option("--only", type=click.Choice(["replicate", "lake"]), help="Run one half alone.")
@click.option("--master", help="Spark master, instead of the configuration's.")
@click.option("--standby", is_flag=True, help="Wait for a running hub of this name to stop, then start.")
@click.option("--take-over", is_flag=True, help="Replace a running hub of this name; that one ends with exit code 6.")
@click.option(
    "--report",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep report.json and report.html of this run here.",
)
@click.option("--metrics", metavar="HOST:PORT", help="Serve Prometheus metrics here; a port alone means loopback.")
@click.option("--ui", is_flag=True, help="Serve the page at the configuration's `ui.listen` (127.0.0.1:9465).")
def run(
    config: Path,
    *,
    drain: bool,
    lasts: timedelta | None,
    only: Literal["replicate", "lake"] | None,
    master: str | None,
    standby: bool,
    take_over: bool,
    report: Path | None,
    metrics: str | None,
    ui: bool,
) -> None:
    """Run the hub: edges to central, central to the lake."""
    if standby and take_over:
        raise click.UsageError("--standby waits and --take-over does not: choose one")
    if ui and (drain or only == "lake"):
        raise click.UsageError("--ui needs a hub that keeps replicating; beside any other: aggregator ui")
    if report and only == "lake":
        raise click.UsageError("--report is about what is stripped, and the lake strips nothing")
    read = hub = load_config(config, os.environ)
    if metrics:
        hub = _with_metrics(hub, metrics)
    if master:
        hub = hub.model_copy(update={"spark": hub.spark.model_copy(update={"master": master})})
    for_s = lasts.total_seconds() if lasts else None
    options = RunOptions(
        *(drain, for_s, only, standby, take_over, report, ui), is_stale=lambda: load_config(config, os.environ) != read
    )
    raise SystemExit(run_hub(hub, options))


def _with_metrics(hub: HubConfig, listen: str) -> HubConfig:
    try:
        served = MetricsConfig.model_validate(dict(hub.metrics) | {"listen": listen})
    except ValidationError as error:
        why = error.errors(include_input=False)[0]["msg"].removeprefix("Value error, ")
        raise click.BadParameter(f"it {why}", param_hint="--metrics") from None
    return hub.model_copy(update={"metrics": served})


def run_hub(config: HubConfig, options: RunOptions) -> int:
    """Run a hub in this process until it ends.

    Args:
        config: The hub.
        options: The duration and the parts of the run.

    Returns:
        The exit code: 0; of a drain and at the end of `--for` also 4 with flows or tables that were held or edges that
        stayed silent, 5 with a gap.

    Raises:
        AggregatorError: with the exit code of its class.
    """
    from aggregator.engine.session import open_session
    from aggregator.kafka.cluster.topics import topic_names
    from aggregator.machine_clock import utc_today
    from aggregator.observe.rights import lacking_rights
    from aggregator.privacy.policy.cross_check import read_policies
    from aggregator.replicate.identity.clusters import refuse_duplicate_clusters
    from aggregator.replicate.identity.identities import fetch_cluster_ids

    policies = read_policies(config, utc_today())
    for name, ring in config.keys.items():
        for version, _ in ring.versions:
            ring.material(name, version)
    there = topic_names(config.central)  # a wrong address is reported at once, before Spark starts
    if HubNames(config.hub).control in there and options.only != "lake" and not (options.standby or options.take_over):
        refuse_second(config)
    stop = threading.Event()
    threads = Threads(stop)
    with stopping_on_signals(stop), Beacon(config.hub, threads, stop, os.environ) as beacon:
        with ThreadPoolExecutor(3) as pool:  # these questions are answered while Spark starts
            asked, ids = pool.submit(lacking_rights, config), pool.submit(fetch_cluster_ids, config)
            pool.submit(_introduce, config, ids)
            spark = open_session(config, f"aggregator {config.hub}")
        try:
            central, edges = ids.result()
            refuse_duplicate_clusters(central or "", {edge: one for edge, one in edges.items() if one})
            require_own_clusters(asked.result())
            if options.standby:
                beacon.set_stage(Stage.STANDBY)
            return _run(config, options, spark, policies, _Process(stop, threads, beacon))
        finally:
            spark.stop()


def _introduce(config: HubConfig, ids: "Future[tuple[str | None, dict[str, str | None]]]") -> None:
    """Log who this is and which clusters it stands between, in one line."""
    from aggregator.doctor.introduction import Greeted, introduction, releases

    known = releases(config)
    central, edges = ids.result()
    log.info(
        "%s", introduction(config, {name: Greeted(one, known[name]) for name, one in {"": central, **edges}.items()})
    )


def refuse_second(config: HubConfig) -> None:
    """End before Spark starts where another hub of this name is seen to run; the driver looks again, and longer.

    Raises:
        AnotherHub: one is.
    """
    from aggregator.replicate.leadership.lease import ANOTHER_HUB_HINT, watch_for_leader
    from aggregator.state.control_log import read_control

    names = HubNames(config.hub)
    if watch_for_leader(lambda: read_control(config.central, names).lease, time.sleep):
        raise AnotherHub(f"another hub named {config.hub} is running", hint=ANOTHER_HUB_HINT)


def _run(
    config: HubConfig,
    options: RunOptions,
    spark: "SparkSession",
    policies: "Mapping[Path, Policy]",
    process: "_Process",
) -> int:
    from aggregator.cli.policy_reload import PolicyReload
    from aggregator.replicate.driver import Driver, RunReport
    from aggregator.report.writer import ReportWriter

    stop, threads, beacon = process
    catch_up = CatchUp(sys.stderr)
    lake = None if options.only == "replicate" else _lake(config, spark, catch_up, threads)
    lake_thread: Supervised | None = None
    over, report, written = threading.Event(), RunReport(), ReportWriter(config, options.report)
    watching = _observer(config, options, policies, process)

    def on_leading(watches: "Collection[EdgeWatch]" = ()) -> None:
        nonlocal lake_thread
        beacon.set_stage(Stage.LEADING)
        _end_after(options.for_s, stop, over)
        written.begin(threads)
        if lake and not options.drain:
            lake_thread = _start_lake(config, lake, threads, stop, vital=options.only == "lake")
        watching.begin(watches)

    if options.only == "lake":
        on_leading()
        if lake_thread:
            lake_thread.join()
    else:
        driver = Driver(
            config,
            spark,
            policies,
            identity=_identity(),
            drain=options.drain,
            stop=stop,
            threads=threads,
            on_leadership=on_leading,
            on_refused=watching.publish_refused,
        )
        try:
            told, is_stale = watching.set_objections, options.is_stale
            reload = PolicyReload(config, policies, driver.replace_policies, told=told, is_stale=is_stale)
            with reload.on_hangup(threads, stop):
                report = driver.run(standby=options.standby, take_over=options.take_over)
        finally:
            _end_lake(lake_thread, stop)
            watching.finish()
            written.finish()
    threads.check()
    if lake and options.drain:
        lake.driver.drain(stop=stop)
    catch_up.end()
    held = lake.publisher.end() if lake else ()
    for teller in lake.tellers if lake else ():
        teller.end()
    return report_end(config, report, held, drained=options.drain, judged=options.drain or over.is_set())


def _observer(
    config: HubConfig, options: RunOptions, policies: "Mapping[Path, Policy]", process: "_Process"
) -> "HubObserver":
    from aggregator.observe.observation import HubObserver

    stop, threads, _ = process
    wanted = options.only != "lake" and not options.drain
    servers = [_page(config, policies, threads)] if options.ui else []
    pushed = [pushed_metrics(config, config.otlp, threads)] if wanted and config.otlp else []
    return HubObserver(config, stop, threads, wanted=wanted, servers=(*servers, *pushed))


def _end_lake(lake: Supervised | None, stop: threading.Event) -> None:
    """Stop the lake thread. Files that it staged and did not commit stay invisible to readers."""
    if lake:
        stop.set()
        lake.join(_LAKE_LEAVES_S)


class _Lake(NamedTuple):
    """The lake of a hub that has one, the publisher of its holds, its upkeep, and who else is told of its commits."""

    driver: "LakeDriver"
    publisher: "HoldPublisher"
    upkeep: "BackgroundUpkeep"
    tellers: "tuple[LineagePublisher | CommitTraces, ...]"


def _lake(config: HubConfig, spark: "SparkSession", catch_up: CatchUp, threads: Threads) -> _Lake | None:
    from aggregator.lake.driver import LakeDriver
    from aggregator.lake.hold_publisher import HoldPublisher
    from aggregator.lake.tables.formats import lake_folder, open_tables
    from aggregator.lake.upkeep.background import BackgroundUpkeep
    from aggregator.lake.upkeep.description import description, newest_schemas
    from aggregator.state.edge_status import read_edge_statuses

    if config.lake is None:
        return None
    names, publisher = HubNames(config.hub), HoldPublisher(config, also=catch_up)
    upkeep = BackgroundUpkeep(
        config.lake.upkeep,
        open_tables(config),
        cluster_by=config.lake.cluster_by,
        describe=lambda topics: description(config.hub, newest_schemas(config, topics)),
        publish=publisher.upkeep,
        known=lambda: read_edge_statuses(config.central, names).upkeep,
    )

    events = [lineage(config, config.lineage, lake_folder(config), threads)] if config.lineage else []
    traces = [commit_traces(config, config.otlp)] if config.otlp else []
    tellers: tuple[LineagePublisher | CommitTraces, ...] = (*events, *traces)

    def publish(report: "CycleReport") -> None:
        publisher(report)
        upkeep.take(report)
        for teller in tellers:
            teller(report)

    return _Lake(LakeDriver(config, spark, names, publish=publish), publisher, upkeep, tellers)


def _end_after(seconds: float | None, stop: threading.Event, over: threading.Event) -> None:
    """Stop the run so long after now, if it is to stop by itself; `over` says that it did."""

    def end() -> None:
        if not stop.is_set():
            over.set()
        stop.set()

    if seconds is not None:
        clock = threading.Timer(seconds, end)
        clock.daemon = True
        clock.start()


def _identity() -> str:
    """A name of this process that no other has."""
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"


def _start_lake(config: HubConfig, lake: _Lake, threads: Threads, stop: threading.Event, *, vital: bool) -> Supervised:
    """The lake beside replication, or alone: then the run ends with what ends it. Its upkeep ends with the process."""

    def cycle(pulse: Pulse) -> None:
        lake.driver.run(stop, pulse)

    def keep_up(pulse: Pulse) -> None:
        lake.upkeep.run(stop, pulse)

    threads.start("lake-upkeep", keep_up, stop=stop, bound_s=_LAKE_CYCLE_S)
    pause_s = config.lake.commit_interval.total_seconds() if config.lake else 0.0
    return threads.start("lake", cycle, stop=stop, bound_s=pause_s + _LAKE_CYCLE_S, vital=vital)


def _page(config: HubConfig, policies: "Mapping[Path, Policy]", threads: Threads) -> "PageServer":
    """The page, listening before the hub leads."""
    from aggregator.page.server import PageServer

    server = PageServer(config, policies, threads)
    progress(f"the page: {server.address}")
    return server
