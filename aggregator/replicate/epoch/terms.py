"""The policies that a running hub goes by; another thread may replace them, all at once.

Invariant: an epoch goes by the policies of its beginning, and ends when there are others.
"""

from collections.abc import Mapping
from pathlib import Path

from aggregator.privacy.policy.file import Policy

Policies = Mapping[Path, Policy]


class Terms:
    """Policies of a hub's rules, by path.

    Args:
        policies: Those to begin with.

    Attributes:
        policies: Those of now; whoever decides something reads them once.
    """

    def __init__(self, policies: Policies) -> None:
        self.policies = policies

    def turn_to(self, policies: Policies) -> None:
        """Go by these from the next epoch on."""
        self.policies = policies
