"""What a world looks like: one filtered picture atlas per look.

A camera draws every pixel with one read of an atlas, at a place and a level of detail that the
camera works out for small groups of pixels. An atlas is `ROWS` x `WIDTH` colours:

    tile   the road's pattern in road coordinates (phase down, q across), at every combination of
           levels of detail along and across: level k halves the resolution k times
    sky    a panorama (elevation down, azimuth across): sky, far hills, or the walls of a hall
    paint  rows of plain or striped colours for walls, cones and cars

Because the tile is filtered separately along and across the road, a lane line that runs towards the
horizon stays a line and one that crosses the view fades into the road, without flicker.
"""

import zlib
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product

import numpy as np
import torch
from torch import Tensor

from hotlap.config.naming import nearest
from hotlap.sim.fields import P_STEPS, Q_STEPS
from hotlap.sim.threads import at_once

WIDTH = 1024
Q_SPAN = 2.0
"""The tile reaches from q = -Q_SPAN to +Q_SPAN; beyond it the land is plain."""
BINS = int(2 * Q_SPAN * Q_STEPS)
"""Columns of the tile's finest level."""
PHASES = P_STEPS
"""Rows of the tile's finest level: one period of the pattern."""
LEVELS = 8
REPEAT = 32
"""Rows of the pattern repeated before and after a period, since a group may read past its ends."""
LEVEL_ROWS = PHASES + 2 * REPEAT
"""Rows of the finest level along the road; each next level has half as many."""
TILE_ROWS = 2 * LEVEL_ROWS - (LEVEL_ROWS >> (LEVELS - 1))
SKY_TOP = TILE_ROWS
SKY_ROWS = 64
SKY_STEEPEST = 0.95
"""Tangent of the elevation at the panorama's top row."""
SKY_SCALE = 60.0
"""Rows per unit of the elevation's tangent."""
SKY_COLUMNS = 1000
SKY_MARGIN = 12
PAINT_TOP = SKY_TOP + SKY_ROWS
PAINTS = ("wall", "cone", "car", "rival", "shadow", "post")
ROWS = PAINT_TOP + len(PAINTS)

RGB = tuple[float, float, float]


@dataclass(frozen=True)
class Style:
    """Colours (0 to 1) and markings of a kind of place. Widths are in half-widths of the road."""

    road: RGB = (0.27, 0.27, 0.29)
    land: RGB = (0.27, 0.45, 0.16)
    shoulder: RGB = (0.40, 0.36, 0.26)
    shoulder_width: float = 0.12
    edge: RGB | None = (0.93, 0.93, 0.90)
    edge_width: float = 0.055
    centre: RGB | None = (0.95, 0.76, 0.12)
    centre_width: float = 0.05
    dashes: int = 2
    """Dashes of the centre line in a period; 0 draws it solid."""
    kerb: tuple[RGB, RGB] | None = None
    kerb_width: float = 0.16
    road_grain: float = 0.05
    land_grain: float = 0.16
    sky_high: RGB = (0.30, 0.52, 0.88)
    sky_low: RGB = (0.78, 0.87, 0.96)
    far: RGB = (0.36, 0.46, 0.44)
    far_height: float = 0.16
    """Tangent of the elevation of the highest far hills; 0 for none."""
    trees: float = 0.05
    indoor: bool = False
    wall: tuple[RGB, RGB] = ((0.85, 0.85, 0.85), (0.75, 0.20, 0.15))
    light: float = 1.0


STYLES: dict[str, Style] = {
    "road": Style(),
    "circuit": Style(
        road=(0.30, 0.30, 0.32), centre=None, kerb=((0.86, 0.14, 0.12), (0.94, 0.94, 0.92)),
        land=(0.30, 0.52, 0.20), far_height=0.10, trees=0.07,
    ),
    "dirt": Style(
        road=(0.42, 0.37, 0.32), land=(0.47, 0.43, 0.27), shoulder=(0.52, 0.42, 0.29),
        centre=(0.93, 0.80, 0.25), far=(0.45, 0.40, 0.42), far_height=0.34, trees=0.02,
        road_grain=0.09,
    ),
    "warehouse": Style(
        road=(0.52, 0.52, 0.51), land=(0.63, 0.62, 0.59), shoulder=(0.60, 0.59, 0.56),
        edge=(0.95, 0.80, 0.10), centre=(0.92, 0.92, 0.92), dashes=2, land_grain=0.05,
        sky_high=(0.32, 0.33, 0.36), sky_low=(0.58, 0.60, 0.62), far=(0.45, 0.50, 0.58),
        far_height=0.42, indoor=True, wall=((0.95, 0.62, 0.10), (0.18, 0.18, 0.18)),
    ),
    "floor": Style(
        road=(0.17, 0.17, 0.19), land=(0.66, 0.56, 0.44), shoulder=(0.62, 0.53, 0.41),
        edge=(0.95, 0.95, 0.95), edge_width=0.08, centre=(0.96, 0.60, 0.10), centre_width=0.07,
        dashes=2, land_grain=0.07, sky_high=(0.72, 0.70, 0.66), sky_low=(0.86, 0.84, 0.79),
        far=(0.52, 0.60, 0.66), far_height=0.30, indoor=True,
    ),
    "carracing": Style(
        road=(0.41, 0.41, 0.41), land=(0.40, 0.80, 0.40), shoulder=(0.40, 0.80, 0.40), edge=None,
        centre=None, kerb=None, road_grain=0.0, land_grain=0.05, far_height=0.0, trees=0.0,
    ),
}  # fmt: skip


