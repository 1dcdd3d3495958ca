"""What the real CarRacing-v3 can be driven in here: Gymnasium's own, or EnvPool's port to C++.

Each needs a package that may be missing, which is told when it is asked for. Importing this needs
no torch, so that processes full of cars begin quickly.
"""

import os
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import gymnasium as gym
from gymnasium.error import DependencyNotInstalled

from hotlap.config.carracing import Backend
from hotlap.tasks.bridges.carracing_frames import Pixels

os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")  # or importing it would print a greeting
MISSING: dict[str, str] = {}
"""Backends that cannot be driven here, and what to do about it."""
try:
    import Box2D
    import pygame
    from gymnasium.envs.box2d import car_racing

    CarRacing: Any = car_racing.CarRacing
except (ImportError, DependencyNotInstalled):
    MISSING["gymnasium"] = "CarRacing needs Box2D and pygame: pip install 'hotlap[carracing]'"
    CarRacing = gym.Env
if find_spec("envpool") is None:  # not imported here: it is large, and most never ask for it
    MISSING["envpool"] = "this backend needs EnvPool: pip install 'hotlap[envpool]'"

PER_FRAME, FOR_LEAVING = -0.1, -100.0
"""Rewards of a frame, and in its place of one that leaves the field."""
Stepped = tuple[Pixels, float, bool, bool, dict[str, Any]]
"""What a step returns: frame, reward, terminated, truncated, info."""


def version_line(backend: Backend = "gymnasium") -> str:
    """What scores are driven in, to be printed with each.

    Raises:
        ImportError: It is not installed; says how to.
    """
    if backend == "twin":
        raise ValueError("the twin is no original: drive it as CarRacingTask")
    if backend in MISSING:
        raise ImportError(MISSING[backend])
    if backend == "envpool":
        return f"CarRacing-v3 of EnvPool {version('envpool')}, whose seeds are not Gymnasium's"
    drawn = f"pygame {pygame.version.ver}"
    return f"CarRacing-v3 of Gymnasium {gym.__version__}, Box2D {Box2D.__version__}, {drawn}"
