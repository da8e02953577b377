"""Writes the first `hub.yaml` and its policy, as text with comments, from the result of a survey.

Invariant: the policy lets no value pass, whatever the name of a topic, a tag or a field is. A person opens each field
by hand, in a line of its own.
"""

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from aggregator.cli.leaves import PolicyLeaf
from aggregator.cli.topic_discovery import FoundTopic
from aggregator.config.document import is_writable
from aggregator.config.patterns import literal
from aggregator.escapes import quoted, visible
from aggregator.privacy.fields.value_format import ValueFormat
from aggregator.privacy.policy.closed import closed_policy

_MAX_NAMES = 100  # names in one rule; RE2 refuses a pattern of ten thousand long names
_KEY = 1000  # YAML's bound for a key in front of its colon is 1,024
_WIDTH = 100  # width of a longer comment, in characters
# A path that YAML reads as text without quotes.
_PLAIN = re.compile(r"[A-Za-z_][\w.]*(\[\][\w.\[\]]*)?(\.\{(key)?\}[\w.\[\]]*)*", re.ASCII)
_REASONED = '{reason: "…", owner: …, expires: 2030-01-01}}'
# Operators for a whole value, by its format.
_WHOLE = {
    ValueFormat.TEXT: (
        f"    # value: {{scrub_text: {_REASONED}    # e-mails, IPs, phones, cards, IBANs and tokens go; names stay",
        "    # value: {pseudonymize: {key: customer, domain: customer}}    # one identifier in each value",
    ),
    ValueFormat.BYTES: (f"    # value: {{keep: {_REASONED}    # as a whole",),
}


@dataclass(frozen=True, slots=True)
class DraftEdge:
    """One edge, in the words of the configuration file.

    Attributes:
        server: `host:port`.
        schemas: The edge's registry.
        schemas_client: Options of the registry's client; secrets as references.
        client: Options of the Kafka client for the edge's cluster; secrets as references.
    """

    server: str
    schemas: str
    schemas_client: Mapping[str, str] = field(default_factory=dict)
    client: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Draft:
    """Holds the contents of the first `hub.yaml` and its policy.

    Attributes:
        hub: The hub's name.
        central: The `host:port` of central.
        edges: The edges by name.
        topics: The topics that the survey found.
        client: Options of the Kafka client for central; secrets as references.
    """

    hub: str
    central: str
    edges: Mapping[str, DraftEdge]
    topics: Sequence[FoundTopic]
    client: Mapping[str, str] = field(default_factory=dict)

    @property
    def policy_path(self) -> str:
        """The path of the policy, relative to `hub.yaml`."""
        return f"policies/{self.hub}.yaml"


def hub_text(draft: Draft) -> str:
    """The text of `hub.yaml`."""
    lines = [
        f"hub: {_filled(draft.hub)}    # prefix of every internal topic and transactional id",
        f"central: {{bootstrap_servers: {_filled(draft.central)}{_block('client', draft.client)}}}",
        "edges:",
        *(f"  {_filled(name)}: {{{_edge(edge)}}}" for name, edge in draft.edges.items()),
        'schemas: "directory:central-schemas"    # where the schemas without the stripped fields are registered',
        "topics:" if draft.topics else "topics: []    # no edge has a topic yet: later, run `init` again",
    ]
    for group, names in _rules(draft.topics):
        lines += [
            f"  - match: {_filled('|'.join(literal(name) for name in names))}    # {group.kind}",
            f"    policy: {_filled(draft.policy_path)}",
            *([f"    edges: [{', '.join(map(_filled, group.edges))}]"] if {*group.edges} != {*draft.edges} else []),
            '    central: "{edge}.{topic}"    # or "{topic}": all edges into one',
            "    start: earliest",
        ]
        if group.has_table:
            lines.append('    lake: "{topic}"    # one table over all edges')
        if group.compacted:
            lines += [
                "    # compacted at the edge; leave this out once the policy keeps or pseudonymizes the keys",
                '    central_config: {cleanup.policy: delete, retention.ms: "-1"}',
            ]
    lines += [
        "lake: {path: lake, format: delta, commit_interval: 30s}",
        '# keys: {customer: "env:CUSTOMER_KEY"}    # for `pseudonymize` in the policy: openssl rand -base64 32',
    ]
    return "\n".join(lines) + "\n"


