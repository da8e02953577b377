"""The quality gate on real Spark, real Parquet and real Delta tables, judged by DuckDB over the live files."""

import io
import json
import logging
import math
from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from aggregator.config.expectations import NO_PERSONAL_DATA
from aggregator.config.suites import DIVERTIBLE
from aggregator.errors import ConfigError
from aggregator.lake.quality.held_ranges import still_held
from aggregator.lake.quality.verdict_log import read
from aggregator.report.quality import quality_report
from aggregator.report.quality_page import quality_page
from aggregator.state.releases import Release
from tests.canary import recognised, text_traces
from tests.gated_lake import PARTITIONS, TABLE, GatedLake
from tests.integration import gate_session
from tests.integration.gate_session import library_objects, rule
from tests.object_store import BUCKET, ObjectStore

pytestmark = [
    pytest.mark.spark,
    # PySpark's collect() leaves its result socket to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]
spark = gate_session.spark
COLUMNS = [
    ("id", pa.int64()),
    ("status", pa.string()),
    ("price", pa.decimal128(9, 2)),
    ("ratio", pa.float64()),
    ("who", pa.struct([("email", pa.string())])),
    ("lines", pa.list_(pa.struct([("sku", pa.string())]))),
    ("labels", pa.map_(pa.string(), pa.string())),
]
GOOD = {
    "id": 1,
    "status": "NEW",
    "price": Decimal("2.50"),
    "ratio": 0.5,
    "who": {"email": "v1_00"},
    "lines": [{"sku": "a1"}],
    "labels": [("shop", "x")],
}
CANARY = "canary-7f3a"


@pytest.fixture
def gated(tmp_path, monkeypatch, spark):
    """Makes a lake with one suite."""

    def make(*rules, on_failure="hold", views=None, form="delta", store=None):
        meta = {"aggregator": {"views": views or {}}, "great_expectations_version": "1.24.1"}
        suite = {"name": "s", "expectations": list(rules), "meta": meta}
        (tmp_path / "suite.json").write_text(json.dumps(suite))
        quality = [{"suite": tmp_path / "suite.json", "on_failure": on_failure}]
        place = f"s3://{BUCKET}/hub" if store else tmp_path / "lake"
        (tmp_path / "key").write_text("x")  # a file: Spark's workers have the environment of before
        options = store.options(form) | {"insecure": "a store of these tests"} if store else {}
        storage = {name: f"file:{tmp_path}/key" if value in "xy" else value for name, value in options.items()}
        return GatedLake(place, monkeypatch, columns=COLUMNS, quality=quality, spark=spark, form=form, storage=storage)

    return make


@pytest.mark.whole
def test_publish_warn_divert_hold(gated):
    """Each verdict does what it says; quarantined records carry the names of all their rules, and nothing is lost."""
    lake = gated(
        rule("expect_column_values_to_not_be_null", name="id is there", column="id"),
        rule("expect_column_values_to_be_in_set", name="status", column="status", value_set=["NEW", "PAID"]),
        rule("expect_column_values_to_be_between", severity="warning", name="cheap", column="price", max_value=100),
        rule("expect_column_values_to_match_regex", name="sku", view="line", column="line.sku", regex="^[a-z]"),
        rule("expect_column_max_to_be_between", name="dear", on_failure="hold", column="price", max_value=1000),
        on_failure="divert",
        views={"line": "lines"},
    )
    driver = lake.driver()
    lake.write(GOOD, None, GOOD)
    (report,) = driver.cycle().tables
    assert (report.verdict, report.rows, report.diverted, report.held) == ("publish", 3, 0, ())
    assert report.audit_s > report.commit_s > 0

    lake.write(GOOD | {"price": Decimal(200)})
    (report,) = driver.cycle().tables
    assert (report.verdict, report.rows) == ("warn", 1)

    lake.write(
        GOOD | {"status": "OLD"}, GOOD | {"id": None, "status": "?", "lines": [{"sku": "1"}, {"sku": "2"}]}, GOOD
    )
    lake.write(*[GOOD] * 20, partition=1)
    (report,) = driver.cycle().tables
    assert (report.verdict, report.rows, report.diverted) == ("divert", 21, 2)
    assert lake.rows("_central_offset, _quarantine_rules, status", f"{TABLE}__quarantine") == [
        (4, ["s/status"], "OLD"),
        (5, ["s/id is there", "s/sku", "s/status"], "?"),
    ]
    lake.check()

    lake.write(GOOD | {"price": Decimal(5000)})
    (report,) = driver.cycle().tables
    assert (report.verdict, report.rows, report.version) == ("hold", 0, None)
    assert [one.reason for one in report.held] == ["offsets 7 to 7: s/dear failed"]
    audits = read(lake.tables.folder, TABLE)
    (report,) = driver.cycle().tables
    assert report.held, "a hold stands until something changes"
    assert read(lake.tables.folder, TABLE) == audits, "and is not audited in every cycle"
    assert (0, 7) not in lake.places() + lake.places(f"{TABLE}__quarantine")
    assert [(one.verdict, one.rows, one.diverted, one.version is None) for one in audits] == [
        ("publish", 3, 0, False),
        ("warn", 1, 0, False),
        ("divert", 23, 2, False),
        ("hold", 1, 0, True),
    ]


def test_what_somebody_releases_is_published_as_it_is(gated):
    """On Iceberg: exactly the range that was held, with who and why; what came later is audited as ever."""
    of_old = {"row_condition": 'col("status") == "OLD"', "condition_parser": "great_expectations"}
    lake = gated(
        rule("expect_column_values_to_not_be_null", name="id is there", column="id"),
        rule(
            "expect_column_values_to_be_in_set", name="status", on_failure="divert", column="status", value_set=["NEW"]
        ),
        rule("expect_column_values_to_not_be_null", name="old", on_failure="warn", column="id", **of_old),
        form="iceberg",
    )
    driver = lake.driver()
    lake.write(GOOD, GOOD | {"status": "OLD"})
    (report,) = driver.cycle().tables
    assert (report.verdict, report.rows, report.diverted) == ("divert", 1, 1)
    lake.write(GOOD | {"id": None}, GOOD | {"status": "OLD"})
    lake.write(GOOD, partition=1)
    (report,) = driver.cycle().tables
    assert (report.verdict, report.version) == ("hold", None)
    (conditioned,) = (one for one in read(lake.tables.folder, TABLE)[-1].rules if one.rule == "s/old")
    assert (conditioned.passed, conditioned.unexpected) == (True, 0), "the record without an id is not an old one"
    starts = {PARTITIONS[0]: 2, PARTITIONS[1]: 0}
    held = still_held(TABLE, read(lake.tables.folder, TABLE), starts, ())
    assert [(one.partition, one.offsets, one.rules) for one in held] == [
        (PARTITIONS[0], (2, 4), ("s/id is there",)),
        (PARTITIONS[1], (0, 1), ("s/id is there",)),
    ]
    lake.write(GOOD | {"id": None})
    lake.releases += [Release(TABLE, one.partition, one.offsets, "ann@desk", 1, "test data") for one in held]
    (report,) = driver.cycle().tables
    assert (report.verdict, report.rows, report.diverted) == ("release", 3, 0)
    audit = read(lake.tables.folder, TABLE)[-1]
    assert (audit.released_by, audit.reason, audit.version) == ("ann@desk", "test data", report.version)
    (report,) = driver.cycle().tables
    assert (report.verdict, report.version) == ("hold", None)
    assert sorted(lake.places()) == [(0, 0), (0, 2), (0, 3), (1, 0)]
    assert lake.places(f"{TABLE}__quarantine") == [(0, 1)]


def test_the_gate_of_a_lake_in_an_object_store(gated):
    """Spark needs no connector: the staged records come through Python, are judged, cut and counted as on a disk."""
    store = ObjectStore()
    try:
        lake = gated(
            rule("expect_column_values_to_be_in_set", name="new", column="status", value_set=["NEW"]),
            rule("expect_column_values_to_match_regex", name="sku", view="line", column="line.sku", regex="^[a-z]"),
            on_failure="divert",
            views={"line": "lines"},
            store=store,
        )
        lake.write(GOOD, None, GOOD | {"status": "OLD"}, GOOD | {"lines": [{"sku": "1"}]})
        (report,) = lake.driver().cycle().tables
        assert (report.verdict, report.rows, report.diverted) == ("divert", 2, 2)
        places = {}
        for table in (TABLE, f"{TABLE}__quarantine"):
            folder, handle = lake.tables.folder / table, lake.tables.open(table)
            rows = [folder.rows(path, ["_central_offset"]) for path in handle.live_paths()]
            places[table] = sorted(at for some in rows for at in some["_central_offset"].to_pylist())
        assert places == {TABLE: [0, 1], f"{TABLE}__quarantine": [2, 3]}
        (audit,) = read(lake.tables.folder, TABLE)
        assert audit.version == report.version
    finally:
        store.end()


NASTY = ["NEW", "", " ", "new", "NEW\n", "żółć", "e\u0301", "\U0001d4b3", "a" * 300, "%", "N\u2028W", None, "1", "-3.5"]
OF_TYPE = {
    "expect_column_value_lengths_to_be_between": {
        "column": "status",
        "min_value": 2,
        "max_value": 4,
        "strict_max": True,
    },
    "expect_column_value_lengths_to_equal": {"column": "status", "value": 2},
    "expect_column_values_to_be_between": {"column": "ratio", "min_value": 0, "strict_min": True, "max_value": 2},
    "expect_column_values_to_be_in_set": {"column": "status", "value_set": ["NEW", ""]},
    "expect_column_values_to_be_null": {"column": "status"},
    "expect_column_values_to_match_regex": {"column": "status", "regex": "^[^\\d]W?.$"},
    "expect_column_values_to_match_regex_list": {"column": "status", "regex_list": ["^N", "W$"], "match_on": "all"},
    "expect_column_values_to_not_be_in_set": {"column": "price", "value_set": [1, 2.5]},
    "expect_column_values_to_not_be_null": {"column": "who.email"},
    "expect_column_values_to_not_match_regex": {"column": "status", "regex": "\\s"},
    "expect_column_values_to_not_match_regex_list": {"column": "status", "regex_list": ["^N", "%"]},
    NO_PERSONAL_DATA: {"column": "status", "detectors": ["email", "phone"]},
}


def test_every_divertible_condition_finds_what_great_expectations_counts(gated):
    """The documented list, over values that tools disagree about: no count differs, and no record is lost."""
    assert OF_TYPE.keys() == DIVERTIBLE
    lake = gated(*(rule(kind, name=kind, **kwargs) for kind, kwargs in OF_TYPE.items()), on_failure="divert")
    ratios = [0.0, -0.0, math.nan, math.inf, 1e-320, None, 2.0]
    for number, text in enumerate([*NASTY, "jane@example.com", "+48 601 202 303"]):
        place = {"status": text, "ratio": ratios[number % 7], "price": Decimal(number) / 2}
        lake.write(GOOD | place | {"who": {"email": text} if number % 3 else None})
    (report,) = lake.driver(task_records=100).cycle().tables
    assert (report.verdict, report.held) == ("divert", ())
    lake.check()
    (audit,) = read(lake.tables.folder, TABLE)
    found = {one.rule.removeprefix("s/"): one.unexpected for one in audit.rules}
    assert all(found.values()), found
    marked = lake.rows("unnest(_quarantine_rules) as name", f"{TABLE}__quarantine")
    assert {name: marked.count((f"s/{name}",)) for name in found} == found
    texts = {text for (text,) in lake.rows("status", f"{TABLE}__quarantine")}
    assert {"jane@example.com", "+48 601 202 303", "a" * 300, "NEW\n"} <= texts


def test_no_value_from_an_edge_makes_a_pattern_fail_or_stand(gated):
    """Java's matcher overflows its stack with one of them, and tries for hours with the other; what raises holds."""
    nested, several = r"^(\w|-)+$", r"[a-z]*[a-z]*[a-z]*[a-z]*[a-z]*="
    lake = gated(
        rule("expect_column_values_to_match_regex", name="nested", column="status", regex=nested),
        rule("expect_column_values_to_not_match_regex", name="not", column="status", regex=several),
        rule("expect_column_values_to_match_regex_list", name="list", column="status", regex_list=["=", nested]),
        rule("expect_column_values_to_not_match_regex_list", name="none", column="status", regex_list=["=", several]),
        on_failure="divert",
    )
    lake.write(GOOD, GOOD | {"status": "a" * 30_000}, GOOD | {"status": "a" * 30_000 + "!"}, GOOD | {"status": "a="})
    (report,) = lake.driver(task_records=100).cycle().tables
    assert (report.verdict, report.held, report.diverted) == ("divert", (), 2)
    (audit,) = read(lake.tables.folder, TABLE)
    assert {one.rule: one.unexpected for one in audit.rules} == {"s/nested": 2, "s/not": 1, "s/list": 1, "s/none": 1}


def test_what_raises_holds_and_no_value_is_in_any_result(gated, caplog):
    """Fail closed: a missing column, a type that does not compare. Canaries are in every text; none comes out."""
    caplog.set_level(logging.DEBUG)
    logged = io.StringIO()
    handler = logging.StreamHandler(logged)
    logging.getLogger().addHandler(handler)
    mail = f"{CANARY}@example.com"
    dirty = {"status": CANARY, "who": {"email": mail}, "lines": [{"sku": CANARY}], "labels": [(CANARY, mail)]}
    rules = [
        rule("expect_column_values_to_not_be_null", severity="info", column="nowhere"),
        rule("expect_column_values_to_be_between", severity="info", column="status", min_value=1),
        rule("expect_column_values_to_be_in_set", column="status", value_set=["NEW"]),
        rule("expect_column_distinct_values_to_be_in_set", column="status", value_set=["NEW"]),
        rule("expect_column_most_common_value_to_be_in_set", column="who.email", value_set=["b"]),
        rule("expect_column_values_to_be_unique", column="who.email"),
        rule("expect_column_values_to_be_in_set", view="label", column="label.key", value_set=["shop"]),
        rule(NO_PERSONAL_DATA, column="*", detectors=["email"]),
        rule(NO_PERSONAL_DATA, view="label", column="*", detectors=["email"]),
        rule(NO_PERSONAL_DATA, view="gone", column="*", detectors=["email"]),
    ]
    lake = gated(*rules, views={"label": "labels", "gone": "nothing"})
    lake.write(GOOD | dirty, GOOD | dirty)
    try:
        (report,) = lake.driver().cycle().tables
    finally:
        logging.getLogger().removeHandler(handler)
    assert report.verdict == "hold"
    assert lake.places() == []
    shown = quality_report(lake.config, [], days=1, now=datetime(2026, 1, 1, tzinfo=UTC))
    (history,) = lake.folder.glob("*__quality/*.jsonl")
    results = [str(report), json.dumps(shown.plain()), quality_page(shown), history.read_text(), caplog.text]
    text = "\n".join([*results, logged.getvalue()])
    assert recognised(text.encode(), text_traces(CANARY)) == []
    assert recognised(f"…{CANARY}…".encode(), text_traces(CANARY)), "the search finds what it looks for"
    (audit,) = read(lake.tables.folder, TABLE)
    found = {(one.type, one.column): one for one in audit.rules}
    assert {one.column for one in audit.rules if one.raised} == {"nowhere", "status", "*"}
    assert found["expect_column_values_to_not_be_null", "nowhere"].note == "there is no column nowhere"
    assert found[NO_PERSONAL_DATA, "who.email"].unexpected == 2
    assert found[NO_PERSONAL_DATA, "label.value"].unexpected == 2
    assert found["expect_column_values_to_be_in_set", "label.key"].unexpected == 2
    assert "could not be evaluated" in report.held[0].reason


def test_each_detector_finds_its_own(gated):
    """E-mail, phone, card and IBAN in any text column and in key bytes; what is none of them passes."""
    samples = {
        "email": "write to jane@example.com",
        "phone": "+48 601 202 303",
        "card": "4111 1111 1111 1111",
        "iban": "DE89 3704 0044 0532 0130 00",
    }
    rules = [rule(NO_PERSONAL_DATA, name=name, column="*", detectors=[name]) for name in samples]
    keys = rule(NO_PERSONAL_DATA, name="key", column="_key", detectors=["email"])
    lake = gated(*rules, keys, on_failure="divert")
    lake.write(GOOD, *(GOOD | {"who": {"email": text}} for text in samples.values()))
    lake.write(GOOD | {"_key": b"jane@example.com"}, GOOD | {"_key": b"v1_\xff"})
    (report,) = lake.driver().cycle().tables
    assert (report.verdict, report.diverted) == ("divert", 5)
    marked = dict(lake.rows("_central_offset, _quarantine_rules", f"{TABLE}__quarantine"))
    assert [marked[at + 1][0] for at in range(4)] == [f"s/{name}(who.email)" for name in samples]
    assert marked[5] == ["s/key"]
    assert {offset for _, offset in lake.places()} == {0, 6}


def test_the_gate_leaves_nothing_behind(gated, spark):
    """Commit after commit: no cached data in Spark, and no more contexts, sources or frames of the library."""
    lake = gated(rule("expect_column_values_to_not_be_null", column="id"))
    driver = lake.driver()
    counts = []
    for number in range(6):
        lake.write(GOOD | {"id": number})
        (report,) = driver.cycle().tables
        assert report.verdict == "publish"
        if number in (2, 5):
            counts.append(library_objects())
    assert spark.sparkContext._jsc.getPersistentRDDs().isEmpty()
    assert counts[0] == counts[1]


def test_a_suite_that_the_library_refuses_is_refused_at_the_start(gated):
    """Before the first commit, by the rule's name."""
    bad_value = rule("expect_column_value_lengths_to_equal", column="status", value="five")
    for bad in (bad_value, rule(NO_PERSONAL_DATA, column="*", detectors=["names"])):
        lake = gated(bad)
        with pytest.raises(ConfigError, match="Great Expectations refuses s/expect_"):
            lake.driver()
