"""A TCP proxy on loopback that stands for the line between the hub and an edge, and breaks the way lines break.

Invariant: bytes that are held back or slowed down arrive later, complete and in order, as TCP has it; only `cut` and
`reset` end connections, and both do so by RST. What every fault did is counted, so that a trial can prove that it hit.
"""

import asyncio
import contextlib
import functools
import random
import socket
import struct
import threading
from collections import Counter, deque
from collections.abc import Iterator, Mapping

from aggregator.sandbox.ports import LOOPBACK

UP, DOWN = "up", "down"
_CHUNK = 16 * 1024
_QUEUED_BYTES = 64 * 1024
_FLAP_S = 0.7
# What a lost packet carries, and what it costs at least until it is sent again (RFC 6298 as Linux has it).
_PACKET_BYTES, _RETRANSMIT_S = 1448, 0.2
# SO_LINGER with no time left: close answers by RST, as a line does whose other end is gone.
_RESET = struct.pack("ii", 1, 0)


class Proxy:
    """One address in front of each broker of an edge; all share one line.

    Args:
        doors: Port to listen on, to the port behind it, all on loopback.

    Attributes:
        seen: `refused` and `reset` connections, bytes forwarded `up` (to the target) and `down`, and bytes that
            came while their direction was silent (`silent-up`, `silent-down`) or the line was slow (`slow-up`, …), and
            packets that were `lost`.
    """

    def __init__(self, doors: Mapping[int, int]) -> None:
        self.seen: Counter[str] = Counter()
        self._doors = doors
        self._is_cut = False
        self._elsewhere: int | None = None
        self._delay_s = 0.0
        self._bytes_per_s: float | None = None
        self._loss = 0.0
        self._dice = random.Random(min(doors))
        self._free_at = {UP: 0.0, DOWN: 0.0}
        self._open: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._clear = {UP: asyncio.Event(), DOWN: asyncio.Event()}
        for event in self._clear.values():
            event.set()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"proxy-{min(doors)}", daemon=True)
        self._thread.start()
        self._servers = [
            self._call(asyncio.start_server(functools.partial(self._accept, target), LOOPBACK, port))
            for port, target in doors.items()
        ]

    @property
    def address(self) -> str:
        """`host:port` of every door, with commas between, for clients."""
        return ",".join(f"{LOOPBACK}:{port}" for port in self._doors)

    def cut(self) -> None:
        """Reset every connection, and each new one at once."""
        self._is_cut = True
        self.reset()

    def lead_to(self, port: int | None) -> None:
        """Every door leads to this port from now on; None: to its own again. What is open is reset."""
        self._elsewhere = port
        self.reset()

    def reset(self) -> int:
        """Reset every connection that is open; new ones are welcome. Returns how many there were."""
        return self._call(self._reset())

    def silence(self, *directions: str) -> None:
        """Forward nothing more in these directions; connections stay open, and nobody is told."""
        for direction in directions:
            self._loop.call_soon_threadsafe(self._clear[direction].clear)

    def slow(self, *, bytes_per_s: float | None = None, delay_s: float = 0.0, loss: float = 0.0) -> None:
        """All connections share this rate in each direction, and every byte takes this much longer.

        A lost packet (a share of them, also of those that are sent again) is one that holds up all behind it: the ends
        of a TCP connection see no more of it.
        """
        self._bytes_per_s, self._delay_s, self._loss = bytes_per_s, delay_s, loss

    def heal(self) -> None:
        """A line as it should be."""
        self._is_cut = False
        self._elsewhere = None
        self.slow()
        for event in self._clear.values():
            self._loop.call_soon_threadsafe(event.set)

    def close(self) -> None:
        """Reset what is open and stop listening."""
        self.cut()
        self._call(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def _call(self, work):
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(20)

    async def _reset(self) -> int:
        count = len(self._open) // 2
        for writer in list(self._open):
            _abort(writer)
        self.seen["reset"] += count
        return count

    async def _end(self) -> None:
        for server in self._servers:
            server.close()
            await server.wait_closed()
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _accept(self, target: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_cut:
            self.seen["refused"] += 1
            _abort(writer)
            return
        try:
            there, onward = await asyncio.open_connection(LOOPBACK, self._elsewhere or target)
        except OSError:  # the broker is down: the client shall see that, too
            _abort(writer)
            return
        ends = {writer, onward}
        self._open |= ends
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._forward(reader, onward, UP))
                both.create_task(self._forward(there, writer, DOWN))
        except* (OSError, EOFError):
            pass
        finally:
            self._open -= ends
            for end in ends:
                _abort(end)

    async def _forward(self, source: asyncio.StreamReader, target: asyncio.StreamWriter, direction: str) -> None:
        """Read, wait as the line asks for, write; reading goes on meanwhile, so that delay does not cost throughput."""
        line: deque[tuple[float, bytes]] = deque()
        arrived, room = asyncio.Event(), asyncio.Event()

        async def take() -> None:
            while chunk := await source.read(_CHUNK):
                line.append((self._due(direction, len(chunk)), chunk))
                arrived.set()
                while sum(len(held) for _, held in line) > _QUEUED_BYTES:
                    room.clear()
                    await room.wait()
            raise EOFError

        async def give() -> None:
            while True:
                while not line:
                    arrived.clear()
                    await arrived.wait()
                due, chunk = line[0]
                await asyncio.sleep(max(0.0, due - self._loop.time()))
                if not self._clear[direction].is_set():
                    self.seen[f"silent-{direction}"] += len(chunk)
                    await self._clear[direction].wait()
                target.write(chunk)
                await target.drain()
                line.popleft()
                room.set()
                self.seen[direction] += len(chunk)

        async with asyncio.TaskGroup() as both:
            both.create_task(take())
            both.create_task(give())

    def _due(self, direction: str, size: int) -> float:
        """When a chunk that arrives now has passed the line."""
        now = self._loop.time()
        if self._bytes_per_s is None and not self._delay_s and not self._loss:
            return now
        self.seen[f"slow-{direction}"] += size
        begins = max(now, self._free_at[direction])
        self._free_at[direction] = begins + (size / self._bytes_per_s if self._bytes_per_s else 0.0)
        self._free_at[direction] += self._retransmits_s(-(-size // _PACKET_BYTES))
        return self._free_at[direction] + self._delay_s

    def _retransmits_s(self, packets: int) -> float:
        """How long those packets that are lost hold up the line: a timeout that doubles until none is missing."""
        waited, timeout = 0.0, _RETRANSMIT_S
        while packets := sum(self._dice.random() < self._loss for _ in range(packets)):
            self.seen["lost"] += packets
            waited += timeout
            timeout *= 2
        return waited


@contextlib.contextmanager
def flapping(proxy: Proxy, *, whole_s: float = _FLAP_S) -> Iterator[None]:
    """Cut and whole in turns while the block runs, and whole behind it."""
    over = threading.Event()

    def flap() -> None:
        while not over.is_set():
            proxy.cut()
            over.wait(_FLAP_S)
            proxy.heal()
            over.wait(whole_s)

    thread = threading.Thread(target=flap)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _abort(writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()
