"""`policy preview|diff|test|suggest`: what they answer, what they hide, and how they refuse."""

import json
from pathlib import Path

import pytest

from aggregator.privacy.policy.file import parse_policy

ROOT = Path(__file__).resolve().parents[3]
KEY = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
CANARY = "jane@example.com"
POLICY = """\
policy: retail
version: 3
tags: {PII.ID: {pseudonymize: {key: customer, domain: email}}}
topics: {orders: {key: keep, headers: [traceparent], fields: {order_id: keep}}}
"""
SCHEMA = {"type": "record", "name": "R", "fields": [
    {"name": "order_id", "type": "string"},
    {"name": "email", "type": "string", "confluent:tags": ["PII.ID"]},
    {"name": "note", "type": ["null", "string"], "default": None},
]}  # fmt: skip
FIXTURES = f"""\
today: 2026-11-21
keys: {{customer: {KEY}}}
tests:
  - name: an order
    topic: orders
    schema: s.avsc
    key: k
    headers: {{traceparent: t, secret: {CANARY}}}
    record: {{order_id: "7", email: {CANARY}, note: call me}}
    expect:
      {{key: k, headers: {{traceparent: t}}, record: {{order_id: "7", email: v1_e409a6c32823606afd415163ebb7ad53}}}}
"""


