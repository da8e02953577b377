"""A whole plan as one text: what a test compares, or searches for what a plan must not hold."""

import json
from dataclasses import asdict
from typing import Any

from aggregator.privacy.plan.plan import StripPlan


def plan_text(plan: StripPlan) -> str:
    """Canonical JSON of everything in a plan."""
    return json.dumps(asdict(plan), default=_plain, sort_keys=True)


def _plain(value: Any) -> Any:
    return sorted(value) if isinstance(value, frozenset) else value.model_dump(mode="json")
