"""Tracks by seed: the ones that Gymnasium's CarRacing-v3 makes on `reset(seed=seed)`.

    B           tracks made at once
    checkpoint  one of twelve places in the sectors of a circle, drawn at random
    walker      goes from checkpoint to checkpoint in steps of one length and may turn a little at
                each, once round, and again; its last whole lap is the road
    around      angle of a place seen from the middle of the circle, from 0 (along +x) to a turn;
                between the last checkpoint and +x, one turn less                         (B,)
    turn        angle of the walker, as in `tile_track`                                   (B,)
    path        around, turn, x and y after every step of one walker                      (T, 4)

A lap whose ends do not meet is thrown away, and the seed's random numbers go on with a new circle.
The sums are done in Gymnasium's order and with the C library's sine, so every track comes out equal
to the last bit.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from hotlap.sim.carracing.tile_track import STEP, Numbers, TileTrack

CHECKPOINTS = 12
RADIUS = 150.0
"""Checkpoints lie between a third of it and all of it from the middle, the outermost further."""
START_RADIUS = 1.5 * RADIUS
"""Of the first and the last checkpoint; a walker begins here, on +x."""
START_AROUND = 2 * math.pi * -0.5 / CHECKPOINTS
"""A lap begins halfway between the last checkpoint and the first."""
SHARPEST_TURN = 0.31
"""Most that a walker turns at one step."""
TURN_PER_OFFSET = 0.001
LEAST_OFFSET = 0.3
"""How much it turns by how far to its side the checkpoint lies, and up to where it does not."""
OFFSETS_PER_UNIT = 6.0
FURTHEST_APART = 1.5 * math.pi
"""Beyond this from `around`, the walker's angle is counted a turn less or more."""
LAPS = 5
MAX_STEPS = 2500
"""A walker rests after so many laps, or steps."""
KERB_TURN = 0.2 * SHARPEST_TURN
KERB_TILES = 4
"""A kerb lies along so many tiles that each turn by more than this, all to one side."""
AT_ONCE = 512
"""Walkers in one batch: their paths take 40 MB."""


def generate(seeds: Sequence[int]) -> list[TileTrack]:
    """Make the track of every seed.

    Raises:
        ValueError: A seed is below zero.
    """
    wrong = [seed for seed in seeds if seed < 0]
    if wrong:
        raise ValueError(f"the seed of a track is a whole number from 0 up, got {wrong[0]}")
    batches = (seeds[first : first + AT_ONCE] for first in range(0, len(seeds), AT_ONCE))
    return [track for batch in batches for track in _generate_batch(batch)]


def kerb_sides(changes: Numbers) -> NDArray[np.int8]:
    """Where kerbs lie, and on which side: on the inside of hard bends.

    Args:
        changes: Turn from each node's predecessor to the node, positive to the left (N,).

    Returns:
        1 right, -1 left, 0 none (N,).
    """
    before = np.stack([np.roll(changes, back) for back in range(KERB_TILES)])
    hard = (np.abs(before) > KERB_TURN).all(axis=0)
    one_way = np.abs(np.sign(before).sum(axis=0)) == KERB_TILES
    has_kerb = _spread_back(hard & one_way)
    return np.where(has_kerb, -np.sign(changes), 0).astype(np.int8)


