"""A deterministic scheduler: actors are greenlets, every call to the world is a point where another one may go first.

One seed is one schedule. Time is simulated and only moves when somebody waits. A crash is an exception that no product
code can catch as an error, thrown in at such a point.
"""

import random
from collections.abc import Callable
from typing import Any

from greenlet import greenlet


class Crash(BaseException):
    """The actor's process is gone."""


class Actor:
    """One process of the simulated world."""

    def __init__(self, name: str, body: Callable[[], object]) -> None:
        self.name = name
        self.wake_at = 0.0
        self.result: Any = None
        self.crashed = False
        self._body = body
        self._let = greenlet(self._run)

    def _run(self, *_: object) -> None:
        try:
            self.result = self._body()
        except Crash:
            self.crashed = True

    @property
    def alive(self) -> bool:
        return not self._let.dead

    def switch(self) -> None:
        self._let.switch()

    def crash(self) -> None:
        """End it at the point where it stands, now."""
        if not self._let.dead:
            if self._let:
                self._let.throw(Crash)
            else:
                self._let.throw(greenlet.GreenletExit)
            self.crashed = True


class Stuck(AssertionError):
    """The world did not come to an end: no progress."""


class Scheduler:
    """Picks who goes next, by seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now = 0.0
        self.actors: list[Actor] = []
        self.steps = 0
        self.environment: Callable[[], None] = lambda: None
        self._current: Actor | None = None
        self._main = greenlet.getcurrent()

    def spawn(self, name: str, body: Callable[[], object]) -> Actor:
        actor = Actor(name, body)
        actor.wake_at = self.now
        self.actors.append(actor)
        return actor

    def pause(self) -> None:
        """Let others go first; called by the world at every step of an actor."""
        self._main.switch()

    def sleep(self, seconds: float) -> None:
        """Wait in simulated time."""
        if self._current is not None:
            self._current.wake_at = self.now + seconds
        self.pause()

    def freeze(self, actor: Actor, seconds: float) -> None:
        """SIGSTOP for a while."""
        actor.wake_at = max(actor.wake_at, self.now + seconds)

    def run(self, until: Callable[[], bool], *, steps: int) -> None:
        """Go on until the condition holds.

        Raises:
            Stuck: it did not within so many steps.
        """
        for _ in range(steps):
            if until():
                return
            self.environment()
            self.actors = [actor for actor in self.actors if actor.alive]
            ready = [actor for actor in self.actors if actor.wake_at <= self.now]
            if not ready:
                waking = [actor.wake_at for actor in self.actors]
                self.now = max(self.now + 0.01, min(waking, default=self.now))
                continue
            self.steps += 1
            self.now += 0.001
            self._current = self.random.choice(ready)
            self._current.switch()
            self._current = None
        raise Stuck(f"no end after {steps} steps; alive: {[actor.name for actor in self.actors]}")
