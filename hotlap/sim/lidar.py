"""Distances along beams: to the road's edges or walls, and to the walls and pillars of an arena.

    B environments, N cars; K obstacles of an arena.
    beam      a direction in the plane, counter-clockwise; beam 0 is the rightmost
    range     distance from the car to what a beam meets, metres         (B, N, beams)
    limit     |q| at which a beam stops: 1 at the road's edge, more at a wall
    room      how far inside the limit a point of a beam lies, in steps of q

A road's beam is read at evenly spaced points and ends between the first point outside and the one
before it; secants then find where. A beam that leaves the road ends there, whatever it would meet
later; a car outside the limit measures 0. Evenly spaced points rather than sphere tracing: they
are one long vector operation, need no constant width, and are not held up where a beam grazes an
edge.
"""

import math

import torch
from torch import Tensor

from hotlap.config.sensors import LidarConfig
from hotlap.sim.fields import Q_STEPS, Fields
from hotlap.sim.ground import locate_cells, read_q
from hotlap.sim.random import normal
from hotlap.sim.roads import Roads

POINTS_PER_HALF_WIDTH = 4.0
"""A beam's points. Over an edge bent to a radius of one half-width, a beam that cuts it less than
0.8 % of a half-width deep may slip through between two of them."""
REFINEMENTS = 2


RAY_TENSORS = 18
"""As many numbers are kept at once of each point of a beam; measured without a compiler."""


def ray_bytes(config: LidarConfig) -> int:
    """Memory that casting one car's beams takes."""
    points = math.ceil(config.reach * POINTS_PER_HALF_WIDTH) + 1
    return points * config.beams * 4 * RAY_TENSORS


def beam_angles(config: LidarConfig, device: torch.device | str = "cpu") -> Tensor:
    """Angle of each beam from straight ahead (beams,), right to left."""
    half = math.radians(config.spread) / 2 if config.beams > 1 else 0.0
    return torch.linspace(-half, half, config.beams, device=device)


def wall_limits(roads: Roads, fields: Fields) -> Tensor:
    """|q| of each track's walls (T,): 1, the road's edge, for a track without walls."""
    gaps = [track.wall_gap or 0.0 for track in roads.tracks]
    return 1.0 + torch.tensor(gaps, device=roads.device) / fields.grids[:, 5]


def cast_road(
    config: LidarConfig,
    fields: Fields,
    road: Tensor,
    x: Tensor,
    y: Tensor,
    heading: Tensor,
    *,
    limits: Tensor | None = None,
    key: Tensor | None = None,
) -> Tensor:
    """Ranges (B, N, beams) to where the road ends, at most `config.reach` half-widths.

    Args:
        config: The lidar.
        fields: Road coordinates of the ground.
        road: Which track each car is on (B, N).
        x: Position of the lidar, metres (B, N).
        y: The same.
        heading: Direction of the car (B, N).
        limits: |q| of each track's walls, from `wall_limits`; needed if `config.walls`.
        key: Random key of each car's measurement (B, N); needed if `config.noise`.
    """
    angle = heading.unsqueeze(-1) + beam_angles(config, x.device)
    half_width = fields.grids[:, 5][road].unsqueeze(-1)
    if config.walls and limits is None:
        raise ValueError(
            "a lidar that measures to walls needs `limits`; pass wall_limits(roads, fields)"
        )
    limit = limits[road].unsqueeze(-1) if config.walls and limits is not None else 1.0
    ranges = trace_road(fields, road, x, y, angle, limit, config.reach) * half_width
    return _add_noise(config, ranges, config.reach * half_width, key)


def trace_road(
    fields: Fields,
    road: Tensor,
    x: Tensor,
    y: Tensor,
    angle: Tensor,
    limit: Tensor | float,
    reach: float,
) -> Tensor:
    """Distance in half-widths, shaped like `angle` (..., beams), to where |q| exceeds `limit`.

    road, x and y are (...,); `limit` is a number or broadcasts with (..., beams).
    """
    grids = fields.grids.index_select(0, road.reshape(-1)).view(*road.shape, 1, 6)
    left, bottom, scale, columns, rows, half_width = grids.unbind(-1)  # (..., 1)
    first_cell = fields.first.index_select(0, road.reshape(-1)).view(*road.shape, 1)
    from_x, from_y = (x.unsqueeze(-1) - left) * scale, (y.unsqueeze(-1) - bottom) * scale
    cells = half_width * scale
    step_x, step_y = torch.cos(angle) * cells, torch.sin(angle) * cells

    stop = limit * Q_STEPS

    def room(distance: Tensor) -> Tensor:
        gx, gy = from_x + distance * step_x, from_y + distance * step_y
        cell, u, v = locate_cells(gx, gy, columns, rows, first_cell)
        return stop - read_q(fields, cell, u, v).abs_()

    points = math.ceil(reach * POINTS_PER_HALF_WIDTH)
    spacing = reach / points
    index = torch.arange(points + 1.0, device=x.device).view(-1, *[1] * angle.dim())
    rooms = room(index * spacing)  # (points + 1, ..., beams)
    # Index of the first point outside: those inside are pushed beyond the end before the minimum.
    first = ((rooms * 1e30).clamp_(0.0, 2.0 * points) + index).amin(0)
    after = first.clamp(max=points).to(torch.int64).unsqueeze(0)
    before = (after - 1).clamp(min=0)
    far, near = after[0] * spacing, before[0] * spacing
    far_room, near_room = rooms.gather(0, after)[0], rooms.gather(0, before)[0]
    for _ in range(REFINEMENTS):
        middle = _secant(near, near_room, far, far_room)
        middle_room = room(middle)
        inside = middle_room > 0
        near, near_room = (
            torch.where(inside, middle, near),
            torch.where(inside, middle_room, near_room),
        )
        far, far_room = torch.where(inside, far, middle), torch.where(inside, far_room, middle_room)
    met = _secant(near, near_room, far, far_room)
    return torch.where(first > points, reach, met)