def policy_text(draft: Draft) -> str:
    """The policy: default drop, every tag found drops, every field found is a comment to open."""
    tags = sorted({tag for topic in draft.topics for leaf in topic.leaves or () for tag in leaf.tags if _is_named(tag)})
    lines = [
        *closed_policy(draft.hub, ("uncomment the fields that may leave their region.",)),
        "tags:" if tags else "tags: {}    # no schema has `confluent:tags`",
        *map(_tag, tags),
        "topics:" if draft.topics else "topics: {}",
    ]
    for topic in draft.topics:
        lines += _topic(topic)
    return "\n".join(lines) + "\n"


def _is_named(tag: str) -> bool:
    """Whether a policy can name a tag: it is not empty, and holds neither NUL nor half of a character."""
    return bool(tag) and is_writable(tag)


def _tag(tag: str) -> str:
    """The rule of a tag; one that is too long for a key in front of its colon has a line of its own."""
    name = quoted(tag)
    return f"  {name}: drop" if len(name) <= _KEY else f"  ? {name}\n  : drop"


def _topic(topic: FoundTopic) -> list[str]:
    warning = "    # a compacted topic at central needs it: keep or pseudonymize it" if topic.compacted else ""
    note = _comment(topic.note) if topic.note else []
    lines = [f"  {quoted(literal(topic.name))}:", *note, f"    key: drop{warning}", "    headers: []"]
    if topic.value_format is None:
        told = f"no records, and the registry has no schema {topic.name}-value. If its values will not be Avro: "
        told += "`value_format` here, and a rule of its own without `lake:` in hub.yaml"
        return [*lines, *_comment(told), "    fields: {}"]
    if topic.value_format is not ValueFormat.AVRO:
        lines.append(f"    value_format: {topic.value_format.value}")
    if not topic.value_format.has_fields:
        return [*lines, "    value: drop", *_WHOLE[topic.value_format]]
    if topic.leaves is None:
        return [*lines, visible(f"    fields: {{}}    # the registry has no schema {topic.name}-value")]
    if not topic.leaves:
        return [*lines, "    fields: {}    # its values have no fields"]
    return [*lines, "    fields:", *(_leaf(leaf) for leaf in topic.leaves)]


def _comment(text: str) -> list[str]:
    """Wrap a text into comment lines inside a topic's block."""
    return [f"    # {line}" for line in textwrap.wrap(visible(text), _WIDTH, break_on_hyphens=False)]


def _leaf(leaf: PolicyLeaf) -> str:
    path = leaf.path if _PLAIN.fullmatch(leaf.path) else quoted(leaf.path)
    if tags := sorted(filter(_is_named, leaf.tags)):
        return visible(f"      # {path}    ({leaf.kind}) is dropped by its tag {', '.join(tags)}")
    if leaf.tags:
        return visible(f"      # {path}    ({leaf.kind}) is dropped: no file can name its tag")
    return visible(f"      # {path}: keep    # {leaf.kind}")


class _Group(NamedTuple):
    """Topics that one rule can cover."""

    edges: tuple[str, ...]
    has_table: bool
    compacted: bool

    @property
    def kind(self) -> str:
        """Describe in words which kind of topic the group holds."""
        values = "Avro" if self.has_table else "JSON, text or bytes: no table can hold them"
        return f"compacted; {values}" if self.compacted else values


def _rules(topics: Sequence[FoundTopic]) -> Iterator[tuple[_Group, list[str]]]:
    """Topics by rule; one speaks of a bounded number of them."""
    for group, names in _groups(topics).items():
        for start in range(0, len(names), _MAX_NAMES):
            yield group, names[start : start + _MAX_NAMES]


def _groups(topics: Sequence[FoundTopic]) -> dict[_Group, list[str]]:
    """Topic names by what their rules have in common."""
    groups: dict[_Group, list[str]] = {}
    for topic in topics:
        has_table = topic.value_format is None or topic.value_format.has_schema
        groups.setdefault(_Group(topic.edges, has_table, topic.compacted), []).append(topic.name)
    return groups


def _edge(edge: DraftEdge) -> str:
    blocks = f"{_block('schemas_client', edge.schemas_client)}{_block('client', edge.client)}"
    return f"bootstrap_servers: {_filled(edge.server)}, schemas: {_filled(edge.schemas)}{blocks}"


def _block(name: str, options: Mapping[str, str]) -> str:
    """The options as a YAML block such as `, client: {…}`; empty for none."""
    told = ", ".join(f"{_filled(option)}: {_filled(value)}" for option, value in options.items())
    return f", {name}: {{{told}}}" if told else ""


def _filled(text: str) -> str:
    """A scalar of `hub.yaml`, which is read literally: there `${` is filled in from the environment."""
    return quoted(text.replace("${", "$${"))
