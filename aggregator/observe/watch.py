"""The watch for losses: while the hub runs it warns of what an edge is about to delete unread, and of what it has lost.

Invariant: reads only, and never stops the hub: what does not answer is looked at again. A warning is said once, and
again only after it was over.
"""

import logging
import threading
import time
from collections.abc import Collection, Mapping

from aggregator.config.model import HubConfig
from aggregator.errors import AggregatorError
from aggregator.observe.gaps import KnownGap, unsettled
from aggregator.observe.look import EdgeLook
from aggregator.observe.survey import survey
from aggregator.replicate.gaps import sentence

EVERY_S = 15.0
log = logging.getLogger(__name__)


class LossWatch(threading.Thread):
    """Looks every few seconds until `stop` is set.

    Args:
        config: The hub.
        stop: Ends the watch.
        every_s: Pause between two looks.
    """

    def __init__(self, config: HubConfig, stop: threading.Event, *, every_s: float = EVERY_S) -> None:
        super().__init__(name="losses", daemon=True)
        self._config = config
        self._ended = stop
        self._every_s = every_s

    def run(self) -> None:
        """Warn of what is new."""
        said: set[str] = set()
        while not self._ended.wait(self._every_s):
            try:
                found = self._look()
            except AggregatorError:
                continue
            for key in found.keys() - said:
                log.warning("%s", found[key])
            said = set(found)

    def _look(self) -> dict[str, str]:
        found = survey(self._config, now_ms=int(time.time() * 1000))
        warning_ms = int(self._config.replication.retention_warning.total_seconds() * 1000)
        return warnings(found.looked, list(unsettled(found.gaps)), warning_ms=warning_ms)


def warnings(looked: Mapping[str, EdgeLook], gaps: Collection[KnownGap], *, warning_ms: int) -> dict[str, str]:
    """What to warn of, by what it is about.

    Args:
        looked: What each edge showed.
        gaps: Those that hold flows.
        warning_ms: See `replication.retention_warning`.
    """
    found = {
        f"margin {source}": f"{source}: the edge deletes unread records in {margin.left_ms / 1000:.0f} s; it keeps them"
        f" for {margin.keeps_ms / 1000:.0f} s: raise its retention, or look why this flow is behind"
        for seen in looked.values()
        for source, margin in seen.margins.items()
        if margin.is_short(warning_ms)
    }
    for gap in gaps:
        why = sentence(gap.gap, gap.position.next_offset)
        found[f"gap {gap.source} {gap.position}"] = f"{gap.source} is held: {why}; see `aggregator gaps list`"
    return found
