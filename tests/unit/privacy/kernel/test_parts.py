"""The kernel's parts against the same questions asked in Python."""

import json
import os
import tempfile
from datetime import date

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from aggregator import jit
from aggregator.jit import BYTES, INTEGERS, NUMBER, OUT, compiled
from aggregator.privacy.batch.guard import Malformed
from aggregator.privacy.ids.schema_ids import FramedValues
from aggregator.privacy.kernel.decoder import number, number_end
from aggregator.privacy.kernel.encoder import number_size, put_number
from aggregator.privacy.kernel.machine import GOOD, SPAN, UNDECODABLE
from aggregator.privacy.kernel.opcodes import STRIDE, Op
from aggregator.privacy.kernel.program import assembled
from aggregator.privacy.kernel.spans import distinct, gather
from aggregator.privacy.kernel.text import is_text
from aggregator.privacy.kernel.workspace import Workspace
from aggregator.privacy.plan.compile import compile_plan
from aggregator.privacy.policy.file import parse_policy
from aggregator.privacy.policy.precedence import value_scope
from tests.reference.guard import _varint
from tests.reference.reference import body
from tests.unit.privacy.kernel.drawing import long_bytes

pytestmark = pytest.mark.slow

POLICY = "policy: p\nversion: 1\ntags: {D: drop}\ntopics: {orders: {default: keep}}\n"
NONE = np.zeros(1, np.int64)


@compiled(NUMBER, BYTES, NUMBER, NUMBER)
def _text(data, at, after):
    return np.int64(is_text(data, at, after, data.size))


@compiled(NUMBER, BYTES, NUMBER, INTEGERS)
def _number(data, longest, out):
    out[0], out[1] = number(data, np.int64(0), np.int64(data.size), longest)
    return number_end(data, np.int64(0), np.int64(data.size), longest)


@compiled(NUMBER, NUMBER, OUT)
def _written(value, out):
    return put_number(value, out, np.int64(0)) * 100 + number_size(value)


def _bytes(data):
    return np.frombuffer(data, np.uint8)


def _code(*fields, policy=POLICY):
    schema = {"type": "record", "name": "R", "fields": list(fields)}
    return assembled(compile_plan(json.dumps(schema), value_scope(parse_policy(policy), "orders"), date(2026, 11, 1)))


def _ops(code):
    return [Op(op) for op in code.instructions[::STRIDE]]


@given(st.one_of(st.binary(max_size=40), st.text().map(str.encode)), st.binary(max_size=9))
@example(b"a" * 7 + b"\xc3", b"\xbf")
@example(b"\xed\xa0\x80", b"")
def test_text_is_what_python_decodes(data, behind):
    """Strict UTF-8, whatever lies behind the text in its record."""
    try:
        data.decode()
        expected = 1
    except UnicodeDecodeError:
        expected = 0
    assert _text(_bytes(data + behind), 0, len(data)) == expected


@given(st.one_of(st.binary(max_size=12), st.integers(-(2**63), 2**63 - 1).map(long_bytes)), st.binary(max_size=9))
def test_numbers_are_what_the_guard_reads(data, behind):
    """The same value and end, or refused; in the reader that skips values too."""
    for longest, limit in ((5, 2**32), (10, 2**64)):
        try:
            expected = _varint(data + behind, 0, longest, limit)
        except Malformed:
            expected = (0, -1)
        out = np.zeros(2, np.int64)
        assert _number(_bytes(data + behind), longest, out) == expected[1]
        assert tuple(out) == expected


@given(st.integers(-(2**63), 2**63 - 1))
def test_numbers_are_written_in_their_shortest_form(value):
    """As Avro has them, and as long as was measured."""
    out = np.zeros(10, np.uint8)
    size = len(long_bytes(value))
    assert _written(value, out) == size * 100 + size
    assert out[:size].tobytes() == long_bytes(value)


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from([b"", b"a", b"b", b"x" * 8, b"x" * 9, b"x" * 8 + b"\0"]))))
def test_distinct_values_are_found(values):
    """One number per operator call and value, in the order of their first spans."""
    data = b"".join(value for _, value in values)
    ends = np.cumsum([len(value) for _, value in values], dtype=np.int64)
    rows = [(call, end - len(value), len(value)) for (call, value), end in zip(values, ends, strict=True)]
    spans, count = np.array(rows, np.int64).reshape(-1), len(rows)
    which, originals = np.zeros(count + 1, np.int64), np.zeros(count + 1, np.int64)
    found = distinct(_bytes(data), spans, np.full(count, -1), np.full(1024, -1), which, originals)
    names = list(dict.fromkeys(values))
    assert [names[number] for number in which[:count]] == values
    assert found == len(names)
    assert [values[span] for span in originals[:found]] == names


