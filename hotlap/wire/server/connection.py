"""One client: its bytes, its place in the protocol, and the limits it is held to.

    mailbox   what its car has been told and has not done yet
    debt      seconds of work done for it beyond its share
    epoch     counts what makes telemetry under way obsolete: resets, moves, loads

Everything here runs on the event loop and takes microseconds; cars move elsewhere. A client that
sends too much is read more slowly; one that reads too little is sent fewer frames, and so is one
whose frames cost more than its share when there is not time enough for all.
"""

import asyncio
import socket
import traceback
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from hotlap.config.serving import ServeConfig
from hotlap.wire.codec import CommandDecoder, encode_report
from hotlap.wire.messages import (
    Command,
    Control,
    ExitScene,
    GetProtocolVersion,
    GetSceneNames,
    LoadScene,
    ProtocolVersion,
    QuitApp,
    RegenRoad,
    Report,
    ResetCar,
    SceneNames,
    SceneSelectionReady,
    SetPosition,
    StepMode,
)
from hotlap.wire.server.library import Library
from hotlap.wire.server.scenes import MENU, RANDOM_ROAD, Scene
from hotlap.wire.server.world import Answer, Arrival, Order

READ_BYTES = 8192
"""Read at a time, so that no client holds up the event loop for long."""
BYTES_PER_MESSAGE = 1024
"""Bytes that count as one more message against the limit of messages per second."""
MOST_WAITING = 256
"""Commands in a mailbox from which on its client is not read."""
MOST_AT_ONCE = 32
"""Commands carried out in one step: putting a car somewhere takes most of a millisecond."""
SEND_BYTES = 128 * 1024
"""Kept by the system for a client: about a second of frames, so that none is much older."""
WAITING_BYTES = 64 * 1024
"""Kept beyond that before frames are left out."""
HELLO_AFTER = 0.05
"""Seconds before the first message: gym-donkeycar may not be listening at once."""
KEEP_ALIVE = 3.0
"""Seconds of silence after which an empty object is sent, as the simulator does."""
FAILED = "the server failed on it; see above"
MOVING = 0.02
"""Speed from which a car counts as moving, m/s."""

Finding = Callable[[], Coroutine[Any, Any, Scene]]
"""A scene being looked up or built."""


class Host(Protocol):
    """What a connection needs of the server."""

    config: ServeConfig
    library: Library

    def seat(self, connection: "Connection") -> int | None:
        """A free place, or None."""

    def left(self, connection: "Connection", reason: str) -> None:
        """A client is gone."""

    def wake(self) -> None:
        """There is something to do before the next tick."""

    def say(self, line: str) -> None:
        """Tell the user."""


@dataclass
class Tally:
    """What a connection has come to."""

    frames: int = 0
    dropped: int = 0
    """Frames left out because the client did not read, or asked for too much."""
    crossings: int = 0
    """Of start lines."""
    ignored: int = 0
    """Messages that were malformed, unknown or out of place."""


