"""This module holds flows into compacted topics if their policy would drop the record key.

A broker refuses a record without a key in a compacted topic.

Invariant: the settings that central shows decide, no matter who created the topic. The policy is checked before the
first record of the flow is read. Every record is checked before it is produced, because a record without a key would
abort its slot's transaction for ever.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from aggregator.config.match import rule_for
from aggregator.config.model import HubConfig
from aggregator.errors import HoldError, Reason
from aggregator.privacy.batch.strip import Rejection, Stripped
from aggregator.privacy.policy.cross_check import LOSES_KEYS, drops_key
from aggregator.privacy.policy.file import Policy
from aggregator.replicate.discovery.central_topics import Snapshots, target
from aggregator.replicate.flow.limits import is_compacted


def losing_keys(
    config: HubConfig,
    policies: Mapping[Path, Policy],
    snapshots: Snapshots,
    central: Mapping[str, Mapping[str, str]],
    *,
    now_ms: int,
) -> dict[tuple[str, str], str]:
    """Edge and topic of the flows that must not start, each with the reason.

    Args:
        config: The hub.
        policies: Policies of the rules, by path.
        snapshots: Edge to topic name to what the edge shows.
        central: Settings of the central topics, by name.
        now_ms: Central's present; decides which `keep` has expired.
    """
    today = datetime.fromtimestamp(now_ms / 1000, UTC).date()
    found = {}
    for edge, shown in snapshots.items():
        for topic in shown:
            rule = rule_for(config, edge, topic)
            if rule is None:
                continue
            name = target(config, edge, topic)
            if is_compacted(central.get(name, {})) and drops_key(policies[rule.policy], topic, today):
                found[edge, topic] = f"{name} {LOSES_KEYS}"
    return found


def require_keys(central: str, keys: Sequence[bytes | None], stripped: Stripped) -> None:
    """Judge a stripped batch for a compacted topic; a record that had no key at the edge is rejected.

    Args:
        central: The topic.
        keys: Record keys before stripping.
        stripped: The stripped batch; rejections are added to it.

    Raises:
        HoldError: nothing is left of a key, by the tags of its schema or because a `keep` has ended since the start.
    """
    missing = [index for index, key in enumerate(stripped.keys) if key is None]
    for index in set(missing) - stripped.rejected.keys() - stripped.suppressed:
        if keys[index] is not None:
            raise HoldError(
                f"{central} is compacted, and nothing is left of a record key: tags drop it, or its `keep` ended",
                hint="give the key's tags `pseudonymize`, or set `cleanup.policy: delete` under `central_config`",
            )
        stripped.rejected[index] = Rejection(Reason.BAD_KEY)