DONKEY_STYLES = ("road", "circuit", "dirt", "warehouse", "floor")
"""Those of the DonkeyCar scenes."""


def find_style(name: str) -> Style:
    """The style called `name`."""
    if name not in STYLES:
        raise KeyError(nearest(name, STYLES, "style"))
    return STYLES[name]


@dataclass(frozen=True)
class Looks:
    """Atlases of L looks, flat, and where each style's looks begin."""

    colour: Tensor
    """Packed red, green, blue, 255 (L * ROWS * WIDTH,) int32."""
    gray: Tensor
    """Luminance (L * ROWS * WIDTH,) uint8."""
    styles: tuple[str, ...]
    variants: int
    """Looks of each style: the first as designed, the others varied."""


@lru_cache(maxsize=2)  # the tasks of a run often share them, and a set may be large
def make_looks(
    styles: tuple[str, ...],
    variants: int = 1,
    seed: int = 0,
    light: tuple[float, float] = (1.0, 1.0),
    colour: float = 0.0,
    texture: tuple[float, float] = (1.0, 1.0),
    device: torch.device | str = "cpu",
) -> Looks:
    """Paint `variants` looks of each style.

    Args:
        styles: Names of styles.
        variants: Looks per style; all but the first are varied within the ranges below.
        seed: What the variations are drawn from.
        light: Range of the brightness.
        colour: How far each colour may wander, as a share of full scale.
        texture: Range of the grain's strength.
        device: Where the atlases go.
    """

    def paint(which: tuple[str, int]) -> tuple[np.ndarray, np.ndarray]:
        name, variant = which
        # By name, so that a place looks the same in whatever company; and plain it always does.
        key = [seed if variant else 0, zlib.crc32(name.encode()), variant]
        draw = np.random.Generator(np.random.PCG64(key))
        style = find_style(name)
        if variant:
            style = vary(style, draw, light, colour, texture)
        atlas = paint_atlas(style, draw)
        gray = _as_bytes(atlas @ np.array([0.299, 0.587, 0.114]))
        opaque = np.full((*atlas.shape[:2], 1), 255, np.uint8)
        return np.concatenate([_as_bytes(atlas), opaque], -1).view(np.int32), gray

    painted = at_once(paint, product(styles, range(variants)))
    packed, gray = zip(*painted, strict=True)
    return Looks(
        colour=torch.as_tensor(np.stack(packed).reshape(-1), device=device),
        gray=torch.as_tensor(np.stack(gray).reshape(-1), device=device),
        styles=styles,
        variants=variants,
    )


def _as_bytes(shares: np.ndarray) -> np.ndarray:
    """Shares of full scale as bytes; overwrites them: new arrays of this size take longer."""
    np.clip(shares, 0, 1, out=shares)
    np.multiply(shares, 255, out=shares)
    return np.rint(shares, out=shares).astype(np.uint8)


def vary(
    style: Style,
    draw: np.random.Generator,
    light: tuple[float, float],
    colour: float,
    texture: tuple[float, float],
) -> Style:
    """The same place in another light, other paint and another season."""

    def shifted(rgb: RGB | None) -> RGB | None:
        if rgb is None:
            return None
        moved = np.clip(np.array(rgb) + draw.uniform(-colour, colour, 3), 0, 1)
        return (float(moved[0]), float(moved[1]), float(moved[2]))

    names = ("road", "land", "shoulder", "edge", "centre", "sky_high", "sky_low", "far")
    changed = {name: shifted(getattr(style, name)) for name in names}
    grain = draw.uniform(*texture)
    return replace(
        style,
        **changed,  # type: ignore[arg-type]
        light=style.light * float(draw.uniform(*light)),
        road_grain=style.road_grain * grain,
        land_grain=style.land_grain * grain,
    )