def _spread_back(marks: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Mark the three tiles before each marked one too.

    Gymnasium goes through the tiles once and spreads what it finds, so that marks which the first
    tiles leave on the last ones are spread once more when it gets there.
    """
    wrapped = marks.copy()
    for first in range(KERB_TILES - 1):
        wrapped[first + 1 - KERB_TILES :] |= marks[first]
    spread = wrapped.copy()
    for back in range(1, KERB_TILES):
        spread[:-back] |= wrapped[back:]
    return spread


def _generate_batch(seeds: Sequence[int]) -> list[TileTrack]:
    """Walk for all seeds at once, then again for those whose ends did not meet."""
    streams = [np.random.Generator(np.random.PCG64(np.random.SeedSequence(s))) for s in seeds]
    tracks: dict[int, TileTrack] = {}
    while missing := [i for i in range(len(seeds)) if i not in tracks]:
        walkers = _Walkers(_draw_checkpoints([streams[i] for i in missing]))
        for i, path in zip(missing, walkers.paths(), strict=True):
            lap = _last_lap(path)
            if lap is not None:
                tracks[i] = _as_track(f"carracing:{seeds[i]}", lap)
    return [tracks[i] for i in range(len(seeds))]


def _draw_checkpoints(streams: Sequence[np.random.Generator]) -> Numbers:
    """Around, x and y of every checkpoint (3, B, CHECKPOINTS); around rises along the last axis."""
    sector = 2 * math.pi * 1 / CHECKPOINTS
    low, high = [0.0, RADIUS / 3], [sector, RADIUS]
    drawn = np.stack([stream.uniform(low, high, (CHECKPOINTS, 2)) for stream in streams])
    corners = np.array([2 * math.pi * number / CHECKPOINTS for number in range(CHECKPOINTS)])
    around = corners + drawn[..., 0]
    radius = drawn[..., 1]
    for end in (0, -1):
        around[:, end] = corners[end]
        radius[:, end] = START_RADIUS
    return np.stack([around, radius * _each(math.cos, around), radius * _each(math.sin, around)])


class _Walkers:
    """B walkers at once; see the module's first lines."""

    def __init__(self, checkpoints: Numbers) -> None:
        self.checkpoints = checkpoints
        self.rows = np.arange(checkpoints.shape[1])
        self.target = np.zeros(len(self.rows), dtype=np.int64)
        """Number of the checkpoint that each goes to."""
        self.x = np.full(len(self.rows), START_RADIUS)
        self.y = np.zeros(len(self.rows))
        self.turn = np.zeros(len(self.rows))
        self.laps = np.zeros(len(self.rows), dtype=np.int64)
        self.far_side = np.zeros(len(self.rows), dtype=np.bool_)
        """Whether each has been below +x since its last lap."""

    def paths(self) -> list[Numbers]:
        """Walk until all rest, and tell the path of each."""
        steps = np.zeros(len(self.rows), dtype=np.int64)
        trace = np.empty((MAX_STEPS, 4, len(self.rows)))
        for number in range(MAX_STEPS):
            trace[number] = self._step()
            walking = (steps == 0) & (self.laps < LAPS)
            steps[(steps == 0) & ~walking] = number + 1
            if not walking.any():
                break
        steps[steps == 0] = MAX_STEPS
        return [trace[: steps[row], :, row] for row in self.rows]

    def _step(self) -> Numbers:
        """Go one step; around, turn, x and y (4, B), of which the first is from before it."""
        around = self._look_around()
        _, goal_x, goal_y = self.checkpoints[:, self.rows, self.target]
        right_x, right_y = _each(math.cos, self.turn), _each(math.sin, self.turn)
        offset = right_x * (goal_x - self.x) + right_y * (goal_y - self.y)

        before = _near(self.turn, around)
        self.turn = before - _turn_towards(offset * OFFSETS_PER_UNIT)
        self.x = self.x - right_y * STEP
        self.y = self.y + right_x * STEP
        return np.stack([around, before * 0.5 + self.turn * 0.5, self.x, self.y])

    def _look_around(self) -> Numbers:
        """Count laps, choose the checkpoints to go to, and tell where everyone is (B,)."""
        around = _each(math.atan2, self.y, self.x)
        above, below = around > 0, around < 0
        self.laps += self.far_side & above
        self.far_side = (self.far_side & ~above) | below
        around = np.where(below, around + 2 * math.pi, around)

        passed = (self.checkpoints[0] < around[:, None]).sum(axis=1)
        passed_all = passed == CHECKPOINTS
        self.target = np.where(passed_all, 0, np.maximum(self.target, passed))
        return np.where(passed_all, around - 2 * math.pi, around)


def _near(turn: Numbers, around: Numbers) -> Numbers:
    """Count whole turns so that the angle is close to `around`."""
    turn = turn.copy()
    while (above := turn - around > FURTHEST_APART).any():
        turn[above] -= 2 * math.pi
    while (below := turn - around < -FURTHEST_APART).any():
        turn[below] += 2 * math.pi
    return turn


def _turn_towards(offset: Numbers) -> Numbers:
    """How much to turn to the right when the checkpoint lies so far to the right."""
    size = np.minimum(SHARPEST_TURN, np.abs(TURN_PER_OFFSET * offset))
    return np.where(np.abs(offset) > LEAST_OFFSET, np.copysign(size, offset), 0.0)


def _last_lap(path: Numbers) -> Numbers | None:
    """The part of a path from the last start but one to the last; None if its ends do not meet."""
    past_start = path[:, 0] > START_AROUND
    starts = np.flatnonzero(past_start[1:] & ~past_start[:-1]) + 1
    if len(starts) < 2:
        return None
    # Gymnasium leaves out the last step too, so that the first tile is mostly two steps long.
    lap = path[starts[-2] : starts[-1] - 1]
    turn, jump = lap[0, 1], lap[0, 2:] - lap[-1, 2:]
    gap = np.sqrt(np.square(math.cos(turn) * jump[0]) + np.square(math.sin(turn) * jump[1]))
    return None if gap > STEP else lap


def _as_track(name: str, lap: Numbers) -> TileTrack:
    turn, x, y = (column.copy() for column in lap[:, 1:].T)
    # Where `around` falls by a turn, so does the angle; Gymnasium looks for bends all the same.
    return TileTrack(name, x, y, turn, kerb_sides(turn - np.roll(turn, 1)))


def _each(function: Callable[..., float], *values: Numbers) -> Numbers:
    """Apply a function of `math`: NumPy's own may differ from it in the last bit."""
    flat = map(function, *(value.ravel().tolist() for value in values))
    return np.fromiter(flat, np.float64, values[0].size).reshape(values[0].shape)
