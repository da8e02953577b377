"""Plans which schemas a run would register at central, whether they are compatible with the ones there, and which
fields they have.

Invariant: derived schemas are those that a strip derives, by the same compiler, scope and subject. For every edge and
topic the newest version of each subject is examined. What records of older versions need is found when they come.
"""

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import NamedTuple

from aggregator.config.match import rule_for
from aggregator.config.model import HubConfig
from aggregator.errors import DeadLetterError, HoldError, RetryError
from aggregator.plan.actions import DEAD, NOTHING, REFUSED, REGISTER
from aggregator.privacy.batch.key_tally import key_path
from aggregator.privacy.plan.compile import compile_plan
from aggregator.privacy.plan.plan import StripPlan
from aggregator.privacy.policy.file import Policy
from aggregator.privacy.policy.precedence import Scope, key_scope, value_scope
from aggregator.privacy.topic.values import schemaless_decisions
from aggregator.replicate.discovery.central_topics import Snapshots, target
from aggregator.schema.compatibility import incompatibility
from aggregator.schema.inherited_tags import with_inherited_tags
from aggregator.schema.memory import MemoryRegistry
from aggregator.schema.registries import open_registry
from aggregator.schema.registry import Registry, SchemaVersion


@dataclass(frozen=True, slots=True)
class SchemaStep:
    """One derived schema: `action` is register, none, refused (flows are held) or dead letters; `detail` says why."""

    edge: str
    topic: str
    subject: str
    writer: str
    action: str
    detail: str
    text: str


@dataclass(frozen=True, slots=True)
class FieldRoute:
    """One leaf of a writer's schema, and what happens to it on its way to a central topic."""

    edge: str
    topic: str
    central: str
    path: str
    type: str
    tags: tuple[str, ...]
    operator: str
    privacy_class: str
    because: str


class NewestSchema(NamedTuple):
    """A writer's newest schema on one topic, and what the policy says of it."""

    edge: str
    topic: str
    subject: str
    version: SchemaVersion
    known: tuple[SchemaVersion, ...]
    scope: Scope

    def plan(self, today: date) -> StripPlan:
        """Compile the strip's plan for the schema.

        Raises:
            DeadLetterError: the schema is refused.
            HoldError: an earlier version cannot be read.
        """
        schema = with_inherited_tags(self.version.text, self.version.tags, self.known)
        return compile_plan(schema, self.scope, today)


class UnreadableSchema(NamedTuple):
    """A subject that the registry has but that cannot be read.

    Attributes:
        edge: Edge of the registry.
        topic: Topic of the subject.
        subject: Subject at central that it would feed.
        writer: Subject at the edge.
        error: The error that the reading met.
    """

    edge: str
    topic: str
    subject: str
    writer: str
    error: DeadLetterError | HoldError


def newest_schemas(
    config: HubConfig, policies: Mapping[Path, Policy], snapshots: Snapshots
) -> tuple[list[NewestSchema | UnreadableSchema], dict[str, str]]:
    """The newest value and key schema of every topic, and the edges whose registry does not answer, with the reason."""
    found: list[NewestSchema | UnreadableSchema] = []
    trouble: dict[str, str] = {}
    for edge, shown in sorted(snapshots.items()):
        try:
            found += newest_schemas_of(config, policies, edge, sorted(shown))
        except RetryError as error:
            trouble[edge] = error.message
    return found, trouble


def newest_schemas_of(
    config: HubConfig, policies: Mapping[Path, Policy], edge: str, topics: Iterable[str]
) -> Iterator[NewestSchema | UnreadableSchema]:
    """The newest value and key schema of some topics of one edge; one that cannot be read hides no other.

    Raises:
        RetryError: its registry does not answer.
    """
    schemas = config.edges[edge].schemas
    registry = open_registry(schemas, config.edges[edge].schemas_client) if schemas else None
    for topic in topics:
        rule = rule_for(config, edge, topic)
        if rule is None or registry is None:
            continue
        policy, name = policies[rule.policy], target(config, edge, topic)
        for part, scope in (("value", value_scope(policy, topic)), ("key", key_scope(policy, topic))):
            if part == "value" and not policy.view(topic).value_format.has_schema:
                continue
            subject = f"{topic}-{part}"
            try:
                versions = registry.versions(subject)
                known = registry.history(subject, versions[-1].version) if versions else ()
            except (DeadLetterError, HoldError) as error:
                yield UnreadableSchema(edge, topic, f"{name}-{part}", subject, error)
                continue
            if versions:
                yield NewestSchema(edge, topic, f"{name}-{part}", versions[-1], tuple(known), scope)


