"""Servers of our own in threads, and simulators that are played."""

import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from ...wire.conftest import Serving, serving
from .played import Part

__all__ = ["Playing", "Serving", "serving"]

Playing = Callable[[Part], int]


@pytest.fixture
def playing() -> Iterator[Playing]:
    """Play the simulator's part for every client that comes; the port it listens on."""
    listeners: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def play(part: Part) -> int:
        listener = socket.create_server(("127.0.0.1", 0))
        listener.settimeout(20)
        listeners.append(listener)

        def run() -> None:
            while True:
                try:
                    sock, _ = listener.accept()
                except OSError:  # the test is over
                    return
                with sock:
                    sock.settimeout(20)
                    part(sock)

        threads.append(threading.Thread(target=run, daemon=True))
        threads[-1].start()
        return int(listener.getsockname()[1])

    yield play
    for listener in listeners:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
