"""Follows what edges show while an epoch runs: new topics go to slots that run, any other change ends the epoch.

Invariant: central has a topic, with leaders, before a slot is given its flows, and central's notes say where they are
written in the transaction that gives them.
"""

import logging
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from typing import Protocol

from aggregator.config.model import HubConfig
from aggregator.coordinates import OffsetRange, Partition
from aggregator.errors import RetryError, TransactionAborted
from aggregator.machine_clock import utc_now_ms
from aggregator.privacy.policy.file import Policy
from aggregator.replicate.discovery.central_topics import Snapshots, targets
from aggregator.replicate.discovery.compacted_keys import losing_keys
from aggregator.replicate.discovery.edge_topic import DiscoveredTopics
from aggregator.replicate.discovery.target_topics import TargetTopics
from aggregator.replicate.epoch.additions import RunningFlows, new_topics, obstacles, plan_additions
from aggregator.replicate.epoch.growth import Growth, Shapes, shapes_of
from aggregator.replicate.flow.added_flows import added
from aggregator.replicate.flow.flow import FlowPlan
from aggregator.state.control import ControlEntry

log = logging.getLogger(__name__)


class ControlWriter(Protocol):
    """The interface to central that a driver needs to add flows."""

    def publish(self, *entries: ControlEntry) -> None:
        """Commit control records, all of them or none."""

    def read_undecided(self, partitions: Collection[Partition]) -> Mapping[Partition, OffsetRange]:
        """The range from the last stable offset to the high watermark, by partition that answers."""


def give_flows(
    config: HubConfig,
    central: ControlWriter,
    running: RunningFlows,
    fresh: Snapshots,
    more: Mapping[int, tuple[FlowPlan, ...]],
) -> bool:
    """Tell slots of their new flows; whether central took it.

    Args:
        config: The hub.
        central: Takes it.
        running: What the slots have; knows of the new flows afterwards.
        fresh: The topics of these flows.
        more: Flows by slot.

    Raises:
        Fenced: another driver took the id.
        OutcomeUnknown: no definite answer; the process must end.
    """
    given = running.given | {slot: (*running.given.get(slot, ()), *plans) for slot, plans in more.items()}
    notes = sorted(targets(config, fresh), key=attrgetter("edge", "topic", "central", "by_key"))
    try:
        central.publish(*notes, *(added(running.epoch, slot, given[slot]) for slot in more))
    except TransactionAborted:
        return False
    running.given = given
    running.written |= {one.central for one in notes}
    return True


class EdgeFollower:
    """Follows the edges through one epoch.

    Args:
        config: The hub.
        central: The driver's.
        topics: Makes central's topics.
        policies: What the epoch's slots go by, by path.
        running: What the slots have.
        shown: What the edges showed when the epoch opened.
        drain: Whether the slots end once they have read everything; then nothing is added.
        paused: Edges that are not read.
    """

    def __init__(
        self,
        config: HubConfig,
        central: ControlWriter,
        topics: TargetTopics,
        policies: Mapping[Path, Policy],
        running: RunningFlows,
        *,
        shown: Mapping[str, DiscoveredTopics],
        drain: bool,
        paused: Collection[str],
    ) -> None:
        self._config, self._central, self._topics, self._policies = config, central, topics, policies
        self._running, self._drain, self._paused = running, drain, paused
        self._begin(self._shapes(_snapshots(shown)), shown)
        self._made = self._shown  # what central's topics were made for
        self._tried: Shapes = {}  # what cannot be added

    def _begin(self, now: Shapes, shown: Mapping[str, DiscoveredTopics]) -> None:
        self._shown, self._growth = now, Growth(now, shown)

    def _shapes(self, snapshots: Snapshots) -> Shapes:
        return shapes_of(snapshots, with_settings=self._topics.syncs)

    def has_to_end(self, shown: Mapping[str, DiscoveredTopics]) -> bool:
        """Whether the epoch has to end for what edges show now.

        Central gets its topics while the slots still run: a shorter halt, and its leaders are elected meanwhile.
        """
        snapshots = _snapshots(shown)
        now = self._shapes(snapshots)
        if now == self._shown:
            return False
        names = None if self._drain else new_topics(self._shown, now)
        if names and now != self._tried:
            fresh = {edge: {name: snapshots[edge][name] for name in own} for edge, own in names.items()}
            if self._add(fresh, snapshots, now):
                self._begin(now, shown)
                return False
        if now != self._made:
            with suppress(RetryError):  # the next epoch asks again
                self._topics.ensure(snapshots)
            self._made = now
        return self._drain or self._growth.is_over(now, shown, time.monotonic())

    def _add(self, fresh: Snapshots, snapshots: Snapshots, now: Shapes) -> bool:
        """Whether running slots have taken new topics; if they never can, that is not tried again."""
        if any(obstacles(self._config, fresh, self._running, snapshots, self._paused)):
            self._tried = now
            return False
        try:
            settings, partitions = self._topics.ensure(fresh)
            ends = self._central.read_undecided(partitions)
        except RetryError:
            return False
        if any(at not in ends or len(ends[at]) for at in partitions):
            return False  # a slot would wait for them, and its other flows with it
        now_ms = utc_now_ms()
        refused = losing_keys(self._config, self._policies, fresh, settings, now_ms=now_ms)
        more = plan_additions(self._config, fresh, settings, self._running, now_ms=now_ms, refused=refused)
        if more is None:
            self._tried = now
            return False
        if not give_flows(self._config, self._central, self._running, fresh, more):
            return False
        count = sum(map(len, more.values()))
        log.info("epoch %d: %d flows more, of %d new topics", self._running.epoch, count, sum(map(len, fresh.values())))
        return True


def _snapshots(shown: Mapping[str, DiscoveredTopics]) -> Snapshots:
    return {edge: one.topics for edge, one in shown.items()}
