"""Policies on record: by which one a hub began to strip, in its decisions topic, where it is another one than before.

Invariant: a hub that may not write there says so and runs on: the policy that is in force stands in every derived
schema and report as well.
"""

import logging
import time
from collections.abc import Mapping
from pathlib import Path

from aggregator.config.model import HubConfig
from aggregator.errors import Failed, Unreachable
from aggregator.privacy.policy.file import Policy
from aggregator.state.decisions import Decided, Kind, decode, read_decisions, record
from aggregator.state.names import HubNames

log = logging.getLogger(__name__)


def record_policies(config: HubConfig, policies: Mapping[Path, Policy], *, by: str) -> None:
    """Append a decision for each policy that is another one than its file was before.

    Args:
        config: The hub.
        policies: Those of its rules, by path.
        by: The process that begins with them.
    """
    try:
        known = [decode(one) for one in read_decisions(config.central, HubNames(config.hub))]
        before = {link.about.partition(": ")[0]: link.about for link in known if link and link.kind is Kind.POLICY}
        now = {path.name: f"{one.policy} version {one.version}, {one.hash}" for path, one in policies.items()}
        abouts = [f"{file}: {told}" for file, told in sorted(now.items())]
        now_ms = int(time.time() * 1000)
        fresh = [Decided(Kind.POLICY, about, by, now_ms) for about in abouts if about not in before.values()]
        if fresh:
            record(config, fresh)
    except (Failed, Unreachable) as error:
        log.warning("which policies this hub strips by is not on record: %s", error.message)
