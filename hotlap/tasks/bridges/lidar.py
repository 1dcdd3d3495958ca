"""A simulator's lidar as gym_donkeycar lays it out."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hotlap.wire.messages import LidarConfig, LidarPoint

NOTHING = -1.0
"""Where a beam met nothing."""


class LidarRows:
    """Levels one after another, each of whole sweeps.

    Args:
        config: How the lidar sweeps.
    """

    def __init__(self, config: LidarConfig) -> None:
        if config.deg_per_sweep_inc <= 0 or config.num_sweeps_levels < 1:
            raise ValueError("a lidar needs deg_per_sweep_inc above 0 and num_sweeps_levels of 1")
        self.config = config
        self.per_sweep = int(360 / config.deg_per_sweep_inc)

    def __call__(self, points: Sequence[LidarPoint]) -> NDArray[np.float64]:
        """Distances (levels * beams,) in raw units."""
        config = self.config
        rows = np.full(config.num_sweeps_levels * self.per_sweep, NOTHING)
        for distance, sweep, level in points:
            row = round(abs(level / config.deg_ang_delta)) if config.deg_ang_delta else 0
            place = row * self.per_sweep + round(abs(sweep / config.deg_per_sweep_inc))
            if place < len(rows):
                rows[place] = distance
        return rows
