"""Scenes built on demand, off the event loop, and kept."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from hotlap.sim.tracks.families import MOST_NUDGE
from hotlap.wire.server.scenes import MENU, Scene, find_scene, random_road

KEPT = 4
"""Random scenes kept for whoever asks again; a long road takes 40 MB. The menu's are all kept."""
LONGEST_NAME = 64


class Library:
    """Builds scenes one after another in a thread of its own."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="scenes")
        self._menu: dict[str, Scene] = {}
        self._random: OrderedDict[object, Scene] = OrderedDict()

    async def named(self, name: str) -> Scene:
        """A scene by name.

        Raises:
            KeyError: There is no such scene.
            ValueError: The number after a family's name is none.
        """
        if len(name) > LONGEST_NAME:
            raise KeyError(f"unknown scene of {len(name)} letters")
        return await self._ask(name, lambda: find_scene(name))

    async def road(self, seed: int, style: int, turn: float = 0.0) -> Scene:
        """A random road by number, style and turn.

        Nothing is refused: negative numbers are folded, so that -7 is 7, and what is too large a
        turn is the largest.
        """
        key = abs(seed), abs(style), min(abs(turn), MOST_NUDGE)
        return await self._ask(key, lambda: random_road(*key))

    async def _ask(self, key: object, build: Callable[[], Scene]) -> Scene:
        return await asyncio.get_running_loop().run_in_executor(
            self._thread, self._find, key, build
        )

    def _find(self, key: object, build: Callable[[], Scene]) -> Scene:
        if isinstance(key, str) and key in MENU:
            if key not in self._menu:
                self._menu[key] = build()
            return self._menu[key]
        scene = self._random.pop(key, None) or build()
        self._random[key] = scene
        while len(self._random) > KEPT:
            self._random.popitem(last=False)
        return scene

    def close(self) -> None:
        """Build no more."""
        self._thread.shutdown(cancel_futures=True)