@pytest.fixture
def folder(tmp_path):
    """A policy with its schema, fixtures and records."""
    files = {
        "retail.yaml": POLICY,
        "s.avsc": json.dumps(SCHEMA),
        "retail.tests.yaml": FIXTURES,
        "r.jsonl": json.dumps({"order_id": "7", "email": CANARY}) + "\nnull\n",
        "avro.json": json.dumps([{"order_id": "8", "email": CANARY, "note": {"string": "x"}}]),
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def preview(folder, *more, records="r.jsonl"):
    """Arguments of a preview from a file."""
    return ("policy", "preview", folder / "retail.yaml", "--topic", "orders", "--schema", folder / "s.avsc",
            "--records", folder / records, *more)  # fmt: skip


def lines(result):
    """Path to (before, after) of the first record of a JSON answer."""
    assert result.exit_code == 0, result.stderr
    return {line["path"]: (line["before"], line["after"]) for line in json.loads(result.stdout)[0]}


def test_a_preview_shows_both_sides_through_the_real_strip(aggregator, folder):
    """Kept, replaced and gone fields, the key, a header, and a tombstone after it."""
    options = ("--show-values", "--key", "k", "--header", "traceparent=t", "--header", f"x={CANARY}", "-o", "json")
    found = lines(aggregator(*preview(folder, *options)))
    token = found.pop("value.email")
    assert (token[0], token[1][:4]) == (f'"{CANARY}"', '"v1_')
    assert found == {
        "key": ('"k"', '"k"'),
        "headers.traceparent": ('"t"', '"t"'),
        "headers.x": (f'"{CANARY}"', "(gone)"),
        "value.order_id": ('"7"', '"7"'),
        "value.note": ("null", "(gone)"),
    }
    text = aggregator(*preview(folder, "--show-values")).stdout
    assert CANARY in text
    assert "record 2" in text


@pytest.mark.parametrize("how", [(), ("--hide-before",), ("--hide-before", "--show-values")])
def test_off_a_terminal_or_on_request_no_value_is_shown(aggregator, folder, how):
    """Types and lengths instead; a value that is kept is told as kept, because it would be the one before."""
    result = aggregator(*preview(folder, "-o", "json", *how, records="avro.json"))
    found = lines(result)
    assert found["value.email"][0] == "text of 16"
    assert found["value.order_id"] == ("text of 1", "(kept)")
    assert found["value.note"] == ("text of 1", "(gone)")
    assert CANARY not in result.output


def test_a_rejected_record_shows_its_reason(aggregator, folder):
    """An Avro key is asked for, and a text comes: the record would be a dead letter, and nothing of it is after."""
    (folder / "retail.yaml").write_text(POLICY.replace("key: keep", "key: keep, format: long"))
    found = lines(aggregator(*preview(folder, "--key", "k", "--show-values", "-o", "json")))
    assert found["rejected"] == ("(new)", '"bad_key"')
    assert {after for path, (_, after) in found.items() if path != "rejected"} == {"(gone)"}


def test_values_without_a_schema_are_shown_too(aggregator, folder):
    """JSON topics: without `--schema` the records are the values themselves."""
    (folder / "retail.yaml").write_text(POLICY.replace("key: keep", "key: keep, value_format: json"))
    arguments = ("--topic", "orders", "--records", folder / "avro.json", "--show-values", "-o", "json")
    found = lines(aggregator("policy", "preview", folder / "retail.yaml", *arguments))
    assert found["value.order_id"] == ('"8"', '"8"')
    assert found["value.email"] == (f'"{CANARY}"', "(gone)")


def test_items_that_move_up_stay_hidden(aggregator, folder):
    """What was dropped before them gives its place in the list to others: these are kept, not new."""
    (folder / "list.yaml").write_text(
        'policy: p\nversion: 1\ntopics: {list: {value_format: json, fields: {"items[]": keep}}}\n'
    )
    (folder / "list.json").write_text('{"items": [["x"], "SECRETA", "SECRETB"]}\n')
    arguments = ("policy", "preview", folder / "list.yaml", "--topic", "list", "--records", folder / "list.json")
    hidden = aggregator(*arguments, "-o", "json").stdout
    assert "SECRET" not in hidden
    assert hidden.count("(kept)") >= 2


def test_suggestions_for_json_need_no_schema(aggregator, folder):
    """The format is told by the records."""
    (folder / "events.jsonl").write_text(f'{{"mail": "{CANARY}@x.example", "id": 1}}\n' * 3)
    done = aggregator("policy", "suggest", "--topic", "events", "--records", folder / "events.jsonl", "-o", "json")
    answer = json.loads(done.stdout)
    assert (answer["format"], answer["unreadable"]) == ("json", 0)
    assert [(one["place"], one["path"], one["tag"]) for one in answer["suggestions"]] == [
        ("field", "mail", "PII.EMAIL")
    ]
    assert "value_format: json" in answer["yaml"]
    assert CANARY not in done.output


def test_the_configuration_is_hub_yaml_unless_somebody_says_another(aggregator, folder, monkeypatch):
    """Everywhere; for records of a file it is read only where somebody named it."""
    monkeypatch.chdir(folder)
    (folder / "hub.yaml").write_text("hub: [\n")
    arguments = ("--topic", "orders", "--records", folder / "avro.json", "--schema", folder / "s.avsc")
    assert aggregator("policy", "preview", folder / "retail.yaml", *arguments).exit_code == 0
    assert aggregator("policy", "suggest", *arguments).exit_code == 0
    for command in ("preview", "suggest"):
        refused = aggregator("policy", command, "--topic", "orders", "--edge", "eu")
        assert (refused.exit_code, "hub.yaml:" in refused.stderr) == (78, True)
    named = aggregator("policy", "preview", folder / "retail.yaml", *arguments, "--config", folder / "hub.yaml")
    assert named.exit_code == 78


def test_values_of_plain_text_are_shown_as_they_are(aggregator, folder):
    """A line of the file is a value; both sides are text, and hidden like any other."""
    rule = "value_format: text, value: {scrub_text: {reason: r, owner: o, expires: 2090-01-01}}"
    (folder / "log.yaml").write_text(f"policy: p\nversion: 1\ntopics: {{log: {{{rule}}}}}\n")
    (folder / "log.txt").write_text('mail jane@example.com\n{"not": json\n')
    arguments = ("policy", "preview", folder / "log.yaml", "--topic", "log", "--records", folder / "log.txt")
    first, second = json.loads(aggregator(*arguments, "--show-values", "-o", "json").stdout)
    assert {"path": "value", "before": '"mail jane@example.com"', "after": '"mail [EMAIL]"'} in first
    assert [line["after"] for line in second if line["path"] == "value"] == ['"{\\"not\\": json"']
    hidden = aggregator(*arguments, "-o", "json").stdout
    assert "jane" not in hidden
    assert "(kept)" in hidden


@pytest.mark.parametrize("sign", ["\u2028", "\u2029", "\x85", "\v", "\f", "\x1c", "\x1d", "\x1e"])
def test_a_record_ends_at_the_end_of_its_line_only(aggregator, folder, sign):
    """Unicode knows more ends of lines, which stand within values; they part no record of text, and none of JSON."""
    (folder / "log.yaml").write_text(
        "policy: p\nversion: 1\ntopics: {log: {value_format: text, value: drop}, orders: {value_format: json}}\n"
    )
    (folder / "log.txt").write_text(f"a{sign}b\r\n\n", encoding="utf-8")
    preview = ("policy", "preview", folder / "log.yaml", "-o", "json")
    assert len(json.loads(aggregator(*preview, "--topic", "log", "--records", folder / "log.txt").stdout)) == 2
    if sign.isprintable() or sign > "\x7f":  # JSON writes the others as escapes
        (folder / "o.jsonl").write_text(f'{{"a": "x{sign}y"}}\n\n{{"a": 1}}\n', encoding="utf-8")
        assert len(json.loads(aggregator(*preview, "--topic", "orders", "--records", folder / "o.jsonl").stdout)) == 2


def test_hidden_bytes_are_told_by_their_own_number(aggregator, folder):
    """Not by the signs in which a terminal would show them."""
    (folder / "raw.yaml").write_text("policy: p\nversion: 1\ntopics: {raw: {value_format: bytes, value: drop}}\n")
    (folder / "raw.txt").write_text("żółć\n")
    arguments = ("policy", "preview", folder / "raw.yaml", "--topic", "raw", "--records", folder / "raw.txt")
    (record,) = json.loads(aggregator(*arguments, "-o", "json").stdout)
    assert {"path": "value", "before": "8 bytes", "after": '""'} in record


def test_a_fixture_of_plain_text(aggregator, folder):
    """The record is the value; what must be left of it is a text."""
    (folder / "log.yaml").write_text("policy: p\nversion: 1\ntopics: {log: {value_format: text, value: redact}}\n")
    case = "{name: x, topic: log, record: jane, expect: {record: '[REDACTED]'}}"
    (folder / "log.tests.yaml").write_text(f"today: 2026-11-21\ntests:\n  - {case}\n")
    assert aggregator("policy", "test", folder / "log.yaml").exit_code == 0
    (folder / "log.tests.yaml").write_text(f"today: 2026-11-21\ntests:\n  - {case.replace('[RED', 'RED')}\n")
    assert aggregator("policy", "test", folder / "log.yaml").exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("preview", "--topic", "orders"), 2, "POLICY, --records is missing"),
        (("preview", "--topic", "orders", "--edge", "eu"), 78, "hub.yaml: cannot be read"),
        (("preview", "--topic", "orders", "--edge", "xx", "--config", "{}/hub.yaml"), 2, "no edge is called xx"),
        (("suggest", "--topic", "orders"), 2, "--records is missing"),
        (("suggest", "--topic", "orders", "--edge", "eu"), 78, "hub.yaml: cannot be read"),
        (("suggest", "--topic", "t", "--schema", "{}/s.avsc", "--records", "{}/no"), 78, "no: No such file"),
        (("suggest", "--topic", "t", "--schema", "{}/no", "--records", "{}/r.jsonl"), 78, "no: cannot be read"),
        (("test", "{}/none.yaml"), 78, "there are no fixtures beside it"),
        (("test", "{}/retail.yaml", "--fixtures", "{}/no.yaml"), 78, "no.yaml: No such file"),
        (("diff", "{}/retail.yaml", "{}/no.yaml"), 78, "no.yaml: No such file"),
        (("diff", "{}/retail.yaml", "{}/retail.yaml", "--schema", "{}/s.avsc"), 2, "--topic is missing"),
        (("diff", "{}/retail.yaml", "{}/retail.yaml", "--schemas", "{}/registry"), 2, "holds no subject"),
        (("diff", "{}/retail.yaml"), 2, "Missing argument 'NEW'"),
    ],
)
def test_what_is_missing_is_named(aggregator, folder, arguments, code, told):
    """Usage ends with 2, a file that cannot be used with 78; a sentence on stderr, nothing on stdout."""
    (folder / "registry").mkdir()
    (folder / "hub.yaml").write_text(
        'hub: h\ncentral: {bootstrap_servers: "127.0.0.1:1"}\nedges: {eu: {bootstrap_servers: "127.0.0.1:2"}}\n'
    )
    result = aggregator("policy", *(one.format(folder) for one in arguments))
    assert (result.exit_code, result.stdout) == (code, "")
    assert told in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("record", "told"),
    [
        (f'{{"order_id": "7", "email": "x"}}\n{{"order_id": "{CANARY}"', "r.jsonl:2: is not JSON"),
        (f'{{"order_id": "7", "email": "{CANARY}"}}\n{"[" * 100_000}', "r.jsonl:2: is not JSON, or nested too deep"),
        (f'{{"order_id": "7", "email": "x"}}\n{{"email": "{CANARY}"}}', "r.jsonl:2: order_id: is missing"),
    ],
)
def test_a_bad_record_is_told_with_its_line_and_without_its_value(aggregator, folder, record, told):
    """File, line and path; nothing of what was written there."""
    (folder / "r.jsonl").write_text(record)
    result = aggregator(*preview(folder, "--show-values"))
    assert result.exit_code == 78
    assert told in result.stderr
    assert CANARY not in result.output


