"""Explains on the page why a topic is or is not replicated: the configuration's answer at once, the edge's and the
registry's on request.

Invariant: readers of the page put no load on an edge. An answer is kept for a while, and only few questions run at the
same time.
"""

import asyncio
import time
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from starlette.concurrency import run_in_threadpool

from aggregator.config.model import HubConfig
from aggregator.machine_clock import utc_today
from aggregator.plan.explanation import Explanation, RuleMatch, explanation, rule_match
from aggregator.privacy.policy.file import Policy

_KEPT_S = 30.0
_MOST = 500
_AT_ONCE = 2


class ExplanationCache:
    """Explains topics of one hub, and keeps the answers for a while.

    Args:
        config: The hub.
        policies: Of its rules, by path.
    """

    def __init__(self, config: HubConfig, policies: Mapping[Path, Policy]) -> None:
        self._config, self._policies = config, policies
        self._kept: dict[tuple[str, str], tuple[float, Explanation]] = {}
        self._turn = asyncio.Semaphore(_AT_ONCE)
        self.rule_match = lru_cache(maxsize=20_000)(self._rule_match)

    def _rule_match(self, edge: str, topic: str) -> RuleMatch:
        """What the configuration says of an edge's topic."""
        return rule_match(self._config, edge, topic)

    async def explain(self, edge: str, topic: str) -> Explanation:
        """What the edge and its registry say beside it; some seconds where they do not answer.

        Raises:
            ConfigError: the policy contradicts itself for this topic.
        """
        async with self._turn:
            known = self._kept.get((edge, topic))
            if known is None or time.monotonic() - known[0] > _KEPT_S:
                found = await run_in_threadpool(explanation, self._config, self._policies, edge, topic, utc_today())
                if len(self._kept) >= _MOST:
                    self._kept.clear()
                known = self._kept[edge, topic] = (time.monotonic(), found)
        return known[1]
