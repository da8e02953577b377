"""Starts a backfill. Two people who start the same backfill get the same one.

Invariant: a person who asks for the same as an unfinished backfill joins it, and nothing is planned a second time. If
two plans of the same ask were written at the same moment, both processes carry out the first.
"""

from aggregator.backfill.backfill_state import Backfill, BackfillState, Signed
from aggregator.backfill.plan import Plan
from aggregator.backfill.store import read_backfills, revive, submit
from aggregator.config.model import HubConfig
from aggregator.errors import FatalError
from aggregator.kafka.cluster import topics
from aggregator.state.internal_topics import internal_topics
from aggregator.state.names import HubNames


def unfinished(config: HubConfig, ask_digest: str) -> Backfill | None:
    """The oldest backfill of the same ask that is neither finished nor cancelled.

    Raises:
        Unreachable: central does not answer.
    """
    known = read_backfills(config.central, HubNames(config.hub)).values()
    return next(
        (one for one in known if one.plan.ask_digest == ask_digest and one.state is BackfillState.UNFINISHED), None
    )


def start(config: HubConfig, plan: Plan, signed: Signed, *, rate: float | None, exact: bool = False) -> Backfill:
    """Put a plan on record, unless the same ask is under way already.

    Args:
        config: The hub.
        plan: The plan; it must write something.
        signed: The person who asks, and the time.
        rate: Records a second at most.
        exact: This plan and no other, even if the same words were asked before: a plan file.

    Returns:
        The backfill to carry out.

    Raises:
        FatalError: the plan is another hub's, or too long.
        Unreachable: central does not answer.
    """
    if plan.hub != config.hub:
        raise FatalError(
            f"this is a plan of hub {plan.hub}, and the configuration is of hub {config.hub}",
            hint="run it with that hub's configuration, or make a plan with this one: aggregator backfill plan",
        )
    names = HubNames(config.hub)
    specs = internal_topics(names.backfills(), config.replication.slots)
    topics.ensure(config.central, specs, replication_factor=config.replication_factor)
    joined = None if exact else unfinished(config, plan.ask_digest)
    if joined is not None:
        return joined
    known = read_backfills(config.central, names).get(plan.id)
    if known is None:
        submit(config.central, names, plan, signed, rate)
    elif known.cancelled is not None:
        revive(config.central, names, plan.id)
    elif known.end is not None:
        return known
    first = None if exact else unfinished(config, plan.ask_digest)
    return first or read_backfills(config.central, names)[plan.id]


def revived(config: HubConfig, backfill: Backfill) -> Backfill:
    """A backfill that is to go on, with its cancellation taken back.

    Raises:
        Unreachable: central does not answer.
    """
    if backfill.state is BackfillState.CANCELLED:
        revive(config.central, HubNames(config.hub), backfill.plan.id)
    return backfill


def known_backfill(config: HubConfig, id_: str) -> Backfill:
    """A backfill by its id, or by the beginning of it.

    Raises:
        FatalError: none, or several.
        Unreachable: central does not answer.
    """
    found = [one for name, one in read_backfills(config.central, HubNames(config.hub)).items() if name.startswith(id_)]
    if len(found) != 1 or not id_:
        what = f"{len(found)} backfills begin with" if found else "no backfill begins with"
        raise FatalError(f"{what} {id_!r}", hint="aggregator backfill list shows them")
    return found[0]
