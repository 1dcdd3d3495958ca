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

What else is in the world (hills, walls, other tracks) may change where a picture is looked at
closely, never what is seen there: a picture is the same in whatever company.
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
    Mixed,
    Sky,
    constant,
    read_raw,
    road_places,
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
    frame = divide_rows(config, fields, play)
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


def divide_rows(config: CameraConfig, fields: Fields, play: Play) -> Frame:
    """Frame of a camera.

    Hills widen the rows that can be both ground and sky, into those of high blocks if need be.
    Where high blocks begin must not depend on them: blocks of another size are other pixels, and a
    flat track would look different beside a hilly one.
    """
    near = _near_row(config, _horizon(config, play, 0.0)[1])
    first_ground, last_sky = _horizon(config, play, 2 * fields.steepest)
    if last_sky > near:
        last_sky = near - (near - last_sky) // HIGH * HIGH  # whole blocks
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
        first = last = math.floor(height / 2 - focal * math.tan(pitch) + 0.5)
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
    climb: Tensor
    """Steepest slope of the track's road; 0 where it is flat."""
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
        climb=fields.climbs.index_select(0, view.road).unsqueeze(-1),
        columns=columns,
        rows=rows,
        first_cell=fields.first.index_select(0, view.road).unsqueeze(-1),
    )


def _downs(config: CameraConfig, rows: Tensor) -> Tensor:
    """How far below the picture's middle rows lie, in focal lengths; may be between rows."""
    return (rows + 0.5 - config.height / 2) / focal_length(config)


def _ground_rows(frame: Frame, device: torch.device) -> Tensor:
    """Middle of each row of ground blocks, in rows of pixels (R,)."""
    single = torch.arange(frame.first_ground, frame.near, device=device, dtype=torch.float32)
    high = torch.arange(frame.high, device=device) * HIGH + (frame.near + (HIGH - 1) / 2)
    return torch.cat([single, high])


def _ground_downs(config: CameraConfig, frame: Frame, device: torch.device) -> Tensor:
    """`_downs` half a pixel above the middle of each row of ground blocks, then below (2 R,)."""
    middle = _ground_rows(frame, device)
    return _downs(config, torch.cat([middle - 0.5, middle + 0.5]))


def _middle_downs(config: CameraConfig, frame: Frame, device: torch.device) -> Tensor:
    """`_downs` of the middle of each row of ground blocks (R,)."""
    return _downs(config, _ground_rows(frame, device))


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
    """1 where the ray meets ground, else 0 (B, R)."""
    sky: Sky
    mixed: Tensor
    """1 where a row of pixels that can be both is ground, 0 where it is sky (B, rows, 1)."""


def scan_rows(config: CameraConfig, fields: Fields, frame: Frame, view: View, aim: Aim) -> Rows:
    """Where every row of the pictures looks."""
    device = view.x.device
    # Each row's rays half a pixel above and below: their mean is the row, their difference the
    # step.
    slopes, forward = _rays(aim, constant(_ground_downs, config, frame, device))
    count = slopes.shape[1] // 2
    distances = view.up.unsqueeze(-1) / slopes.clamp(min=1e-4)
    horizon = torch.zeros_like(aim.climb)
    if fields.steepest:
        on_hills, horizon = _land_on_hills(fields, view, slopes, aim)
        distances = torch.where(aim.climb > 0, on_hills, distances)
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
    distance = torch.lerp(distances[:, :count], distances[:, count:], 0.5)
    at_slope, _ = _rays(aim, constant(_middle_downs, config, frame, device))
    slope, _ = _rays(aim, constant(_sky_downs, config, frame, device))
    seen, mixed = (
        (x > horizon).to(torch.float32) for x in (at_slope, slope[:, frame.first_ground :])
    )
    sideways = constant(_rights, config, 1, device) / aim.zoom  # (B, W)
    azimuth = view.heading.unsqueeze(-1) - torch.atan(sideways)
    sky = sky_places(-slope.unsqueeze(-1), azimuth.unsqueeze(1))
    return Rows(ground, distance, at_slope, seen, sky, mixed.unsqueeze(-1))


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
) -> tuple[tuple[Band | Mixed | Sky, ...], tuple[Silhouette, ...]]:
    """Where in its atlas each block of a picture's pixels reads, from top to bottom.

    And the silhouettes of what stands on the ground, to be painted over that in turn; only for
    these is the view needed.
    """
    right = constant(_rights, config, GROUP, rows.seen.device)
    coordinates = road_coordinates(fields, rows.ground, right, 1.0 / focal_length(config))
    silhouettes: tuple[Silhouette, ...] = ()
    if uprights is not None and view is not None and rows.seen.shape[1] > 1:
        q, p = apart(coordinates.value)
        at = constant(_ground_rows, frame, rows.seen.device)
        scan = Scan(q, p, rows.distance, rows.slope, rows.seen, at)
        eye = (view.x, view.y, view.z + view.up, view.heading)
        silhouettes = find_uprights(uprights, fields, view.road, eye, _lens(config, view), scan)
    bands: list[Band | Mixed | Sky] = [rows.sky.part(0, frame.first_ground)]
    for ground in filter(None, road_places(coordinates, frame.high)):
        bands += _below_sky(ground, frame, rows, sum(band.size[0] for band in bands))
    return tuple(band for band in bands if band.size[0]), silhouettes


