"""The advice that an error gives about a field whose type changed, followed to its end: then everything goes on."""

import json

import pytest

from tests.trial import ORDER

pytestmark = pytest.mark.brokers


def write_schema(trial, version: int, schema_id: int, of_id: str) -> dict:
    """A version of the order's schema whose `id` has this type."""
    schema = json.loads(json.dumps(ORDER))
    schema["fields"][0]["type"] = of_id
    (trial.folder / "schemas" / f"{trial.topic}-value" / f"{version}-{schema_id}.avsc").write_text(json.dumps(schema))
    return schema


def drained(trial, expect: int) -> str:
    """What a drain says."""
    done = trial.typed("run", "--drain")
    assert done.exit_code == expect, done.output
    return done.stderr


def refused(trial) -> list[str]:
    """Why a run would refuse tables, as `plan` says before it: nothing where the advice was followed."""
    planned = json.loads(trial.typed("plan", "-o", "json").stdout)
    return [one["detail"] for one in planned["tables"] if one["action"] == "refused"]


def rows(trial, table: str) -> list[int]:
    """The ids in a table."""
    topic, trial.topic = trial.topic, table
    try:
        return sorted(int(row[0]) for row in trial.lake("id"))
    finally:
        trial.topic = topic


@pytest.fixture
def changed(trial):
    """A topic whose writers make `id` an int and then a long, which central takes and a Delta table does not."""
    trial.settings["heartbeats"] = {"emit": False}
    trial.settings["topics"][0]["edges"] = ["eu"]
    trial.write()
    small = write_schema(trial, 2, 8, "int")
    trial.produce_raw("eu", [(b"k", trial.value(1, 8, small), 0)])
    drained(trial, 0)
    return trial


@pytest.mark.parametrize("partition", [0, 1])
def test_a_wider_type_goes_into_another_table(changed, partition):
    """`send the topic to another table`: it has all records, the older ones too, wherever each of them lies.

    The wider one may lie in another partition than the older ones, so that neither comes first. Whoever follows the
    advice a second time, because the type became wider again, gets along, too.
    """
    trial = changed
    trial.produce_raw("eu", [(b"k", trial.value(2), partition)])
    assert "send the topic to another table (`lake:` of its rule" in drained(trial, 4)
    assert refused(trial)
    trial.settings["topics"][0]["lake"] = "{topic}_v2"
    trial.write()
    assert refused(trial) == []
    drained(trial, 0)
    assert rows(trial, f"{trial.topic}_v2") == [1, 2]
    trial.produce_raw("eu", [(b"k", trial.value(3), 2)])
    drained(trial, 0)
    assert rows(trial, f"{trial.topic}_v2") == [1, 2, 3]
    told = trial.typed("lake", "status")
    assert f"no rule feeds {trial.topic} any more" in told.stderr
    assert f"{trial.topic}_v2" in told.stdout


def test_a_table_that_was_begun_before_the_type_became_wider(changed):
    """A table keeps its types; the one after it has the wider one, and the older records in it."""
    trial = changed
    trial.settings["topics"][0]["lake"] = "{topic}_v2"
    trial.write()
    drained(trial, 0)
    trial.produce_raw("eu", [(b"k", trial.value(2), 1)])
    drained(trial, 4)
    trial.settings["topics"][0]["lake"] = "{topic}_v3"
    trial.write()
    drained(trial, 0)
    assert rows(trial, f"{trial.topic}_v3") == [1, 2]


def test_edges_that_differ_get_a_table_each(trial):
    """`give each a table of its own`: one edge has numbers where another has texts, and one table held the latter."""
    trial.settings["heartbeats"] = {"emit": False}
    trial.settings["edges"]["us"]["schemas"] = "directory:us-schemas"
    trial.write()
    other = trial.folder / "us-schemas" / f"{trial.topic}-value"
    other.mkdir(parents=True)
    texts = json.loads(json.dumps(ORDER))
    texts["fields"][0]["type"] = "string"
    (other / "1-7.avsc").write_text(json.dumps(texts))
    trial.produce_raw("eu", [(b"k", trial.value(1), 0)])
    trial.produce_raw("us", [(b"k", trial.value(2, 7, texts, id="2"), 0)])
    assert "`{edge}_{topic}`" in drained(trial, 4)
    assert refused(trial)
    trial.settings["topics"][0]["lake"] = "{edge}_{topic}"
    trial.write()
    assert refused(trial) == []
    drained(trial, 0)
    assert (rows(trial, f"eu_{trial.topic}"), rows(trial, f"us_{trial.topic}")) == ([1], [2])


@pytest.mark.parametrize("way", ["generation", "undo", "undo what has no version"])
def test_a_type_that_central_refuses_goes_on_as_the_refusal_says(trial, way):
    """`begin a new generation of the topic`: the flow goes on there with the record that held it, and none is lost.

    Where the policy made the change, to undo it is the other way.
    """
    trial.settings["heartbeats"] = {"emit": False}
    trial.settings["topics"][0]["edges"] = ["eu"]
    trial.write()
    trial.produce_raw("eu", [(b"k", trial.value(1), 0)])
    drained(trial, 0)
    policy = trial.folder / "policy.yaml"
    before = policy.read_text()
    undo = way.startswith("undo")
    if undo:
        changed = before.replace("      amount: keep\n", "      amount: {bucket: {size: 10}}\n")
        policy.write_text(changed.replace("version: 1", "version: 2") if way == "undo" else changed)
        trial.produce_raw("eu", [(b"k", trial.value(2), 0)])
    else:
        texts = write_schema(trial, 2, 8, "string")
        trial.produce_raw("eu", [(b"k", trial.value(2, 8, texts, id="2"), 0)])
    told = drained(trial, 4)
    if undo:
        assert "undo that" in told
        policy.write_text(before)
    else:
        assert "the writers changed this" in told
        assert 'central: "{edge}.{topic}.v2", and lake: "{topic}_v2"' in told
        trial.settings["topics"][0] |= {"central": "{edge}.{topic}.v2", "lake": "{topic}_v2"}
        trial.write()
    if not undo:
        (stands,) = [one for one in trial.status("--problems")["flows"] if one["topic"] == trial.topic]
        assert "held, " in stands["trouble"], "said by a hub that has stopped"
        trial.create("eu", topic=f"wild-{trial.mark}")
        assert f"wild-{trial.mark}" in trial.status()["without_rule"]["eu"]
    drained(trial, 0)
    audited = trial.typed("audit", "--topic", trial.topic, "-o", "json")
    assert audited.exit_code == 0, audited.output
    old = rows(trial, trial.topic)
    assert (old, rows(trial, f"{trial.topic}_v2")) == (([1, 2], []) if undo else ([1], [2]))
