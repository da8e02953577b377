"""Every refusal of the configuration: one rule, one case, with the line, the place and the reason."""

import pytest

from aggregator.config.document import MAXIMUM_VALUES, read_document
from aggregator.config.load import load_config
from aggregator.errors import ConfigError

EU = '{bootstrap_servers: "127.0.0.1:19092", schemas: "directory:schemas"}'
LAKE = "lake: {path: lake, format: delta, commit_interval: 30s}\n"
KEYS = 'keys: {customer: "env:CUSTOMER_KEY"}\n'


def one(lines: list[str], start: str, *words: str) -> None:
    """Exactly one fault, at this place, that says these words."""
    assert len(lines) == 1, lines
    assert lines[0].startswith(start), lines[0]
    for word in words:
        assert word in lines[0], lines[0]


FIELDS = [
    pytest.param(
        ', schemas: "directory:schemas"}\n  us',
        ', schemas: "directory:schemas", rate_limit: 2MB}\n  us',
        "hub.yaml:5: edges.eu.rate_limit: ",
        "2MB/s",
        id="a rate without its time",
    ),
    pytest.param(
        ', schemas: "directory:schemas"}\n  us',
        ', schemas: "directory:schemas", rate_limit: 9kB/s}\n  us',
        "hub.yaml:5: edges.eu.rate_limit: ",
        "heartbeats",
        id="a rate that holds up beats",
    ),
    pytest.param("hub: demo", "hub: de/mo", "hub.yaml:1: hub: ", "letters", id="hub name"),
    pytest.param(
        "hub: demo", "hub: demo.backfill", "hub.yaml:1: hub: ", "another hub", id="hub named as backfills are"
    ),
    pytest.param("hub: demo", "hub:", "hub.yaml:1: hub: ", "empty", id="empty value"),
    pytest.param("hub: demo\n", "", "hub.yaml:1: hub: ", "is missing", id="missing key"),
    pytest.param("  eu:", "  EU:", "hub.yaml:5: edges.EU: ", "lower-case", id="edge name with capitals"),
    pytest.param("  eu:", "  eu.west:", "hub.yaml:5: edges.eu.west: ", "no dot", id="edge name with a dot"),
    pytest.param("  eu:", f"  {'e' * 33}:", "hub.yaml:5: edges.eee", "1 to 32", id="edge name too long"),
    pytest.param(EU, "near", "hub.yaml:5: edges.eu: ", "section", id="section is text"),
    pytest.param("127.0.0.1:19292", "127.0.0.1", "hub.yaml:3: central.bootstrap_servers: ", "host:port", id="no port"),
    pytest.param("127.0.0.1:19292", "h:0", "hub.yaml:3: central.bootstrap_servers: ", "host:port", id="port zero"),
    pytest.param(
        "127.0.0.1:19292", "u:p@h:1", "hub.yaml:3: central.bootstrap_servers: ", "password", id="user in address"
    ),
    pytest.param("directory:central-schemas", "central", "hub.yaml:7: schemas: ", "directory:", id="registry kind"),
    pytest.param(
        "directory:central-schemas", "https://u:p@h", "hub.yaml:7: schemas: ", "credentials", id="registry user"
    ),
    pytest.param(
        "directory:central-schemas", "https://h?k=p", "hub.yaml:7: schemas: ", "credentials", id="registry query"
    ),
    pytest.param(
        "orders|payments\\\\..*", "(?=x)orders", "hub.yaml:9: topics[0].match: ", "a look-ahead", id="look-ahead"
    ),
    pytest.param(
        'lake: "{topic}"', "exclude: 'a(?!b)'", "hub.yaml:13: topics[0].exclude: ", "a look-ahead", id="excluded"
    ),
    pytest.param("hub: demo\n", "hub: demo\nexclude: ''\n", "hub.yaml:2: exclude: ", "empty", id="nothing excluded"),
    pytest.param(
        "orders|payments\\\\..*", "(a)\\\\1", "hub.yaml:9: topics[0].match: ", "a back-reference", id="back-reference"
    ),
    pytest.param("orders|payments\\\\..*", "a)(b", "hub.yaml:9: topics[0].match: ", "RE2", id="half a group"),
    pytest.param('"orders|payments\\\\..*"', '""', "hub.yaml:9: topics[0].match: ", "empty", id="empty pattern"),
    pytest.param(
        "{edge}.{topic}", "{edge}.all", "hub.yaml:11: topics[0].central: ", "{topic}", id="central without topic"
    ),
    pytest.param(
        "{edge}.{topic}", "{topic}{topic}", "hub.yaml:11: topics[0].central: ", "exactly once", id="topic twice"
    ),
    pytest.param(
        "{edge}.{topic}", "{hub}.{topic}", "hub.yaml:11: topics[0].central: ", "{edge}", id="unknown placeholder"
    ),
    pytest.param("{edge}.{topic}", "a/{topic}", "hub.yaml:11: topics[0].central: ", "letters", id="topic characters"),
    pytest.param("start: earliest", "start: soon", "hub.yaml:12: topics[0].start: ", "ISO 8601", id="start"),
    pytest.param(
        'lake: "{topic}"', 'lake: "../{topic}"', "hub.yaml:13: topics[0].lake: ", "letters", id="lake outside"
    ),
    pytest.param('lake: "{topic}"', 'lake: ".."', "hub.yaml:13: topics[0].lake: ", "dot", id="lake above itself"),
    pytest.param("path: lake", "path: ftp://b/lake", "hub.yaml:14: lake.path: ", "s3://", id="no object store"),
    pytest.param(
        "path: lake", "path: s3://bucket/", "hub.yaml:14: lake.path: ", "below the bucket", id="a bare bucket"
    ),
    pytest.param("path: lake", "path: s3://u:p@b/l", "hub.yaml:14: lake.path: ", "references", id="keys in an address"),
    pytest.param("path: lake", "path: .", "hub.yaml:14: lake.path: ", "folder of its own", id="lake path empty"),
    pytest.param("format: delta", "format: csv", "hub.yaml:14: lake.format: ", "delta", id="lake format"),
    pytest.param("30s", "30", "hub.yaml:14: lake.commit_interval: ", "unit", id="duration without unit"),
    pytest.param("30s", "0s", "hub.yaml:14: lake.commit_interval: ", "longer than nothing", id="no duration"),
    pytest.param(
        KEYS,
        KEYS + "chain_key: hubs\n",
        "hub.yaml:16: chain_key: ",
        "no key has the name",
        id="chain key",
    ),
    pytest.param(
        KEYS, KEYS + "replication: {commit_bytes: 16}\n", "hub.yaml:16: replication.commit_bytes: ", "unit", id="size"
    ),
    pytest.param(
        KEYS, KEYS + "replication: {slots: 0}\n", "hub.yaml:16: replication.slots: ", "equal to 1", id="no slots"
    ),
    pytest.param(
        KEYS, KEYS + "replication: {slots: two}\n", "hub.yaml:16: replication.slots: ", "integer", id="slots in words"
    ),
    pytest.param(
        KEYS, KEYS + "replication_factor: 0\n", "hub.yaml:16: replication_factor: ", "-1", id="replication factor"
    ),
    pytest.param(
        KEYS, KEYS + "spark: {conf: {spark.speculation: true}}\n", "hub.yaml:16: spark.conf.", "slot", id="speculation"
    ),
    pytest.param(
        KEYS, KEYS + "spark: {conf: {spark.master: x}}\n", "hub.yaml:16: spark.conf.", "one home", id="master in conf"
    ),
    pytest.param(
        KEYS, KEYS + "topics: {}\n", "hub.yaml:16: topics: ", "written twice, first in line 8", id="key twice"
    ),
]


