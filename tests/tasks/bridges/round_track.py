"""A round track of CarRacing, and drivers for it."""

import math
from collections.abc import Iterator

import numpy as np

from hotlap.sim.carracing.tile_track import TileTrack
from hotlap.tasks.bridges.carracing_env import CarRacingEnv


def restless(seed: int) -> Iterator[np.ndarray]:
    """Steering, gas and brake that wander, skid and leave the road."""
    draws, triple = np.random.default_rng(seed), np.array([0.0, 0.3, 0.0])
    while True:
        push = draws.normal(0.0, [0.15, 0.3, 0.08])
        triple = np.clip(triple * 0.95 + push + [0.0, 0.03, 0.0], [-1, 0, 0], 1)
        yield triple.astype(np.float32)


def circle(radius: float = 20.0, nodes: int = 36) -> TileTrack:
    """A round track, counter-clockwise from the east."""
    around = np.arange(nodes) * 2 * math.pi / nodes
    kerb = np.zeros(nodes, np.int8)
    return TileTrack("circle", radius * np.cos(around), radius * np.sin(around), around, kerb)


def follow(env: CarRacingEnv, speed: float = 15.0) -> np.ndarray:
    """An action (steering, pedal) towards the road ahead."""
    hull, nodes = env.car.car.hull, np.array(env.car.track)[:, 2:]
    here = int(np.linalg.norm(nodes - hull.position, axis=1).argmin())
    ahead = nodes[(here + 3) % len(nodes)] - hull.position
    off = math.atan2(-ahead[0], ahead[1]) - hull.angle
    off = (off + math.pi) % (2 * math.pi) - math.pi
    pedal = 0.05 * (speed - hull.linearVelocity.length)
    return np.array([np.clip(-2.0 * off, -1, 1), np.clip(pedal, -0.5, 0.5)], np.float32)
