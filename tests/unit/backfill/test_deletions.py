"""Drawn logs, policies and restates, against a replay of the log, which knows whose records they are."""

import random
from collections import Counter
from dataclasses import dataclass, field

import pytest

from aggregator.lake.latest_rows import latest
from aggregator.lake.storage.folder import Folder
from aggregator.lake.tables.delta import DeltaTables
from aggregator.lake.tables.iceberg import IcebergTables
from tests.effort import turns
from tests.unit.backfill.restates import MARK, Restate, keyed
from tests.unit.lake.tabling import FIRST, NAME, commit, staged

PEOPLE = ("A", "a", "B", "b", "C")
# Keys that a policy makes of a person, or of one without upper case. A tombstone comes under each of them, another
# record under the first.
POLICIES = {
    "identity": ("{0}",),
    "casefold": ("{1}",),
    "first": ("1-{0}",),
    "first casefold": ("1-{1}",),
    "second": ("2-{0}",),
    "rotated": ("2-{0}", "1-{0}"),
    "rotated casefold": ("2-{1}", "1-{1}"),
}
MERGING = ("casefold", "first casefold") * 2


@dataclass
class World:
    """A table, the log that feeds it (whose record each offset is, whether it deletes), and the hub's policy now."""

    tables: DeltaTables | IcebergTables
    chance: random.Random
    log: list[tuple[str, bool]]
    policy: str
    commits: int = 0

    def rows(self, policy: str, offset: int, said: int) -> list[tuple]:
        who, deleted = self.log[offset]
        keys = [pattern.format(who, who.casefold()).encode() for pattern in POLICIES[policy]]
        return [(offset, key, deleted, said) for key in (keys if deleted else keys[:1])]

    def commit(self, rows: list[tuple]) -> None:
        self.commits += 1
        commit(self.tables, staged(self.tables, FIRST, self.commits - 1, self.commits, keyed(*rows)))

    def table(self) -> list[tuple]:
        folder, found = self.tables.folder / NAME, []
        for path in self.tables.open(NAME).live_paths():
            columns = folder.rows(path, ["_offset", "_key", "_deleted", "id"]).to_pydict()
            found += zip(*(columns[name] for name in ("_offset", "_key", "_deleted", "id")), strict=True)
        return found

    def current(self) -> set[int]:
        found = latest(self.tables.folder / NAME, self.tables.open(NAME).live_files()).rows()
        return {offset for rows in found for offset in rows["_offset"].to_pylist()}