def test_fixtures_beside_a_policy_are_run(aggregator, folder):
    """The file by its name and those of the folder; 0 when all hold."""
    (folder / "retail.tests").mkdir()
    (folder / "retail.tests" / "more.yaml").write_text(
        FIXTURES.replace("s.avsc", "../s.avsc").replace("an order", "another")
    )
    result = aggregator("policy", "test", folder / "retail.yaml", "-o", "json")
    assert result.exit_code == 0, result.output
    assert [test["name"] for test in json.loads(result.stdout)["tests"]] == ["an order", "another"]


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (
            "fields: {order_id: keep}",
            "fields: {order_id: keep, note: keep}",
            "record.note: is there, and is not expected",
        ),
        ("fields: {order_id: keep}", "fields: {}", "record.order_id: is expected, and is not there"),
        ("domain: email", "domain: other", "record.email: is another value than expected"),
        ("headers: [traceparent]", "headers: []", "headers.traceparent: is expected, and is not there"),
        ("key: keep", "key: drop", "key: is another value than expected"),
        ("key: keep", "key: keep, format: long", "fate: expected delivered, was rejected: bad_key"),
    ],
)
def test_a_failed_expectation_is_told_by_its_path(aggregator, folder, old, new, told):
    """Each kind of difference, exit 1, and no value unless it is asked for."""
    (folder / "retail.yaml").write_text(POLICY.replace(old, new))
    result = aggregator("policy", "test", folder / "retail.yaml")
    assert result.exit_code == 1
    assert told in result.stdout
    assert "0 passed, 1 failed" in result.stdout
    assert not any(value in result.output for value in (CANARY, "v1_", "call me"))
    plain = json.loads(aggregator("policy", "test", folder / "retail.yaml", "-o", "json").stdout)
    assert set(plain["tests"][0]["mismatches"][0]) == {"path", "why"}


