"""The ground of CarRacing as maps to read pixels from: grass, road and kerbs of every track.

    texel   a pixel of a map, already blurred as much as a picture's pixel is
    period  side of the square that the grass repeats itself in; a whole number of texels
    pool    all texels of all maps, one after the other                          (T,)
    level   how coarse a map is: 0 is what a car sees, the others are for the first second, in
            which the view comes down from far above

Level 0 covers the road and as much grass around it as can be seen from anywhere near; its maps are
of one width, a whole number of periods, and lie below each other in the pool. So what is read
beyond the right side comes from the left side one row further, and what is read below from the
next map: grass that continues the pattern. A car from which no road can be seen reads from a map
that all tracks share, the plain field. The other levels cover the whole field and some of the
blackness around it, twice as much with what lies on the other side.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter
from torch import Tensor

from hotlap.sim.carracing.tile_track import PLAYFIELD, Numbers, TileTrack
from hotlap.sim.threads import at_once

Colour = tuple[int, int, int]

PERIOD = PLAYFIELD / 10
"""Two grass squares, a light and a dark one."""
VIEW_REACH = 48.5
"""From a car to the furthest corner of its picture, after the first second."""
NEAREST_ZOOM = 16.2
"""Pixels of Gymnasium's window per unit, after the first second."""
FINEST = 96
"""Texels of level 0 per period: 0.35 units each, and a picture's pixel is 0.64 by 0.51. With 128,
pictures were nearer to Gymnasium's (0.37 gray levels in place of 0.44), with 64 less so (0.57)."""
LOSS = 2
"""What pygame's shrinking takes off every colour that is not 0."""
SOFTENING = 0.2
"""Radius of the box blur that makes a texel as wide as a picture's pixel; the best of those tried
against Gymnasium's frames."""
DRAWN_GROWTH = 0.31
"""Drawn pixels by which Pillow's polygons are larger, at each side; the mean over directions."""
SEEN_GROWTH = 0.5
"""Pixels of Gymnasium's window by which its polygons are larger, at each side."""

BACKGROUND = (102, 204, 102)
GRASS = (102, 230, 102)
ROAD = tuple((shade, shade, shade) for shade in (102, 104, 107))
KERB = ((255, 255, 255), (255, 0, 0))


@dataclass(frozen=True)
class Level:
    """How the maps of a level are laid out."""

    texels: int
    """Per period."""
    margin: int
    """Periods of blackness at each side of the field."""
    samples: int
    """Drawn pixels per texel, along each axis."""

    @property
    def zoom(self) -> float:
        """Pixels of Gymnasium's window per unit, at which a texel is as blurred as a pixel."""
        return NEAREST_ZOOM * self.texels / FINEST

    @property
    def drawn(self) -> float:
        """Drawn pixels per unit."""
        return self.texels * self.samples / PERIOD

    @property
    def side(self) -> int:
        """Texels across a map of the whole field."""
        return (20 + 2 * self.margin) * self.texels


