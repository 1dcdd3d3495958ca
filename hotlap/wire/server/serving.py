"""The server: who is connected, when cars move, and how it begins and ends.

The event loop reads, writes and keeps time. Cars move and pictures are drawn in a thread of their
own, for all clients at once; scenes are built in another. So nobody waits for another's bytes.
Where a batch takes longer than a real step, those who cost more than their share are charged for
it, and whoever is in debt gets no frame until time has paid for it.
"""

import asyncio
import errno
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import torch

from hotlap.config.serving import ServeConfig
from hotlap.wire.server.connection import Connection
from hotlap.wire.server.library import Library
from hotlap.wire.server.world import Answer, World

CHECK_EVERY = 0.5
"""Seconds between looks for clients that are gone."""
BUSY = 0.9
"""Share of a real step that a batch may take before anyone is charged for it."""
LENT = 0.5
"""Share of the time that pays debts, less what was spent."""
REPEAT_CHECK = 0.05
"""Seconds between looks for clients in lockstep that wait to be told something."""


def serve(config: ServeConfig) -> dict[str, Any]:
    """Serve until interrupted; return what it came to."""
    torch.set_num_threads(1)
    return asyncio.run(_serve(config))


async def _serve(config: ServeConfig) -> dict[str, Any]:
    server = Server(config)
    await server.start()
    loop = asyncio.get_running_loop()
    with suppress(NotImplementedError):  # not on Windows, where Ctrl-C cancels this instead
        for name in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(name, server.stop)
    try:
        await server.run()
    finally:
        await server.close()
    return server.summary()


def _print(text: str) -> None:
    for line in text.splitlines():
        with suppress(OSError):  # nobody reads it any more, which is no reason to stop
            if _takes_a_line():
                print(line, flush=True)


def _takes_a_line() -> bool:
    """Whether printing would not wait for a reader: a pipe that nobody empties fills up."""
    try:
        return bool(select.select([], [sys.stdout], [], 0)[1])
    except (OSError, ValueError):  # no file, or one that cannot be asked
        return True


