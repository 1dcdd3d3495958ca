"""A client for the DonkeyCar simulator, or for a server of ours, that never hangs.

Every call ends within its time-out: with what was asked for, or with `SimulatorGone`. After that
the connection is closed; a new client is the way back. The simulator runs on while nobody reads, so
a call that asks for telemetry first takes in all that has come and returns the newest.
"""

import base64
import io
import socket
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from hotlap.config.naming import nearest
from hotlap.wire.codec import ReportDecoder, encode_command
from hotlap.wire.messages import (
    BadMessage,
    CarLoaded,
    Command,
    Control,
    ExitScene,
    GetNodePosition,
    GetSceneNames,
    LoadScene,
    NodePosition,
    Report,
    ResetCar,
    SceneNames,
    SceneSelectionReady,
    SetPosition,
    StartLine,
    StepMode,
    Telemetry,
)

READ_BYTES = 256 * 1024
FIRST_WAIT, LONGEST_WAIT = 0.1, 1.0
"""Seconds between tries to connect: each twice the one before."""
LOAD_SECONDS = 60.0
"""A scene may take so long to load."""
SETTLE = 0.3
"""Seconds after which the simulator's frames are surely from after a reset; ours say so."""
MENU_WAIT = 1.0
"""Seconds the simulator is given to go back to its menu, of which it says nothing."""
MOST_LINES = 1000
"""Line crossings kept until somebody asks."""

Said = TypeVar("Said", bound=Report)


class SimulatorGone(ConnectionError):
    """The simulator is not there, went away, fell silent or does not make sense."""


