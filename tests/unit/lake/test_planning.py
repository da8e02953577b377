"""Which topics feed which table, what a drain waits for, and which leftovers go."""

from dataclasses import replace

from aggregator.config.match import excluded_by, rule_for
from aggregator.config.model import HubConfig, TopicRule
from aggregator.coordinates import CentralPartition, EdgePartition, OffsetRange
from aggregator.errors import RetryError
from aggregator.lake.cycle.ranges import Span, SpanProgress, StagingOutcome, TableHold
from aggregator.lake.cycle.report import CycleReport, TableReport
from aggregator.lake.cycle.sources import lake_sources
from aggregator.lake.cycle.task import decode_outcome, encode_outcome
from aggregator.lake.storage.files import StagedFile
from aggregator.lake.storage.folder import FolderEntry
from aggregator.lake.storage.staging import working_since
from aggregator.lake.upkeep.orphans import ORPHAN_AGE, leftovers
from aggregator.plan.explanation import rule_match

CONFIG = HubConfig.model_validate(
    {
        "hub": "demo",
        "central": {"bootstrap_servers": "127.0.0.1:1"},
        "edges": {"eu": {"bootstrap_servers": "127.0.0.1:2"}, "us": {"bootstrap_servers": "127.0.0.1:3"}},
        "topics": [
            {"match": "orders|orders2", "policy": "p", "lake": "{topic}", "edges": ["eu"]},
            {"match": "orders.*", "policy": "p", "central": "{topic}", "lake": "all"},
            {"match": "quiet", "policy": "p"},
        ],
    }
)
PART = CentralPartition("t", "id", 0)
NOW_S, DAY_S = 1_800_000_000.0, 86_400.0


def test_the_first_rule_whose_pattern_matches_the_whole_name_speaks():
    """Order decides, edges restrict, and a part of a name is no match."""
    first, second, third = CONFIG.topics
    assert rule_for(CONFIG, "eu", "orders") is first
    assert rule_for(CONFIG, "us", "orders") is second
    assert rule_for(CONFIG, "eu", "orders23") is second
    assert rule_for(CONFIG, "eu", "quiet") is third
    assert rule_for(CONFIG, "eu", "my.orders") is None


def test_an_excluded_topic_is_left_to_later_rules_or_to_none():
    """Of one rule: the next one may take it; of the hub: none does; the explanation names the place."""
    orders, rest = ({"match": one, "policy": "p"} for one in ("orders.*", ".*"))
    config = CONFIG.model_copy(update={"topics": (TopicRule(**orders, exclude="orders-(old|test)"),)})
    assert rule_for(config, "eu", "orders-new") is config.topics[0]
    assert rule_for(config, "eu", "orders-older") is config.topics[0], "the whole name"
    assert (rule_for(config, "eu", "orders-old"), excluded_by(config, "eu", "orders-old")) == (
        None,
        "topics[0].exclude",
    )
    assert rule_match(config, "eu", "orders-old") == (False, "`topics[0].exclude` names it", None)
    assert excluded_by(config, "eu", "parcels") == excluded_by(config, "eu", "orders-new") == ""
    config = config.model_copy(update={"topics": (*config.topics, TopicRule(**rest))})
    assert (rule_for(config, "eu", "orders-old"), excluded_by(config, "eu", "orders-old")) == (config.topics[1], "")
    config = config.model_copy(update={"exclude": "orders-old|_.*"})
    assert (rule_for(config, "eu", "orders-old"), excluded_by(config, "eu", "orders-old")) == (None, "exclude")
    assert rule_for(config, "eu", "orders-test") is config.topics[1]


def test_tables_are_fed_by_the_flows_of_their_rules():
    """Partitions and edges fold into central topics; flows without `lake:` and heartbeats feed nothing."""
    flows = [EdgePartition("eu", "orders", 0), EdgePartition("eu", "orders", 1), EdgePartition("us", "orders", 0)]
    flows += [EdgePartition("us", "orders9", 0), EdgePartition("eu", "quiet", 0), EdgePartition("eu", "heartbeats", 0)]
    assert lake_sources(CONFIG, flows) == {"orders": {"eu.orders"}, "all": {"orders", "orders9"}}


def test_a_drain_waits_for_ends_and_not_for_what_is_held():
    """A table is short of an end until it is there, is held there, or its failure passes."""
    until = {("t", 0): 9}
    assert TableReport("a", next_offsets={PART: 8}).short_of(until)
    assert not TableReport("a", next_offsets={PART: 9}).short_of(until)
    assert not TableReport("a", next_offsets={PART: 8}, held=(TableHold(PART, "why"),)).short_of(until)
    assert TableReport("a", failed=RetryError("away")).short_of(until)


def test_a_held_partition_does_not_make_cycles_run_without_a_pause():
    """A cycle is behind only where its bounds cut it short; what is held waits for the interval."""
    cut = TableReport("a", rows=1, next_offsets={PART: 8}, end_offsets={PART: 9})
    assert CycleReport((cut,)).has_backlog
    assert not CycleReport((replace(cut, held=(TableHold(PART, "why"),)),)).has_backlog
    assert not CycleReport((replace(cut, rows=0),)).has_backlog


def test_only_old_files_of_ours_that_no_log_names_go():
    """Young files may wait for their commit; named ones belong to the table; others are not ours."""
    old, young = NOW_S - 2 * DAY_S, NOW_S - 3_600
    times = {
        "hub-a.parquet": old,
        "hub-b.parquet": young,
        "hub-c.parquet": old,
        "part-0.parquet": old,
        "hub-d.tmp": old,
    }
    files = [FolderEntry(name, 1, time) for name, time in times.items()]
    assert leftovers(files, ["hub-c.parquet"], now_s=NOW_S) == ["hub-a.parquet"]


def test_what_a_job_staged_since_it_began_waits_while_its_lease_is_renewed():
    """A rewrite of a table may take days; a lease that nobody renewed for a day is a dead job's."""
    began_s = NOW_S - 5 * DAY_S
    staged = [FolderEntry(f"hub-{days}.parquet", 1, NOW_S - days * DAY_S) for days in (2, 4, 6)]
    lease = FolderEntry(f"hub-since-{int(began_s)}-x.lease", 1, NOW_S - 3_600)
    assert working_since([*staged, lease], now_s=NOW_S, keep=ORPHAN_AGE) == began_s
    assert leftovers([*staged, lease], [], now_s=NOW_S, since_s=began_s) == ["hub-6.parquet"]
    assert working_since([lease._replace(written_s=NOW_S - 2 * DAY_S)], now_s=NOW_S, keep=ORPHAN_AGE) is None


def test_outcomes_travel_whole():
    """What a task tells comes back equal."""
    span = Span(PART, OffsetRange(3, 9))
    files = (StagedFile("hub-a.parquet", 5, 4, "{}", b"\0\1"),), (StagedFile("hub-b.parquet", 1, 2, "{}", b"\2"),)
    outcome = StagingOutcome((SpanProgress(span, 7, "held at 7"),), *files)
    assert decode_outcome(encode_outcome(outcome)) == outcome
