"""The forward camera.

    B pictures, R rows, G groups of pixels in a row (see `atlas`).
    x, y, z      lens position, metres; z above the world's zero          (B,)
    heading      direction of view, counter-clockwise from +x             (B,)
    pitch        looking down is positive, the road's slope included      (B,)
    slope        downward slope of a row's ray: metres down per metre on  (B, R)
    distance     ground distance ahead at which a row's ray lands         (B, R)

The ground is a surface whose height, within one picture, depends on the distance ahead alone;
hills then cost one number per row. A row's pixels all lie at one distance ahead, spread to the
sides, so a pixel's ground point is linear in its column.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from hotlap.config.sensors import CameraConfig
from hotlap.sim.atlas import (
    GROUP,
    Band,
    Sky,
    choose,
    read_raw,
    road_places,
    sky_blocks,
    sky_places,
    unpack,
)
from hotlap.sim.fields import Fields
from hotlap.sim.ground import GroundRows, land_height, road_coordinates
from hotlap.sim.looks import Looks
from hotlap.sim.silhouettes import Lens, Scan, Silhouette
from hotlap.sim.uprights import Uprights, find_uprights, paint_silhouette

PROFILE_POINTS = 24
STEEP = 0.35
"""Downward slope of a ray from which blocks are as high as wide: there a step down moves the ground
point almost as evenly as a step aside."""
HIGH = 4
"""Height of those blocks, in pixels."""


@dataclass(frozen=True)
class View:
    """Where each picture is taken from, all (B,)."""

    x: Tensor
    y: Tensor
    z: Tensor
    """Height of the road under the car, metres."""
    heading: Tensor
    climb: Tensor
    """Slope of the road along the view, metres up per metre."""
    road: Tensor
    """Which track (int64)."""
    look: Tensor
    """Which look (int64)."""
    up: Tensor
    """Height of the lens above the road."""
    pitch: Tensor
    """Mounting pitch, radians, down positive."""
    zoom: Tensor
    """Focal length relative to the configured one."""


def draw_forward(
    config: CameraConfig,
    fields: Fields,
    looks: Looks,
    view: View,
    *,
    pitch_play: float = 0.0,
    uprights: Uprights | None = None,
) -> Tensor:
    """Pictures (B, height, width, 3 or 1), uint8.

    Args:
        config: The camera as mounted.
        fields: Road coordinates of the ground.
        looks: Atlases to draw with.
        view: Where the pictures are taken from.
        pitch_play: How far any picture's mounting pitch may differ from the configured one,
            radians; fixes which rows can be sky and which ground.
        uprights: What stands on the ground, if anything.
    """
    bands, silhouettes = look_around(config, fields, view, uprights, pitch_play=pitch_play)
    pixels = read_raw(looks, view.look, bands, config.colour)
    for silhouette in silhouettes:
        pixels = paint_silhouette(looks, view.look, silhouette, pixels)
    return unpack(pixels)[:, :, : config.width]


def look_around(
    config: CameraConfig,
    fields: Fields,
    view: View,
    uprights: Uprights | None,
    *,
    pitch_play: float = 0.0,
) -> tuple[tuple[Band | Sky, ...], tuple[Silhouette, ...]]:
    """Where in its atlas each block of a picture's pixels reads, from top to bottom.

    And the silhouettes of what stands on the ground, to be painted over that in turn.
    """
    height = config.height
    first_ground, last_sky = _horizon(config, pitch_play + 2 * fields.steepest)
    # Walls are looked for row by row, so no block is higher than that where there are any.
    near = height if uprights is not None else _near_row(config, last_sky)
    sight = _sight(config, fields, view)
    bands: list[Band | Sky] = []
    silhouettes: tuple[Silhouette, ...] = ()
    if first_ground < near:
        ground, scan = _ground(config, fields, view, sight, range(first_ground, near))
        if uprights is not None:
            eye = (view.x, view.y, view.z + view.up, view.heading)
            lens = _lens(config, view)
            silhouettes = find_uprights(uprights, fields, view.road, eye, lens, scan)
    if last_sky:
        sky = _sky(config, view, sight, last_sky)
        bands.append(Sky(sky.row[:, : min(first_ground, last_sky)], sky.column))
    if first_ground < last_sky:
        mixed = last_sky - first_ground
        mask = scan.seen[:, :mixed].unsqueeze(-1)
        above = sky_blocks(sky, first_ground, last_sky)
        bands.append(choose(mask, ground.part(0, mixed), above))
    if last_sky < near:
        bands.append(ground.part(max(last_sky - first_ground, 0), near - first_ground))
    if near < height:
        bands.append(_ground(config, fields, view, sight, range(near, height, HIGH))[0])
    return tuple(band for band in bands if band.size[0]), silhouettes


def focal_length(config: CameraConfig) -> float:
    """Focal length in pixels."""
    return config.height / 2 / math.tan(math.radians(config.fov) / 2)


def padded_width(config: CameraConfig) -> int:
    """Pixels of a raw row: whole groups."""
    return -(-config.width // GROUP) * GROUP


def _horizon(config: CameraConfig, play: float) -> tuple[int, int]:
    """First row that can be ground and last row (exclusive) that can be sky.

    The car may climb while the land falls, and the reverse: `play` is how far that and the mounting
    can turn the view up or down, radians.
    """
    focal = focal_length(config)
    slack = math.tan(min(play, 1.2)) * focal * 1.3 + (1.0 if play else 0.0)
    horizon = config.height / 2 - focal * math.tan(math.radians(config.pitch))
    first_ground = min(max(math.floor(horizon - slack), 0), config.height)
    return first_ground, min(max(math.ceil(horizon + slack), 0), config.height)


def _near_row(config: CameraConfig, last_sky: int) -> int:
    """First row of the high blocks that fill the picture from its lower edge up."""
    angle = math.atan(STEEP) - math.radians(config.pitch)
    row = math.ceil(config.height / 2 + focal_length(config) * math.tan(angle))
    room = config.height - max(row, last_sky, 0)
    return config.height - max(room // HIGH, 0) * HIGH


def _lens(config: CameraConfig, view: View) -> Lens:
    """How points become pixels in each picture."""
    pitch = (view.pitch - torch.atan(view.climb)).unsqueeze(-1)
    return Lens(
        sine=torch.sin(pitch),
        cosine=torch.cos(pitch),
        focal=focal_length(config) * view.zoom.unsqueeze(-1),
        middle_row=config.height / 2 - 0.5,
        middle_column=config.width / 2 - 0.5,
    )


@dataclass(frozen=True)
class _Sight:
    """What all rows of a picture share, each (B, 1)."""

    sine: Tensor
    """Of the pitch, the road's slope included."""
    cosine: Tensor
    zoom: Tensor
    x: Tensor
    """Place of the lens, in grid cells."""
    y: Tensor
    forward_x: Tensor
    """Grid cells per metre ahead."""
    forward_y: Tensor
    longest: Tensor
    """Farthest ground that is drawn, metres."""
    columns: Tensor
    """Cells across the grid."""
    rows: Tensor
    """Cells up the grid."""
    first_cell: Tensor


