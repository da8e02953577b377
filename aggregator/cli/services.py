"""Opens what a run tells to services that the configuration names: lineage, traces and metrics.

Invariant: their packages are loaded where they are wanted only, and named where they are not installed.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from aggregator.config.model import HubConfig, LineageConfig, OtlpConfig
from aggregator.errors import ConfigError
from aggregator.threads import Threads

if TYPE_CHECKING:
    from aggregator.lake.storage.folder import Folder
    from aggregator.lineage.publisher import LineagePublisher
    from aggregator.otlp.metrics import OtlpMetrics
    from aggregator.otlp.traces import CommitTraces


def lineage(config: HubConfig, settings: LineageConfig, folder: "Folder", threads: Threads) -> "LineagePublisher":
    """Who tells commits as OpenLineage events.

    Raises:
        ConfigError: its packages are not installed, or the service's address or key cannot be used.
    """
    with _needing("lineage"):
        from aggregator.lineage.publisher import LineagePublisher
    return LineagePublisher(config, settings, folder, threads)


def commit_traces(config: HubConfig, settings: OtlpConfig) -> "CommitTraces":
    """Who traces commits to a collector.

    Raises:
        ConfigError: its packages are not installed, or a header's secret is not there.
    """
    with _needing("otlp"):
        from aggregator.otlp.collector import Collector
        from aggregator.otlp.traces import CommitTraces
    return CommitTraces(Collector(config.hub, settings))


def pushed_metrics(config: HubConfig, settings: OtlpConfig, threads: Threads) -> "OtlpMetrics":
    """Who pushes metrics to a collector.

    Raises:
        ConfigError: as `commit_traces`.
    """
    with _needing("otlp"):
        from aggregator.otlp.collector import Collector
        from aggregator.otlp.metrics import OtlpMetrics
    return OtlpMetrics(Collector(config.hub, settings), threads, by_partition=config.metrics.partitions)


@contextmanager
def _needing(extra: str) -> Iterator[None]:
    """Name the packages that a key of the configuration needs, where they are not installed.

    Raises:
        ConfigError: they are not.
    """
    try:
        yield
    except ImportError as error:
        raise ConfigError(f"{extra}: {error}", hint=f"pip install 'aggregator[{extra}]'") from None
