"""This module compares what schema ids mean now with what they meant when a flow last delivered under them.

Invariant: pure. If an id means another schema or other tags than before, its records are delivered only if the policy
names the new fingerprint. The memory lies in the flow's ledger record and commits with the records.
"""

from collections.abc import Iterable, Mapping

from aggregator.coordinates import EdgePartition
from aggregator.errors import HoldError
from aggregator.privacy.batch.strip import FoundSchema

# More ids than a flow meets between two deployments of its producers. The bound keeps ledger records small.
_MAX_IDS = 128

Fingerprints = tuple[tuple[str, str], ...]


def merged_fingerprints(known: Iterable[Fingerprints]) -> Fingerprints:
    """The fingerprints of schema ids for all flows of one topic."""
    return tuple(sorted({pair for one in known for pair in one}))


def checked_fingerprints(
    known: Fingerprints, met: Mapping[str, FoundSchema], source: EdgePartition, beside: Fingerprints = ()
) -> Fingerprints:
    """What the flow has delivered under, after one more batch.

    Args:
        known: Key or value and id, each with its fingerprint, the newest last.
        met: What the batch has.
        source: The flow.
        beside: What other flows of the topic have delivered under; counts for ids that this flow has not met.

    Raises:
        HoldError: an id means something else than before.
    """
    before = dict(known)
    for name, meaning in met.items():
        meant = {before[name]} if name in before else {one for other, one in beside if other == name}
        if meant and meaning.fingerprint not in meant and not meaning.accepted:
            who = "this flow" if name in before else "another partition"
            raise _another(name, min(meant), meaning, source, who=who)
    fresh = {name: meaning.fingerprint for name, meaning in met.items() if before.get(name) != meaning.fingerprint}
    if not fresh:
        return known
    return (*((name, one) for name, one in known if name not in fresh), *fresh.items())[-_MAX_IDS:]


def _another(name: str, before: str, meaning: FoundSchema, source: EdgePartition, *, who: str) -> HoldError:
    part, _, schema_id = name.partition("/")
    return HoldError(
        f"schema id {schema_id}, a {part} schema of topic {source.topic} (subject {meaning.subject}), is another "
        f"schema, or has other tags, than when {who} delivered under it: "
        f"fingerprint {meaning.fingerprint} now, {before} then",
        hint="restore the registry as it was, its deleted versions too; if the records from here on are written under "
        f"what the id means now, say so in the policy, under the topic: reissued: {{{name}: {{fingerprint: "
        f'"{meaning.fingerprint}", reason: "<why>"}}}}',
    )
