"""The reference implementation of stripping, on fastavro: slow, independent of the kernel, and complete.

Invariant: a body that the guard does not pass is never decoded, and one that an operator failed for is never encoded.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence

import numpy as np

from aggregator.budgets import ASKED_VALUES
from aggregator.bytes_column import Integers
from aggregator.errors import Reason
from aggregator.privacy.batch.column import ABSENT, NOWHERE, Counts, ResultColumn, SideValues
from aggregator.privacy.batch.distinct import OperatorCache, by_value
from aggregator.privacy.batch.guard import Malformed
from aggregator.privacy.batch.strip import Rejection
from aggregator.privacy.batch.tally import NodeCounts
from aggregator.privacy.fields.leaf import Shown
from aggregator.privacy.fields.raw_values import Raw
from aggregator.privacy.ids.schema_ids import FramedValues
from aggregator.privacy.plan.plan import StripPlan
from aggregator.privacy.topic.programs import Maker
from aggregator.privacy.topic.topic import TopicStrip
from aggregator.schema.wire import HEADER_BYTES, frame
from tests.reference.codec import Codec
from tests.reference.guard import Guard
from tests.reference.transform import Beside, Results, Transform


def body(batch: FramedValues, place: int) -> bytes:
    """The Avro body of a framed value."""
    return batch.data[batch.starts[place] + HEADER_BYTES : batch.ends[place]].tobytes()


class ReferenceProgram:
    """Runs one plan, record by record; see `programs.Program`."""

    def __init__(self, plan: StripPlan, calls: Sequence[OperatorCache], schema_id: int, central_id: int | None) -> None:
        self._schema_id = schema_id
        self._central_id = central_id
        self._guard = Guard(plan)
        self._codec = Codec(plan)
        self._transform = Transform(plan)
        self._calls = calls
        self._visits: Counter[int] = Counter()
        self._failed: Counter[int] = Counter()
        self._paths = sorted({one.path for one in plan.side_inputs})
        self._uncomparable = plan.uncomparable

    def node_counts(self) -> NodeCounts:
        """What was met so far."""
        return NodeCounts(self._visits, self._failed)

    def strip(self, batch: FramedValues, members: Integers) -> ResultColumn:
        """Strip framed values of the plan's schema."""
        decoded = [self._decoded(body(batch, place)) for place in members]
        beside = [{} if isinstance(item, Rejection) else self._transform.shown(item) for item in decoded]
        wanted: dict[int, set[Raw]] = defaultdict(set)
        for item, shown in zip(decoded, beside, strict=True):
            if not isinstance(item, Rejection):
                self._transform.met(item, self._visits)
                self._transform.collect(item, shown, wanted)
        asked = {number: list(raws) for number, raws in wanted.items()}
        results = {number: by_value(raws, self._calls[number].answers(raws)) for number, raws in asked.items()}
        counts: list[Counts] = [Counter() for _ in decoded]
        built = [self._built(*item, results) for item in zip(decoded, beside, counts, strict=True)]
        rejected = {row: item for row, item in enumerate(built) if isinstance(item, Rejection)}

        def counts_of(rows: Collection[int]) -> Counts:
            return sum((counts[row] for row in rows), Counter())

        contents = [None if isinstance(item, Rejection) else item for item in built]
        left = [row for row in range(len(built)) if row not in rejected]
        return ResultColumn(contents, rejected, counts_of(left), counts_of, self._side_values(beside))

    def _side_values(self, beside: Sequence[Beside]) -> dict[str, SideValues]:
        found = {}
        for path in self._paths:
            numbers: dict[tuple[type, Shown], int] = {}
            column = [shown.get(path) for shown in beside]
            none = NOWHERE if path in self._uncomparable else ABSENT
            codes = [none if v is None else numbers.setdefault((type(v), v), len(numbers)) for v in column]
            found[path] = SideValues(np.array(codes, np.int64), [value for _, value in numbers])
        return found

    def _decoded(self, body: bytes) -> Raw | Rejection:
        try:
            self._guard.check(body)
            decoded = self._codec.decode(body)
        except Malformed as error:
            return Rejection(error.reason, self._schema_id)
        except Exception:  # noqa: BLE001 - the guard lets nothing through that fails here; if so, the worker lives
            return Rejection(Reason.UNDECODABLE, self._schema_id)
        is_too_large = self._transform.asked(decoded) > ASKED_VALUES.limit
        return Rejection(Reason.TOO_LARGE, self._schema_id) if is_too_large else decoded

    def _built(
        self, value: Raw | Rejection, beside: Beside, counts: Counts, results: Results
    ) -> bytes | Rejection | None:
        if isinstance(value, Rejection):
            return value
        try:
            left = self._transform.build(value, beside, results, counts)
            return None if self._central_id is None else frame(self._central_id, self._codec.encode(left))
        except Exception:  # noqa: BLE001 - an operator failed, or broke its word about its type: never the input
            self._failed.update(self._transform.failed(value, beside, results))
            return Rejection(Reason.OPERATOR_FAILED, self._schema_id)


class ReferenceStrip(TopicStrip):
    """Strips the records of one edge topic, slowly; for tests."""

    def _maker(self) -> Maker:
        return ReferenceProgram
