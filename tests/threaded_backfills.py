"""Backfills without Spark: the real driver of one hub's backfills, whose slots run in threads of this process."""

import threading
import time
from dataclasses import replace

from aggregator.backfill.backfill_state import Backfill, Signed
from aggregator.backfill.execution import run_to_end
from aggregator.backfill.plan_builder import make_plan
from aggregator.backfill.request import Ask, Window
from aggregator.backfill.store import read_backfills
from aggregator.backfill.submission import start
from aggregator.config.load import load_config
from aggregator.privacy.policy.file import load_policy
from aggregator.state.names import HubNames
from tests.local_spark import LocalSpark


class ThreadedBackfills:
    """Backfills of one trial's hub."""

    def __init__(self, trial):
        self.trial = trial
        self.load()

    def load(self) -> None:
        """Read configuration and policies, which a test may have changed."""
        self.config = load_config(self.trial.config, {})
        self.policies = {rule.policy: load_policy(rule.policy) for rule in self.config.topics}

    def ask(self, **options) -> Ask:
        window = Window(options.pop("edge", "eu"), self.trial.topic, options.pop("partition", None))
        return Ask((replace(window, **options.pop("window", {})),), **options)

    def plan(self, **options):
        return make_plan(self.config, self.ask(**options), now_ms=int(time.time() * 1000))

    def start(self, plan, rate: float | None = None) -> Backfill:
        return start(self.config, plan, Signed("ada@desk", 1), rate=rate)

    def run(self, rate: float | None = None, **options):
        """Plan, start and carry out; the outcome."""
        return self.carry(self.start(self.plan(**options), rate))

    def carry(self, backfill: Backfill, *, stop: threading.Event | None = None):
        """Carry out; the outcome."""
        identity = f"{backfill.plan.id}@test-{time.monotonic_ns()}"
        return run_to_end(
            self.config, LocalSpark(), self.policies, backfill, identity=identity, stop=stop or threading.Event()
        )

    def known(self) -> dict[str, Backfill]:
        return read_backfills(self.config.central, HubNames(self.trial.hub))