@pytest.mark.parametrize(("old", "new", "start", "words"), FIELDS)
def test_a_field_that_is_wrong_is_told_with_its_line(changed, old, new, start, words):
    """A wrong field gives exactly one fault, with the line of the field and what to write instead."""
    one(changed(old, new), start, words)


CROSS = [
    pytest.param(
        'schemas: "directory:central-schemas"\n', "", "hub.yaml:1: schemas: ", "registry", id="central registry"
    ),
    pytest.param(
        ', schemas: "directory:schemas"}', "}", "hub.yaml:5: edges.eu.schemas: ", "missing", id="edge registry"
    ),
    pytest.param(LAKE, "", "hub.yaml:13: topics[0].lake: ", "no `lake:` section", id="lake section"),
    pytest.param("retail.yaml", "other.yaml", "hub.yaml:10: topics[0].policy: ", "no such file", id="policy file"),
    pytest.param("retail.yaml", ".", "hub.yaml:10: topics[0].policy: ", "no regular file", id="policy folder"),
    pytest.param(
        '    lake: "{topic}"\n', "    edges: [eu, asia]\n", "hub.yaml:13: topics[0].edges[1]: ", "no edge", id="edge"
    ),
    pytest.param(
        '    lake: "{topic}"\n', "    edges: []\n", "hub.yaml:13: topics[0].edges: ", "leave it out", id="no edge"
    ),
]


