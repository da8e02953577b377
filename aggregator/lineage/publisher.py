"""Sends events of lineage to a service or a file, one for each commit of a table, from a thread of its own.

Invariant: neither a commit nor a record waits for it. What cannot be sent is left out and counted in the log, because
the next commit's event says the same of the table. Nothing is sent that is not in `events`.
"""

import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from openlineage.client.transport.file import FileConfig, FileTransport
from openlineage.client.transport.http import ApiKeyTokenProvider, HttpConfig, HttpTransport, TokenProvider
from openlineage.client.uuid import generate_new_uuid

from aggregator.bounded_session import BoundedSession
from aggregator.config.match import rule_for
from aggregator.config.model import HubConfig, LineageConfig
from aggregator.count_text import format_count
from aggregator.errors import AggregatorError, ConfigError, kind_and_place
from aggregator.lineage.events import (
    Dataset,
    Happening,
    edge_topics,
    table_dataset,
    table_event,
    topic_dataset,
    topic_event,
)
from aggregator.privacy.plan.traced_columns import TracedColumn, traced_columns
from aggregator.repeated_warnings import RepeatedWarnings
from aggregator.schema.registries import open_registry
from aggregator.state.ledger_log import read_ledger
from aggregator.state.names import HubNames, central_topic
from aggregator.threads import Pulse, Supervised, Threads

if TYPE_CHECKING:
    from openlineage.client.event_v2 import RunEvent

    from aggregator.lake.cycle.report import CycleReport, TableReport
    from aggregator.lake.storage.folder import Folder

log = logging.getLogger(__name__)
_WAITING = 1_000  # commits that are told later; further ones are left out
_TURN_S = 1.0
_LEAVES_S = 10.0
_TIMEOUT_S = 5.0
_LOOK_EVERY_S = 120.0  # at the ledger, and at the versions of a topic's schema
# It would log a line for each attempt, with what a server answered.
logging.getLogger("urllib3").setLevel(logging.ERROR)
_BOUND_S = 300.0  # of one turn: registry, ledger and service may each be slow


class LineagePublisher:
    """Tells of each commit.

    Args:
        config: The hub, whose `lineage` says where to.
        settings: That part.
        folder: The lake's.
        threads: Of the process.
    """

    def __init__(self, config: HubConfig, settings: LineageConfig, folder: "Folder", threads: Threads) -> None:
        self._config, self._folder = config, folder
        self._where = settings.to
        self._send = _sender(settings)
        self._registry = open_registry(config.schemas, config.schemas_client) if config.schemas else None
        self._waiting: queue.Queue[TableReport] = queue.Queue(_WAITING)
        self._lost = 0
        self._feeds: dict[str, tuple[Dataset, ...]] = {}
        self._fed_s = float("-inf")
        self._schemas: dict[str, tuple[float, tuple[TracedColumn, ...]]] = {}
        self._told: dict[Dataset, tuple[object, ...]] = {}
        self._repeated = RepeatedWarnings()
        self._over = threading.Event()
        self._thread: Supervised = threads.start("lineage", self._keep, stop=self._over, bound_s=_BOUND_S)

    def __call__(self, report: "CycleReport") -> None:
        """Take the commits of a cycle; returns at once."""
        for table in report.tables:
            if table.version is not None and table.rows:
                try:
                    self._waiting.put_nowait(table)
                except queue.Full:
                    self._lost += 1

    def end(self) -> None:
        """Send what waits, for at most ten seconds."""
        self._over.set()
        self._thread.join(_LEAVES_S)

    def _keep(self, pulse: Pulse) -> None:
        while not (self._over.is_set() and self._waiting.empty()):
            pulse()
            try:
                table = self._waiting.get(timeout=_TURN_S)
            except queue.Empty:
                continue
            self._tell(table)

    def _tell(self, table: "TableReport") -> None:
        trouble: dict[str, str] = {}
        try:
            for event in self._events(table):
                self._send(event)
        except AggregatorError as error:
            trouble["lineage"] = error.message
        except Exception as error:  # noqa: BLE001 - the service's client raises whatever its libraries do
            trouble["lineage"] = f"{self._where} takes no events: {kind_and_place(error)}"
        lost, self._lost = self._lost, 0
        if lost:
            trouble["queue"] = f"{format_count(lost, 'commit')} waited too long"
        for sentence in self._repeated.due(trouble, time.monotonic()).values():
            log.warning("lineage is incomplete: %s", sentence)

    def _events(self, table: "TableReport") -> "Iterator[RunEvent]":
        """The event of the commit, after those of its topics that are new or have another schema."""
        topics: list[tuple[Dataset, tuple[TracedColumn, ...]]] = []
        for name in sorted({one.topic for one in table.next_offsets}):
            topic = topic_dataset(self._config.central.bootstrap_servers, name)
            columns, edges = self._columns(name), self._edges(name)
            topics.append((topic, columns))
            if self._told.get(topic) != (columns, edges):
                yield topic_event(self._happening(), topic, edges, columns)
                self._told[topic] = (columns, edges)
        place = table_dataset((self._folder / table.table).address)
        yield table_event(self._happening(), place, topics, name=table.table, rows=table.rows, files=table.files)

    def _happening(self) -> Happening:
        return Happening(self._config.hub, str(generate_new_uuid()), datetime.now(UTC))

    def _columns(self, topic: str) -> tuple[TracedColumn, ...]:
        """The fields of a topic's newest schema, as they were some minutes ago at most."""
        asked_s, found = self._schemas.get(topic, (float("-inf"), ()))
        if time.monotonic() - asked_s > _LOOK_EVERY_S:
            asked_s, found = time.monotonic(), self._newest(topic)
            self._schemas[topic] = (asked_s, found)
        return found

    def _newest(self, topic: str) -> tuple[TracedColumn, ...]:
        versions = self._registry.versions(f"{topic}-value") if self._registry else []
        return traced_columns(versions[-1].text) if versions else ()

    def _edges(self, topic: str) -> tuple[Dataset, ...]:
        """The topics of edges that feed a central one, by the ledger of some minutes ago at most."""
        if time.monotonic() - self._fed_s > _LOOK_EVERY_S:
            found: dict[str, set[tuple[str, str, str]]] = {}
            for flow in read_ledger(self._config.central, HubNames(self._config.hub)):
                rule, edge = rule_for(self._config, flow.edge, flow.topic), self._config.edges.get(flow.edge)
                if rule is not None and edge is not None:
                    target = central_topic(rule.central, flow.edge, flow.topic)
                    found.setdefault(target, set()).add((flow.edge, edge.bootstrap_servers, flow.topic))
            self._feeds, self._fed_s = {name: edge_topics(feeds) for name, feeds in found.items()}, time.monotonic()
        return self._feeds.get(topic, ())


def _sender(settings: LineageConfig) -> Callable[["RunEvent"], object]:
    """What sends one event: the library's transport, without what its client adds from the environment."""
    if settings.file is not None:
        return FileTransport(FileConfig(str(settings.file), append=True)).emit
    session = BoundedSession(_TIMEOUT_S)
    auth = TokenProvider({})
    if settings.api_key is not None:
        auth = ApiKeyTokenProvider({"apiKey": settings.api_key.resolve(os.environ)})
    config = HttpConfig(settings.to, timeout=_TIMEOUT_S, auth=auth, session=session, retry={"total": 0})
    try:
        return HttpTransport(config).emit
    except ValueError as error:
        hint = "write the service's address, as https://lineage.example.com"
        raise ConfigError(f"lineage.to: {error}", hint=hint) from None