def _sight(config: CameraConfig, fields: Fields, view: View) -> _Sight:
    grids = fields.grids.index_select(0, view.road)
    left, bottom, scale, columns, rows, half_width = grids.unsqueeze(1).unbind(-1)
    x, y, heading, pitch, climb, zoom = torch.stack(
        [view.x, view.y, view.heading, view.pitch, view.climb, view.zoom]
    ).unsqueeze(-1)
    pitch = pitch - torch.atan(climb)
    return _Sight(
        sine=torch.sin(pitch),
        cosine=torch.cos(pitch),
        zoom=zoom,
        x=(x - left) * scale,
        y=(y - bottom) * scale,
        forward_x=torch.cos(heading) * scale,
        forward_y=torch.sin(heading) * scale,
        longest=config.far * half_width,
        columns=columns,
        rows=rows,
        first_cell=fields.first.index_select(0, view.road),
    )


def _downs(config: CameraConfig, rows: range, edges: bool, device: torch.device) -> Tensor:
    """How far below the picture's middle rows of blocks lie, in focal lengths (R,).

    With `edges`, half a pixel above each row's middle and then half a pixel below each: (2 R,).
    """
    middle = torch.arange(rows.start, rows.stop, rows.step, device=device) + (rows.step - 1) / 2
    if edges:
        middle = torch.cat([middle - 0.5, middle + 0.5])
    return (middle + 0.5 - config.height / 2) / focal_length(config)