@pytest.mark.parametrize(("old", "new", "start", "words"), CROSS)
def test_fields_that_do_not_fit_each_other_are_told(changed, old, new, start, words):
    """What one field needs of another is checked, and told at the field that is wrong or missing."""
    one(changed(old, new), start, words)


def test_an_edge_without_registry_is_fine_where_no_rule_reads_it(faults, good):
    """Only edges that a rule speaks of need `schemas`."""
    without = good.replace(', schemas: "directory:schemas"}', "}", 1)
    assert len(faults(without)) == 1
    assert faults(without.replace("start: earliest", "edges: [us]")) == []


SYNTAX = [
    pytest.param("hub: [demo\n", "is not YAML", id="bracket"),
    pytest.param("hub: demo\n---\nhub: two\n", "several YAML documents", id="two documents"),
    pytest.param("hub: *nowhere\n", "is not YAML", id="alias to nothing"),
    pytest.param("hub: !secret demo\n", "custom tags", id="custom tag"),
    pytest.param("<<: {hub: demo}\n", "merge keys", id="merge key"),
    pytest.param("[hub]: demo\n", "plain word", id="key that is a list"),
    pytest.param("- hub\n", "section of keys", id="list"),
    pytest.param("", "holds nothing", id="empty file"),
    pytest.param("hub: \x07\n", "characters that YAML does not allow", id="control character"),
    pytest.param("hub: &a [*a]\n", "aliases", id="alias inside itself"),
]


@pytest.mark.parametrize(("text", "words"), SYNTAX)
def test_yaml_that_cannot_be_read_is_refused(faults, text, words):
    """Broken YAML, and YAML that would be read in several ways, is refused with a line."""
    lines = faults(text)
    assert any(words in line for line in lines), lines
    assert all(line.startswith("hub.yaml:") for line in lines)


@pytest.mark.slow
def test_aliases_of_aliases_end_before_the_memory_does(faults):
    """A few lines of aliases that would unfold to billions of nodes are refused, once and at once."""
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12)
    )
    assert sum("aliases grow without bound" in line for line in faults(bomb)) == 1


@pytest.mark.slow
@pytest.mark.parametrize("item", ["- x", "- a: b", "- *a"])
def test_more_values_than_a_file_has_are_refused_while_it_is_read(item):
    """The end of the text, which is no YAML, is never reached; memory and time stay those of the values before."""
    document = read_document("a0: &a x\nb:\n" + f"{item}\n" * (MAXIMUM_VALUES + 1) + "}\n")
    (fault,) = document.faults
    assert fault.message.startswith(f"holds more than {MAXIMUM_VALUES:,} values")
    assert 20_000 < fault.line <= MAXIMUM_VALUES


