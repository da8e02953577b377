"""Reports on stderr which rights the hub's principals lack, by name, and the command that prints how to grant them.

Invariant: a missing right is reported before a flow stands still because of it. Without rights on the topics that a hub
keeps at central, no hub runs.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from aggregator.cli.terminal.output import progress
from aggregator.errors import FatalError

if TYPE_CHECKING:
    from aggregator.observe.rights import MissingRights


def tell_lacking(found: "Sequence[MissingRights]") -> None:
    """A line for each topic, and the commands that print what is needed."""
    for one in found:
        progress(one.sentence)
    for hint in dict.fromkeys(one.hint for one in found):
        progress(f"next: {hint}")


def require_own_clusters(found: "Sequence[MissingRights]") -> None:
    """Say what is lacking, and end where it is about what the hub keeps.

    Raises:
        FatalError: names each topic with the rights.
    """
    own = [one for one in found if one.own]
    tell_lacking([one for one in found if not one.own])
    if own:
        raise FatalError([one.sentence for one in own], hint=own[0].hint)