def paint_atlas(style: Style, draw: np.random.Generator) -> np.ndarray:
    """One atlas (ROWS, WIDTH, 3), colours 0 to 1."""
    atlas = np.empty((ROWS, WIDTH, 3))
    atlas[:] = style.land
    _place_levels(atlas, _paint_tile(style, draw))
    sky = _paint_sky(style, draw)
    columns = (np.arange(WIDTH) - SKY_MARGIN) % SKY_COLUMNS
    atlas[SKY_TOP : SKY_TOP + SKY_ROWS] = sky[:, columns]
    atlas[PAINT_TOP:] = _paint_rows(style)
    atlas *= style.light
    return atlas


def _place_levels(atlas: np.ndarray, tile: np.ndarray) -> None:
    """Write the tile at all levels of detail into the atlas."""
    row = 0
    along = tile
    for depth in range(LEVELS):
        rows = np.arange(LEVEL_ROWS >> depth) - (REPEAT >> depth)
        level, column = along, 0
        for _ in range(LEVELS):
            columns = slice(column, column + level.shape[1])
            atlas[row : row + len(rows), columns] = level[rows % len(level)]
            column += level.shape[1]
            level = _halve(level, axis=1)
        row += len(rows)
        along = _halve(along, axis=0)


def _halve(image: np.ndarray, axis: int) -> np.ndarray:
    """Half the resolution along an axis, weighing neighbours 1 3 3 1 (rows wrap, columns end)."""
    if axis == 0:
        before, after = np.roll(image, 1, 0), np.roll(image, -1, 0)
    else:
        before = np.concatenate([image[:, :1], image[:, :-1]], 1)
        after = np.concatenate([image[:, 1:], image[:, -1:]], 1)
    pair = (np.s_[0::2], np.s_[1::2])
    low, high = pair if axis == 0 else ((np.s_[:], pair[0]), (np.s_[:], pair[1]))
    if image.shape[axis] == 1:
        return image
    return (before[low] + 3 * image[low] + 3 * image[high] + after[high]) / 8


