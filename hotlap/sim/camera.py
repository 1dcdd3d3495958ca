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

import torch
from torch import Tensor

from hotlap.config.sensors import CameraConfig
from hotlap.sim.atlas import (
    GROUP,
    HIGH,
    Band,
    Sky,
    choose,
    constant,
    read_raw,
    road_places,
    sky_blocks,
    sky_places,
    unpack,
)
from hotlap.sim.fields import Fields, apart
from hotlap.sim.ground import GroundRows, land_height, road_coordinates
from hotlap.sim.looks import Looks
from hotlap.sim.silhouettes import Lens, Scan, Silhouette
from hotlap.sim.uprights import Uprights, find_uprights, paint_silhouette

PROFILE_POINTS = 24
STEEPEST = math.radians(89.0)
"""Beyond this pitch a camera sees its horizon nowhere near."""
STEEP = 0.24
"""Downward slope of a ray from which blocks are high: there a step down moves the ground point
almost as evenly as a step aside."""


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


@dataclass(frozen=True)
class Play:
    """How far the mounting of pictures' cameras may differ from the configured one."""

    pitch: float = 0.0
    """Radians, either way."""
    zoom: tuple[float, float] = (1.0, 1.0)
    """Least and greatest focal length, relative to the configured one."""


STEADY = Play()


def draw_forward(
    config: CameraConfig,
    fields: Fields,
    looks: Looks,
    view: View,
    *,
    play: Play = STEADY,
    uprights: Uprights | None = None,
) -> Tensor:
    """Pictures (B, height, width, 3 or 1), uint8.

    Args:
        config: The camera as mounted.
        fields: Road coordinates of the ground.
        looks: Atlases to draw with.
        view: Where the pictures are taken from.
        play: How far any picture's mounting may differ from the configured one.
        uprights: What stands on the ground, if anything.
    """
    frame = divide_rows(config, fields, play, uprights is not None)
    rows = scan_rows(config, fields, frame, view, take_aim(config, fields, view))
    bands, silhouettes = place_blocks(config, fields, frame, rows, view, uprights)
    pixels = read_raw(looks, view.look, bands, config.colour)
    for silhouette in silhouettes:
        pixels = paint_silhouette(looks, view.look, silhouette, pixels)
    return unpack(pixels)[:, :, : config.width]


@dataclass(frozen=True)
class Frame:
    """Which rows of all pictures can show what, from top to bottom."""

    first_ground: int
    """First row that can be ground."""
    last_sky: int
    """Past the last row that can be sky."""
    near: int
    """First row of high blocks, which fill the picture down to its lower edge."""
    high: int
    """Rows of high blocks."""