def test_values_of_a_failed_expectation_are_shown_on_request(aggregator, folder):
    """`--show-values` shows both sides."""
    (folder / "retail.yaml").write_text(POLICY.replace("order_id: keep", "order_id: keep, note: keep"))
    result = aggregator("policy", "test", folder / "retail.yaml", "--show-values")
    assert "found    'call me'" in result.stdout


def test_a_fixture_may_expect_a_dead_letter(aggregator, folder):
    """`rejected` holds with its reason only."""
    (folder / "retail.yaml").write_text(POLICY.replace("key: keep", "key: keep, format: long"))
    for reason, code in (("bad_key", 0), ("undecodable", 1)):
        written = f"{FIXTURES[: FIXTURES.index('expect:')]}expect: {{rejected: {reason}}}\n"
        (folder / "retail.tests.yaml").write_text(written)
        assert aggregator("policy", "test", folder / "retail.yaml").exit_code == code


def test_a_fixture_may_expect_that_a_record_is_left_out(aggregator, folder):
    """`suppressed` holds for the edge that the fixture names, and for no other."""
    policy = POLICY.replace("key: keep", "key: keep, drop_record: [{edge: [eu]}]")
    (folder / "retail.yaml").write_text(policy)
    for edge, code in (("eu", 0), ("us", 1)):
        written = f"{FIXTURES[: FIXTURES.index('expect:')]}edge: {edge}\n    expect: {{suppressed: true}}\n"
        (folder / "retail.tests.yaml").write_text(written)
        result = aggregator("policy", "test", folder / "retail.yaml")
        assert result.exit_code == code, result.output


