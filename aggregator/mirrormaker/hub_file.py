"""Writes the result of an import as text with comments: `hub.yaml` and its policy.

Invariant: the policy lets nothing pass. Every scalar is in double quotes. The caller has already put in expressions,
and has escaped text that must be read literally.
"""

from collections.abc import Iterator, Mapping

from aggregator.escapes import quoted
from aggregator.mirrormaker.result import ClusterDraft, HubDraft, OffsetsDraft, RuleDraft
from aggregator.privacy.policy.closed import closed_policy

_ADVICE = (
    "`aggregator policy suggest` names the fields of a schema with what they look like;",
    "open those that may leave their region under `topics:`, one line each, and say how values are written",
    "(`value_format`) where they are not Avro.",
)
_SCHEMAS = '"directory:schemas"'


def hub_text(hub: HubDraft) -> str:
    """The text of `hub.yaml`."""
    lines = [
        "# From MirrorMaker's configuration; docs/from-mirrormaker.md says what became of each key.",
        f"hub: {quoted(hub.name)}    # prefix of every internal topic and transactional id",
        "central:",
        *_cluster(hub.central, "  "),
        "edges:",
    ]
    for name, edge in hub.edges.items():
        lines.append(f"  {quoted(name)}:")
        lines += _cluster(edge, "    ")
        lines.append(
            f"    schemas: {_SCHEMAS}    # MirrorMaker knows no registry: name this edge's, https://… or a folder"
        )
    lines += [
        'schemas: "directory:central-schemas"    # where the schemas without the stripped fields are registered',
        *_settings(hub),
        "topics:" if hub.rules else "topics: []    # no pattern could be taken over",
    ]
    for rule in hub.rules:
        lines += _rule(rule, hub)
    lines.append(
        '# keys: {customer: "env:CUSTOMER_KEY"}    # for `pseudonymize` in the policy: openssl rand -base64 32'
    )
    return "\n".join(lines) + "\n"


def policy_text(hub: HubDraft) -> str:
    """The policy: whatever comes is dropped, field by field."""
    lines = [
        *closed_policy(hub.name, _ADVICE),
        "tags: {}",
        "topics: {}",
    ]
    return "\n".join(lines) + "\n"


def _cluster(cluster: ClusterDraft, indent: str) -> Iterator[str]:
    yield f"{indent}bootstrap_servers: {quoted(cluster.bootstrap_servers)}"
    for block in ("client", "consumer", "producer", "admin", "msk_iam"):
        options: Mapping[str, str] = getattr(cluster, block)
        if options:
            yield f"{indent}{block}:"
            yield from (f"{indent}  {name}: {quoted(value)}" for name, value in options.items())


def _settings(hub: HubDraft) -> Iterator[str]:
    if hub.replication_factor:
        yield f"replication_factor: {hub.replication_factor}"
    if hub.config_sync:
        yield f"config_sync: {hub.config_sync}    # topic settings of the edges, at central"
    heartbeats = [] if hub.emit is None else [f"emit: {str(hub.emit).lower()}"]
    heartbeats += [f"interval: {hub.interval}"] if hub.interval else []
    if heartbeats:
        yield f"heartbeats: {{{', '.join(heartbeats)}}}"
    if hub.offsets is not None:
        yield "offsets:    # positions of the edges' consumer groups at central"
        yield from _offsets(hub.offsets)


def _offsets(draft: OffsetsDraft) -> Iterator[str]:
    for name, value in (("checkpoints", draft.checkpoints), ("syncs", draft.syncs), ("sync_groups", draft.sync_groups)):
        if value is not None:
            yield f"  {name}: {str(value).lower()}"
    for name, pattern in (("groups", draft.groups), ("exclude", draft.exclude)):
        if pattern:
            yield f"  {name}: [{quoted(pattern)}]"
    if draft.interval:
        yield f"  interval: {draft.interval}"


def _rule(rule: RuleDraft, hub: HubDraft) -> Iterator[str]:
    yield f"  - match: {quoted(rule.match)}"
    if rule.exclude:
        yield f"    exclude: {quoted(rule.exclude)}"
    yield f"    policy: {quoted(hub.policy_path)}"
    if set(rule.edges) != set(hub.edges):
        yield f"    edges: [{', '.join(map(quoted, rule.edges))}]"
    yield f"    central: {quoted(rule.central)}"
    yield f"    start: {rule.start}    # latest, a time, or mirrormaker2: docs/from-mirrormaker.md"