def _rights(config: CameraConfig, group: int, device: torch.device) -> Tensor:
    """Middle of each group of pixels of a row, in focal lengths right of the middle (G,)."""
    middle = torch.arange(padded_width(config) // group, device=device) * group + group / 2
    return (middle - config.width / 2) / focal_length(config)


_kept_downs = lru_cache(maxsize=64)(_downs)
_kept_rights = lru_cache(maxsize=64)(_rights)


def _constants(
    config: CameraConfig, rows: range, edges: bool, group: int, device: torch.device
) -> tuple[Tensor, Tensor]:
    """`_downs` and `_rights`, made once; a compiler makes them its own constants."""
    if torch.compiler.is_compiling():
        return _downs(config, rows, edges, device), _rights(config, group, device)
    return _kept_downs(config, rows, edges, device), _kept_rights(config, group, device)


def _rays(sight: _Sight, downs: Tensor) -> tuple[Tensor, Tensor]:
    """Downward slope, and forward share of a unit of depth, of rays (R,); both (B, R)."""
    down = downs / sight.zoom
    forward = (sight.cosine - down * sight.sine).clamp_(min=1e-3)
    return torch.addcmul(sight.sine, down, sight.cosine) / forward, forward


def _sky(config: CameraConfig, view: View, sight: _Sight, rows: int) -> Sky:
    """The first `rows` rows, as sky."""
    downs, rights = _constants(config, range(rows), False, 1, view.x.device)
    slope, _ = _rays(sight, downs)
    sideways = rights / sight.zoom  # (B, W)
    azimuth = view.heading.unsqueeze(-1) - torch.atan(sideways)
    return sky_places(-slope.unsqueeze(-1), azimuth.unsqueeze(1))


def _ground(
    config: CameraConfig, fields: Fields, view: View, sight: _Sight, rows: range
) -> tuple[Band, Scan]:
    """Rows of blocks that begin at `rows` and are as high as its step; what they know."""
    count = len(rows)
    downs, rights = _constants(config, rows, True, GROUP, view.x.device)
    # Each row's rays half a pixel above and below: their mean is the row, their difference the
    # step.
    slopes, forward = _rays(sight, downs)
    if fields.steepest:
        distances, seen = _land_on_hills(fields, view, slopes, sight.longest)
    else:
        distances = view.up.unsqueeze(-1) / slopes.clamp(min=1e-4)
        seen = (slopes[:, count:] > 0).to(torch.float32)
    distances = torch.minimum(distances, sight.longest)
    lateral = distances / (forward * sight.zoom)
    # Ground point in grid cells: at + side * right.
    ends = torch.stack(
        [
            torch.addcmul(sight.x, distances, sight.forward_x),
            torch.addcmul(sight.y, distances, sight.forward_y),
            lateral * sight.forward_y,
            lateral * -sight.forward_x,
            distances,
            slopes,
        ]
    )
    upper, lower = ends[..., :count], ends[..., count:]
    at_x, at_y, side_x, side_y, distance, slope = torch.lerp(upper, lower, 0.5)
    down = (lower - upper)[:4].unbind(0)
    points = GroundRows(at_x, at_y, side_x, side_y, down, sight.columns, sight.rows)
    step = 1.0 / focal_length(config)
    coordinates = road_coordinates(fields, sight.first_cell, points, rights, step)
    q, p = coordinates.value.unbind(0)
    scan = Scan(q, p, distance, slope, seen[:, -count:], rows.start)
    return road_places(coordinates, (rows.step, GROUP)), scan


def _land_on_hills(
    fields: Fields, view: View, slope: Tensor, longest: Tensor
) -> tuple[Tensor, Tensor]:
    """Where rays of `slope` (B, R) land on the land ahead, and whether they do (1 or 0).

    The land's height is read at PROFILE_POINTS distances straight ahead, closer together near the
    car. A ray lands on the first piece of that profile that reaches up to it.
    """
    share = torch.linspace(0.0, 1.0, PROFILE_POINTS, device=slope.device)
    ahead = longest * 0.004 * (250.0**share)  # (B, M), 0.4 % to 100 % of the longest distance
    x = view.x.unsqueeze(-1) + ahead * torch.cos(view.heading).unsqueeze(-1)
    y = view.y.unsqueeze(-1) + ahead * torch.sin(view.heading).unsqueeze(-1)
    height = land_height(fields, view.road, x, y)
    drop = (view.z + view.up).unsqueeze(-1) - height  # how far the land lies below the lens
    lens = view.up.unsqueeze(-1)
    # Slope at which each point is seen; the running minimum is what is not hidden by nearer land.
    reach = torch.cummin(drop / ahead, 1).values
    after = torch.searchsorted(-reach, -slope.contiguous()).clamp(max=PROFILE_POINTS - 1)
    before = (after - 1).clamp(min=0)
    near = torch.where(after > 0, ahead.gather(1, before), 0.0)
    near_drop = torch.where(after > 0, drop.gather(1, before), lens.expand_as(near))
    far_, far_drop = ahead.gather(1, after), drop.gather(1, after)
    # Ray: drop = slope * d. Land: a straight piece between the two points. They meet at d.
    fall = (far_drop - near_drop) / (far_ - near)
    gap = (slope - fall).clamp(min=1e-6)
    distance = ((near_drop - fall * near) / gap).clamp(min=0.0)
    distance = torch.minimum(torch.maximum(distance, near), far_)
    seen = (slope >= reach[:, -1:]).to(torch.float32)
    return distance, seen