def test_a_fixture_of_a_topic_without_schema_is_a_text(aggregator, folder):
    """The record is the value as it is written; what must be left of it is compared as every record is."""
    (folder / "retail.yaml").write_text(POLICY.replace("key: keep", "key: keep, value_format: json"))
    record = json.dumps({"order_id": 10, "email": CANARY})
    for number, code in (("10", 0), ("1_0", 1)):  # which Python reads as ten
        expected = f"{{record: {{order_id: {number}}}}}"
        tests = f"tests:\n  - {{name: x, topic: orders, record: '{record}', expect: {expected}}}\n"
        (folder / "retail.tests.yaml").write_text(FIXTURES[: FIXTURES.index("tests:")] + tests)
        result = aggregator("policy", "test", folder / "retail.yaml")
        assert result.exit_code == code, result.output


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("    schema: s.avsc\n", "", "retail.tests.yaml:4: tests[0]: a record needs `schema`, unless"),
        ("today: 2026-11-21", "today: soon", "retail.tests.yaml:1: today:"),
        ("name: an order", "title: an order", "retail.tests.yaml:4: tests[0]"),
        ("key: k\n", "kee: k\n", "retail.tests.yaml:7: tests[0].kee"),
        ("schema: s.avsc", "schema: no.avsc", "retail.tests.yaml:6: tests[0].schema: cannot be read"),
        ('order_id: "7", email', 'order: "7", email', "retail.tests.yaml:9: tests[0].record: the value: has a field"),
        ("{key: k, headers", "{suppressed: true, key: k, headers", "retail.tests.yaml:10: tests[0].expect: expect"),
        ("customer:", "other:", "retail.tests.yaml:2: keys: the policy uses key customer"),
        ("tests:\n", "tests: {{\n", "retail.tests.yaml:"),
    ],
)
def test_a_bad_fixture_is_told_with_its_line(aggregator, folder, old, new, told):
    """78, file and line, and no value."""
    (folder / "retail.tests.yaml").write_text(FIXTURES.replace(old, new))
    result = aggregator("policy", "test", folder / "retail.yaml")
    assert result.exit_code == 78, result.output
    assert told in result.stderr
    assert CANARY not in result.output


@pytest.mark.parametrize("policy", sorted((ROOT / "configs" / "policies").glob("*.yaml")), ids=lambda path: path.name)
def test_the_policies_of_the_project_keep_their_promises(aggregator, policy):
    """Every policy that is shipped has fixtures, and they hold."""
    if policy.stem.endswith(".tests"):
        return
    parse_policy(policy.read_text(encoding="utf-8"))
    result = aggregator("policy", "test", policy)
    assert result.exit_code == 0, result.output


def test_a_diff_ends_with_3_when_something_is_looser(aggregator, folder):
    """The field, its rules, its verdict; 0 the other way round, and for the same policy."""
    new = folder / "new.yaml"
    new.write_text(POLICY.replace("version: 3", "version: 4").replace("order_id: keep", "order_id: keep, note: keep"))
    arguments = (folder / "retail.yaml", new, "--topic", "orders", "--schema", folder / "s.avsc")
    result = aggregator("policy", "diff", *arguments, "-o", "json")
    assert result.exit_code == 3
    answer = json.loads(result.stdout)
    assert (answer["loosened"], answer["old"]["version"], answer["new"]["version"]) == (True, 3, 4)
    assert [(one["path"], one["verdict"]) for one in answer["changes"]] == [("note", "looser")]
    assert answer["breaking"] == []
    text = aggregator("policy", "diff", *arguments)
    assert "drop: removed" in text.stdout
    assert "something is looser" in text.stdout
    back = aggregator("policy", "diff", new, folder / "retail.yaml", *arguments[2:])
    assert (back.exit_code, "stricter" in back.stdout) == (0, True)
    same = aggregator("policy", "diff", new, new, *arguments[2:], "--all")
    assert (same.exit_code, "note" in same.stdout) == (0, True)