def world(kind, folder, seed: int) -> World:
    """A table of some files under one policy, then maybe under another one, which left some records out."""
    chance = random.Random(seed)
    people = PEOPLE[: chance.randint(2, 5)]
    log = [(chance.choice(people), chance.random() < 0.3) for _ in range(chance.randint(5, 25))]
    former, policy = chance.choice([*POLICIES, *MERGING]), chance.choice([*POLICIES])
    over = chance.choice([len(log), chance.randint(1, len(log))])
    made = World(kind("hub", Folder(str(folder))), chance, log, policy)
    pieces = [[] for _ in range(chance.randint(1, 4))]
    for offset in range(len(log)):
        if chance.random() < 0.85:
            pieces[min(offset * len(pieces) // len(log) + (chance.random() < 0.1), len(pieces) - 1)].append(offset)
    for piece in pieces:
        made.commit([row for at in piece for row in made.rows(former if at < over else policy, at, 0)])
    return made


@dataclass
class Round:
    """One restate under a policy: what it asked for, read and left out, and the table before and after it."""

    policy: str
    asked: range
    left_out: set[int]
    came: dict[int, list[tuple]]
    had: list[tuple]
    has: list[tuple] = field(default_factory=list)
    current: set[int] = field(default_factory=set)


def restate(made: World, number: int) -> Round:
    """Restate a drawn range; some of it expired, is compacted or left out, and other rows may come meanwhile."""
    chance, log = made.chance, made.log
    policy = chance.choice([made.policy, chance.choice([*POLICIES])])
    start = chance.choice([0, chance.randint(0, len(log) - 1)])
    asked = range(start, chance.choice([len(log), chance.randint(start + 1, len(log))]))
    newest, compacts = {who: offset for offset, (who, _) in enumerate(log)}, chance.random() < 0.3
    kept = [at for at in asked if not compacts or newest[log[at][0]] == at or chance.random() < 0.3]
    read = set(kept[chance.choice([0, 0, chance.randint(0, len(kept))]) :])
    left_out = {at for at in read if chance.random() < 0.2}
    one = Round(policy, asked, left_out, {at: made.rows(policy, at, number) for at in read - left_out}, made.table())
    new = keyed(*(row for at in sorted(one.came) for row in one.came[at]))
    run = Restate(made.tables, start, asked.stop, new, read=read, mark=MARK._replace(topic_id=str(number)))
    late = []

    def beside(removed) -> None:
        run.told.append(removed)
        if not late and chance.random() < 0.3:
            log.append((chance.choice(log)[0], chance.random() < 0.4))
            late.extend(made.rows(policy, len(log) - 1, number))
            made.commit(late)

    done = run.replacement.commit(run.come, beside)
    one.had += late
    one.has, one.current = made.table(), made.current()
    affected = {row[0] for row in one.had} & set(asked)
    gone = {at for at in affected & left_out if not log[at][1]}
    left = affected - one.came.keys() - gone
    assert (done.rows, done.left) == (len(affected) - len(left), len(left))
    assert not run.told or sum(run.told[-1].values()) == len(gone)
    return one


def faults(log: list[tuple[str, bool]], one: Round) -> list[str]:
    """What is wrong with it, by whose records they are."""
    was, now = ({at: {row[1] for row in rows if row[0] == at} - {None} for at, *_ in one.had}
                for rows in (one.had, one.has))  # fmt: skip
    new = {at: {POLICIES[one.policy][0].format(who, who.casefold()).encode()} for at, (who, _) in enumerate(log)}
    came = one.came.keys() & was.keys()
    to = {at: {row[1] for row in one.came[at]} for at in came}
    images = [
        (key, to[at]) for at in came for key in was[at] if len(was[at]) == 1 or key in to[at] or not to[at] & was[at]
    ]
    fresh = set[bytes]().union(*(to[at] - was[at] for at in came))
    first = max((at for at in came if len(was[at]) == 1 and was[at] - to[at]), default=-1)

    def deletes(at: int, offset: int) -> bool:
        """One that was read again deletes its own person; one that stays, everybody under its key."""
        if at in came:
            return log[at][0] == log[offset][0] and (offset in came or bool(was[at] & was[offset]))
        return bool(was[at] & was[offset] or (offset in came and was[offset] and new[offset] & was[at]))

    def rivals(at: int, offset: int) -> bool:
        """Whether a younger row may be of the same key."""
        mine = new[offset] if offset in came else was[offset]
        if at in came:
            return bool(to[at] & mine)
        theirs = set[bytes]().union(was[at], *(keys for key, keys in images if key in was[at]))
        return bool(theirs & mine or was[at] & was[offset])

    found = [f"{offset} is current, which {row[0]} deleted" for offset in sorted(one.current)
             for row in one.had if row[2] and row[0] > offset and deletes(row[0], offset)]  # fmt: skip
    unchanged = all(to[at] == was[at] for at in came)
    found += [
        f"{offset} is the youngest of its key, and not current" for offset in now.keys() - one.current
        if not log[offset][1] and now[offset] and (offset in came or unchanged) and was[offset]
        and not any(now[at] and at > offset and rivals(at, offset) for at in now)
    ]  # fmt: skip
    times = Counter(row[:2] if row[2] else row[:1] for row in one.has)
    found += [f"{what} is there {count} times" for what, count in times.items() if count > 1]
    for at in was:
        rows = sorted(row for row in one.has if row[0] == at) if at in came else []
        if at in came and rows != sorted(one.came[at]):
            found.append(f"{at} did not come as it is")
        if bool(now[at] or any(row[0] == at for row in one.has)) is (at in one.left_out and not log[at][1]):
            found.append(f"{at} is there, or is not, against what was read of it")
        for key in was[at] & now[at] if at not in came else ():
            shown = [keys for other, keys in images if other == key]
            kept = log[at][1] and (
                key in fresh or (at > first and any(row[0] > first and row[1] in fresh for row in one.had))
            )
            if shown and not any(key in keys for keys in shown) and not kept:
                found.append(f"{at} keeps {key!r}, though others came")
    return [*found, *strangers(log, one, was, now, to)]


def strangers(log, one: Round, was, now, to) -> list[str]:
    """Rows that were under their person's key of now, and are under another one's, though something told."""
    own = POLICIES[one.policy][0]
    changed = {at: was[at] - to[at] for at in to}
    unread = {key for at in was if at in one.asked and at not in to for key in was[at]}
    fresh = {key for at in to if len(to[at]) == 1 for key in to[at] - was[at]}
    behind = max((at for at, keys in changed.items() if keys), default=-1)
    sure = fresh - unread - set[bytes]().union(*changed.values())
    over = any(row[0] > behind and row[1] in sure for row in one.had)
    return [
        f"{at} is {log[at][0]}'s, and under {now[at]}"
        for at in was.keys() - to.keys()
        if not log[at][1] and was[at] == {own.format(log[at][0], log[at][0].casefold()).encode()}
        if now[at] - was[at] and (was[at] & fresh or (over and at > behind))
    ]


@pytest.mark.slow
@pytest.mark.parametrize("seed", turns(7, 24))
def test_no_restate_brings_back_what_was_deleted(tmp_path, seed):
    """Two restates, one behind the other: whatever a policy does to keys, and whatever is read of the log."""
    print(f"seed {seed}")
    made = world(IcebergTables if seed % 6 == 0 else DeltaTables, tmp_path, seed)
    for number in (1, 2):
        one = restate(made, number)
        assert not faults(made.log, one), one