class Connection(asyncio.BufferedProtocol):
    """One client of the server.

    Args:
        host: The server.
        number: What the client is called in the output.
    """

    def __init__(self, host: Host, number: int) -> None:
        self.host = host
        self.number = number
        self.seat = -1
        self.tally = Tally()
        self.lockstep = host.config.lockstep
        self.epoch = 0
        self.scene: str | None = None
        """Where the car is; None in the menu."""
        self.address = "?"
        self._loop = asyncio.get_running_loop()
        self._decoder = CommandDecoder(host.config.message_bytes)
        self._room = bytearray(READ_BYTES)
        self._mailbox: deque[Command | Arrival] = deque()
        self._loading: asyncio.Task[None] | None = None
        self._held: set[str] = set()
        self._allowance = host.config.messages_per_second
        self._reason: str | None = None
        now = self._loop.time()
        self._counted = self._heard = self._moved = self._sent = self._told = now
        self._full_since: float | None = None
        self._debt = 0.0

    # --- bytes in ------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Greet a client, or turn it away where all places are taken."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        peer = transport.get_extra_info("peername")
        self.address = f"{peer[0]}:{peer[1]}" if peer else "?"
        seat = self.host.seat(self)
        if seat is None:
            self._reason = f"all {self.host.config.clients} places are taken (--clients)"
            transport.abort()
            return
        self.seat = seat
        transport.set_write_buffer_limits(high=WAITING_BYTES, low=WAITING_BYTES // 4)
        _tune(transport.get_extra_info("socket"), self.host.config.slow_seconds)
        self._loop.call_later(HELLO_AFTER, self._greet)

    def _greet(self) -> None:
        if self.scene is None and self._loading is None:
            self._send(SceneSelectionReady())

    def get_buffer(self, sizehint: int) -> bytearray:
        """Room for the next bytes."""
        return self._room

    def buffer_updated(self, nbytes: int) -> None:
        """Take bytes that have come."""
        known = self._decoder.malformed + self._decoder.unknown
        commands = self._decoder.feed(bytes(self._room[:nbytes]))
        ignored = self._decoder.malformed + self._decoder.unknown - known
        self.tally.ignored += ignored
        self._heard = self._loop.time()
        for command in commands:
            self._receive(command)
        self._count(len(commands) + ignored + nbytes / BYTES_PER_MESSAGE)

    def _count(self, cost: float) -> None:
        """Count messages; one who has sent too many is not read until that is made up for."""
        rate = self.host.config.messages_per_second
        now = self._loop.time()
        earned = self._allowance + (now - self._counted) * rate
        self._allowance, self._counted = min(earned, rate) - cost, now
        if self._allowance < 0:
            self._hold("rate")
            self._loop.call_later(-self._allowance / rate, self._release, "rate")

    def _hold(self, why: str) -> None:
        """Stop reading."""
        if not self._held and not self._transport.is_closing():
            self._transport.pause_reading()
        self._held.add(why)

    def _release(self, why: str) -> None:
        """Read on, unless there is another reason not to."""
        if why in self._held:
            self._held.remove(why)
            if not self._held and not self._transport.is_closing():
                self._transport.resume_reading()

    # --- what a client says --------------------------------------------------------------------

    def _receive(self, command: Command) -> None:
        match command:
            case GetProtocolVersion():
                self._send(ProtocolVersion())
            case GetSceneNames():
                self._send(SceneNames(MENU))
            case QuitApp():
                self.leave("it said quit_app")
            case StepMode():
                self.lockstep = command.step_mode.lower() == "synchronous"
            case LoadScene():
                self._load(partial(self.host.library.named, command.scene_name), anew=True)
            case RegenRoad() if self.scene == RANDOM_ROAD:
                told = command.rand_seed, command.road_style, command.turn_increment
                self._load(partial(self.host.library.road, *told), anew=False)
            case ExitScene():
                self._outdate()
                self.scene = None
                self._mailbox.append(command)
            case _:
                self._post(command)
        self._wake()

    def _post(self, command: Command) -> None:
        """Leave a command for the car."""
        in_menu = self.scene is None and self._loading is None
        if in_menu or isinstance(command, RegenRoad):
            self.tally.ignored += 1
            return
        if isinstance(command, ResetCar | SetPosition):
            self.epoch += 1
        last = self._mailbox[-1] if self._mailbox else None
        if isinstance(command, Control) and isinstance(last, Control) and not self.lockstep:
            self._mailbox[-1] = command
        else:
            self._mailbox.append(command)
        if len(self._mailbox) >= MOST_WAITING:
            self._hold("mailbox")

    def _outdate(self) -> None:
        """What was under way no longer counts."""
        self.epoch += 1
        self._mailbox.clear()
        self._release("mailbox")
        if self._loading is not None:
            self._loading.cancel()
            self._loading = None

    def _wake(self) -> None:
        """In lockstep, there is something to do before the next tick."""
        if self.lockstep:
            self.host.wake()

    def _load(self, find: Finding, anew: bool) -> None:
        """Go to a scene as soon as it is built; not anew where only its road is another."""
        self._outdate()
        self._loading = self._loop.create_task(self._arrive(find, anew))

    async def _arrive(self, find: Finding, anew: bool) -> None:
        try:
            scene = await find()
        except (KeyError, ValueError) as error:
            # The simulator says nothing; a client that waits is told once more what there is.
            self.tally.ignored += 1
            self._send(SceneNames(MENU))
            self.host.say(f"client {self.number}: {error.args[0]}")
        except Exception:
            self.host.say(traceback.format_exc())
            self.leave(FAILED)
        else:
            self.scene = scene.name
            self._mailbox.appendleft(Arrival(scene, anew))
        self._loading = None
        self._wake()

    # --- what its car is to do -----------------------------------------------------------------

    def order(self, ticking: bool) -> Order | None:
        """What to do now, if anything; `ticking` where a step of free-running cars is due."""
        if self._loading is not None or (self.scene is None and not self._mailbox):
            return None
        if self.lockstep:
            return self._order_in_lockstep()
        if not ticking:
            return None
        behind = self.is_in_debt
        count = 0 if behind else min(len(self._mailbox), MOST_AT_ONCE)
        commands = tuple(self._mailbox.popleft() for _ in range(count))
        self._make_room()
        look = self._full_since is None and not behind
        self.tally.dropped += not look
        return Order(self.seat, commands, step=True, look=look)

    def _order_in_lockstep(self) -> Order | None:
        """Up to the next control, which is a step, or to what puts the car somewhere."""
        if self._full_since is not None or self.is_in_debt:
            return None
        commands: list[Command | Arrival] = []
        step = look = False
        while self._mailbox and not look:
            commands.append(self._mailbox.popleft())
            step = isinstance(commands[-1], Control)
            look = step or isinstance(commands[-1], Arrival | ResetCar | SetPosition)
        self._make_room()
        waiting = self._loop.time() - self._told >= self.host.config.repeat_seconds
        if not commands and not waiting:
            return None
        return Order(self.seat, tuple(commands), step=step, look=look or waiting)

    def _make_room(self) -> None:
        """Read on once most of the mailbox is done."""
        if len(self._mailbox) < MOST_WAITING // 2:
            self._release("mailbox")

    @property
    def runs_free(self) -> bool:
        """Whether its car moves with every tick."""
        return self.scene is not None and self._loading is None and not self.lockstep

    @property
    def is_waiting(self) -> bool:
        """Whether it has something to do before the next tick."""
        if self._full_since is not None or self.is_in_debt:
            return False
        return self.lockstep and self._loading is None and bool(self._mailbox)

    @property
    def is_in_debt(self) -> bool:
        """Whether more was done for it than its share."""
        return self._debt > 0

    def charge(self, seconds: float) -> None:
        """Note work done for it; a negative amount makes up for some."""
        self._debt = max(self._debt + seconds, 0.0)

    def deliver(self, answer: Answer, epoch: int) -> None:
        """Send what came of an order that was given in `epoch`."""
        if answer.failure is not None:
            self.host.say(answer.failure)
            self.leave(FAILED)
            return
        for report in answer.reports:
            self._write(report)
        if answer.moved > MOVING:
            self._moved = self._loop.time()
        if epoch != self.epoch:
            return
        for line in answer.lines:
            self.tally.crossings += 1
            self._write(line)
        if answer.telemetry is not None:
            self._told = self._loop.time()
            self.tally.frames += 1
            self._write(answer.telemetry)

    # --- bytes out -----------------------------------------------------------------------------

    def _send(self, report: Report) -> None:
        self._write(encode_report(report))

    def _write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._sent = self._loop.time()
            self._transport.write(data)

    def pause_writing(self) -> None:
        """The client does not read; until it does, it is not read either."""
        self._full_since = self._loop.time()
        self._hold("writing")

    def resume_writing(self) -> None:
        """The client reads again."""
        self._full_since = None
        self._release("writing")
        self._wake()

    # --- the end -------------------------------------------------------------------------------

    def check(self) -> None:
        """Keep the connection alive, or end it where nobody is there; asked now and then."""
        now, config = self._loop.time(), self.host.config
        if self._full_since is not None:
            if now - self._full_since > config.slow_seconds:
                self.leave(f"it has read nothing for {config.slow_seconds:g} s")
        elif now - max(self._heard, self._moved) > config.idle_seconds:
            self.leave(f"it has said nothing for {config.idle_seconds:g} s and its car stands")
        elif now - self._sent > KEEP_ALIVE:
            self._write(b"{}\n")

    def leave(self, reason: str) -> None:
        """Disconnect."""
        self._reason = self._reason or reason
        self._transport.abort()

    def eof_received(self) -> None:
        """The client is done, so the connection is closed."""
        self._reason = self._reason or "it closed the connection"

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over."""
        if self._loading is not None:
            self._loading.cancel()
        said = getattr(exc, "strerror", None) or exc
        reason = self._reason or (f"{said}" if said else "it closed the connection")
        self.host.left(self, reason)


def _tune(sock: socket.socket, slow_seconds: float) -> None:
    """Small buffers, and notice when the other machine is gone."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BYTES)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        milliseconds = int(2000 * slow_seconds)  # later than we do, who can say why
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
