"""What a table says of its columns: which of them were stripped, and how; by its own metadata, in both formats."""

import json
import tracemalloc

import pyarrow as pa
import pytest

from aggregator.config.lake_model import UpkeepConfig
from aggregator.lake.cycle.report import CycleReport, TableReport
from aggregator.lake.storage.folder import Folder
from aggregator.lake.tables.delta import DeltaTables
from aggregator.lake.tables.iceberg import IcebergTables
from aggregator.lake.tables.port import CommitConflict, Description
from aggregator.lake.upkeep.background import BackgroundUpkeep
from aggregator.lake.upkeep.description import description
from aggregator.schema.registry import SchemaVersion
from tests.unit.lake.tabling import FIRST, NAME, commit, ids, staged

FORMATS = pytest.mark.parametrize("kind", [DeltaTables, IcebergTables], ids=["delta", "iceberg"])
BEGINS = "stripped by hub hub: "
SAID = Description({"id": f"{BEGINS}hash"}, {"hub.hub.policies": "p/1", "hub.hub.schema-ids": "eu.orders=7"}, BEGINS)


def version(schema_id: int, *fields: dict, policy: str = "retail/3") -> SchemaVersion:
    """A central schema."""
    text = {"type": "record", "name": "Order", "hub.policy": policy, "fields": list(fields)}
    return SchemaVersion("eu.orders-value", 1, schema_id, json.dumps(text), (), (), is_referenced=False)


def table(kind, folder):
    """A table with an `id`."""
    tables = kind("hub", Folder(str(folder)))
    commit(tables, staged(tables, FIRST, 0, 2, ids(1, 2)))
    return tables


def comments(tables) -> dict[str, str]:
    """By column, as the format's library tells them."""
    handle = tables.open(NAME).table
    if isinstance(tables, DeltaTables):
        return {one.name: one.metadata["comment"] for one in handle.schema().fields if one.metadata.get("comment")}
    return {one.name: one.doc for one in handle.schema().fields if one.doc}


def properties(tables) -> dict[str, str]:
    """Of the table, those that say something."""
    handle = tables.open(NAME).table
    found = handle.metadata().configuration if isinstance(tables, DeltaTables) else handle.properties
    return {name: value for name, value in found.items() if name.startswith("hub.")}


def test_a_column_says_its_operator_and_a_record_those_of_its_fields():
    """A field that the table has under another name is said there; one that is as it was is not said at all."""
    inner = {"type": "record", "name": "Buyer", "fields": [
        {"name": "mail", "type": "string", "hub.strip": "pseudonymize"},
        {"name": "city", "type": "string"},
    ]}  # fmt: skip
    found = description(
        "hub",
        {
            "eu.orders": version(
                7,
                {"name": "id", "type": "string", "hub.strip": "hash"},
                {"name": "buyer", "type": inner},
                {"name": "_key", "type": "string", "hub.strip": "mask"},
                {"name": "total", "type": "long"},
            )
        },
    )
    assert found.columns == {
        "id": "stripped by hub hub: hash",
        "buyer": "stripped by hub hub: mail pseudonymize",
        "f__key": "stripped by hub hub: mask",
    }
    assert found.properties == {"hub.hub.schema-ids": "eu.orders=7", "hub.hub.policies": "eu.orders=retail/3"}


def test_topics_that_differ_are_named():
    """One table may be fed by edges whose policies differ."""
    one = version(7, {"name": "id", "type": "string", "hub.strip": "hash"})
    other = version(8, {"name": "id", "type": "string", "hub.strip": "mask"}, policy="other/1")
    found = description("hub", {"eu.orders": one, "us.orders": other})
    assert found.columns == {"id": "stripped by hub hub: hash (eu.orders); mask (us.orders)"}
    assert found.properties["hub.hub.policies"] == "eu.orders=retail/3 us.orders=other/1"


@pytest.mark.parametrize("text", ["", "[]", "null", '{"type": "record"}', '"string"', "[" * 5000, '{"fields": 3}'])
def test_somebody_elses_schema_says_nothing(text):
    """Whatever is registered under a subject of the hub's."""
    other = SchemaVersion("eu.orders-value", 1, 9, text, (), (), is_referenced=False)
    found = description("hub", {"eu.orders": other})
    assert not found.columns
    assert found.properties["hub.hub.schema-ids"] == "eu.orders=9"


def test_what_is_long_is_cut():
    """A catalogue shows a line."""
    found = description("hub", {f"eu.orders{at}": version(at) for at in range(500)})
    assert all(len(text) <= 1_000 for text in found.properties.values())


