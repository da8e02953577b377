"""Builds OpenLineage's events: one of a central topic that edges feed, one of a table that a commit brought further.

Invariant: pure; names, types, operators and counts, never a value. A stripped field's transformation is `masking`.
Datasets are named as OpenLineage names them: `kafka://<server>` and the topic, the store's address and the place.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple
from urllib.parse import urlsplit

from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import (
    DatasetFacet,
    column_lineage_dataset,
    job_type_job,
    output_statistics_output_dataset,
    schema_dataset,
)

from aggregator.privacy.plan.traced_columns import TracedColumn

PRODUCER = "https://pypi.org/project/aggregator"


class Dataset(NamedTuple):
    """A dataset by OpenLineage's names."""

    namespace: str
    name: str


class Happening(NamedTuple):
    """What makes an event one of its own.

    Attributes:
        hub: The hub's name, which is the namespace of its jobs.
        run: A UUID as text.
        at: When.
    """

    hub: str
    run: str
    at: datetime


def topic_dataset(bootstrap_servers: str, topic: str) -> Dataset:
    """A topic of a cluster, by the first of its servers."""
    return Dataset(f"kafka://{bootstrap_servers.split(',', maxsplit=1)[0].strip()}", topic)


def table_dataset(address: str) -> Dataset:
    """A table by its folder's address, `file:///lake/orders` or `s3://bucket/lake/orders`."""
    parts = urlsplit(address)
    if parts.scheme in ("", "file"):
        return Dataset("file", parts.path)
    return Dataset(f"{parts.scheme}://{parts.netloc}", parts.path.lstrip("/"))


def topic_event(
    happening: Happening, topic: Dataset, edges: Sequence[Dataset], columns: Sequence[TracedColumn]
) -> RunEvent:
    """The event of a central topic: from which topics of edges its fields come, and which of them were stripped.

    Args:
        happening: Of this event.
        topic: At central.
        edges: The topics that feed it.
        columns: Fields of its newest schema; none where it has no schema.
    """
    return _event(
        happening, _job(happening, f"replicate.{topic.name}", "TOPIC"), edges, topic, dict.fromkeys(columns, edges)
    )


def table_event(
    happening: Happening,
    table: Dataset,
    topics: Sequence[tuple[Dataset, Sequence[TracedColumn]]],
    *,
    name: str,
    rows: int,
    files: int,
) -> RunEvent:
    """The event of one commit of a table: from which central topics its columns come, and how much it brought.

    Args:
        happening: Of this event.
        table: Its place.
        topics: Central topics that feed it, each with its fields, which are stripped already.
        name: The table's.
        rows: Records of this commit.
        files: Data files of it.
    """
    origins: dict[str, list[Dataset]] = {}
    columns: dict[str, TracedColumn] = {}
    for topic, found in topics:
        for column in found:
            columns[column.path] = column._replace(stripped="")
            origins.setdefault(column.path, []).append(topic)
    sources = [topic for topic, _ in topics]
    origins_by_column = {column: origins[path] for path, column in columns.items()}
    made = _event(happening, _job(happening, f"lake.{name}", "TABLE"), sources, table, origins_by_column)
    counted = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(rowCount=rows, fileCount=files)
    for output in made.outputs or ():
        output.outputFacets = {"outputStatistics": counted}
    return made


def _job(happening: Happening, name: str, kind: str) -> Job:
    described = job_type_job.JobTypeJobFacet(processingType="STREAMING", integration="AGGREGATOR", jobType=kind)
    return Job(namespace=happening.hub, name=name, facets={"jobType": described})


def _event(
    happening: Happening,
    job: Job,
    sources: Sequence[Dataset],
    target: Dataset,
    origins: Mapping[TracedColumn, Sequence[Dataset]],
) -> RunEvent:
    facets: dict[str, DatasetFacet] = {}
    if origins:
        fields = [schema_dataset.SchemaDatasetFacetFields(name=one.path, type=one.type) for one in origins]
        facets["schema"] = schema_dataset.SchemaDatasetFacet(fields=fields)
        facets["columnLineage"] = column_lineage_dataset.ColumnLineageDatasetFacet(
            fields={
                column.path: column_lineage_dataset.Fields(inputFields=[_input_field(one, column) for one in from_])
                for column, from_ in origins.items()
            }
        )
    return RunEvent(
        eventType=RunState.COMPLETE,
        eventTime=happening.at.isoformat(),
        run=Run(runId=happening.run),
        job=job,
        inputs=[InputDataset(*one) for one in sources],
        outputs=[OutputDataset(*target, facets=facets)],
        producer=PRODUCER,
    )


def _input_field(source: Dataset, column: TracedColumn) -> column_lineage_dataset.InputField:
    done = column_lineage_dataset.Transformation(
        type="DIRECT",
        subtype="TRANSFORMATION" if column.stripped else "IDENTITY",
        description=column.stripped,
        masking=bool(column.stripped),
    )
    return column_lineage_dataset.InputField(*source, field=column.path, transformations=[done])


def edge_topics(feeds: Iterable[tuple[str, str, str]]) -> tuple[Dataset, ...]:
    """Topics of edges as datasets, in their order.

    Args:
        feeds: Edge, its bootstrap servers, and the topic.
    """
    return tuple(topic_dataset(servers, topic) for _, servers, topic in sorted(feeds))
