"""This module defines every name that a hub owns at central: internal topics and transactional ids.

No other module spells one of these names.
"""

from dataclasses import dataclass

from aggregator.coordinates import HEARTBEATS


@dataclass(frozen=True, slots=True)
class HubNames:
    """Names of the hub `hub`; a backfill is the same protocol under another prefix."""

    hub: str

    @property
    def ledger(self) -> str:
        """Compacted; partition k belongs to slot k."""
        return f"{self.hub}.ledger"

    @property
    def control(self) -> str:
        """Compacted, one partition, written by the driver's producer only."""
        return f"{self.hub}.control"

    @property
    def requests(self) -> str:
        """Compacted; written by the command line, and by slots for what a rule decides; carried out by the driver."""
        return f"{self.hub}.requests"

    @property
    def decisions(self) -> str:
        """Appended to for ever: who decided what; also the transactional id of whoever appends."""
        return f"{self.hub}.decisions"

    @property
    def dead_letters(self) -> str:
        """Coordinates and reasons of what could not be delivered; never a payload."""
        return f"{self.hub}.dead-letters"

    @property
    def edge_status(self) -> str:
        """The name of the topic of edge states."""
        return f"{self.hub}.edge-status"

    @property
    def telemetry(self) -> str:
        """One JSON per slot and second, kept for an hour, not transactional."""
        return f"{self.hub}.telemetry"

    def backfills(self) -> "HubNames":
        """The protocol's second instance: all backfills of the hub."""
        return HubNames(f"{self.hub}.backfill")

    @property
    def driver_id(self) -> str:
        """The transactional id of the driver."""
        return f"{self.hub}.driver"

    def slot_id(self, slot: int) -> str:
        """The transactional id of slot `slot`."""
        return f"{self.hub}.slot-{slot}"

    @property
    def unused_id(self) -> str:
        """A transactional id that no slot has; the rights on the slots' ids cover it."""
        return f"{self.hub}.slot-unused"


def central_topic(pattern: str, edge: str, topic: str) -> str:
    """Fill `{edge}` and `{topic}` of a rule's `central:` (or `lake:`) pattern."""
    return pattern.replace("{edge}", edge).replace("{topic}", topic)


def central_heartbeats(edge: str) -> str:
    """The central topic of an edge's heartbeats, in MirrorMaker 2's default naming."""
    return f"{edge}.{HEARTBEATS}"


def checkpoints(edge: str) -> str:
    """Where positions of an edge's groups are told; MirrorMaker 2's name."""
    return f"{edge}.checkpoints.internal"


def offset_syncs(edge: str) -> str:
    """Where it is told which record of central one of the edge is; MirrorMaker 2's name."""
    return f"mm2-offset-syncs.{edge}.internal"
