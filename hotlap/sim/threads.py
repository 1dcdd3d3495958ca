"""Work on many things at once, in the order of the things."""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Given = TypeVar("Given")
Made = TypeVar("Made")

MOST = 8
"""Threads at most: NumPy lets go of the interpreter most of the time, but not always."""


def usable_cores() -> int:
    """Cores that this process may use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return cores or 1


def at_once(make: Callable[[Given], Made], things: Iterable[Given]) -> list[Made]:
    """What `make` makes of each, on all cores that this process may use."""
    with ThreadPoolExecutor(min(MOST, usable_cores())) as pool:
        return list(pool.map(make, things))
