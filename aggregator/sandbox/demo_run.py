"""Runs the demo of `aggregator demo`: produces traffic into every edge, runs the hub until it is drained, and makes the
accounts.

Invariant: for every edge, produced = at central + dead letters, and the lake holds what central holds. Every difference
is reported as a failure and never rounded away. The function that runs the hub is an argument.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from aggregator.config.load import load_config
from aggregator.config.model import EdgeConfig, HubConfig
from aggregator.count_text import format_count
from aggregator.sandbox import bookings, flights
from aggregator.sandbox.jars import Say, silent
from aggregator.sandbox.readback import count_lake, count_topic
from aggregator.sandbox.sample_record import SamplePlace, SampleRecord, find_sample_record
from aggregator.sandbox.traffic import Produced, produce_traffic
from aggregator.schema.registries import open_registry
from aggregator.schema.registry import Registry
from aggregator.state.ledger_log import read_ledger
from aggregator.state.names import HubNames, central_topic

TOPICS = (flights.TOPIC, bookings.TOPIC)


@dataclass(frozen=True, slots=True)
class Account:
    """Counts what became of the records of one edge.

    Attributes:
        edge: The edge's name.
        produced: Records that the edge acknowledged, tombstones and poison included.
        at_central: Committed records that a reader of central sees.
        in_lake: Rows of the lake's tables.
        stripped: Field values that the policy removed or changed.
        dead_letters: Records that could not be delivered, with coordinates in the dead-letter topic.
    """

    edge: str
    produced: int
    at_central: int
    in_lake: int
    stripped: int
    dead_letters: int

    @property
    def balanced(self) -> bool:
        """Whether every record is accounted for."""
        return self.produced == self.at_central + self.dead_letters and self.in_lake == self.at_central


@dataclass(frozen=True, slots=True)
class DemoResult:
    """The results that the demo shows at its end.

    Attributes:
        accounts: One for each edge.
        sample_record: One record before and after the strip.
    """

    accounts: tuple[Account, ...]
    sample_record: SampleRecord

    @property
    def balanced(self) -> bool:
        """Whether every edge's books balance."""
        return all(account.balanced for account in self.accounts)


def run_demo(config_path: Path, *, records: int, run: Callable[[Path], None], say: Say = silent) -> DemoResult:
    """Produce to the edges of a sandbox, run the hub, and read everything back.

    Args:
        config_path: The sandbox's `hub.yaml`.
        records: To produce, over all edges; a few poison records come on top.
        run: Runs the hub of this configuration until everything that exists is in central and in the lake.
        say: Takes progress lines.

    Raises:
        AggregatorError: whatever went wrong on the way.
    """
    config = load_config(config_path, {})
    say(f"producing {records:,} flights and bookings into {format_count(len(config.edges), 'edge')} …")
    produced = produce_to_edges(config, records)
    say("running the hub until it is drained …")
    run(config_path)
    say("reading central and the lake back …")
    edge = next(iter(config.edges))
    return DemoResult(_accounts(config, produced), _sample_record(config, edge))


def produce_to_edges(config: HubConfig, records: int) -> dict[str, Produced]:
    """Produce `records` flights and bookings, divided over all edges; by edge name, what each got.

    Raises:
        AggregatorError: an edge did not take them.
    """
    share, rest = divmod(records, len(config.edges))
    whose = flights.departures(list(config.edges))
    return {
        name: produce_traffic(name, edge, _registry(edge), whose=whose[name], count=share + (index < rest))
        for index, (name, edge) in enumerate(config.edges.items())
    }


def _accounts(config: HubConfig, produced: dict[str, Produced]) -> tuple[Account, ...]:
    ledger = read_ledger(config.central, HubNames(config.hub))
    rows = sum((count_lake(Path(config.lake.path) / topic) for topic in TOPICS if config.lake), start=Counter[str]())
    flows = [(at.edge, entry) for at, entry in ledger.items() if at.topic in TOPICS]
    return tuple(
        Account(
            edge=edge,
            produced=made.total,
            at_central=sum(count_topic(config.central, _central(config, edge, topic)) for topic in TOPICS),
            in_lake=rows[edge],
            stripped=sum(entry.stripped for of, entry in flows if of == edge),
            dead_letters=sum(entry.dead for of, entry in flows if of == edge),
        )
        for edge, made in produced.items()
    )


def _sample_record(config: HubConfig, edge: str) -> SampleRecord:
    source = config.edges[edge]
    return find_sample_record(
        edge,
        SamplePlace(source, bookings.TOPIC, _registry(source)),
        SamplePlace(
            config.central,
            _central(config, edge, bookings.TOPIC),
            open_registry(config.schemas or "", config.schemas_client),
        ),
    )


def _central(config: HubConfig, edge: str, topic: str) -> str:
    return central_topic(config.topics[0].central, edge, topic)


def _registry(edge: EdgeConfig) -> Registry:
    return open_registry(edge.schemas or "", edge.schemas_client)