def test_no_search_is_long():
    """In a table that is too full values only count as new, and each still stands for itself."""
    data = np.arange(256, dtype=np.uint8)
    data.flags.writeable = False
    spans = np.array([(0, n % 256, 1) for n in range(512)], np.int64).reshape(-1)
    which, originals = np.zeros(512, np.int64), np.zeros(512, np.int64)
    found = distinct(data, spans, np.full(512, -1), np.full(32, -1), which, originals)
    assert 256 <= found <= 512
    assert [spans[SPAN * originals[number] + 1] for number in which] == [n % 256 for n in range(512)]


def test_pieces_are_gathered():
    """Pieces of any length behind each other, with their ends."""
    starts, lengths = np.array([3, 0, 5]), np.array([2, 0, 1])
    out, ends = np.zeros(3, np.uint8), np.zeros(4, np.int64)
    assert gather(_bytes(b"abcdef"), starts, lengths, 3, out, ends) == 3
    assert (out.tobytes(), ends.tolist()) == (b"def", [0, 2, 2, 3])


def test_neighbours_that_are_dropped_are_one_cut():
    """What is kept is copied in as few pieces as there are gaps."""
    dropped = {"type": "string", "confluent:tags": ["D"]}
    fields = [{"name": f"f{n}", "type": dropped if 1 <= n <= 3 else "string"} for n in range(6)]
    ops = _ops(_code(*fields))
    assert ops == [Op.TEXT, Op.CUT, Op.BYTES, Op.BYTES, Op.BYTES, Op.RESUME, Op.TEXT, Op.TEXT, Op.END]


def test_a_program_is_as_long_as_its_plan_is_wide():
    """A record that is met often, or holds itself, is laid out once as live and once as dropped."""
    leaf = {"type": "record", "name": "L", "fields": [{"name": "next", "type": ["null", "L"]}]}
    fields = [{"name": "f0", "type": leaf}, *({"name": f"f{n}", "type": ["null", "L"]} for n in range(1, 50))]
    ops = _ops(_code(*fields))
    assert ops.count(Op.RETURN) <= 50
    assert len(ops) < 600
    inner = "string"
    for n in range(40):
        again = f"R{n - 1}" if n else "int"
        inner = {
            "type": "record",
            "name": f"R{n}",
            "fields": [{"name": "a", "type": inner}, {"name": "b", "type": again}],
        }
    assert len(_ops(_code({"name": "x", "type": inner}))) < 60_000


def test_rows_grow_as_needed_and_no_further():
    """A tape that is too short is made longer and the scan goes on; the next batches take no more memory."""
    array = {"type": "array", "items": ["null", "int"]}
    code = _code({"name": "a", "type": array}, {"name": "d", "type": {"type": "string", "confluent:tags": ["D"]}})
    body = (long_bytes(-500) + long_bytes(1000) + b"\2\2" * 500) * 3 + b"\0" + b"\2x"
    padded = (long_bytes(300) + b"\x82\x00\2" * 300) + b"\0\2x"
    data = _bytes(body + padded)
    starts = np.array([0, len(body)] * 20, np.int64)
    ends = np.array([len(body), len(data)] * 20, np.int64)
    workspace, sizes = Workspace(), []
    for _ in range(3):
        scanned = workspace.scan(code, data, starts, ends, NONE)
        assert set(scanned.verdicts.tolist()) == {GOOD}
        assert scanned.counters[: len(code.counters)].sum() == len(starts)
        sizes.append((len(workspace._tape), len(workspace._spans)))
    assert len(set(sizes)) == 1
    short = workspace.scan(code, data, starts, ends - 1, NONE)
    assert set(short.verdicts.tolist()) == {UNDECODABLE}
    assert short.entries_to[-1] == short.counters.sum() == 0


