"""A whole plan as one text: what a test compares, or searches for what a plan must not hold."""

import json
from dataclasses import asdict

from aggregator.privacy.plan.plan import StripPlan


def plan_text(plan: StripPlan) -> str:
    """Canonical JSON of everything in a plan."""
    return json.dumps(asdict(plan), default=lambda rule: rule.model_dump(mode="json"), sort_keys=True)
