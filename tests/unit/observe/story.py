"""The story of one edge, told look by look."""

from aggregator.config.model import HubConfig
from aggregator.coordinates import EdgePartition
from aggregator.edges.heartbeats import Heartbeat
from aggregator.observe.edge_account import ClockPair, EdgeAccount
from aggregator.observe.edge_snapshot import EdgeSnapshot
from aggregator.replicate.discovery.edge_watch import EdgeAnswer
from aggregator.state.ledger import LedgerRecord

CENTRAL_MS = 1_800_000_000_000


TICK_S = 0.5


FLOW = EdgePartition("eu", "orders", 0)


def config(**changes) -> HubConfig:
    """A hub with one edge."""
    edge = {"bootstrap_servers": "e:1"} | changes.pop("edge", {})
    return HubConfig(hub="h", central={"bootstrap_servers": "c:1"}, edges={"eu": edge}, **changes)


def moment(second: float) -> ClockPair:
    """A moment so many seconds after the start."""
    return ClockPair(500.0 + second, CENTRAL_MS + int(second * 1000))


class Story:
    """Plays seconds of an edge's life to an account."""

    def __init__(self, hub=None, *, state=None, spans=(), began=0.0):
        self.account = EdgeAccount(hub or config(), "eu", moment(began).now_s, state=state, spans=spans)
        self.second, self.answered, self.position, self.end = began, None, 0, 0
        self.states, self.pause, self.logs, self.skew_ms = [], None, None, 0

    def live(self, seconds, *, beats=True, answers=True, reads=10, arrives=10, gaps=0, source="h", hub_busy=False):
        """Go on for so many seconds; returns the states that were seen."""
        first = len(self.states)
        for _ in range(int(seconds / TICK_S)):
            self.second += TICK_S
            now = moment(self.second)
            self.end += arrives
            self.position = min(self.end, self.position + reads)
            if beats:
                self.account.add_heartbeat(
                    Heartbeat(source, "eu", now.now_ms - 40 + self.skew_ms), now.now_ms, now.now_s
                )
            if answers:
                self.answered = now.now_s
            answer = EdgeAnswer(self.answered, ends_s=now.now_s, ends={FLOW: self.end})
            shown = EdgeSnapshot(answer, self.logs, 500.0)
            entry = LedgerRecord(0, "id", self.position, epoch=1, slot=0)
            self.account.add_samples({FLOW: entry}, shown)
            seen = self.account.observe(now, shown, gaps=gaps, held=frozenset(), pause=self.pause)
            self.account.judge(now, seen, hub_busy=hub_busy)
            self.states.append(self.account.availability.state)
        return self.states[first:]

    @property
    def state(self):
        return self.account.availability.state