LEVELS = (
    Level(FINEST, 2, 2),
    Level(FINEST // 2, 1, 1),
    Level(FINEST // 4, 3, 1),
    Level(FINEST // 8, 7, 1),
    Level(FINEST // 16, 12, 1),
)
GUARD = 300
"""Rows before and after the maps of a level; a picture reaches less far from its car."""


@dataclass(frozen=True)
class Maps:
    """The ground of N tracks, on L levels."""

    pool: Tensor
    """Gray uint8, or red, green and blue packed into int32."""
    first: Tensor
    """Place in the pool of a map's first texel (L * count,) int64, level by level."""
    corner: Tensor
    """Least x and y of a map (L * count, 2)."""
    width: Tensor
    """Texels in a row of a map (L * count,) int64."""
    scale: Tensor
    """Texels per unit (L,)."""
    near: Tensor
    """Least x and y and largest x and y from which a track's road can be seen (N, 2, 2)."""
    count: int
    """Maps of a level: one for each track, and the plain field."""


def gray(colour: Colour) -> int:
    """Gray of a colour, in the whole numbers that OpenCV reckons in."""
    red, green, blue = colour
    return (4899 * red + 9617 * green + 1868 * blue + 8192) >> 14


def shrunk(colour: Colour) -> Colour:
    """A colour as it comes out of pygame's shrinking."""
    red, green, blue = (max(value - LOSS, 0) for value in colour)
    return red, green, blue


def make_maps(tracks: Sequence[TileTrack], colour: bool, device: torch.device | str) -> Maps:
    """Draw the ground of all tracks."""
    boxes = [_box(track) for track in tracks]
    wide = max(box[2] - box[0] for box in boxes)
    corners, sizes = _lay_out(boxes, wide)
    areas = sizes[..., 0] * sizes[..., 1]  # rows times texels in a row
    guards = GUARD * sizes[:, 0, 1]
    first = np.zeros_like(areas)
    place = 0
    for level, area in enumerate(areas):
        first[level] = place + guards[level] + np.concatenate([[0], np.cumsum(area[:-1])])
        first[level, -1] += guards[level]  # grass between the last track and the plain field
        place = int(first[level, -1] + area[-1] + guards[level])
    pool = torch.zeros(place, dtype=torch.int32 if colour else torch.uint8, device=device)
    where = _Layout(first, corners, sizes)
    _fill(pool, where, len(tracks), None, colour)
    _fill_guards(pool, where, colour)
    at_once(lambda i: _fill(pool, where, i, tracks[i], colour), range(len(tracks)))
    _plain_field.cache_clear()
    return Maps(
        pool=pool,
        first=torch.as_tensor(first.reshape(-1), device=device),
        corner=torch.as_tensor(corners.reshape(-1, 2), dtype=torch.float32, device=device),
        width=torch.as_tensor(sizes[..., 1].reshape(-1), device=device),
        scale=torch.tensor([level.texels / PERIOD for level in LEVELS], device=device),
        near=torch.tensor([_near(track) for track in tracks], device=device).view(-1, 2, 2),
        count=len(tracks) + 1,
    )


@dataclass(frozen=True)
class _Layout:
    """Where maps are, in NumPy: as in `Maps`, but (L, count, ...)."""

    first: NDArray[np.int64]
    corners: Numbers
    sizes: NDArray[np.int64]
    """Rows, and texels in a row (L, count, 2)."""


def _near(track: TileTrack) -> tuple[float, float, float, float]:
    """From where the road of a track can be seen: least x and y, largest x and y."""
    corners = np.concatenate([track.tiles, track.kerbs]).reshape(-1, 2)
    low, high = corners.min(0) - VIEW_REACH, corners.max(0) + VIEW_REACH
    return float(low[0]), float(low[1]), float(high[0]), float(high[1])


def _box(track: TileTrack) -> tuple[int, int, int, int]:
    """What a track's map of level 0 covers: its least x and y and its largest, in periods."""
    west, south, east, north = (end / PERIOD for end in _near(track))
    return math.floor(west), math.floor(south), math.ceil(east), math.ceil(north)


def _lay_out(
    boxes: Sequence[tuple[int, int, int, int]], wide: int
) -> tuple[Numbers, NDArray[np.int64]]:
    """Corner (L, count, 2) and size (L, count, 2) of every map; those of level 0 `wide` periods."""
    corners = np.empty((len(LEVELS), len(boxes) + 1, 2))
    sizes = np.empty(corners.shape, np.int64)
    for i, level in enumerate(LEVELS):
        corners[i], sizes[i] = -PLAYFIELD - level.margin * PERIOD, level.side
    texels = LEVELS[0].texels
    for i, (west, south, _, north) in enumerate(boxes):
        corners[0, i] = west * PERIOD, south * PERIOD
        sizes[0, i] = (north - south) * texels, wide * texels
    return corners, sizes


def _fill(pool: Tensor, where: _Layout, i: int, track: TileTrack | None, colour: bool) -> None:
    """Draw one track's maps of all levels to their places in the pool."""
    for number, level in enumerate(LEVELS):
        texels = _draw_map(track, level, where.corners[number, i], where.sizes[number, i], colour)
        start = int(where.first[number, i])
        pool[start : start + len(texels)] = torch.from_numpy(texels)


def _fill_guards(pool: Tensor, where: _Layout, colour: bool) -> None:
    """Grass before and after the maps of level 0, where a car near the first or last map looks."""
    last = where.first.shape[1] - 2
    wide = int(where.sizes[0, 0, 1])
    periods = -(-GUARD // LEVELS[0].texels)
    corner = np.array([-PLAYFIELD, -PLAYFIELD])
    size = np.array([periods * LEVELS[0].texels, wide])
    grass = torch.from_numpy(_draw_map(None, LEVELS[0], corner, size, colour))
    before = int(where.first[0, 0])
    after = int(where.first[0, last] + where.sizes[0, last].prod())
    pool[before - GUARD * wide : before] = grass[len(grass) - GUARD * wide :]
    pool[after : after + GUARD * wide] = grass[: GUARD * wide]


def _draw_map(
    track: TileTrack | None, level: Level, corner: Numbers, size: NDArray[np.int64], colour: bool
) -> NDArray[np.uint8] | NDArray[np.int32]:
    """Texels of a map of `size` rows and columns whose least x and y are `corner`, in one row."""
    away = (corner + PLAYFIELD + level.margin * PERIOD) * level.drawn
    left, top = np.round(away).astype(int).tolist()
    rows, columns = (size * level.samples).tolist()
    picture = _plain_field(level, colour).crop((left, top, left + columns, top + rows))
    if track is not None:
        _draw_road(picture, track, corner, level)
    picture = picture.reduce(level.samples).filter(ImageFilter.BoxBlur(SOFTENING))
    texels = np.array(picture)
    if colour:
        packed = texels.astype(np.int32) << np.array([0, 8, 16], np.int32)
        return packed.sum(-1, dtype=np.int32).reshape(-1)
    return texels.reshape(-1)


def _draw_road(picture: Image.Image, track: TileTrack, corner: Numbers, level: Level) -> None:
    """Draw tiles and kerbs."""
    ink = ImageDraw.Draw(picture)
    kind = picture.mode
    road = [_paint(colour, kind) for colour in ROAD]
    kerb = [_paint(colour, kind) for colour in KERB]
    drawn = level.drawn
    more = SEEN_GROWTH / level.zoom - DRAWN_GROWTH / drawn
    tiles = (_widened(track.tiles, more) - corner) * drawn
    kerbs = (_widened(track.kerbs, more) - corner) * drawn
    tile_points, kerb_points = tiles.reshape(-1, 8).tolist(), kerbs.reshape(-1, 8).tolist()
    for i, side in enumerate(track.kerb.tolist()):
        ink.polygon(tile_points[i], fill=road[i % len(road)])
        if side:
            ink.polygon(kerb_points[i], fill=kerb[i % len(kerb)])


def _widened(strips: Numbers, more: float) -> Numbers:
    """Quadrilaterals (N, 4, 2) between two sides, each side further out by `more`."""
    across = strips[:, [1, 0, 3, 2]] - strips
    length = np.linalg.norm(across, axis=-1, keepdims=True)
    return strips - across * (more / np.maximum(length, 1e-9))


def _paint(colour: Colour, kind: str) -> int | Colour:
    """What Pillow draws a colour with in gray ("L") or colour pictures."""
    return gray(shrunk(colour)) if kind == "L" else shrunk(colour)


@lru_cache(maxsize=2 * len(LEVELS))
def _plain_field(level: Level, in_colour: bool) -> Image.Image:
    """The field without a road, in drawn pixels."""
    kind = "RGB" if in_colour else "L"
    growth = SEEN_GROWTH / level.zoom
    count = level.side * level.samples
    edges = (np.arange(count + 1) - count / 2) / level.drawn
    # How much of a square lies before an edge; shares of pixels, since growth is less than one.
    width = PERIOD / 2 + 2 * growth
    periods, rest = np.divmod(edges + growth, PERIOD)
    light = np.diff(periods * width + np.minimum(rest, width)) * level.drawn
    end = PLAYFIELD + growth
    inside = np.diff(edges.clip(-end, end)) * level.drawn
    field, square = (np.multiply.outer(c, c).astype(np.float32) for c in (inside, light * inside))
    paints = [np.atleast_1d(_paint(colour, kind)).tolist() for colour in (BACKGROUND, GRASS)]
    channels = [  # one by one: the field is large
        Image.fromarray((field * dark + square * (bright - dark) + 0.5).astype(np.uint8))
        for dark, bright in zip(*paints, strict=True)
    ]
    return Image.merge(kind, channels)