@FORMATS
def test_it_is_written_once_and_again_when_it_changes(kind, tmp_path):
    """Rows and positions stay; what is no longer so is taken back; columns that the table lacks are left out."""
    tables = table(kind, tmp_path)
    wanted = Description({**SAID.columns, "absent": f"{BEGINS}mask"}, SAID.properties, BEGINS)
    assert tables.open(NAME).describe(wanted)
    assert comments(tables) == dict(SAID.columns)
    assert properties(tables).items() >= SAID.properties.items()
    version = tables.open(NAME).version
    assert not tables.open(NAME).describe(wanted)
    assert tables.open(NAME).version == version
    commit(tables, staged(tables, FIRST, 2, 3, ids(3)))
    assert comments(tables) == dict(SAID.columns)
    assert tables.open(NAME).describe(Description({}, {"hub.hub.policies": "other"}, BEGINS))
    assert comments(tables) == {}
    assert properties(tables)["hub.hub.policies"] == "other"
    assert tables.open(NAME).positions([FIRST]) == {FIRST: 3}
    assert tables.open(NAME).rows() == 3


@FORMATS
def test_a_persons_comment_stays(kind, tmp_path):
    """The hub takes back what begins as its own comments do, and nothing else."""
    tables = table(kind, tmp_path)
    handle = tables.open(NAME).table
    if kind is DeltaTables:
        handle.alter.set_column_metadata("id", {"comment": "the order's number", "unit": "none"})
    else:
        with handle.update_schema() as update:
            update.update_column("id", doc="the order's number")
    tables.open(NAME).describe(SAID)
    assert comments(tables) == {"id": "the order's number"}


@FORMATS
def test_of_two_writers_one_is_refused(kind, tmp_path):
    """The next round of upkeep says it."""
    tables = table(kind, tmp_path)
    late = tables.open(NAME)
    commit(tables, staged(tables, FIRST, 2, 3, ids(3)))
    with pytest.raises(CommitConflict):
        late.describe(SAID)
    assert tables.open(NAME).rows() == 3


@FORMATS
def test_new_columns_come_beside_it(kind, tmp_path):
    """A table is widened whatever is said of it."""
    tables = table(kind, tmp_path)
    tables.open(NAME).describe(SAID)
    commit(tables, staged(tables, FIRST, 2, 3, ids(3).append_column("new", pa.array(["x"]))))
    assert comments(tables) == dict(SAID.columns)
    assert "new" in tables.open(NAME).schema().names


def test_upkeep_says_it_of_the_table_and_its_current_state(tmp_path):
    """A table is looked at once in ten minutes; what its gate diverted has no such columns."""
    tables = table(DeltaTables, tmp_path)
    asked = []

    def describe(topics):
        asked.append(set(topics))
        return SAID

    keeper = BackgroundUpkeep(UpkeepConfig(compact=False, vacuum=False), tables, describe=describe)
    keeper.take(CycleReport((TableReport(NAME, next_offsets={FIRST: 2}),)))
    for name in (NAME, NAME, f"{NAME}__current", f"{NAME}__quarantine"):
        keeper.keep_up(name)
    assert asked == [{"eu.orders"}]
    assert comments(tables) == dict(SAID.columns)


@FORMATS
def test_two_hubs_on_one_table_take_nothing_from_each_other(kind, tmp_path):
    """What the first has said of a column stays, and each has properties of its own."""
    tables = table(kind, tmp_path)
    begins = "stripped by hub us: "
    other = Description({"id": f"{begins}mask", "_key": f"{begins}hash"}, {"hub.us.policies": "p/2"}, begins)
    for said, written in ((SAID, True), (other, True), (SAID, False), (other, False)):
        assert tables.open(NAME).describe(said) is written
    assert comments(tables) == {"id": f"{BEGINS}hash", "_key": f"{begins}hash"}
    assert properties(tables).items() >= (SAID.properties | other.properties).items()


@pytest.mark.parametrize("said", [{"": {}}, {"": ["x"]}, 3, None, ["x"], {"": "\ud800"}, "\x00\x1b[31m<b>", "\n" * 3])
def test_an_operator_is_a_line_of_text_or_nothing(said):
    """A registry may hold anything: nothing of it ends a line, moves a terminal's cursor, or hides other columns."""
    fields = ({"name": "a", "type": "string", "hub.strip": said}, {"name": "b", "type": "string", "hub.strip": "mask"})
    found = description("hub", {"eu.orders": version(7, *fields, policy="p\ud800\x1b/1")})
    texts = [*found.columns.values(), *found.properties.values()]
    assert all(text.isprintable() for text in texts)
    assert not isinstance(said, str) or len(found.columns) == 2
    assert not isinstance(said, (int, list, type(None))) or found.columns.keys() <= {"b"}


def test_long_names_cost_no_memory():
    """A hundred records within each other, whose names are of nine thousand letters, and two thousand fields below."""
    inner = {"type": "record", "name": "Last", "fields": [
        {"name": f"f{at}", "type": "string", "hub.strip": "mask"} for at in range(2_000)
    ]}  # fmt: skip
    for depth in range(100):
        inner = {"type": "record", "name": f"R{depth}", "fields": [{"name": "n" * 9_000, "type": inner}]}
    tracemalloc.start()
    found = description("hub", {"eu.orders": version(7, *inner["fields"])})
    assert tracemalloc.get_traced_memory()[1] < 100_000_000
    tracemalloc.stop()
    assert not found.columns