def divide_rows(config: CameraConfig, fields: Fields, play: Play, upright: bool) -> Frame:
    """Frame of a camera, with or without things that stand on the ground."""
    first_ground, last_sky = _horizon(config, play, 2 * fields.steepest)
    # Walls are looked for row by row, so no block is higher than that where there are any.
    near = config.height if upright else _near_row(config, last_sky)
    return Frame(first_ground, last_sky, near, (config.height - near) // HIGH)


def focal_length(config: CameraConfig) -> float:
    """Focal length in pixels."""
    return config.height / 2 / math.tan(math.radians(config.fov) / 2)


def padded_width(config: CameraConfig) -> int:
    """Pixels of a raw row: whole groups."""
    return -(-config.width // GROUP) * GROUP


def _horizon(config: CameraConfig, play: Play, slopes: float) -> tuple[int, int]:
    """First row that can be ground and last row (exclusive) that can be sky.

    The car may climb while the land falls, and the reverse: `slopes` is how far that can turn the
    view up or down, radians.
    """
    height, focal, pitch = config.height, focal_length(config), math.radians(config.pitch)
    turn = play.pitch + slopes
    if not turn and play.zoom == (1.0, 1.0):  # then a row is ground if its middle is
        first = last = round(height / 2 - focal * math.tan(pitch))
    else:
        angles = [min(max(pitch + side * turn, -STEEPEST), STEEPEST) for side in (-1, 1)]
        ends = [height / 2 - focal * zoom * math.tan(a) for zoom in play.zoom for a in angles]
        first, last = math.floor(min(ends)) - 1, math.ceil(max(ends)) + 1
    return min(max(first, 0), height), min(max(last, 0), height)


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
class Aim:
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


def take_aim(config: CameraConfig, fields: Fields, view: View) -> Aim:
    """What all rows of a picture share."""
    grids = fields.grids.index_select(0, view.road)
    left, bottom, scale, columns, rows, half_width = grids.unsqueeze(1).unbind(-1)
    pitch = (view.pitch - torch.atan(view.climb)).unsqueeze(-1)
    heading = view.heading.unsqueeze(-1)
    return Aim(
        sine=torch.sin(pitch),
        cosine=torch.cos(pitch),
        zoom=view.zoom.unsqueeze(-1),
        x=(view.x.unsqueeze(-1) - left) * scale,
        y=(view.y.unsqueeze(-1) - bottom) * scale,
        forward_x=torch.cos(heading) * scale,
        forward_y=torch.sin(heading) * scale,
        longest=config.far * half_width,
        columns=columns,
        rows=rows,
        first_cell=fields.first.index_select(0, view.road).unsqueeze(-1),
    )


def _downs(config: CameraConfig, rows: Tensor) -> Tensor:
    """How far below the picture's middle rows lie, in focal lengths; may be between rows."""
    return (rows + 0.5 - config.height / 2) / focal_length(config)


def _ground_downs(config: CameraConfig, frame: Frame, device: torch.device) -> Tensor:
    """`_downs` half a pixel above the middle of each row of ground blocks, then below (2 R,)."""
    single = torch.arange(frame.first_ground, frame.near, device=device, dtype=torch.float32)
    high = torch.arange(frame.high, device=device) * HIGH + (frame.near + (HIGH - 1) / 2)
    middle = torch.cat([single, high])
    return _downs(config, torch.cat([middle - 0.5, middle + 0.5]))


def _sky_downs(config: CameraConfig, frame: Frame, device: torch.device) -> Tensor:
    """`_downs` of the rows that can be sky (R,)."""
    return _downs(config, torch.arange(frame.last_sky, device=device))


def _rights(config: CameraConfig, group: int, device: torch.device) -> Tensor:
    """Middle of each group of pixels of a row, in focal lengths right of the middle (G,)."""
    middle = torch.arange(padded_width(config) // group, device=device) * group + group / 2
    return (middle - config.width / 2) / focal_length(config)


@dataclass(frozen=True)
class Rows:
    """What every row of a picture knows: rows of ground blocks and rows of sky."""

    ground: GroundRows
    distance: Tensor
    """Ground distance ahead (B, R)."""
    slope: Tensor
    """Downward slope of the rays (B, R)."""
    seen: Tensor
    """1 where the row's ray meets ground, else 0 (B, R)."""
    sky: Sky


def scan_rows(config: CameraConfig, fields: Fields, frame: Frame, view: View, aim: Aim) -> Rows:
    """Where every row of the pictures looks."""
    device = view.x.device
    # Each row's rays half a pixel above and below: their mean is the row, their difference the
    # step.
    slopes, forward = _rays(aim, constant(_ground_downs, config, frame, device))
    count = slopes.shape[1] // 2
    if fields.steepest:
        distances, seen = _land_on_hills(fields, view, slopes, aim.longest)
    else:
        distances = view.up.unsqueeze(-1) / slopes.clamp(min=1e-4)
        seen = (slopes > 0).to(torch.float32)
    distances = torch.minimum(distances, aim.longest)
    lateral = distances / (forward * aim.zoom)
    # Ground point in grid cells: at + side * right.
    ends = torch.stack(
        [
            torch.addcmul(aim.x, distances, aim.forward_x),
            lateral * aim.forward_y,
            torch.addcmul(aim.y, distances, aim.forward_y),
            lateral * -aim.forward_x,
        ],
        -1,
    ).unflatten(-1, (2, 2))  # (B, 2 R, x or y, at or side)
    upper, lower = ends[:, :count], ends[:, count:]
    lines = torch.cat([torch.lerp(upper, lower, 0.5), lower - upper], 2).transpose(1, 2)
    ground = GroundRows(lines.contiguous(), aim.columns, aim.rows, aim.first_cell)
    distance, at_slope = (torch.lerp(x[:, :count], x[:, count:], 0.5) for x in (distances, slopes))
    slope, _ = _rays(aim, constant(_sky_downs, config, frame, device))
    sideways = constant(_rights, config, 1, device) / aim.zoom  # (B, W)
    azimuth = view.heading.unsqueeze(-1) - torch.atan(sideways)
    sky = sky_places(-slope.unsqueeze(-1), azimuth.unsqueeze(1))
    return Rows(ground, distance, at_slope, seen[:, count:], sky)


def _rays(aim: Aim, downs: Tensor) -> tuple[Tensor, Tensor]:
    """Downward slope, and forward share of a unit of depth, of rays (R,); both (B, R)."""
    down = downs / aim.zoom
    forward = (aim.cosine - down * aim.sine).clamp_(min=1e-3)
    return torch.addcmul(aim.sine, down, aim.cosine) / forward, forward


def place_blocks(
    config: CameraConfig,
    fields: Fields,
    frame: Frame,
    rows: Rows,
    view: View | None = None,
    uprights: Uprights | None = None,
) -> tuple[tuple[Band | Sky, ...], tuple[Silhouette, ...]]:
    """Where in its atlas each block of a picture's pixels reads, from top to bottom.

    And the silhouettes of what stands on the ground, to be painted over that in turn; only for
    these is the view needed.
    """
    right = constant(_rights, config, GROUP, rows.seen.device)
    coordinates = road_coordinates(fields, rows.ground, right, 1.0 / focal_length(config))
    silhouettes: tuple[Silhouette, ...] = ()
    if uprights is not None and view is not None and rows.seen.shape[1] > 1:
        q, p = apart(coordinates.value)
        scan = Scan(q, p, rows.distance, rows.slope, rows.seen, frame.first_ground)
        eye = (view.x, view.y, view.z + view.up, view.heading)
        silhouettes = find_uprights(uprights, fields, view.road, eye, _lens(config, view), scan)
    ground, high = road_places(coordinates, frame.high)
    first_ground, last_sky, sky = frame.first_ground, frame.last_sky, rows.sky
    mixed = max(last_sky - first_ground, 0)
    bands: list[Band | Sky] = [Sky(sky.row[:, : min(first_ground, last_sky)], sky.column)]
    if mixed:
        above = sky_blocks(sky, first_ground, last_sky)
        bands.append(choose(rows.seen[:, :mixed].unsqueeze(-1), ground.part(0, mixed), above))
    bands.append(ground.part(mixed, frame.near - first_ground))
    if high is not None:
        bands.append(high)
    return tuple(band for band in bands if band.size[0]), silhouettes


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