def _paint_tile(style: Style, draw: np.random.Generator) -> np.ndarray:
    """The road's pattern (PHASES, BINS, 3) over one period and |q| <= Q_SPAN."""
    q = (np.arange(BINS) + 0.5) / BINS * 2 * Q_SPAN - Q_SPAN
    phase = (np.arange(PHASES) + 0.5) / PHASES
    side = np.abs(q)
    soft = 1.5 * 2 * Q_SPAN / BINS  # edges are ramps of about a column and a half

    def band(low: float, high: float, where: np.ndarray = side) -> np.ndarray:
        rise = np.clip((where - low) / soft + 0.5, 0, 1)
        return rise * np.clip((high - where) / soft + 0.5, 0, 1)

    def grain(strength: float) -> np.ndarray:
        noise = draw.normal(0, 1, (PHASES, BINS, 1))
        coarse = draw.normal(0, 1, (PHASES // 8, BINS // 16, 1))
        coarse = np.repeat(np.repeat(coarse, 8, 0), 16, 1)
        return 1 + strength * (0.5 * noise + 0.7 * coarse)

    # Beyond the grid the land is plain, so its grain fades before q runs out.
    fade = np.clip((0.9 * Q_SPAN - side) / 0.4, 0, 1)[None, :, None]
    image = np.array(style.land) * (1 + fade * (grain(style.land_grain) - 1))
    road = np.array(style.road) * grain(style.road_grain)

    def put(layer: np.ndarray, cover: np.ndarray) -> None:
        cover = np.broadcast_to(cover, (PHASES, BINS))[..., None]
        image[:] = image * (1 - cover) + layer * cover

    put(np.array(style.shoulder) * grain(style.road_grain * 2), band(-1, 1 + style.shoulder_width))
    put(road, band(-1, 1))
    if style.kerb is not None:
        stripes = (np.floor(phase * 4) % 2 == 0)[:, None, None]
        put(np.where(stripes, style.kerb[0], style.kerb[1]), band(1 - 0.02, 1 + style.kerb_width))
    if style.edge is not None:
        inner = 0.97 - style.edge_width
        put(np.array(style.edge), band(inner, 0.97))
    if style.centre is not None:
        on = np.ones(PHASES)
        if style.dashes:
            ramp = np.sin(2 * np.pi * style.dashes * phase) * PHASES / (2 * np.pi * style.dashes)
            on = np.clip(ramp + 0.5, 0, 1)
        put(np.array(style.centre), on[:, None] * band(-1, style.centre_width / 2)[None])
    return image


def _paint_sky(style: Style, draw: np.random.Generator) -> np.ndarray:
    """The panorama (SKY_ROWS, SKY_COLUMNS, 3)."""
    tangent = SKY_STEEPEST - (np.arange(SKY_ROWS) + 0.5) / SKY_SCALE
    azimuth = np.arange(SKY_COLUMNS) / SKY_COLUMNS * 2 * np.pi
    share = np.clip(tangent / SKY_STEEPEST, 0, 1)[:, None, None] ** 0.6
    image = share * np.array(style.sky_high) + (1 - share) * np.array(style.sky_low)
    image = np.repeat(image, SKY_COLUMNS, 1)
    land = np.array(style.land)
    if style.indoor:
        _paint_hall(image, style, tangent, azimuth)
    else:
        _paint_clouds(image, draw, tangent, azimuth)
        haze = np.array(style.sky_low)
        ridge = style.far_height * _ridge(draw, azimuth, (2, 3, 5, 9, 14))
        _cover(image, tangent, ridge, 0.55 * np.array(style.far) + 0.45 * haze)
        near = 0.55 * style.far_height * _ridge(draw, azimuth, (3, 4, 7, 13, 19))
        _cover(image, tangent, near, 0.8 * np.array(style.far) + 0.2 * haze)
        trees = style.trees * (0.4 + 0.6 * _ridge(draw, azimuth, (31, 47, 71, 103, 151)))
        _cover(image, tangent, trees, 0.55 * land)
    _cover(image, tangent, np.zeros(SKY_COLUMNS), land)
    return image


def _ridge(draw: np.random.Generator, azimuth: np.ndarray, waves: tuple[int, ...]) -> np.ndarray:
    """A periodic silhouette between 0 and 1."""
    line = sum(
        draw.uniform(0.4, 1.0) * np.sin(wave * azimuth + draw.uniform(0, 2 * np.pi)) / (1 + k)
        for k, wave in enumerate(waves)
    )
    line = np.asarray(line)
    return 0.25 + 0.75 * (line - line.min()) / np.ptp(line)


def _cover(image: np.ndarray, tangent: np.ndarray, height: np.ndarray, colour: np.ndarray) -> None:
    """Paint everything below a silhouette, with soft edges."""
    top = np.searchsorted(-tangent, -height.max() - 1 / SKY_SCALE)  # nothing is covered above
    below = image[top:]
    cover = (height[None, :] - tangent[top:, None]) * SKY_SCALE + 0.5
    cover = np.clip(cover, 0, 1)[..., None]
    below[:] = below * (1 - cover) + colour * cover


def _paint_clouds(
    image: np.ndarray, draw: np.random.Generator, tangent: np.ndarray, azimuth: np.ndarray
) -> None:
    waves = [(draw.integers(1, 9), draw.uniform(4, 16), draw.uniform(0, 7)) for _ in range(12)]
    wave, lift, phase = np.array(waves).T
    # sin(a + b) = sin a cos b + cos a sin b: sines of rows and columns instead of every pixel's.
    along, up = np.outer(wave, azimuth) + phase[:, None], np.outer(tangent, lift)
    cloud = np.cos(up) @ np.sin(along) + np.sin(up) @ np.cos(along)
    cover = np.clip((cloud - 2.0) / 6.0, 0, 0.7) * np.clip((tangent - 0.15) / 0.2, 0, 1)[:, None]
    image[:] = image * (1 - cover[..., None]) + 0.97 * cover[..., None]


def _paint_hall(image: np.ndarray, style: Style, tangent: np.ndarray, azimuth: np.ndarray) -> None:
    """Walls with pillars and a row of windows instead of a landscape."""
    _cover(image, tangent, np.full(SKY_COLUMNS, style.far_height), np.array(style.far))
    pillar = (np.sin(12 * azimuth) > 0.93)[None, :, None]
    window = (np.sin(24 * azimuth) > 0.2)[None, :, None]
    high = ((tangent > 0.45 * style.far_height) & (tangent < 0.8 * style.far_height))[:, None, None]
    wall = (tangent < style.far_height)[:, None, None]
    image[:] = np.where(window & high, 0.35 * image + 0.65 * np.array([0.85, 0.92, 1.0]), image)
    image[:] = np.where(pillar & wall, 0.6 * np.array(style.far), image)
    skirting = (tangent < 0.08 * style.far_height)[:, None, None]
    image[:] = np.where(skirting, 0.5 * np.array(style.far), image)


def _paint_rows(style: Style) -> np.ndarray:
    """Rows of plain or striped colour for upright things, in the order of PAINTS."""
    rows = np.empty((len(PAINTS), WIDTH, 3))
    stripe = ((np.arange(WIDTH) // 16) % 2 == 0)[:, None]
    rows[PAINTS.index("wall")] = np.where(stripe, style.wall[0], style.wall[1])
    rows[PAINTS.index("cone")] = (0.95, 0.42, 0.08)
    rows[PAINTS.index("car")] = (0.85, 0.10, 0.12)
    rows[PAINTS.index("rival")] = (0.10, 0.25, 0.80)
    rows[PAINTS.index("shadow")] = (0.12, 0.12, 0.12)
    rows[PAINTS.index("post")] = (0.90, 0.90, 0.90)
    return rows
