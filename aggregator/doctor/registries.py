"""Checks whether the registries answer, and whether they know the schemas of the newest records.

Invariant: pure. No finding holds text of a registry, and of a record it holds only what can be a schema's id.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from aggregator.coordinates import CENTRAL, SchemaName
from aggregator.doctor.finding import Finding, failed, listed, ok, warning
from aggregator.schema.registry import reportable_id


@dataclass(frozen=True, slots=True)
class Unframed:
    """Counts values in no known wire format, and all values that were looked at."""

    count: int
    seen: int


@dataclass(frozen=True, slots=True)
class RegistryView:
    """Holds what a registry answered.

    Attributes:
        name: The registry's reference in the configuration.
        trouble: The reason why the registry cannot be used; empty if it can.
        trouble_next: The remedy for the trouble.
        subjects: Number of subjects.
        unknown: Schema ids that it does not have, each with the topics of the records that name it.
        refused: Schema ids that it has and that cannot be used, each with why.
        ids: Number of requested ids.
    """

    name: str
    trouble: str = ""
    trouble_next: str = ""
    subjects: int = 0
    unknown: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    refused: Mapping[int, str] = field(default_factory=dict)
    ids: int = 0


def _unknown(cluster: str, seen: RegistryView) -> Iterator[Finding]:
    """What records name that the registry does not have. A number that is no id is four bytes of a value: not told."""
    by_name: dict[SchemaName | None, list[str]] = {}
    for schema_id, of_id in sorted(seen.unknown.items()):
        by_name.setdefault(reportable_id(schema_id), []).extend(of_id)
    for name, topics in by_name.items():
        of = f"the newest records of {listed(sorted(set(topics)))}"
        what = f"schema id {name}, which {of} name, is" if name is not None else f"numbers by which {of} begin are"
        then = "register the writer's schema there, or correct `schemas`: it may be another registry's id"
        if name is None:
            then = "are they Avro in the wire format? if not, set `value_format` for the topic in its policy"
        yield failed(cluster, "registry", f"{what} not in {seen.name}", _of_edge(cluster, then))


def _of_edge(cluster: str, then: str) -> str:
    return then if cluster == CENTRAL else f"{then} (edge {cluster})"


def findings(cluster: str, seen: RegistryView | None, unframed: Mapping[str, Unframed]) -> Iterator[Finding]:
    """Everything about a registry and what needs it.

    Args:
        cluster: Name of the registry's cluster.
        seen: The registry; None if the configuration names none.
        unframed: Topics whose newest values do not begin as a serialiser for registries writes them, with how many.
    """
    for topic, bad in sorted(unframed.items()):
        what = (
            f"{bad.count} of {bad.seen} newest values of {topic} are not Avro in the wire format of this registry:"
            " each is a dead letter"
        )
        then = (
            "produce with its Avro serialiser, or set `value_format: json`, `text` or `bytes` for the topic in its"
            " policy: whichever they are"
        )
        yield (failed if bad.count == bad.seen else warning)(cluster, "records", what, then)
    if seen is None:
        return
    if seen.trouble:
        yield failed(cluster, "registry", seen.trouble, seen.trouble_next)
        return
    yield from _unknown(cluster, seen)
    for schema_id, why in sorted(seen.refused.items()):
        yield failed(
            cluster,
            "registry",
            f"schema id {schema_id} of {seen.name} cannot be used: {why}",
            "register an Avro schema",
        )
    if not seen.unknown and not seen.refused:
        asked = f", and all {seen.ids} ids of the newest records" if seen.ids else ""
        yield ok(cluster, "registry", f"{seen.name} answers and has {seen.subjects} subjects{asked}")
