"""The first `hub.yaml` and its policy, as text with comments, from what a survey found.

Invariant: the policy lets nothing pass, whatever a topic, a tag or a field is called; whoever opens a field does so by
hand, one line each.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from aggregator.cli.survey import FoundTopic, Leaf
from aggregator.config.patterns import literal
from aggregator.escapes import quoted, visible
from aggregator.privacy.policy.rules import operator_names

_HALF = 12  # operators in one line of a comment
# A path that YAML reads as text without quotes.
_PLAIN = re.compile(r"[A-Za-z_][\w.]*(\[\][\w.\[\]]*)?(\.\{(key)?\}[\w.\[\]]*)*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Draft:
    """What the two files say.

    Attributes:
        hub: The hub's name.
        central: Its `host:port`.
        edges: Edge name to `host:port`.
        schemas: The edges' registry, as written into the file.
        topics: What was found.
        schemas_client: How to connect to that registry; secrets as references.
    """

    hub: str
    central: str
    edges: Mapping[str, str]
    schemas: str
    topics: Sequence[FoundTopic]
    schemas_client: Mapping[str, str] = field(default_factory=dict)

    @property
    def policy_path(self) -> str:
        """Relative to hub.yaml."""
        return f"policies/{self.hub}.yaml"


def hub_text(draft: Draft) -> str:
    """`hub.yaml`."""
    registry = f"schemas: {_filled(draft.schemas)}"
    if draft.schemas_client:
        options = (f"{_filled(name)}: {_filled(value)}" for name, value in draft.schemas_client.items())
        registry += f", schemas_client: {{{', '.join(options)}}}"
    lines = [
        f"hub: {_filled(draft.hub)}    # prefix of every internal topic and transactional id",
        f"central: {{bootstrap_servers: {_filled(draft.central)}}}",
        "edges:",
        *(
            f"  {_filled(name)}: {{bootstrap_servers: {_filled(server)}, {registry}}}"
            for name, server in draft.edges.items()
        ),
        'schemas: "directory:central-schemas"    # where the schemas without the stripped fields are registered',
        "topics:" if draft.topics else "topics: []    # the edges have no topics yet",
    ]
    for edges, names in _groups(draft.topics).items():
        lines += [
            f"  - match: {_filled('|'.join(literal(name) for name in names))}",
            f"    policy: {_filled(draft.policy_path)}",
            *([f"    edges: [{', '.join(map(_filled, edges))}]"] if set(edges) != set(draft.edges) else []),
            '    central: "{edge}.{topic}"    # or "{topic}": all edges into one',
            "    start: earliest",
            '    lake: "{topic}"    # one table over all edges',
        ]
    lines += [
        "lake: {path: lake, format: delta, commit_interval: 30s}",
        '# keys: {customer: "env:CUSTOMER_KEY"}    # for `pseudonymize` in the policy: openssl rand -base64 32',
    ]
    return "\n".join(lines) + "\n"


def policy_text(draft: Draft) -> str:
    """The policy: default drop, every tag found drops, every field found is a comment to open."""
    tags = sorted({tag for topic in draft.topics for leaf in topic.leaves or () for tag in leaf.tags})
    lines = [
        "# Nothing passes yet: uncomment the fields that may leave their region.",
        f"# Operators: {', '.join(operator_names()[:_HALF])},",
        f"# {', '.join(operator_names()[_HALF:])}; docs/policy.md says what each of them does.",
        f"policy: {quoted(draft.hub)}",
        "version: 1",
        "default: drop",
        "tags:" if tags else "tags: {}    # no schema has `confluent:tags`",
        *(f"  {quoted(tag)}: drop" for tag in tags),
        "topics:" if draft.topics else "topics: {}",
    ]
    for topic in draft.topics:
        lines += _topic(topic)
    return "\n".join(lines) + "\n"


def _topic(topic: FoundTopic) -> list[str]:
    warning = "    # compacted: refused without a key; keep or pseudonymize it" if topic.compacted else ""
    lines = [f"  {quoted(literal(topic.name))}:", f"    key: drop{warning}", "    headers: []"]
    if topic.leaves is None:
        return [*lines, f"    fields: {{}}    # the registry has no schema {visible(topic.name)}-value"]
    if not topic.leaves:
        return [*lines, "    fields: {}    # its schema has no fields"]
    return [*lines, "    fields:", *(_leaf(leaf) for leaf in topic.leaves)]


def _leaf(leaf: Leaf) -> str:
    path = leaf.path if _PLAIN.fullmatch(leaf.path) else quoted(leaf.path)
    if leaf.tags:
        return visible(f"      # {path}    ({leaf.kind}) is dropped by its tag {', '.join(sorted(leaf.tags))}")
    return visible(f"      # {path}: keep    # {leaf.kind}")


def _groups(topics: Sequence[FoundTopic]) -> dict[tuple[str, ...], list[str]]:
    """Topic names by the edges that have them: one rule each."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for topic in topics:
        groups.setdefault(topic.edges, []).append(topic.name)
    return groups


def _filled(text: str) -> str:
    """A scalar of `hub.yaml`, which is read literally: there `${` is filled in from the environment."""
    return quoted(text.replace("${", "$${"))