def schema_steps(
    config: HubConfig,
    found: Iterable[NewestSchema | UnreadableSchema],
    moving: AbstractSet[tuple[str, str]],
    today: date,
) -> Iterator[SchemaStep]:
    """The treatment of the newest schema of every topic.

    Args:
        config: The hub.
        found: From `newest_schemas`.
        moving: Edge and topic of which records wait; a schema is registered before the first record of it.
        today: Decides which `keep` has expired.

    Raises:
        Unreachable: central's registry does not answer.
    """
    central = central_registry(config)
    for writer in found:
        if isinstance(writer, UnreadableSchema):
            yield _unusable(writer.error, writer.edge, writer.topic, writer.subject, writer.writer)
            continue
        version = f"{writer.version.subject} version {writer.version.version}"
        place = (writer.edge, writer.topic, writer.subject, version)
        try:
            plan = writer.plan(today)
        except (DeadLetterError, HoldError) as error:
            yield _unusable(error, *place)
            continue
        if not (plan.dropped and writer.subject.endswith("-key")):
            waits = (writer.edge, writer.topic) in moving
            yield SchemaStep(*place, *_verdict(central, writer.subject, plan, waits=waits), plan.schema)


def _unusable(error: DeadLetterError | HoldError, *place: str) -> SchemaStep:
    edge, topic, subject, writer = place
    action = DEAD if isinstance(error, DeadLetterError) else REFUSED
    return SchemaStep(edge, topic, subject, writer, action, str(error), "")


def central_registry(config: HubConfig) -> Registry:
    """Central's registry; a folder that the first registration would make is an empty one."""
    reference = config.schemas or ""
    folder = Path(reference.removeprefix("directory:"))
    if not reference or (reference.startswith("directory:") and not folder.exists() and folder.parent.is_dir()):
        return MemoryRegistry()
    return open_registry(reference, config.schemas_client)


def _verdict(central: Registry, subject: str, plan: StripPlan, *, waits: bool) -> tuple[str, str]:
    versions = central.versions(subject)
    same = next((one for one in versions if one.text == plan.schema), None)
    if same is not None:
        return NOTHING, f"version {same.version}, id {same.schema_id}"
    try:
        refused = incompatibility(subject, plan.schema, ((one.version, one.text) for one in reversed(versions)))
    except HoldError as error:
        refused = error
    if refused is not None:
        return REFUSED, str(refused)
    follows = "compatible with what is there" if versions else "the first of its subject"
    return (REGISTER, follows) if waits else (NOTHING, f"{follows}; when a record of it comes")


def value_texts(steps: Iterable[SchemaStep]) -> dict[str, set[str]]:
    """Central topic to the schemas that its values would have."""
    texts: dict[str, set[str]] = {}
    for step in steps:
        topic, _, part = step.subject.rpartition("-")
        if part == "value" and step.text and step.action != REFUSED:
            texts.setdefault(topic, set()).add(step.text)
    return texts


def paths_of(
    config: HubConfig, policies: Mapping[Path, Policy], edge: str, topics: Iterable[str], today: date
) -> Iterator[FieldRoute]:
    """The paths that the policy drops from values without a schema; of a value without parts, the whole."""
    for topic in topics:
        rule = rule_for(config, edge, topic)
        if rule is None:
            continue
        view = policies[rule.policy].view(topic)
        if view.value_format.has_schema:
            continue
        for path, decision in schemaless_decisions(policies[rule.policy], topic, today):
            decided = ((), decision.rule.operator, decision.privacy_class, decision.because)
            yield FieldRoute(edge, topic, target(config, edge, topic), path or ".", view.value_format.value, *decided)


def keys_of(
    config: HubConfig, policies: Mapping[Path, Policy], edge: str, topics: Iterable[str], today: date
) -> Iterator[FieldRoute]:
    """The treatment of each topic's record key as a whole; the tags of its schema may take parts of it."""
    for topic in topics:
        rule = rule_for(config, edge, topic)
        if rule is None:
            continue
        policy = policies[rule.policy]
        decision = key_scope(policy, topic).decide_whole(today)
        decided = ((), decision.rule.operator, decision.privacy_class, decision.because)
        form = policy.view(topic).format or "any"
        yield FieldRoute(edge, topic, target(config, edge, topic), key_path(""), form, *decided)


def fields_of(found: Iterable[NewestSchema | UnreadableSchema], today: date) -> Iterator[FieldRoute]:
    """Every field of every topic's newest value and key schemas, with its treatment."""
    for writer in (one for one in found if isinstance(one, NewestSchema)):
        central, _, part = writer.subject.rpartition("-")
        try:
            rows = writer.plan(today).rows
        except (DeadLetterError, HoldError):
            continue  # reported with the schemas
        for row in rows:
            path = key_path(row.path) if part == "key" else row.path or "."
            decided = (row.type, row.tags, row.operator, row.privacy_class, row.because)
            yield FieldRoute(writer.edge, writer.topic, central, path, *decided)