def _below_sky(ground: Band, frame: Frame, rows: Rows, top: int) -> tuple[Band | Mixed, ...]:
    """Ground from row `top` on: first the rows that can be sky too, then those that cannot."""
    both = max(min(frame.last_sky - top, ground.size[0]), 0)
    if not both:
        return (ground,)
    first, blocks = top - frame.first_ground, both // ground.block[0]
    seen = rows.mixed[:, first : first + both]
    mixed = Mixed(ground.part(0, blocks), rows.sky.part(top, top + both), seen)
    return mixed, ground.part(blocks, ground.row.shape[1])


def _land_on_hills(fields: Fields, view: View, slope: Tensor, aim: Aim) -> tuple[Tensor, Tensor]:
    """Where rays of `slope` (B, R) land on the land ahead, and the horizon's slope (B, 1).

    The land's height is read at PROFILE_POINTS distances straight ahead, closer together near the
    car. A ray lands on the first piece of that profile that reaches up to it; one that passes over
    the horizon is taken to where the horizon is, so that a block of both ends there.
    """
    share = torch.linspace(0.0, 1.0, PROFILE_POINTS, device=slope.device)
    ahead = aim.longest * 0.004 * (250.0**share)  # (B, M), 0.4 % to 100 % of the longest distance
    x = view.x.unsqueeze(-1) + ahead * torch.cos(view.heading).unsqueeze(-1)
    y = view.y.unsqueeze(-1) + ahead * torch.sin(view.heading).unsqueeze(-1)
    height = land_height(fields, view.road, x, y)
    drop = (view.z + view.up).unsqueeze(-1) - height  # how far the land lies below the lens
    lens = view.up.unsqueeze(-1)
    # Slope at which each point is seen; the running minimum is what is not hidden by nearer land.
    reach = torch.cummin(drop / ahead, 1).values
    # Land beside a road may be steeper than any road, but rows that can be sky reckon with roads.
    horizon = torch.minimum(torch.maximum(reach[:, -1:], -aim.climb), aim.climb)
    slope = torch.maximum(slope, horizon)
    after = torch.searchsorted(-reach, -slope.contiguous()).clamp(max=PROFILE_POINTS - 1)
    before = (after - 1).clamp(min=0)
    near = torch.where(after > 0, ahead.gather(1, before), 0.0)
    near_drop = torch.where(after > 0, drop.gather(1, before), lens.expand_as(near))
    far_, far_drop = ahead.gather(1, after), drop.gather(1, after)
    # Ray: drop = slope * d. Land: a straight piece between the two points. They meet at d.
    fall = (far_drop - near_drop) / (far_ - near)
    gap = (slope - fall).clamp(min=1e-6)
    distance = ((near_drop - fall * near) / gap).clamp(min=0.0)
    return torch.minimum(torch.maximum(distance, near), far_), horizon
