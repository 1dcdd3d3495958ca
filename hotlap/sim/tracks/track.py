"""A road, as plain numbers.

    s        arc length along the reference line, metres
    n        lateral offset from the reference line, metres, positive to the left
    heading  direction of travel, radians, counter-clockwise from +x

The reference line is what cross-track error is measured from. The road reaches `width_left` to its
left and `width_right` to its right, so the line need not be the middle (a DonkeyCar path is the
right-hand lane). Tracks are built once, in NumPy and float64; `hotlap.sim.roads` turns a list of
them into the tensors that the batched world reads.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Start:
    """Where a car may be put at the beginning of an episode."""

    s: float = 0.0
    n: float = 0.0
    heading_error: float = 0.0


@dataclass(frozen=True)
class Track:
    """One road with everything the world needs to know about it."""

    name: str
    xy: Array
    """Reference line (M, 2), evenly spaced by arc length; a closed line does not repeat a point."""
    width_left: Array
    """Distance from the reference line to the left edge (M,)."""
    width_right: Array
    """Distance from the reference line to the right edge (M,)."""
    z: Array
    """Height of the road (M,)."""
    closed: bool = True
    grip: Array | None = None
    """Friction of the surface relative to the vehicle's own (M,); None means 1 everywhere."""
    style: str = "road"
    """Which look it is painted with (a name in `hotlap.sim.looks`)."""
    wall_gap: float | None = None
    """Distance from the road's edge to a wall on both sides; None means there is no wall."""
    starts: tuple[Start, ...] = field(default_factory=lambda: (Start(),))
    crosses_itself: bool = False
    """True where the road passes over itself (a figure of eight)."""
    cones: Array | None = None
    """Positions of traffic cones (K, 2), metres."""

    @property
    def num_points(self) -> int:
        """Number of samples of the reference line."""
        return len(self.xy)

    @property
    def spacing(self) -> float:
        """Arc length between neighbouring samples."""
        return self.length / (self.num_points if self.closed else self.num_points - 1)

    @property
    def half_width(self) -> float:
        """Half of the road's mean width: the unit of what is painted on it."""
        return float(np.mean(self.width_left + self.width_right) / 2)

    @property
    def length(self) -> float:
        """Length of the sampled reference line (the polyline), once round if closed."""
        ends = np.vstack([self.xy, self.xy[:1]]) if self.closed else self.xy
        return float(np.linalg.norm(np.diff(ends, axis=0), axis=1).sum())
