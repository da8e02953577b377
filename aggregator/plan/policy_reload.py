"""Judges whether a running hub may use changed policies. Its objections come from the same plan as before a start.

Invariant: a rule that is looser, or not proved to be as strict, needs the new policy's permission. The policy gives it
by naming the running version as the one that it loosens. A topic that the new policies would hold, and the present ones
do not, never passes.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Literal

from aggregator.config.match import rule_for
from aggregator.config.model import ClusterConfig, HubConfig
from aggregator.errors import DeadLetterError
from aggregator.plan.actions import REFUSED
from aggregator.plan.run_plan import HubPlan, hub_plan
from aggregator.plan.schemas import NewestSchema, newest_schemas_of
from aggregator.privacy.policy.file import Policy
from aggregator.privacy.review.diff import WriterSchema, policy_changes

Policies = Mapping[Path, Policy]
_SAY_SO = (
    "if it shall be, write `loosens: {version: <the one that runs>, reason: …, owner: …}` beside a higher `version`"
)


def changed(old: Policies, new: Policies) -> list[Path]:
    """Files whose policies mean something else now, or are of another version."""
    return sorted(path for path in new if path not in old or _name(old[path]) != _name(new[path]))


def concerned(config: HubConfig, files: Collection[Path]) -> dict[str, ClusterConfig]:
    """Edges of which a topic can be under one of these policies; the others need not be asked."""
    rules = [rule for rule in config.topics if rule.policy in files]
    return {
        edge: cluster
        for edge, cluster in config.edges.items()
        if any(rule.edges is None or edge in rule.edges for rule in rules)
    }


def _name(policy: Policy) -> tuple[str, int, str]:
    return policy.policy, policy.version, policy.hash


def objections(config: HubConfig, old: Policies, new: Policies, *, now_ms: int, today: date) -> list[str]:
    """The objections to the new policies; empty if a hub may go by them.

    Args:
        config: The hub.
        old: Policies of its rules that are in force, by path.
        new: Policies in the present files.
        now_ms: The present.
        today: Decides which `keep` has expired.

    Raises:
        Unreachable: central, or a registry, does not answer.
        ConfigError: a policy contradicts itself for a topic.
    """
    config = config.model_copy(update={"edges": concerned(config, changed(old, new))})
    before, after = (hub_plan(config, policies, now_ms=now_ms, today=today) for policies in (old, new))
    silent = [
        f"edge {edge} does not answer, so nobody knows its topics: {why}; send SIGHUP again when it does, or start the"
        " hub anew, which takes the files as they are"
        for edge, why in after.unreachable.items()
    ]
    if silent:
        return silent
    known = {place for place, _ in _held(before)}
    held = [line for place, line in _held(after) if place not in known]
    loosened = [
        line
        for path in changed(old, new)
        if path in old and not _says_so(old[path], new[path])
        for line in _loosened(path, old[path], new[path], list(_schemas(config, after, new, path)), today)
    ]
    return [*loosened, *held]


def _held(plan: HubPlan) -> Iterator[tuple[tuple[str, ...], str]]:
    """What a run would not begin with, and the reason; the reason may differ from the former one."""
    for flow in plan.flows:
        for reason in flow.held:
            yield (flow.edge, flow.topic, reason.partition(": ")[0]), reason
    for one in plan.schemas:
        if one.action == REFUSED:
            yield (one.edge, one.topic, one.writer), f"{one.writer} of {one.edge}: {one.detail}"


def _says_so(old: Policy, new: Policy) -> bool:
    """Whether the new policy says that it loosens just this version."""
    return new.loosens is not None and new.loosens.version == old.version < new.version


def _loosened(path: Path, old: Policy, new: Policy, schemas: list[WriterSchema], today: date) -> Iterator[str]:
    """What of a policy is looser, or not proved to be as strict: of the schemas that are there, and as it is written.

    A wildcard that opens no field of today's schemas opens those that come tomorrow, and a field may have a tag then.
    """
    try:
        changes = policy_changes(old, new, schemas, today)
    except DeadLetterError as error:
        yield f"{path}: {error.message}"
        return
    for one in changes:
        if one.verdict.loosens:
            yield f"{path}: {one.topic} {one.path}: {one.before} becomes {one.after}, which is {one.verdict}; {_SAY_SO}"


def _schemas(config: HubConfig, plan: HubPlan, new: Policies, path: Path) -> Iterator[WriterSchema]:
    """The newest readable schemas of the topics under the policy.

    An unreadable schema is skipped: nothing is delivered under it.
    """
    topics: dict[str, list[str]] = defaultdict(list)
    for flow in plan.flows:
        rule = rule_for(config, flow.edge, flow.topic)
        if rule is not None and rule.policy == path:
            topics[flow.edge].append(flow.topic)
    for edge, names in topics.items():
        for writer in (one for one in newest_schemas_of(config, new, edge, names) if isinstance(one, NewestSchema)):
            version, is_key = writer.version, writer.subject.endswith("-key")
            part: Literal["value", "key"] = "key" if is_key else "value"
            yield WriterSchema(writer.topic, version.text, part, version.tags, writer.known)
