"""A track of CarRacing: a closed chain of four-cornered tiles.

    N nodes along the middle of the road, in driving order; tile i lies between node i - 1 and
    node i, and tile 0 closes the lap. In Box2D's units, angles counter-clockwise.
    x, y    place of a node                                                              (N,)
    turn    angle of a car that drives along the road there: its nose points to
            (-sin turn, cos turn), so that (cos turn, sin turn) is its right             (N,)
    kerb    side of a tile that has a red or white kerb: 1 right, -1 left, 0 none         (N,)

A car begins on node 0, along the road.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

STEP = 21.0 / 6.0
"""Distance between two nodes of a generated track."""
HALF_WIDTH = 40.0 / 6.0
"""From the middle of the road to its edge."""
KERB_WIDTH = 8.0 / 6.0
PLAYFIELD = 2000.0 / 6.0
"""Largest coordinate of a car; beyond it, the episode ends."""

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class TileTrack:
    """See the module's first lines."""

    name: str
    x: Numbers
    y: Numbers
    turn: Numbers
    kerb: NDArray[np.int8]
    note: str | None = None
    """What was changed so that a line could be laid with tiles, in words; None if nothing was."""

    def __len__(self) -> int:
        """Number of tiles."""
        return len(self.x)

    @property
    def tiles(self) -> Numbers:
        """Corners of every tile (N, 4, 2): left and right at its node, right and left behind it."""
        return self._strip(-HALF_WIDTH, HALF_WIDTH)

    @property
    def kerbs(self) -> Numbers:
        """Corners of every tile's kerb (N, 4, 2), for those that have one; others are empty."""
        side = self.kerb.astype(np.float64)
        return self._strip(side * HALF_WIDTH, side * (HALF_WIDTH + KERB_WIDTH))

    def _strip(self, near: Numbers | float, far: Numbers | float) -> Numbers:
        """Quadrilaterals between two offsets to the right (N,), each node to the one behind."""
        right = np.stack([np.cos(self.turn), np.sin(self.turn)], -1)
        middle = np.stack([self.x, self.y], -1)
        behind, right_behind = np.roll(middle, 1, axis=0), np.roll(right, 1, axis=0)
        low, high = (np.broadcast_to(end, self.x.shape)[:, None] for end in (near, far))
        here = (middle + low * right, middle + high * right)
        there = (behind + high * right_behind, behind + low * right_behind)
        return np.stack([*here, *there], 1)
