"""The first `hub.yaml` and its policy, as text with comments, from what a survey found.

Invariant: the policy lets nothing pass; whoever opens a field does so by hand, one line each.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from aggregator.cli.survey import FoundTopic, Leaf
from aggregator.privacy.rules import operator_names

_HALF = 12  # operators in one line of a comment


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
    registry = f"schemas: {_quoted(draft.schemas)}"
    if draft.schemas_client:
        options = (f"{_quoted(name)}: {_quoted(value)}" for name, value in draft.schemas_client.items())
        registry += f", schemas_client: {{{', '.join(options)}}}"
    lines = [
        f"hub: {_quoted(draft.hub)}    # prefix of every internal topic and transactional id",
        f"central: {{bootstrap_servers: {_quoted(draft.central)}}}",
        "edges:",
        *(
            f"  {_quoted(name)}: {{bootstrap_servers: {_quoted(server)}, {registry}}}"
            for name, server in draft.edges.items()
        ),
        'schemas: "directory:central-schemas"    # where the schemas without the stripped fields are registered',
        "topics:" if draft.topics else "topics: []    # the edges have no topics yet",
    ]
    for edges, names in _groups(draft.topics).items():
        lines += [
            f"  - match: {_quoted('|'.join(_escaped(name) for name in names))}",
            f"    policy: {_quoted(draft.policy_path)}",
            *([f"    edges: [{', '.join(map(_quoted, edges))}]"] if set(edges) != set(draft.edges) else []),
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
        f"policy: {_quoted(draft.hub)}",
        "version: 1",
        "default: drop",
        "tags:" if tags else "tags: {}    # no schema has `confluent:tags`",
        *(f"  {_quoted(tag)}: drop" for tag in tags),
        "topics:" if draft.topics else "topics: {}",
    ]
    for topic in draft.topics:
        lines += _topic(topic)
    return "\n".join(lines) + "\n"


def _topic(topic: FoundTopic) -> list[str]:
    warning = "    # compacted: refused without a key; keep or pseudonymize it" if topic.compacted else ""
    lines = [f"  {_quoted(_escaped(topic.name))}:", f"    key: drop{warning}", "    headers: []"]
    if topic.leaves is None:
        return [*lines, f"    fields: {{}}    # the registry has no schema {topic.name}-value"]
    if not topic.leaves:
        return [*lines, "    fields: {}    # its schema has no fields"]
    return [*lines, "    fields:", *(_leaf(leaf) for leaf in topic.leaves)]


def _leaf(leaf: Leaf) -> str:
    rule = f"{_quoted(leaf.path) if leaf.path[:1] in '[{*' else leaf.path}: keep"
    if leaf.tags:
        return f"      # {leaf.path}    ({leaf.kind}) is dropped by its tag {', '.join(sorted(leaf.tags))}"
    return f"      # {rule}    # {leaf.kind}"


def _groups(topics: Sequence[FoundTopic]) -> dict[tuple[str, ...], list[str]]:
    """Topic names by the edges that have them: one rule each."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for topic in topics:
        groups.setdefault(topic.edges, []).append(topic.name)
    return groups


def _escaped(name: str) -> str:
    """A topic name holds letters, digits, `.`, `_` and `-`; only the dot means something in a pattern."""
    return re.sub(r"\.", r"\\.", name)


def _quoted(text: str) -> str:
    """A YAML scalar that is text whatever it looks like; JSON's strings are YAML's."""
    return json.dumps(text, ensure_ascii=False).replace("${", "$${")
