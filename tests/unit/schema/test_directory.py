"""The registry in a folder."""

import multiprocessing
import pickle

import pytest

from aggregator.errors import ConfigError, HoldError, Unreachable
from aggregator.schema.directory import DirectoryRegistry
from aggregator.schema.registries import open_registry
from aggregator.schema.registry import NO_REQUESTER, SchemaVersion, UnknownSchema


@pytest.fixture
def registry(tmp_path):
    return open_registry(f"directory:{tmp_path / 'registry'}")


def test_same_text_same_id_across_subjects(registry):
    """Two regions with one schema get one id; another text gets the next."""
    assert registry.register("eu.orders-value", '"string"') == 1
    assert registry.register("us.orders-value", '"string"') == 1
    assert registry.register("us.orders-value", '"long"') == 2
    assert registry.register("us.orders-value", '"string"') == 1
    assert registry.versions("us.orders-value") == [
        SchemaVersion("us.orders-value", 1, 1, '"string"'),
        SchemaVersion("us.orders-value", 2, 2, '"long"'),
    ]
    assert registry.subjects() == ["eu.orders-value", "us.orders-value"]


def test_files_have_the_documented_names(registry, tmp_path):
    """`<url-encoded subject>/<version>-<id>.avsc`, holding the text as it is, and nothing left beside it."""
    registry.register("a/b c-value", '"string"')
    registry.register("../x", '"long"')
    registry.register("..", '"int"')
    found = sorted(str(path.relative_to(tmp_path / "registry")) for path in (tmp_path / "registry").rglob("*.avsc"))
    assert found == ["%2E%2E/1-3.avsc", "..%2Fx/1-2.avsc", "a%2Fb%20c-value/1-1.avsc"]
    assert {path.name for path in (tmp_path / "registry").rglob("*") if path.is_file()} == {
        ".lock",
        "1-1.avsc",
        "1-2.avsc",
        "1-3.avsc",
    }
    assert registry.subjects() == ["..", "../x", "a/b c-value"]


def test_new_schemas_appear_without_restart(registry, tmp_path):
    """An id that another process registered later is found by the next question."""
    registry.register("a", '"string"')
    with pytest.raises(UnknownSchema):
        registry.schema(2)
    DirectoryRegistry(tmp_path / "registry").register("a", '"long"')
    assert registry.schema(2) == '"long"'


def test_a_listing_has_the_ids_of_some_subjects(registry, tmp_path):
    """What another process has just registered is among them."""
    registry.register("a", '"string"')
    DirectoryRegistry(tmp_path / "registry").register("a", '"long"')
    DirectoryRegistry(tmp_path / "registry").register("b", '"int"')
    assert registry.listing(NO_REQUESTER, "a".__eq__).ids == {1, 2}
    assert registry.listing(NO_REQUESTER, "b".__eq__).ids == {3}


def test_one_id_with_two_texts_is_refused_by_name(registry, tmp_path):
    """Which of two texts a record means cannot be guessed; white space alone is no second text; other ids go on."""
    for subject, text in [("a", '{"type":"string"}'), ("b", '{"type": "string"}'), ("c", '"long"')]:
        (tmp_path / "registry" / subject).mkdir(parents=True, exist_ok=True)
        (tmp_path / "registry" / subject / "1-5.avsc").write_text(text)
    (tmp_path / "registry" / "c" / "2-6.avsc").write_text('"int"')
    with pytest.raises(HoldError, match=r"id 5 has two meanings: .*/a/1-5\.avsc and .*/c/1-5\.avsc"):
        registry.schema(5)
    assert registry.schema(6) == '"int"'
    (tmp_path / "registry" / "c" / "1-5.avsc").unlink()
    assert DirectoryRegistry(tmp_path / "registry").schema(5) == '{"type":"string"}'


