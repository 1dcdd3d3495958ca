"""The cars' lidars.

A beam ends at the wall or, where a track has none, at the road's edge, or on the ground; one that
meets nothing within the range is left out. Land is taken as a plane that climbs with the road, so
the car's own pitch cancels out. Distances carry no noise: nor do the simulator's.
"""

import math

import torch
from torch import Tensor

from hotlap.sim.lidar import trace_road, wall_limits
from hotlap.sim.tracks.named import UNIT
from hotlap.wire.messages import LidarConfig, LidarPoint
from hotlap.wire.server.scenes import Scene

FINEST = 0.25
"""Least degrees between beams."""
MOST_BEAMS = 16 * 360
"""Of one sweep of all levels; more would hold up the others."""
FARTHEST = 1000.0
"""Longest range (u)."""
AWAY = 100.0
"""Most that a lidar may be mounted away from its car (u)."""
STEEPEST = math.radians(89.0)


def sweep(
    scene: Scene, config: LidarConfig, pose: dict[str, Tensor], body_offset: float
) -> tuple[LidarPoint, ...]:
    """What the lidar of one car measures; `pose` as `Fleet.pose` gives it, each (1,)."""
    step = _within(abs(config.deg_per_sweep_inc), FINEST, 360.0)
    beams = int(360 / step)
    levels = int(_within(config.num_sweeps_levels, 1, MOST_BEAMS // beams))
    reach = _within(config.max_range, 0.1, FARTHEST)
    right, up, ahead = (
        _within(offset, -AWAY, AWAY)
        for offset in (config.offset_x, config.offset_y, config.offset_z)
    )
    flat = _along_ground(scene, pose, right, ahead + body_offset / UNIT, beams, step, reach)
    points: list[LidarPoint] = []
    for level in range(levels):
        above = level * _within(config.deg_ang_delta, -90.0, 90.0)
        down = math.radians(config.rot_x % 360 + config.deg_ang_down % 360 + above)
        distances = _along(flat, math.remainder(down, math.tau), up).tolist()
        points += [
            (round(distance, 2), round(beam * step, 4), above)
            for beam, distance in enumerate(distances)
            if distance < reach
        ]
    return tuple(points)


def _within(value: float, low: float, high: float) -> float:
    return min(max(value, low), high)


def _along_ground(
    scene: Scene,
    pose: dict[str, Tensor],
    right: float,
    ahead: float,
    beams: int,
    step: float,
    reach: float,
) -> Tensor:
    """Distances (beams,) from the lidar, clockwise from straight ahead; everything in u."""
    heading = pose["heading"]
    along, across = ahead * UNIT, right * UNIT
    x = pose["x"] + along * torch.cos(heading) + across * torch.sin(heading)
    y = pose["y"] + along * torch.sin(heading) - across * torch.cos(heading)
    angles = heading.unsqueeze(-1) - torch.arange(beams) * math.radians(step)
    half_width = float(scene.fields.grids[0, 5])
    limit = float(wall_limits(scene.roads, scene.fields)[0])
    road = torch.zeros(1, dtype=torch.int64)
    longest = reach * UNIT / half_width
    return trace_road(scene.fields, road, x, y, angles, limit, longest)[0] * (half_width / UNIT)


def _along(flat: Tensor, down: float, height: float) -> Tensor:
    """Distances along beams that look `down` from `height`, given those along the ground."""
    down = _within(down, -STEEPEST, STEEPEST)
    if down > 0:
        flat = flat.clamp(max=max(height, 0.0) / math.tan(down))
    return flat / math.cos(down)
