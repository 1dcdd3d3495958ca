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
from hotlap.sim.atlas import GROUP, Places, choose, read_raw, road_places, sky_places, unpack
from hotlap.sim.fields import Fields
from hotlap.sim.ground import GroundRows, land_height, road_coordinates
from hotlap.sim.looks import Looks
from hotlap.sim.silhouettes import Bands, Lens, Scan
from hotlap.sim.uprights import Uprights, find_uprights, paint_bands

PROFILE_POINTS = 24


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
    places, bands = look_around(config, fields, view, uprights, pitch_play=pitch_play)
    pixels = read_raw(looks, view.look, places, config.colour)
    for band in bands:
        pixels = paint_bands(looks, view.look, band, pixels)
    return unpack(pixels)[:, :, : config.width]


def look_forward(
    config: CameraConfig, fields: Fields, view: View, *, pitch_play: float = 0.0
) -> Places:
    """Where in its atlas each group of a picture's pixels reads (B, height, G)."""
    return look_around(config, fields, view, None, pitch_play=pitch_play)[0]


def look_around(
    config: CameraConfig,
    fields: Fields,
    view: View,
    uprights: Uprights | None,
    *,
    pitch_play: float = 0.0,
) -> tuple[Places, tuple[Bands, ...]]:
    """The same with the bands of what stands on the ground, to be painted over in their order."""
    height = config.height
    focal = height / 2 / math.tan(math.radians(config.fov) / 2)
    # The car may climb while the land falls, and the reverse: twice the steepest slope.
    play = pitch_play + 2 * fields.steepest
    slack = math.tan(min(play, 1.2)) * focal * 1.3 + (1.0 if play else 0.0)
    horizon = height / 2 - focal * math.tan(math.radians(config.pitch))
    first_ground = min(max(math.floor(horizon - slack), 0), height)
    last_sky = min(max(math.ceil(horizon + slack), 0), height)
    groups = -(-config.width // GROUP)
    device = view.x.device
    middle = torch.arange(groups, device=device) * GROUP + (GROUP - 1) / 2
    right = (middle + 0.5 - config.width / 2) / focal  # (G,)
    row = torch.arange(height, device=device, dtype=torch.float32)
    down = (row + 0.5 - height / 2) / focal  # (R,)
    rays = _rays(view, down)
    parts: list[Places] = []
    bands: tuple[Bands, ...] = ()
    if first_ground < height:
        ground, scan = _ground(fields, view, rays, right, first_ground, focal, config.far)
        if uprights is not None:
            eye = (view.x, view.y, view.z + view.up, view.heading)
            lens = _lens(config, view, focal)
            bands = find_uprights(uprights, fields, view.road, eye, lens, scan)
    if last_sky:
        sky = _sky(view, rays, right, last_sky, focal)
        parts.append(_rows(sky, 0, min(first_ground, last_sky)))
    if first_ground < last_sky:
        mixed = last_sky - first_ground
        mask = scan.seen[:, :mixed].unsqueeze(-1)
        parts.append(choose(mask, _rows(ground, 0, mixed), _rows(sky, first_ground, last_sky)))
    if last_sky < height:
        parts.append(_rows(ground, max(last_sky - first_ground, 0), height - first_ground))
    return tuple(torch.cat(part, 1) for part in zip(*parts, strict=True)), bands  # type: ignore[return-value]


def _lens(config: CameraConfig, view: View, focal: float) -> Lens:
    """How points become pixels in each picture."""
    pitch = (view.pitch - torch.atan(view.climb)).unsqueeze(-1)
    return Lens(
        sine=torch.sin(pitch),
        cosine=torch.cos(pitch),
        focal=focal * view.zoom.unsqueeze(-1),
        middle_row=config.height / 2 - 0.5,
        middle_column=config.width / 2 - 0.5,
    )


def _rows(places: Places, start: int, stop: int) -> Places:
    """The rows of `places` from start to stop."""
    return tuple(part[:, start:stop] for part in places)  # type: ignore[return-value]


@dataclass(frozen=True)
class _Rays:
    """Rays of each row: slope (B, R), and forward share of a unit of depth (B, R)."""

    slope: Tensor
    forward: Tensor


def _rays(view: View, down: Tensor) -> _Rays:
    """Rays of the rows at `down` (R,), in focal lengths below the picture's middle."""
    pitch = (view.pitch - torch.atan(view.climb)).unsqueeze(-1)
    down = down / view.zoom.unsqueeze(-1)
    sine, cosine = torch.sin(pitch), torch.cos(pitch)
    forward = (cosine - down * sine).clamp(min=1e-3)
    return _Rays(slope=(sine + down * cosine) / forward, forward=forward)


def _sky(view: View, rays: _Rays, right: Tensor, rows: int, focal: float) -> Places:
    """Places in the panorama of the first `rows` rows (B, rows, G)."""
    sideways = right / view.zoom.unsqueeze(-1)  # (B, G)
    azimuth = (view.heading.unsqueeze(-1) - torch.atan(sideways)).unsqueeze(1)
    step = (-1.0 / focal / view.zoom.unsqueeze(-1) / (1 + sideways * sideways)).unsqueeze(1)
    places = sky_places(-rays.slope[:, :rows].unsqueeze(-1), azimuth, step)
    shape = (len(view.x), rows, len(right))
    return tuple(part.expand(shape) for part in places)  # type: ignore[return-value]


def _ground(
    fields: Fields,
    view: View,
    rays: _Rays,
    right: Tensor,
    first: int,
    focal: float,
    far: float,
) -> tuple[Places, Scan]:
    """Places in the road's tile of the rows from `first` on, and what those rows know."""
    slope = rays.slope[:, first:]
    grids = fields.grids.index_select(0, view.road)
    left, bottom, scale, columns, rows, half_width = grids.unsqueeze(1).unbind(-1)  # (B, 1)
    longest = far * half_width
    if fields.steepest:
        distance, seen = _land_on_hills(fields, view, slope, longest)
    else:
        distance = view.up.unsqueeze(-1) / slope.clamp(min=1e-4)
        seen = (slope > 0).to(torch.float32)
    distance = torch.minimum(distance, longest)
    lateral = distance / rays.forward[:, first:] / view.zoom.unsqueeze(-1)
    fx = torch.cos(view.heading).unsqueeze(-1) * scale
    fy = torch.sin(view.heading).unsqueeze(-1) * scale
    # Ground point in grid cells: at + side * right.
    at_x = (view.x.unsqueeze(-1) - left) * scale + distance * fx
    at_y = (view.y.unsqueeze(-1) - bottom) * scale + distance * fy
    points = GroundRows(at_x, at_y, lateral * fy, -lateral * fx, columns, rows)
    first_cell = fields.first.index_select(0, view.road)
    coordinates = road_coordinates(fields, first_cell, points, right, 1.0 / focal)
    scan = Scan(coordinates[0], coordinates[3], distance, slope, seen, first)
    return road_places(*coordinates), scan


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