def test_missing_folder_is_unreachable_and_never_made_below_a_missing_mount(tmp_path):
    """A folder that is not there may be mounted in a moment; ids are not given anew below its mount point."""
    registry = open_registry(f"directory:{tmp_path / 'mount' / 'registry'}")
    with pytest.raises(Unreachable, match="No such file") as caught:
        registry.schema(1)
    assert "mount it" in caught.value.hint
    with pytest.raises(Unreachable):
        registry.register("a", '"string"')
    assert not (tmp_path / "mount").exists()


def test_a_bad_file_is_named(registry, tmp_path):
    """Text that is not UTF-8 stops what needs it."""
    registry.register("a", '"string"')
    (tmp_path / "registry" / "a" / "2-9.avsc").write_bytes(b"\xff")
    with pytest.raises(HoldError, match=r"2-9\.avsc is not UTF-8"):
        registry.schema(9)


def _register(root, texts):
    registry = DirectoryRegistry(root)
    return {text: registry.register("subject", text) for text in texts}


@pytest.mark.slow
def test_concurrent_registration_gives_one_id_per_text(tmp_path):
    """Four processes that meet the same forty schemas agree on their ids, and no id is given twice."""
    texts = [f'{{"type":"fixed","name":"f","size":{size}}}' for size in range(40)]
    orders = [texts, texts[::-1], texts[20:] + texts[:20], texts[::2] + texts[1::2]]
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        answers = pool.starmap(_register, [(tmp_path, order) for order in orders])
    assert all(answer == answers[0] for answer in answers)
    assert sorted(answers[0].values()) == list(range(1, 41))


@pytest.mark.parametrize("reference", ["directory:relative", "ftp://x", "x", "", "directory:"])
def test_other_references_are_refused(reference):
    """Only absolute folders and http(s) addresses; the sentence says what to write."""
    with pytest.raises(ConfigError) as caught:
        open_registry(reference)
    assert caught.value.hint


V1 = '{"type":"record","name":"R","fields":[{"name":"x","type":"long"},{"name":"y","type":"int"}],"hub.policy":"p/1"}'
V2 = '{"type":"record","name":"R","fields":[{"name":"x","type":"long"}],"hub.policy":"p/1"}'
BREAKS = '{"type":"record","name":"R","fields":[{"name":"x","type":"string"}],"hub.policy":"p/2"}'


def test_a_breaking_schema_is_held_with_what_differs(registry):
    """What is admitted can be read by its successors' readers; what is a version already needs no check."""
    assert [registry.register_compatible("a", text) for text in (V1, V2, V1)] == [1, 2, 1]
    with pytest.raises(HoldError, match=r"(?s)p/2.*version 2.*~ x: long -> string") as caught:
        registry.register_compatible("a", BREAKS)
    assert 'central: "{edge}.{topic}.v2"' in caught.value.hint
    assert registry.register_compatible("a.v2", BREAKS) == 3
    assert [each.version for each in registry.versions("a")] == [1, 2]


def test_what_stands_there_may_come_again_under_a_later_policy(registry):
    """Nothing of it is different but the policy's version."""
    assert [registry.register_compatible("a", text) for text in (V1, V2, V1.replace("p/1", "p/5"))] == [1, 2, 3]


def test_each_type_of_a_topic_follows_its_own(registry):
    """A topic with several kinds of record: another root name is another line of versions."""
    other = V1.replace('"R"', '"S"')
    assert [registry.register_compatible("a", text) for text in (V1, other, V2)] == [1, 2, 3]
    with pytest.raises(HoldError, match="version 2"):
        registry.register_compatible("a", BREAKS.replace('"R"', '"S"'))


def test_what_cannot_be_judged_is_held(registry):
    """A central subject that holds something else is told, not written over."""
    registry.register("a", "{")
    with pytest.raises(HoldError, match="cannot be judged"):
        registry.register_compatible("a", V1)


def test_unknown_schema_crosses_process_borders():
    """Spark pickles what a task raises; reason and id survive."""
    error = pickle.loads(pickle.dumps(UnknownSchema(7, "directory:/x")))
    assert (error.schema_id, error.reason, str(error)) == (7, "unknown_schema", str(UnknownSchema(7, "directory:/x")))