class Server:
    """Listens, and moves every client's car.

    Args:
        config: Where and how.
        say: Where lines for the user go.
    """

    def __init__(self, config: ServeConfig, say: Callable[[str], None] = _print) -> None:
        self.config = config
        self.library = Library()
        self.port = config.port
        self.connections: dict[int, Connection] = {}
        """By seat."""
        self.say = say
        self._world = World(config.clients)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="world")
        self._free = list(reversed(range(config.clients)))
        self._numbers = 0
        counted = ("clients", "refused", "frames", "dropped", "crossings", "ignored")
        self._totals = dict.fromkeys(counted, 0)
        self._woken = asyncio.Event()
        self._stopped = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._began = self._shared = time.monotonic()

    async def start(self) -> None:
        """Listen and run.

        Raises:
            ValueError: The address cannot be listened on.
        """
        config = self.config
        loop = asyncio.get_running_loop()
        try:
            self._listener = await loop.create_server(self._connect, config.host, config.port)
        except OSError as error:
            raise ValueError(_why_not(config, error)) from error
        self.port = self._listener.sockets[0].getsockname()[1]
        self._tasks = [loop.create_task(self._run()), loop.create_task(self._check())]
        pace = "in lockstep" if config.lockstep else f"at {config.speed:g} x real time"
        self.say(f"listening on {config.host}:{self.port}, {pace}; Ctrl-C ends it")
        if config.is_open:
            self.say(
                f"warning: {config.host} lets anyone who reaches this machine connect; "
                "there is no password and nothing is encrypted"
            )

    async def run(self) -> None:
        """Until somebody says stop, or something of the server's own fails."""
        stopped = asyncio.ensure_future(self._stopped.wait())
        done, _ = await asyncio.wait([stopped, *self._tasks], return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        for task in done - {stopped}:
            task.result()

    def stop(self) -> None:
        """Have `run` return."""
        self._stopped.set()

    async def close(self) -> None:
        """Send everybody away and stop."""
        self._listener.close()
        for connection in list(self.connections.values()):
            connection.leave("the server ends")
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(0)  # connections say goodbye
        self._thread.shutdown(cancel_futures=True)
        self.library.close()

    def summary(self) -> dict[str, Any]:
        """What it came to, in plain values."""
        seconds = round(time.monotonic() - self._began, 1)
        return {"host": self.config.host, "port": self.port, "seconds": seconds, **self._totals}

    # --- clients -------------------------------------------------------------------------------

    def _connect(self) -> Connection:
        self._numbers += 1
        return Connection(self, self._numbers)

    def seat(self, connection: Connection) -> int | None:
        """A free place, or None."""
        if not self._free:
            return None
        seat = self._free.pop()
        self.connections[seat] = connection
        self._totals["clients"] += 1
        count = f"{len(self.connections)} of {self.config.clients}"
        self.say(f"client {connection.number} connected from {connection.address}, {count}")
        return seat

    def left(self, connection: Connection, reason: str) -> None:
        """A client is gone: take its car away, and give its place to others."""
        tally = connection.tally
        if connection.seat < 0:
            self._totals["refused"] += 1
            self.say(f"client {connection.number} turned away: {reason}")
            return
        for name in ("frames", "dropped", "crossings", "ignored"):
            self._totals[name] += getattr(tally, name)
        self.say(
            f"client {connection.number} left: {reason}; {tally.frames} frames, "
            f"{tally.dropped} left out, {tally.crossings} line crossings, {tally.ignored} ignored"
        )
        del self.connections[connection.seat]
        # Its thread takes things in turn: whoever sits here next comes after this.
        with suppress(RuntimeError):  # where the server has ended
            self._thread.submit(self._world.vacate, connection.seat)
            self._free.append(connection.seat)

    # --- time ----------------------------------------------------------------------------------

    def wake(self) -> None:
        """There is something to do before the next tick."""
        self._woken.set()

    async def _run(self) -> None:
        """Move cars: all that run free at every tick, those in lockstep when they are told to."""
        loop = asyncio.get_running_loop()
        period = self._world.dt / self.config.speed
        due = loop.time()
        while True:
            present = list(self.connections.values())
            if not any(connection.is_waiting for connection in present):
                running = any(connection.runs_free for connection in present)
                await self._wait(due - loop.time() if running else REPEAT_CHECK)
            late = loop.time() - due
            if late >= 0:  # a step that could not be kept is not made up for
                due += period if late < period else period + late
            await self._play(ticking=late >= 0)

    async def _wait(self, seconds: float) -> None:
        """Until a tick is due, or somebody in lockstep wants to go on."""
        self._woken.clear()
        if seconds > 0:
            # asyncio.wait_for may lose a cancellation that comes together with its time-out.
            timer = asyncio.get_running_loop().call_later(seconds, self._woken.set)
            try:
                await self._woken.wait()
            finally:
                timer.cancel()

    async def _play(self, ticking: bool) -> None:
        given = []
        for connection in list(self.connections.values()):
            order = connection.order(ticking)
            if order is not None:
                given.append((connection, connection.epoch, order))
        if not given:
            self._share_out(0.0, [])
            return
        loop = asyncio.get_running_loop()
        orders = [order for _, _, order in given]
        began = loop.time()
        try:
            answers = await loop.run_in_executor(self._thread, self._world.play, orders)
        except Exception:
            answers = [Answer(failure=traceback.format_exc()) for _ in given]
        costs = []
        for (connection, epoch, _), answer in zip(given, answers, strict=True):
            connection.deliver(answer, epoch)
            costs.append((connection, answer.cost))
        self._share_out(loop.time() - began, costs)

    def _share_out(self, spent: float, costs: list[tuple[Connection, float]]) -> None:
        """Charge for a batch that took too long; let time that passes pay debts.

        Only those are charged who cost more processor time than their share, and they are charged
        for the time that others had to wait.
        """
        present = list(self.connections.values())
        budget, whole = BUSY * self._world.dt, sum(cost for _, cost in costs)
        if spent > budget and len(present) > 1:
            for connection, cost in costs:
                if cost > budget / len(present):
                    connection.charge(spent * cost / whole)
        now = time.monotonic()
        earned, self._shared = LENT * (now - self._shared), now
        debtors = [connection for connection in present if connection.is_in_debt]
        for connection in debtors:
            connection.charge(-max(earned / len(present), (earned - spent) / len(debtors)))

    async def _check(self) -> None:
        while True:
            await asyncio.sleep(CHECK_EVERY)
            for connection in list(self.connections.values()):
                connection.check()


def _why_not(config: ServeConfig, error: OSError) -> str:
    """Why an address cannot be listened on, and what to write instead."""
    where = f"{config.host}:{config.port}"
    if error.errno == errno.EADDRINUSE:
        return (
            f"{where} is taken, perhaps by another simulator; "
            f"write --port {config.port + 2} or another, or --port 0 for any that is free"
        )
    if error.errno == errno.EACCES:
        return f"{where} needs rights that this user does not have; write --port 9091 or higher"
    return f"cannot listen on {where}: {error.strerror or error}; write --host 127.0.0.1"
