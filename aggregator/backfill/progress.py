"""Shows the present state of backfills: what central knows, and whether a driver is at work.

Invariant: this module only reads. A driver is alive when its lease is seen to move. No other machine's clock is
compared.
"""

import time
from dataclasses import replace

from aggregator.backfill.backfill_state import Backfill, BackfillState
from aggregator.backfill.store import read_backfills
from aggregator.config.model import HubConfig
from aggregator.replicate.leadership.lease import RENEW_INTERVAL_S
from aggregator.state.control_log import read_control
from aggregator.state.names import HubNames

_MARGIN_S = 0.5


def watched_backfills(config: HubConfig) -> list[Backfill]:
    """Read every backfill, the oldest first; this takes some seconds if one may be running.

    Raises:
        FatalError: a record is damaged.
        Unreachable: central does not answer.
    """
    known = list(read_backfills(config.central, HubNames(config.hub)).values())
    if not any(one.state is BackfillState.UNFINISHED for one in known):
        return known
    running = _moving(config)
    return [replace(one, running=running == one.plan.id) for one in known]


def _moving(config: HubConfig) -> str:
    """Id of the backfill whose driver holds a lease that moves; empty if none does."""
    names = HubNames(config.hub).backfills()
    first = read_control(config.central, names).lease
    if first is None or first.released:
        return ""
    time.sleep(RENEW_INTERVAL_S + _MARGIN_S)
    later = read_control(config.central, names).lease
    return later.driver.partition("@")[0] if later and later != first and not later.released else ""
