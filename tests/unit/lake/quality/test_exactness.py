"""Table and quarantine together hold every record once, whoever dies or comes between two of their commits.

The verdict is drawn anew at every attempt, as if rules saw other records each time.
"""

import random
from contextlib import suppress

import pytest

from aggregator.lake.cycle.ranges import StagingOutcome
from aggregator.lake.quality.publication import Published
from aggregator.lake.quality.quarantine import Quarantine, SplitOutcome
from aggregator.lake.quality.split import Split, marked
from aggregator.lake.storage.staging import discard
from tests.gated_lake import TABLE, GatedLake

pytestmark = pytest.mark.slow


class Killed(BaseException):
    """A process that died."""


class Steps:
    """Calls an event before and after every write of a table."""

    def __init__(self, tables, event):
        self._tables, self._event = tables, event

    def __getattr__(self, name):
        found = getattr(self._tables, name)
        if name == "open":
            return lambda table: self._opened(found(table))
        return self._around(found) if name in ("create", "commit", "widen") else found

    def _opened(self, handle):
        return None if handle is None else Steps(handle, self._event)

    def _around(self, write):
        def written(*arguments, **named):
            self._event()
            done = write(*arguments, **named)
            self._event()
            return done

        return written


class DrawnGate:
    """Diverts drawn rows: the halves are cut and published as the gate does it."""

    def __init__(self, lake, tables, draw):
        self.lake, self.tables, self.draw = lake, tables, draw

    def repair_verdicts(self, handle, positions):
        """Drawn verdicts have no history."""

    def still_held(self, _):
        return ()

    def publish(self, handle, outcomes, *, force, release=None):
        assert release is None
        quarantine = Quarantine(self.tables, self.tables.folder, TABLE)
        columns = marked(self.lake.columns).serialize().to_pybytes()
        split = Split(self.tables.folder / TABLE, quarantine.folder, columns, {"eu.orders": "AAA"})
        share = self.draw.choice((0, 0.3, 1))
        halves = [self._half(outcome, split, share) for outcome in outcomes]
        return Published(quarantine.publish(handle, halves, force=force))

    def _half(self, outcome, split, share):
        stays, goes = [], []
        for file in outcome.files:
            kept, cut = split.cut(file, {row: ["drawn"] for row in range(file.rows) if self.draw.random() < share})
            stays += kept
            goes += cut
        discard(split.folder, [file.path for file in outcome.files])
        return SplitOutcome(StagingOutcome(outcome.reached, tuple(stays)), StagingOutcome(outcome.reached, tuple(goes)))


class World:
    """A lake whose gate draws its verdicts."""

    def __init__(self, folder, monkeypatch, seed, form="delta"):
        self.lake, self.draw = GatedLake(folder, monkeypatch, form=form), random.Random(seed)

    def cycle(self, event=lambda: None, *, gated=True):
        """One cycle of a driver of its own."""
        driver = self.lake.driver()
        driver._tables = Steps(driver._tables, event)
        driver._gates = {TABLE: DrawnGate(self.lake, driver._tables, self.draw)} if gated else {}
        return driver.cycle(force=True)

    def write(self, first, second=0):
        """So many records in each partition."""
        self.lake.write(*[{}] * first)
        self.lake.write(*[{}] * second, partition=1)

    def check(self):
        self.lake.check(self.cycle)


def at_step(number, act):
    """An event that does something the `number`th time, and tells whether it came to that."""
    seen = {"steps": 0, "done": False}

    def event():
        seen["steps"] += 1
        if seen["steps"] == number + 1:
            seen["done"] = True
            act()

    return event, seen


def die():
    raise Killed


@pytest.mark.parametrize(("form", "begun"), [("delta", False), ("delta", True), ("iceberg", True)])
def test_a_death_at_every_step_loses_and_doubles_nothing(tmp_path, monkeypatch, form, begun):
    """I3: before and after each write of both tables a process dies; the next one goes on from what is committed."""
    for step in range(0, 40, 1 if form == "delta" else 3):
        world = World(tmp_path / str(step), monkeypatch, step, form)
        if begun:
            world.write(11, 5)
            world.cycle()
        world.write(9, step % 3)
        event, seen = at_step(step, die)
        with suppress(Killed):
            world.cycle(event)
        world.write(0, 4)
        world.check()
        if not seen["done"]:
            break
    assert step > 3


@pytest.mark.parametrize("begun", [False, True])
def test_another_driver_between_any_two_steps_loses_and_doubles_nothing(tmp_path, monkeypatch, begun):
    """Rule G on both tables: what one driver decided the other one drops, wherever it comes between and dies."""
    for step in range(40):
        world = World(tmp_path / str(step), monkeypatch, step)
        if begun:
            world.write(9, 6)
            world.cycle()
        world.write(6, 10)

        def other(world=world, step=step):
            world.write(3 * (step % 2), 3)
            with suppress(Killed):
                world.cycle(at_step(step % 5, die)[0])

        event, seen = at_step(step, other)
        world.cycle(event)
        world.check()
        if not seen["done"]:
            break
    assert step > 3


def test_a_decided_range_is_finished_also_without_a_gate(tmp_path, monkeypatch):
    """Suites taken out of the configuration do not publish what the quarantine holds."""
    world = World(tmp_path, monkeypatch, 1)
    inside = set()

    def before_the_table():
        inside.update(world.lake.places(f"{TABLE}__quarantine"))
        if inside:
            raise Killed

    with suppress(Killed):
        while True:
            world.write(30, 30)
            world.cycle(before_the_table)
    assert inside - set(world.lake.places())
    world.cycle(gated=False)
    assert not inside & set(world.lake.places())
    world.check()


def test_a_quarantine_begins_where_its_table_is(tmp_path, monkeypatch):
    """A gate that is added later, or again, decides from there on; what was published before stays as it is."""
    world = World(tmp_path, monkeypatch, 3)
    for gated in (False, True, False, True):
        world.write(10, 3)
        before = set(world.lake.places())
        world.cycle(gated=gated)
        assert before <= set(world.lake.places())
    world.check()
