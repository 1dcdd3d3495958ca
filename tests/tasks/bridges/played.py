"""Simulators in the real one's manner: they run on, number no frames and know no lockstep."""

import base64
import io
import socket
import time
from collections.abc import Callable

from PIL import Image

from hotlap.wire.codec import CommandDecoder, encode_report
from hotlap.wire.messages import (
    CamConfig,
    CamConfigB,
    CarLoaded,
    Command,
    Control,
    GetSceneNames,
    LoadScene,
    SceneNames,
    SceneSelectionReady,
    StartLine,
    Telemetry,
)

Part = Callable[[socket.socket], None]


def packed(width: int, height: int, mode: str = "RGB") -> str:
    """A picture as telemetry carries it: all of one colour, whose luminance is 124."""
    buffer = io.BytesIO()
    colour = (10, 200, 30) if mode == "RGB" else 124
    Image.new(mode, (width, height), colour).save(buffer, "PNG")
    return base64.b64encode(buffer.getvalue()).decode()


def silent(sock: socket.socket) -> None:
    """Take what comes and say nothing."""
    try:
        while sock.recv(65536):
            pass
    except OSError:
        return


class Simulator:
    """One that follows a few commands.

    Args:
        frame: From its count of frames since the last control to what it tells; None is nothing.
        size: Of its pictures where nobody may mount the camera; None follows cam_config.
        delay: Seconds between a control and the frame that answers it.
        mode: Of its pictures, for Pillow.
    """

    def __init__(
        self,
        tell: Callable[[int], dict[str, object]] | None = None,
        size: tuple[int, int] | None = None,
        delay: float = 0.02,
        mode: str = "RGB",
    ) -> None:
        self.tell = tell or (lambda _: {})
        self.size, self.delay, self.mode = size, delay, mode
        self.heard: list[Command] = []
        self.lines: list[StartLine] = []
        self.mute = False

    def __call__(self, sock: socket.socket) -> None:
        self._size, self._driving, self._count = self.size or (160, 120), False, 0
        self._due = time.monotonic()
        sock.sendall(encode_report(SceneSelectionReady()))
        decoder = CommandDecoder()
        try:
            while True:
                sock.settimeout(0.005)
                try:
                    data = sock.recv(8142)
                    if not data:
                        return
                    for command in decoder.feed(data):
                        self._obey(command, sock)
                except TimeoutError:
                    pass
                if self._driving and not self.mute and time.monotonic() >= self._due:
                    self._report(sock)
        except OSError:
            return

    def _report(self, sock: socket.socket) -> None:
        self._count += 1
        self._due = time.monotonic() + self.delay
        told: dict[str, object] = {"cte": 0.5, "vel_z": 1.0, "speed": 1.0} | self.tell(self._count)
        for line in self.lines:
            sock.sendall(encode_report(line))
        self.lines.clear()
        image = packed(*self._size, self.mode)
        sock.sendall(encode_report(Telemetry(0.0, 0.0, image, **told)))  # type: ignore[arg-type]

    def _obey(self, command: Command, sock: socket.socket) -> None:
        self.heard.append(command)
        match command:
            case GetSceneNames():
                sock.sendall(encode_report(SceneNames(("warehouse", "waveshare"))))
            case LoadScene():
                self._driving = True
                sock.sendall(encode_report(CarLoaded()))
            case CamConfigB():
                pass
            case CamConfig():
                self._size = self.size or (command.img_w, command.img_h)
            case Control():
                self._due, self._count = time.monotonic() + self.delay, 0