def test_a_schema_hides_nothing_that_is_written(aggregator, folder):
    """A pattern has other topics, and its topic other schemas: what opens a field there ends with 3 as well."""
    old, new = folder / "old.yaml", folder / "new.yaml"
    old.write_text(POLICY.replace("orders:", '"orders|refunds":'))
    new.write_text(old.read_text().replace("order_id: keep", 'order_id: keep, secret: keep, "deep.**": keep'))
    result = aggregator("policy", "diff", old, new, "--topic", "orders", "--schema", folder / "s.avsc", "-o", "json")
    assert result.exit_code == 3
    assert [(one["path"], one["verdict"]) for one in json.loads(result.stdout)["changes"]] == [
        ('topics."orders|refunds".fields.deep.**', "looser"),
        ('topics."orders|refunds".fields.secret', "looser"),
    ]


def test_a_diff_foresees_that_readers_at_central_could_not_follow(aggregator, folder):
    """A field without a default that is opened later: a running hub would hold the topic."""
    closed = folder / "closed.yaml"
    closed.write_text(POLICY.replace("version: 3", "version: 2").replace(", fields: {order_id: keep}", ""))
    arguments = (closed, folder / "retail.yaml", "--topic", "orders", "--schema", folder / "s.avsc")
    answer = json.loads(aggregator("policy", "diff", *arguments, "-o", "json").stdout)
    (broken,) = answer["breaking"]
    assert (broken["topic"], broken["part"]) == ("orders", "value")
    assert any(change.startswith("+") and "order_id" in change for change in broken["changes"])
    told = aggregator("policy", "diff", *arguments).stdout
    assert "orders: readers of its new value schema cannot read what the old policy left (+" in told


def test_a_diff_over_a_registry_looks_at_every_schema(aggregator, folder):
    """Values and keys of every topic, by the names of their subjects."""
    for subject in ("orders-value", "orders-key", "other-value"):
        (folder / "registry" / subject).mkdir(parents=True)
        (folder / "registry" / subject / "1-1.avsc").write_text(json.dumps(SCHEMA))
    new = folder / "new.yaml"
    new.write_text(POLICY.replace("topics:", "default: redact\ntopics:").replace("key: keep", "key: drop"))
    arguments = (folder / "retail.yaml", new, "--schemas", folder / "registry")
    found = json.loads(aggregator("policy", "diff", *arguments, "-o", "json").stdout)["changes"]
    assert {(one["topic"], one["path"], one["verdict"]) for one in found} == {
        ("policy", "default", "looser"),
        ("policy", 'topics."orders".key', "stricter"),
        ("policy", 'topics."orders".default', "looser"),
        ("orders", "note", "looser"),
        ("orders", "@key.order_id", "stricter"),
        ("orders", "@key.email", "stricter"),
        ("orders", "@key.note", "stricter"),
        ("other", "order_id", "looser"),
        ("other", "note", "looser"),
    }
    one = json.loads(aggregator("policy", "diff", *arguments, "--topic", "other", "-o", "json").stdout)["changes"]
    assert {change["topic"] for change in one} == {"policy", "other"}
    (folder / "registry" / "orders-key" / "1-1.avsc").write_text("{")
    refused = aggregator("policy", "diff", *arguments)
    assert refused.exit_code == 78
    assert "orders's keys: writer schema refused" in refused.stderr
    assert aggregator("policy", "diff", *arguments, "--topic", "other").exit_code == 3


def test_suggestions_are_rules_to_paste(aggregator, folder):
    """Path, share and rule; no value."""
    result = aggregator(
        "policy", "suggest", "--topic", "orders", "--schema", folder / "s.avsc", "--records", folder / "r.jsonl"
    )
    assert result.exit_code == 0, result.output
    assert '"email": {pseudonymize: {key: customer, domain: email, normalize: email}}' in result.stdout
    assert "email in 100% of 1 values" in result.stdout
    assert CANARY not in result.output
