"""What a slot tells of its fields: seldom, whole, in pieces that a broker takes."""

import itertools
import json
from dataclasses import dataclass, field

from aggregator.observe.fields import FieldFeed
from aggregator.privacy.batch.strip import PolicyId, ReportRow
from aggregator.replicate.flow.field_counts import FieldReports

POLICY = PolicyId("p", 3, "ab")


def row(path="email", seen=1, **changes):
    """One leaf's row."""
    return ReportRow(
        7, path, "string", ("PII",), "tag PII", "drop", "removed", seen, 0, seen, 0, unclassified=False
    )._replace(**changes)


@dataclass
class Told:
    """Stands in for a strip: it only tells."""

    rows: list
    policy: PolicyId = POLICY
    asked: int = 0
    keys: dict = field(default_factory=lambda: {"customer": 2})

    def key_versions(self):
        return self.keys

    def report(self):
        self.asked += 1
        return self.rows

    def strip(self, batch):
        raise NotImplementedError


def feed(bodies, life="x", at_ms=5):
    """What a reader makes of telemetry."""
    made = FieldFeed()
    for body in bodies:
        made.ingest(json.dumps({"v": 1, "life": life, "at_ms": at_ms} | body).encode())
    return made


def test_a_slot_tells_soon_and_then_ever_more_rarely():
    """After two seconds, with pauses that double up to a minute; in between the strips are not even asked."""
    strip, reports = Told([row()]), FieldReports()
    times = []
    for now in range(400):
        strip.rows = [row(seen=now)]
        if list(reports.bodies({("eu", "orders"): strip}, now)):
            times.append(now)
    assert times[:6] == [2, 6, 14, 30, 62, 122]
    assert strip.asked == len(times)


def test_what_did_not_change_is_told_again_after_ten_minutes():
    """Telemetry forgets after an hour, and the report of an idle hub still knows its fields."""
    strip, reports = Told([row()]), FieldReports()
    times = [now for now in range(1300) if list(reports.bodies({("eu", "orders"): strip}, now))]
    assert times[0] == 2
    assert all(600 <= later - earlier < 700 for earlier, later in itertools.pairwise(times))


def test_the_last_word_is_said_at_once():
    """At a slot's end what changed is told, whether it is due or not; what did not is left out."""
    strip, reports = Told([row()]), FieldReports()
    strips = {("eu", "orders"): strip}
    assert list(reports.bodies(strips, 0.0)) == []
    assert len(list(reports.bodies(strips, 0.1, last=True))) == 1
    assert list(reports.bodies(strips, 0.2, last=True)) == []
    assert list(FieldReports().bodies({("eu", "empty"): Told([])}, 0.0, last=True)) == []


def test_a_wide_topic_is_told_in_parts_and_read_as_one():
    """Each part is far below a broker's million bytes; half of the parts is nothing; a path without end is left out."""
    rows = [row(path="p" * 200 + str(number)) for number in range(5000)]
    bodies = list(FieldReports().bodies({("eu", "wide"): Told([*rows, row(path="x" * 60_000)])}, 0.0, last=True))
    assert len(bodies) > 2
    assert max(len(json.dumps(body)) for body in bodies) < 600_000
    assert feed(bodies[:-1]).topics() == {}
    (found,) = feed(bodies).topics().values()
    assert [one.row for one in found.fields] == rows
