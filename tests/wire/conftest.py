"""A server in a thread, and a bare socket to talk to it."""

import asyncio
import threading
from collections.abc import Callable, Iterator

import pytest
import torch

from hotlap.config.serving import ServeConfig
from hotlap.wire.server.serving import Server

from .talking import Running

Serving = Callable[..., Running]


@pytest.fixture
def serving() -> Iterator[Serving]:
    """Start servers on free ports; they end with the test."""
    torch.set_num_threads(1)
    begun: list[tuple[Running, threading.Thread]] = []

    def start(**settings: object) -> Running:
        running = Running()
        config = ServeConfig(**{"port": 0, **settings})
        thread = threading.Thread(target=lambda: asyncio.run(_serve(config, running)))
        thread.start()
        begun.append((running, thread))
        assert running.ready.wait(30), "the server did not start"
        return running

    yield start
    for running, thread in begun:
        running.stop()
        thread.join(30)
        assert not thread.is_alive()
    for running, _ in begun:
        assert running.may_fail or "Traceback" not in "\n".join(running.lines)


async def _serve(config: ServeConfig, running: Running) -> None:
    server = Server(config, running.lines.append)
    await server.start()
    running.begin(server, asyncio.get_running_loop())
    try:
        await server.run()
    finally:
        await server.close()
        running.summary = server.summary()