@given(st.lists(st.one_of(st.none(), st.binary(max_size=8), st.integers(0, 3).map(lambda n: b"\0\0\0\0" + bytes([n])))))
def test_groups_are_by_schema_id(values):
    """Every value is in the group of its id, in none when it is none, or unframed; ids in the order of the batch."""
    batch = FramedValues(values)
    groups = batch.groups()
    framed = {n: int.from_bytes(v[1:5]) for n, v in enumerate(values) if v is not None and len(v) > 4 and v[0] == 0}
    assert {n: i for i, places in groups.members.items() for n in places.tolist()} == framed
    assert list(groups.members) == list(dict.fromkeys(framed.values()))
    assert groups.unframed.tolist() == [n for n, v in enumerate(values) if v is not None and n not in framed]
    assert all(body(batch, n) == values[n][5:] for n in framed)


def test_the_folder_of_compiled_code(tmp_path, monkeypatch):
    """The user's cache; the temporary folder when that cannot be; none rather than one that others can write."""
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    folder = jit.cache_folder(cache)
    assert folder.parent == tmp_path / "cache" / "aggregator"
    assert jit.cache_folder(cache) == folder, "one folder for one state of the sources"
    folder.parent.chmod(0o777)
    own = jit.cache_folder(cache)
    assert own.parent == tmp_path / "tmp" / f"aggregator-{os.getuid()}"
    own.parent.chmod(0o777)
    assert jit.cache_folder(cache) is None
    own.parent.rename(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").chmod(0o700)
    own.parent.symlink_to(tmp_path / "elsewhere")
    assert jit.cache_folder(cache) is None, "a link may lead somewhere else tomorrow"


def test_a_given_folder_of_compiled_code_is_ours_alone(tmp_path):
    """`NUMBA_CACHE_DIR` is looked at as our own folder is: what lies there is executed."""
    given = tmp_path / "given"
    assert jit.cache_folder({"NUMBA_CACHE_DIR": str(given)}) == given
    for mode in (0o770, 0o707, 0o777):
        given.chmod(mode)
        assert jit.cache_folder({"NUMBA_CACHE_DIR": str(given)}) is None
    given.chmod(0o700)
    link = tmp_path / "link"
    link.symlink_to(given)
    assert jit.cache_folder({"NUMBA_CACHE_DIR": str(link)}) == given, "compiled code is loaded from where it leads now"
    (tmp_path / "file").touch()
    assert jit.cache_folder({"NUMBA_CACHE_DIR": str(tmp_path / "file")}) is None
    if os.getuid() == 0:
        os.chown(given, 12345, -1)
        assert jit.cache_folder({"NUMBA_CACHE_DIR": str(given)}) is None, "its owner may write"


@pytest.mark.parametrize(
    ("mode", "is_safe"), [(0o755, True), (0o1777, True), (0o1770, True), (0o777, False), (0o770, False)]
)
def test_compiled_code_is_where_nobody_else_can_put_other_code(tmp_path, monkeypatch, mode, is_safe):
    """Whoever may write in a folder above takes ours away and puts his own there, unless a sticky bit keeps him."""
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    shared = tmp_path / "shared"
    given, cache = shared / "between" / "given", shared / "between" / "cache"
    given.mkdir(mode=0o700, parents=True)
    shared.chmod(mode)
    assert jit.cache_folder({"NUMBA_CACHE_DIR": str(given)}) == (given if is_safe else None)
    assert jit.cache_folder({"XDG_CACHE_HOME": str(cache)}).is_relative_to(cache if is_safe else tmp_path / "tmp")
    if os.getuid() == 0:
        os.chown(shared, 12345, -1)
        assert jit.cache_folder({"NUMBA_CACHE_DIR": str(given)}) is None, "its owner may write"


@pytest.mark.parametrize("value", [b"", b"\0", b"\2" * 100])
def test_an_empty_program_takes_empty_records(value):
    """A record without fields has no bytes."""
    scanned = Workspace().scan(_code(), _bytes(value), NONE, np.array([len(value)]), NONE)
    assert bool(scanned.verdicts[0] == GOOD) is (not value)
