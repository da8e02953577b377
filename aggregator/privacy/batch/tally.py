"""Counts what a program has met, leaf by leaf, for the report.

Invariant: a record counts when its bytes are a value of its schema, whatever happens to it afterwards. A record that is
not well formed counts nothing.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from aggregator.coordinates import SchemaName
from aggregator.privacy.batch.strip import ReportRow
from aggregator.privacy.plan.plan import Row, StripPlan
from aggregator.schema.avro import Kind

# The type in a row of values that were not there.
NULL = "null"


class NodeCounts(NamedTuple):
    """Holds counts by plan node.

    Attributes:
        visits: Number of times that a value was there.
        failed: Records lost because the operator failed for a value there.
    """

    visits: Mapping[int, int]
    failed: Mapping[int, int]


def visits(plan: StripPlan, records: int, inner: Mapping[int, int]) -> dict[int, int]:
    """Count how often a value was at each node.

    Args:
        plan: The compiled plan.
        records: Number of values at the root.
        inner: Counts of the values inside unions, arrays and maps by node, summed over their containers.
    """
    found = Counter({plan.root: records}) + Counter(inner)
    order: list[int] = []
    known: set[int] = set()
    for start in found:  # a record's fields are met as often as it is: each node after the records that hold it
        waiting = [(start, False)]
        while waiting:
            number, is_done = waiting.pop()
            if is_done:
                order.append(number)
            elif number not in known:
                known.add(number)
                waiting.append((number, True))
                if plan.nodes[number].kind is Kind.RECORD:
                    waiting += [(child, False) for child in plan.nodes[number].children]
    for number in reversed(order):
        if plan.nodes[number].kind is Kind.RECORD:
            for child in plan.nodes[number].children:
                found[child] += found[number]
    return dict(found)


def report_rows(schema_id: int | None, plan: StripPlan, met: NodeCounts) -> Iterator[ReportRow]:
    """A plan's leaves with their numbers; a null beside other types counts for each of them."""
    nulls: Counter[int] = Counter()
    for node in plan.nodes:
        if node.kind is Kind.UNION:
            none = sum(met.visits.get(child, 0) for child in node.children if plan.nodes[child].kind is Kind.NULL)
            nulls.update(dict.fromkeys(node.children, none))
    for row, number in zip(plan.rows, plan.leaves, strict=True):
        own, failed = met.visits.get(number, 0), met.failed.get(number, 0)
        is_null = plan.nodes[number].kind is Kind.NULL
        null = own if is_null else nulls[number]
        changed = 0 if is_null or row.operator == "keep" else own - failed
        yield report_row(
            schema_id, row, seen=own if is_null else own + null, null=null, transformed=changed, rejected=failed
        )


def counted_rows(seen: Mapping[Row, int], failed: Mapping[Row, int]) -> Iterator[ReportRow]:
    """Rows of values without a schema, counted leaf by leaf and type by type.

    Args:
        seen: How often a value of the row's type was at its leaf.
        failed: How many of them were rejected; of a row that is not named none.
    """
    for row, met in sorted(seen.items()):
        lost = failed.get(row, 0)
        null = met if row.type == NULL else 0
        changed = 0 if row.operator == "keep" else met - null - lost
        yield report_row(None, row, seen=met, null=null, transformed=changed, rejected=lost)


def report_row(
    schema_id: SchemaName | None, row: Row, *, seen: int, null: int, transformed: int, rejected: int
) -> ReportRow:
    """The report's row of a leaf with its numbers."""
    said = row.because.partition(";")[0]
    is_unclassified = said == "default" or said.endswith("(undeclared)")
    return ReportRow(schema_id, *row, seen, null, transformed, rejected, is_unclassified)


def summed(rows: Iterable[ReportRow]) -> list[ReportRow]:
    """Rows that tell the same of the same leaf as one; the order is that of their first."""
    sums: dict[ReportRow, tuple[int, int, int, int]] = {}
    for row in rows:
        leaf = row._replace(seen=0, null=0, transformed=0, rejected=0)
        seen, null, transformed, rejected = sums.get(leaf, (0, 0, 0, 0))
        sums[leaf] = (seen + row.seen, null + row.null, transformed + row.transformed, rejected + row.rejected)
    return [
        leaf._replace(seen=seen, null=null, transformed=transformed, rejected=rejected)
        for leaf, (seen, null, transformed, rejected) in sums.items()
    ]