def _secant(near: Tensor, near_room: Tensor, far: Tensor, far_room: Tensor) -> Tensor:
    """Where a straight line through (near, near_room > 0) and (far, far_room <= 0) meets zero."""
    share = near_room / (near_room - far_room).clamp(min=1e-9)
    return near + (far - near) * share.clamp(0.0, 1.0)


def cast_arena(
    config: LidarConfig,
    x: Tensor,
    y: Tensor,
    heading: Tensor,
    size: float | Tensor,
    obstacles: Tensor,
    reach: float,
    *,
    key: Tensor | None = None,
) -> Tensor:
    """Ranges (B, N, beams) to the walls and round obstacles of a square arena around the origin.

    Args:
        config: The lidar; its `reach` and `walls` are not used.
        x: Position of the lidar, metres (B, N).
        y: The same.
        heading: Direction of the car (B, N).
        size: Half the arena's side, metres; a number or (B, 1, 1).
        obstacles: x, y and radius of each, metres (B, K, 3); radius 0 is none.
        reach: Longest range, metres.
        key: Random key of each car's measurement (B, N); needed if `config.noise`.
    """
    angle = heading.unsqueeze(-1) + beam_angles(config, x.device)
    along_x, along_y = torch.cos(angle), torch.sin(angle)  # (B, N, beams)
    x, y = x.unsqueeze(-1), y.unsqueeze(-1)
    ranges = torch.minimum(_to_walls(x, along_x, size), _to_walls(y, along_y, size))
    ox, oy, radius = obstacles[:, None, None].unbind(-1)  # (B, 1, 1, K)
    dx, dy = ox - x.unsqueeze(-1), oy - y.unsqueeze(-1)  # (B, N, 1, K)
    closest = along_x.unsqueeze(-1) * dx + along_y.unsqueeze(-1) * dy  # (B, N, beams, K)
    outside = dx * dx + dy * dy - radius * radius
    depth = closest * closest - outside  # squared half-length of the beam inside the circle
    # Inside an obstacle the range is 0; ahead of the car it is met where the beam enters.
    entry = (closest - torch.sqrt(depth.clamp(min=0.0))).clamp(min=0.0)
    met = (radius > 0) & (depth > 0) & ((closest > 0) | (outside < 0))
    entry = torch.where(met, entry, torch.inf)
    if entry.shape[-1]:
        ranges = torch.minimum(ranges, entry.amin(-1))
    return _add_noise(config, ranges.clamp(0.0, reach), reach, key)


def _to_walls(place: Tensor, along: Tensor, size: float | Tensor) -> Tensor:
    """Distance at which a coordinate that moves by `along` per metre reaches -size or +size."""
    speed = torch.where(along.abs() < 1e-9, 1e-9, along)
    return (torch.sign(speed) * size - place) / speed


def in_sight(x: Tensor, y: Tensor, other_x: Tensor, other_y: Tensor, obstacles: Tensor) -> Tensor:
    """Whether nothing round stands between two points (B, ...), bool.

    Args:
        x: First point, metres (B, ...).
        y: The same.
        other_x: Second point, metres, broadcast against the first.
        other_y: The same.
        obstacles: x, y and radius of each, metres (B, K, 3); radius 0 is none.
    """
    x, y, other_x, other_y = torch.broadcast_tensors(x, y, other_x, other_y)
    shape = (len(obstacles), *[1] * (x.dim() - 1), obstacles.shape[1], 3)
    ox, oy, radius = obstacles.view(shape).unbind(-1)  # (B, ..., K)
    dx, dy = (other_x - x).unsqueeze(-1), (other_y - y).unsqueeze(-1)
    px, py = ox - x.unsqueeze(-1), oy - y.unsqueeze(-1)
    share = (px * dx + py * dy) / (dx * dx + dy * dy).clamp(min=1e-12)
    share = share.clamp(0.0, 1.0)
    away_x, away_y = px - share * dx, py - share * dy
    return (away_x * away_x + away_y * away_y >= radius * radius).all(-1)


def _add_noise(
    config: LidarConfig, ranges: Tensor, reach: Tensor | float, key: Tensor | None
) -> Tensor:
    """Ranges as measured: each off by a share of itself, still within 0 and the reach."""
    if not config.noise:
        return ranges
    if key is None:
        raise ValueError("a noisy lidar needs a random `key` for each measurement")
    noisy = ranges * (1.0 + config.noise * normal(key, config.beams))
    return torch.clamp(noisy, torch.zeros_like(noisy), reach + torch.zeros_like(noisy))
