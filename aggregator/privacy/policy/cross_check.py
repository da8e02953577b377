"""Finds contradictions between a configuration and its policies before anything runs.

Invariant: every fault of every policy is reported at once. Topics that a rule or a policy writes out are judged by
name. Topics that only open patterns match are judged when they are known, flow by flow.
"""

from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any

from aggregator.config.document import Place, read_document
from aggregator.config.model import HubConfig, TopicRule
from aggregator.config.patterns import branches, full_matches
from aggregator.errors import ConfigError
from aggregator.privacy.operators.drop import Drop
from aggregator.privacy.operators.registry import BY_NAME
from aggregator.privacy.policy.file import Policy, load_policy
from aggregator.privacy.policy.precedence import key_scope
from aggregator.regular_files import read_text

COMPACT = "compact"


def read_policies(config: HubConfig, today: date) -> Mapping[Path, Policy]:
    """The policies that a configuration names.

    Raises:
        ConfigError: one of them cannot be read, or does not go with the configuration; every fault.
    """
    policies: dict[Path, Policy] = {}
    faults: list[str] = []
    for path in sorted({rule.policy for rule in config.topics}):
        try:
            policies[path] = load_policy(path)
        except ConfigError as error:
            faults += error.lines
    for path, policy in policies.items():
        faults += _keys(config, path, policy)
        faults += [f"{path}: {fault}" for fault in dict.fromkeys(_topics(config, path, policy, today))]
    if faults:
        raise ConfigError(faults, hint="correct this, then: aggregator config lint")
    return policies


def _keys(config: HubConfig, path: Path, policy: Policy) -> Iterator[str]:
    if missing := sorted(policy.keys() - config.keys.keys()):
        document = read_document(read_text(path))
        for name in missing:
            uses = [
                at for at in _places(document.data, ()) if at[-2:] == ("key", name) and at[-3:-2] and at[-3] in BY_NAME
            ]
            line = min(map(document.line, uses), default=1)
            yield f"{path}:{line}: key {name} is used here, and is not under `keys:` of the configuration"


def _places(data: Any, at: Place) -> Iterator[Place]:
    """Every place of a document, a text as the last step to itself."""
    steps = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for step, inner in steps:
        yield from _places(inner, (*at, step))
    if isinstance(data, str):
        yield (*at, data)


def _topics(config: HubConfig, path: Path, policy: Policy, today: date) -> Iterator[str]:
    for rule in config.topics:
        for topic in sorted(_named(rule, policy)) if rule.policy == path else ():
            try:
                yield from _faults(rule, policy, topic, today)
            except ConfigError as error:
                yield error.message


def _named(rule: TopicRule, policy: Policy) -> set[str]:
    """Topics that the rule takes, as far as somebody wrote their names."""
    patterns = [rule.match, *policy.topics]
    names = sorted({branch.literal for pattern in patterns for branch in branches(pattern) if branch.is_literal})
    return {name for name, taken in zip(names, full_matches(rule.match, names), strict=True) if taken and name}


def _faults(rule: TopicRule, policy: Policy, topic: str, today: date) -> Iterator[str]:
    view = policy.view(topic)
    if rule.lake is not None and not view.value_format.has_schema:
        what = f"topic {topic} has {view.value_format.spoken} values, which no table can hold without a schema"
        yield f"{what}; its rule may not name a `lake`"
    if COMPACT in rule.central_config.get("cleanup.policy", "") and drops_key(policy, topic, today):
        yield f"topic {topic} {LOSES_KEYS}"


# The fault of a compacted topic without keys: the broker refuses its records.
LOSES_KEYS = (
    "is compacted at central, and this policy drops its keys: give `key:` another operator, or set `cleanup.policy:"
    " delete` under `central_config`"
)


def drops_key(policy: Policy, topic: str, today: date) -> bool:
    """Whether no record of the topic keeps a key."""
    return isinstance(key_scope(policy, topic).decide_whole(today).rule, Drop)
