"""Records decisions: a person's request is recorded before it takes effect, with the name that the person claims.

Invariant: a request goes to a hub only after its decision is in the decisions topic. If the decision cannot be written,
the request is not made.
"""

import getpass
import socket
from collections.abc import Iterable
from typing import TYPE_CHECKING

from aggregator.escapes import recordable
from aggregator.machine_clock import utc_now_ms

if TYPE_CHECKING:
    from aggregator.config.model import HubConfig
    from aggregator.state.decisions import DecisionKind


def claimed(by: str | None = None) -> str:
    """The claimed author: the given word, or the account and machine of this process. Neither is proven."""
    return recordable(by or f"{getpass.getuser()}@{socket.gethostname()}")


def because(reason: str) -> str:
    """The reason for a decision in a form that records can hold."""
    return recordable(reason.strip())


def decide(config: "HubConfig", kind: "DecisionKind", abouts: Iterable[str], *, by: str, reason: str = "") -> None:
    """Put decisions of one kind on record.

    Args:
        config: The hub.
        kind: The kind of the decision.
        abouts: About what, one decision each.
        by: The author, from `claimed`.
        reason: The reason for the decision.

    Raises:
        FatalError: the hub has never run, or the topic's end stays stuck.
        Unreachable: central does not take them.
    """
    from aggregator.state.decisions import NewDecision, append_decisions
    from aggregator.state.first_run import require_run
    from aggregator.state.names import HubNames

    names = HubNames(config.hub)
    require_run(config.central, names, names.requests)
    now_ms = utc_now_ms()
    append_decisions(config, [NewDecision(kind, about, by, now_ms, reason) for about in abouts])
