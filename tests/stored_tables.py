"""What a table has to do wherever its files lie."""

import pickle
import time
from datetime import timedelta

import pytest

from aggregator.lake.tables.port import CommitConflict
from aggregator.lake.upkeep.compaction import compact
from aggregator.lake.upkeep.orphans import sweep
from tests.unit.lake.tabling import FIRST, NAME, commit, ids, staged

DAY_S = 86_400.0


def found(tables) -> list[int]:
    """Every `id` of the live files."""
    folder = tables.folder / NAME
    rows = [folder.rows(path, ["id"])["id"].to_pylist() for path in tables.open(NAME).live_paths()]
    return sorted(number for some in rows for number in some)


def live_there(tables):
    """Rule G by the store's own conditional put, compaction, the sweep by age, vacuum."""
    assert tables.names() == []
    for number in range(3):
        commit(tables, staged(tables, FIRST, number, number + 1, ids(number)))
    ours, stale = tables.open(NAME), pickle.loads(pickle.dumps(tables)).open(NAME)
    outcome, late = staged(tables, FIRST, 3, 4, ids(3)), staged(tables, FIRST, 3, 4, ids(3))
    ours.commit(outcome.files, {FIRST: 4})
    with pytest.raises(CommitConflict):
        stale.commit(late.files, {FIRST: 4})
    assert compact(tables, tables.folder / NAME, NAME).before == 4
    now_s = time.time()
    assert sweep(tables, NAME, now_s=now_s) == []
    gone, *manifests = sweep(tables, NAME, now_s=now_s + 2 * DAY_S)
    assert gone == late.files[0].path
    assert all(one.endswith(".avro") for one in manifests)
    assert tables.open(NAME).vacuum(timedelta(0), now_s=now_s + 10) >= 4
    assert len([one for one in (tables.folder / NAME).entries() if one.name.startswith("hub-")]) == 1
    assert found(tables) == [0, 1, 2, 3]
    assert (tables.open(NAME).positions([FIRST]), tables.names()) == ({FIRST: 4}, [NAME])