@pytest.mark.slow
def test_the_values_that_a_file_may_have_are_read():
    """Keys of values do not count beside them."""
    text = "".join(f"k{number}: x\n" for number in range(MAXIMUM_VALUES - 1))
    assert len(read_document(text).data) == MAXIMUM_VALUES - 1
    (fault,) = read_document(f"{text}more: x\n").faults
    assert fault.line == MAXIMUM_VALUES


UNKNOWN = [
    pytest.param("hub: demo", "hub: demo\nedgs: 1", "edgs: is not known; did you mean `edges`?", id="top"),
    pytest.param(
        'schemas: "directory:schemas"}', "schema: x}", "edges.eu.schema: is not known; did you mean", id="edge"
    ),
    pytest.param("start:", "strat:", "topics[0].strat: is not known; did you mean `start`?", id="rule"),
    pytest.param(
        "30s}", "30s, zzz: 1}", "lake.zzz: is not known; known here: path, format, commit_interval", id="lake"
    ),
    pytest.param(
        "hub: demo", "hub: demo\nspark: {mastr: x}", "spark.mastr: is not known; did you mean `master`?", id="spark"
    ),
]


@pytest.mark.parametrize(("old", "new", "told"), UNKNOWN)
def test_an_unknown_key_is_refused_with_a_suggestion(changed, old, new, told):
    """Unknown keys are refused at every level, with the key that was probably meant."""
    assert any(told in line for line in changed(old, new))


def test_all_faults_are_told_at_once_and_in_order_of_lines(faults, good):
    """One run names the faults of parsing, filling in, single fields and their combination."""
    text = (
        good.replace("hub: demo", "hub: de/mo")
        .replace("127.0.0.1:19092", "${NOWHERE}")
        .replace("retail.yaml", "other.yaml")
        .replace(LAKE, "")
        .replace("earliest", "soon")
    ) + "hub: again\n"
    lines = faults(text)
    assert [line.split(": ")[1] for line in lines] == [
        "hub",
        "edges.eu.bootstrap_servers",
        "topics[0].policy",
        "topics[0].start",
        "topics[0].lake",
        "hub",
    ]


def test_a_file_that_is_not_there_is_one_sentence_with_the_next_step(tmp_path):
    """A missing file names itself and the command that writes a first one."""
    with pytest.raises(ConfigError, match="No such file") as caught:
        load_config(tmp_path / "hub.yaml", {})
    assert "aggregator init" in caught.value.hint
    assert caught.value.exit_code == 78


@pytest.mark.parametrize("character", ["\\0", "\\ud800", "\\x00"])
@pytest.mark.parametrize("text", ['a: {b: "x%s"}', 'a: {"b%s": x}', 'a: ["%sx"]'])
def test_characters_that_no_text_has_are_faults(text, character):
    """No path, no topic and no UTF-8 has them: whoever used such a text would end with a traceback."""
    document = read_document(text % character)
    (fault,) = document.faults
    assert (fault.line, "holds a character that no text has" in fault.message) == (1, True)


def test_an_anchor_that_is_written_twice_quotes_nothing(recwarn):
    """YAML allows it; the parser's own warning would hold a piece of the text."""
    document = read_document("a: &x {password: planted}\nb: &x {password: planted}\nc: *x\n")
    assert (document.faults, document.data["c"]) == ([], {"password": "planted"})
    assert not recwarn.list


def test_folded_text_is_what_was_written():
    """A fold is a blank, in a value and in a key: a control character would make a reason one that nobody may write."""
    assert read_document("a: >\n  x\n  y\nb: |\n  x\n  y\n? >-\n  c\n  d\n: e\n").data == {
        "a": "x y\n",
        "b": "x\ny\n",
        "c d": "e",
    }


@pytest.mark.parametrize(
    "text", ["a: # planted\n  t\n  u\n\nb: c\n", "? # planted\n  a\n\n: # planted\n\n  b\n", "a: # x\n\n"]
)
def test_a_comment_is_no_part_of_what_is_read(text):
    """Wherever it stands; two of them beside one value are no defect."""
    document = read_document(text)
    assert not document.faults
    assert "planted" not in str(document.data)
