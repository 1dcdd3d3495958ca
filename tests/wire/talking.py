"""Talking to a server by hand."""

import asyncio
import functools
import json
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from typing import Any, ParamSpec, Self

from hotlap.wire.server.serving import Server

P = ParamSpec("P")


def patient(test: Callable[P, None]) -> Callable[P, None]:
    """A test of times, run up to three times: something else on this machine may have been it."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        for _ in range(2):
            with suppress(AssertionError):
                return test(*args, **kwargs)
        return test(*args, **kwargs)

    return run


class Running:
    """A server in another thread."""

    def __init__(self) -> None:
        self.ready = threading.Event()
        self.lines: list[str] = []
        self.summary: dict[str, Any] = {}
        self.may_fail = False

    def begin(self, server: Server, loop: asyncio.AbstractEventLoop) -> None:
        self.server, self._loop = server, loop
        self.port = server.port
        self.ready.set()

    def stop(self) -> None:
        with suppress(RuntimeError):  # it has ended already
            self._loop.call_soon_threadsafe(self.server.stop)

    def said(self, words: str, seconds: float = 10.0) -> str:
        """The first line with some words in it, once there is one."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for line in self.lines:
                if words in line:
                    return line
            time.sleep(0.02)
        raise AssertionError(f"nothing about {words!r} in {self.lines}")


class Talk:
    """A socket that speaks JSON."""

    def __init__(self, port: int, scene: str | None = None, receive_bytes: int = 0) -> None:
        self.socket = socket.socket()
        if receive_bytes:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.socket.settimeout(20)
        self.socket.connect(("127.0.0.1", port))
        self._buffer = b""
        if scene is not None:
            self.wait("scene_selection_ready")
            self.load(scene)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def say(self, kind: str, **fields: object) -> None:
        values = {name: str(value) for name, value in fields.items()}
        self.socket.sendall(json.dumps({"msg_type": kind, **values}).encode())

    def load(self, scene: str) -> None:
        self.say("load_scene", scene_name=scene)
        self.wait("car_loaded")

    def hear(self, seconds: float = 20.0) -> dict[str, Any]:
        """The next message; keep-alives are passed over."""
        end = time.monotonic() + seconds
        while True:
            while b"\n" not in self._buffer:
                self.socket.settimeout(max(end - time.monotonic(), 0.001))
                data = self.socket.recv(65536)
                if not data:
                    raise EOFError
                self._buffer += data
            line, self._buffer = self._buffer.split(b"\n", 1)
            if line != b"{}":
                message: dict[str, Any] = json.loads(line)
                return message

    def wait(self, kind: str, seconds: float = 20.0) -> dict[str, Any]:
        """The next message of a kind."""
        end = time.monotonic() + seconds
        while True:
            message = self.hear(end - time.monotonic())
            if message["msg_type"] == kind:
                return message

    def frame(self, seconds: float = 20.0) -> dict[str, Any]:
        return self.wait("telemetry", seconds)

    def hush(self, seconds: float) -> list[str]:
        """What comes within some seconds."""
        end, heard = time.monotonic() + seconds, []
        try:
            while True:
                heard.append(self.hear(end - time.monotonic())["msg_type"])
        except TimeoutError:
            return heard

    def is_closed(self, seconds: float = 20.0) -> bool:
        """Whether the other side closes, after whatever it still sends."""
        end = time.monotonic() + seconds
        try:
            while time.monotonic() < end:
                self.socket.settimeout(max(end - time.monotonic(), 0.001))
                if not self.socket.recv(65536):
                    return True
        except TimeoutError:
            return False
        except ConnectionError:
            return True
        return False


class Steady(threading.Thread):
    """A client that drives on and notes when its frames come."""

    def __init__(self, port: int, scene: str = "generated_track") -> None:
        super().__init__(daemon=True)
        self.talk = Talk(port, scene)
        self.times: list[float] = []
        self.frames: list[int] = []
        self.error: Exception | None = None
        self._over = threading.Event()

    def run(self) -> None:
        try:
            while not self._over.is_set():
                frame = self.talk.frame()
                self.times.append(time.monotonic())
                self.frames.append(frame["frame"])
                self.talk.say("control", steering=0, throttle=0.05, brake=0)
        except Exception as error:
            self.error = error

    def __enter__(self) -> Self:
        self.start()
        self.wait_for(12)
        self._alone = self._rate(0)
        self._begin = len(self.times) - 1
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join()
        self.talk.socket.close()

    def wait_for(self, frames: int, seconds: float = 20.0) -> None:
        """Until so many frames have come since the beginning."""
        end = time.monotonic() + seconds
        while len(self.frames) < frames:
            assert self.error is None, self.error
            assert time.monotonic() < end, f"{len(self.frames)} of {frames} frames"
            time.sleep(0.02)

    def _rate(self, begin: int) -> float:
        return (len(self.times) - 1 - begin) / (self.times[-1] - self.times[begin])

    def rate(self) -> float:
        """Frames a second since it was alone."""
        return self._rate(self._begin)

    def has_every_frame(self) -> bool:
        assert self.error is None, self.error
        return {b - a for a, b in pairwise(self.frames)} == {1}

    def undisturbed(self, share: float = 0.6) -> bool:
        """Whether every frame came, about as often as before the others did."""
        return self.has_every_frame() and self.rate() > share * self._alone
