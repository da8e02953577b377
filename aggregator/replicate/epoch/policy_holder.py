"""The holder keeps the policies that a running hub applies; another thread may replace all of them at once.

Invariant: an epoch uses the policies that were in force when it began. It ends when they were replaced.
"""

from collections.abc import Mapping
from pathlib import Path

from aggregator.privacy.policy.file import Policy

Policies = Mapping[Path, Policy]


class PolicyHolder:
    """The policies of a hub's rules, by path, which another thread may replace.

    Args:
        policies: The first ones.

    Attributes:
        policies: The present ones; a decision reads them once.
    """

    def __init__(self, policies: Policies) -> None:
        self.policies = policies

    def replace(self, policies: Policies) -> None:
        """Use these policies from the next epoch on."""
        self.policies = policies