class DonkeyClient:
    """One connection, which is one car.

    Args:
        host: Where the simulator runs.
        port: Where it listens.
        patience: Seconds to go on trying to connect.
        timeout: Seconds that any other call may wait, unless it says otherwise.

    Raises:
        SimulatorGone: Nobody answers, or not in this protocol.
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 9091,
        *,
        patience: float = 10.0,
        timeout: float = 5.0,
    ) -> None:
        self.where = f"{host}:{port}"
        self.timeout = timeout
        self._decoder = ReportDecoder()
        self._newest: Telemetry | None = None
        self._returned = -1  # frame of the telemetry last returned
        self._frames = 0
        self._lines: deque[StartLine] = deque(maxlen=MOST_LINES)
        self._others: deque[Report] = deque(maxlen=16)
        self._in_scene = False
        self._socket: socket.socket | None = self._connect(host, port, patience)
        try:
            self._wait(lambda: self._in_scene or self._met(SceneSelectionReady), timeout, "greet")
        except SimulatorGone:
            self.close()
            raise

    def _connect(self, host: str, port: int, patience: float) -> socket.socket:
        deadline = time.monotonic() + patience
        pause = FIRST_WAIT
        while True:
            left = max(deadline - time.monotonic(), 0.1)
            try:
                sock = socket.create_connection((host, port), timeout=left)
            except OSError as error:
                if time.monotonic() + pause > deadline:
                    raise SimulatorGone(
                        f"no simulator at {self.where} ({error}) in {patience:g} s; "
                        f"start one by: hotlap serve --port {port}"
                    ) from error
                time.sleep(pause)
                pause = min(2 * pause, LONGEST_WAIT)
            else:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return sock

    # --- what can be asked for -----------------------------------------------------------------

    def scene_names(self) -> tuple[str, ...]:
        """What can be loaded; only in the menu does the simulator tell."""
        self.send(GetSceneNames())
        return self._hear(SceneNames, "say which scenes it has").scene_names

    def load(self, scene: str, timeout: float = LOAD_SECONDS) -> Telemetry:
        """Enter a scene; returns the first telemetry there.

        Raises:
            KeyError: The simulator has no such scene.
            SimulatorGone: It does not load it in time.
        """
        if self._in_scene:
            self.exit_scene()
        names = self.scene_names()
        if scene not in names and ":" not in scene:  # ours also has circuit:17 and the like
            raise KeyError(nearest(scene, names, "scene"))
        self._others.clear()
        self.send(LoadScene(scene))
        what = f"load {scene}"
        if scene not in names:
            what += f", which is not among {', '.join(names)},"
        self._wait(lambda: self._met(CarLoaded) or self._met(SceneNames), timeout, what)
        if not self._met(CarLoaded):  # ours tells again what there is; the simulator is silent
            raise KeyError(nearest(scene, names, "scene") + "; and roads such as circuit:17")
        self._others.clear()
        self._newest = None
        return self.telemetry(timeout=timeout)

    def control(self, steering: float, throttle: float, brake: float = 0.0) -> None:
        """Drive so from now on: steering -1 to 1, to the right; throttle -1 to 1; brake 0 to 1."""
        self.send(Control(float(steering), float(throttle), float(brake)))

    def telemetry(self, after: int | None = None, timeout: float | None = None) -> Telemetry:
        """The newest telemetry, once there is one later than `after`.

        Args:
            after: A frame's number; the one last returned, unless given.
            timeout: Seconds to wait for it.
        """
        seen = self._returned if after is None else after
        self._drain()
        self._wait(lambda: self._frame() > seen, timeout, "send telemetry")
        assert self._newest is not None
        self._returned = self._frame()
        return self._newest

    @property
    def frame(self) -> int:
        """Number of the newest frame that has come; -1 before the first."""
        return self._frame()

    def reset(self, timeout: float | None = None) -> Telemetry:
        """Put the car back to its start; returns telemetry from after that."""
        return self._put(ResetCar(), timeout)

    def set_position(
        self,
        x: float,
        y: float,
        z: float,
        rotation: tuple[float, float, float, float] | None = None,
        timeout: float | None = None,
    ) -> Telemetry:
        """Put the car somewhere, in raw units (telemetry times 8) and a quaternion (x, y, z, w)."""
        turn = (None, None, None, None) if rotation is None else rotation
        return self._put(SetPosition(x, y, z, *turn), timeout)

    def node_position(self, index: int, timeout: float | None = None) -> NodePosition:
        """Where a node of the path is, in raw units; one that does not exist is not answered."""
        self.send(GetNodePosition(index))
        return self._hear(NodePosition, f"say where node {index} is", timeout)

    def lockstep(self, on: bool = True) -> None:
        """Have the car wait for a control before every step; servers of ours only."""
        self.send(StepMode("synchronous" if on else "asynchronous"))

    def line_crossings(self) -> list[StartLine]:
        """Start lines crossed since this was last asked."""
        self._drain()
        crossed = list(self._lines)
        self._lines.clear()
        return crossed

    def exit_scene(self) -> None:
        """Go back to the menu; the simulator does so for everybody connected to it."""
        ours = self._newest is not None and self._newest.episode is not None
        self.send(ExitScene())
        self._in_scene = False
        if not ours:
            time.sleep(MENU_WAIT)

    def send(self, command: Command) -> None:
        """Say anything."""
        self._drain()  # one who waits to be read may not read
        sock = self._open_socket()
        try:
            sock.settimeout(self.timeout)
            sock.sendall(encode_command(command))
        except OSError as error:
            raise self._gone(f"does not take {command.msg_type} ({error})") from error

    def close(self) -> None:
        """Leave."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- listening -----------------------------------------------------------------------------

    def _put(self, command: Command, timeout: float | None) -> Telemetry:
        """Send what puts the car somewhere, and wait until it shows."""
        self._drain()
        before = self._newest
        self.send(command)
        if before is not None and before.episode is not None:
            episode = before.episode
            self._wait(
                lambda: self._newest is not None and (self._newest.episode or 0) > episode,
                timeout,
                f"answer {command.msg_type}",
            )
        else:  # the simulator does not say which frames are from after it
            time.sleep(SETTLE)
            self._drain()
            if self._newest is not None:  # nothing that it hit before
                self._newest = replace(self._newest, hit="none")
        return self.telemetry(self._frame() - 1, timeout)

    def _frame(self) -> int:
        return -1 if self._newest is None or self._newest.frame is None else self._newest.frame

    def _met(self, kind: type[Report]) -> bool:
        return any(isinstance(report, kind) for report in self._others)

    def _hear(self, kind: type[Said], what: str, timeout: float | None = None) -> Said:
        """Wait for a report of a kind, and take it."""
        self._wait(lambda: self._met(kind), timeout, what)
        found: list[Said] = [report for report in self._others if isinstance(report, kind)]
        for report in found:
            self._others.remove(report)
        return found[-1]

    def _wait(self, reached: Callable[[], bool], timeout: float | None, what: str) -> None:
        """Take in what comes until something is reached."""
        allowed = self.timeout if timeout is None else timeout
        deadline = time.monotonic() + allowed
        while not reached():
            left = deadline - time.monotonic()
            if left <= 0 or not self._take_in(left):
                raise self._gone(f"did not {what} within {allowed:g} s")

    def _drain(self) -> None:
        """Take in all that has come; someone who never stops sending is not waited for."""
        deadline = time.monotonic() + self.timeout
        while self._take_in(0.0):
            if time.monotonic() > deadline:
                raise self._gone(f"sends faster than it can be read, for {self.timeout:g} s now")

    def _take_in(self, seconds: float) -> bool:
        """Take in what comes within some seconds; False where nothing does."""
        sock = self._open_socket()
        try:
            sock.settimeout(seconds)
            data = sock.recv(READ_BYTES)
        except (TimeoutError, BlockingIOError):
            return False
        except OSError as error:
            raise self._gone(f"broke the connection ({error})") from error
        if not data:
            raise self._gone("closed the connection")
        try:
            reports = self._decoder.feed(data)
        except BadMessage as error:
            raise self._gone(f"does not speak the DonkeyCar protocol: {error}") from error
        for report in reports:
            self._note(report)
        return True

    def _note(self, report: Report) -> None:
        match report:
            case Telemetry():
                self._in_scene = True
                self._frames += 1
                frame = self._frames if report.frame is None else report.frame
                self._newest = replace(report, frame=frame, hit=self._hit_until(report))
            case StartLine():
                self._lines.append(report)
            case _:
                self._in_scene |= isinstance(report, CarLoaded)
                self._others.append(report)

    def _hit_until(self, report: Telemetry) -> str:
        """What the car hit since telemetry was last returned: it is told of once, in one frame."""
        missed = self._newest
        if report.hit != "none" or missed is None or missed.episode != report.episode:
            return report.hit
        return missed.hit if self._frame() > self._returned else "none"

    def _open_socket(self) -> socket.socket:
        if self._socket is None:
            raise SimulatorGone(f"the connection to {self.where} is closed")
        return self._socket

    def _gone(self, why: str) -> SimulatorGone:
        self.close()
        return SimulatorGone(f"the simulator at {self.where} {why}")


def decode_picture(packed: str, width: int, height: int) -> NDArray[np.uint8]:
    """A picture from telemetry (height, width, 3).

    Raises:
        ValueError: It has another size.
        SimulatorGone: It is no picture.
    """
    try:
        with Image.open(io.BytesIO(base64.b64decode(packed))) as image:
            size = image.size
            pixels = np.asarray(image.convert("RGB")) if size == (width, height) else None
    except (ValueError, OSError, Image.DecompressionBombError) as error:
        raise SimulatorGone(f"the simulator sent a picture that cannot be read: {error}") from error
    if pixels is None:
        raise ValueError(
            f"the simulator sends pictures of {size[0]} x {size[1]} pixels, "
            f"{width} x {height} were expected; send it a cam_config with img_w and img_h"
        )
    return pixels
