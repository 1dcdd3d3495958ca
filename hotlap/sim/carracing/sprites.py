"""The car in the picture: hull and wheels, drawn once for every zoom and many steering angles.

    S      sprites: steering angle by steering angle for every zoom
    keep   how much of the ground is seen, of 256                      (S, HEIGHT, WIDTH)
    value  what the car adds to it                                     (S, HEIGHT, WIDTH, C)

The car stands still in its picture, nose up; only the front wheels turn. Each wheel has a light
mark that goes round with it, several times a second: here it is as gray as it is on average.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageDraw
from torch import Tensor

from hotlap.sim.carracing.maps import shrunk

TOP, LEFT = 66, 45
"""First row and column of the 96x96 frame that a sprite covers."""
HEIGHT, WIDTH = 12, 6
STEERS = 17
MOST_STEER = 0.44
"""Largest steering angle with a sprite of its own; Box2D's joints overshoot their 0.4 a little."""
PIXEL_WIDTH, PIXEL_HEIGHT = 1000 / 96, 800 / 96
"""A pixel of the frame in pixels of Gymnasium's window."""
CAR_X, CAR_Y = 500, 200
"""The hull's origin in the window, from its left and from its bottom."""

UNIT = 0.02
"""Length of the unit that the car's outlines are given in."""
HULL = (
    ((-60, 130), (60, 130), (60, 110), (-60, 110)),
    ((-15, 120), (15, 120), (20, 20), (-20, 20)),
    ((25, 20), (50, -10), (50, -40), (20, -90), (-20, -90), (-50, -40), (-50, -10), (-25, 20)),
    ((-50, -120), (50, -120), (50, -90), (-50, -90)),
)
WHEELS = ((-55, 80), (55, 80), (-55, -82), (55, -82))
WHEEL_HALF_WIDTH, WHEEL_RADIUS = 14, 27
MARK_ANGLE = 1.2
"""How far round the wheel its mark goes, rad."""
HULL_COLOUR, MARK_COLOUR = (204, 0, 0), (77, 77, 77)
STRIPS = 6
"""Parts of a wheel, from front to back, with one shade each."""


@dataclass(frozen=True)
class Sprites:
    """See the module's first lines."""

    keep: Tensor
    """int16."""
    value: Tensor
    """int16; without its last dimension if gray."""


def make_sprites(zooms: tuple[float, ...], colour: bool, device: torch.device | str) -> Sprites:
    """Sprites for every zoom, in pixels of Gymnasium's window per unit."""
    keep, value = _drawn(zooms)
    shades = value if colour else value @ np.array([0.299, 0.587, 0.114])
    kept = torch.from_numpy(np.round(256 * keep).astype(np.int16))
    return Sprites(kept.to(device), torch.from_numpy(np.round(shades).astype(np.int16)).to(device))


def sprite_number(zoom: Tensor, steer: Tensor) -> Tensor:
    """Which sprite shows the car (B,), for the number of its zoom and its steering angle (B,)."""
    bins = (steer * ((STEERS - 1) / (2 * MOST_STEER)) + (STEERS - 1) / 2).round()
    return zoom * STEERS + bins.clamp(0, STEERS - 1).to(zoom.dtype)


def lay_over(sprites: Sprites, number: Tensor, ground: Tensor) -> Tensor:
    """The ground (B, HEIGHT, WIDTH) or (..., C) with the car in front of it, uint8."""
    keep, value = sprites.keep[number], sprites.value[number]
    if ground.dim() == 4:
        keep = keep.unsqueeze(-1)
    # 255 * 256 is more than int16 holds.
    seen = (ground.to(torch.int32) * keep + 128) >> 8
    return (seen + value).to(torch.uint8)


@lru_cache(maxsize=2)
def _drawn(zooms: tuple[float, ...]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Share of ground (S, HEIGHT, WIDTH) and the car's colours (S, HEIGHT, WIDTH, 3)."""
    down = _shares(HEIGHT, TOP * PIXEL_HEIGHT, PIXEL_HEIGHT)
    across = _shares(WIDTH, LEFT * PIXEL_WIDTH, PIXEL_WIDTH)
    paints = np.zeros((2 + STRIPS, 4))
    paints[0, 0] = 1.0
    paints[1, 1:] = shrunk(HULL_COLOUR)
    paints[2:, 1:] = _mark_share()[:, None] * np.array(shrunk(MARK_COLOUR))
    sprites = []
    for zoom in zooms:
        for steer in np.linspace(-MOST_STEER, MOST_STEER, STEERS):
            codes = _draw_codes(zoom, float(steer), down.shape[1], across.shape[1])
            sprites.append(np.einsum("hy,yxc,wx->hwc", down, paints[codes], across, optimize=True))
    sheet = np.stack(sprites)
    return sheet[..., 0], sheet[..., 1:]


def _shares(count: int, start: float, size: float) -> NDArray[np.float64]:
    """Share of every pixel of the window in `count` of the frame's, which begin at `start`."""
    first, last = math.floor(start), math.ceil(start + count * size)
    low = start + size * np.arange(count)[:, None]
    pixel = np.arange(first, last)
    return np.clip(np.minimum(pixel + 1, low + size) - np.maximum(pixel, low), 0, None) / size


def _draw_codes(zoom: float, steer: float, rows: int, columns: int) -> NDArray[np.uint8]:
    """The car in the window's pixels: 0 ground, 1 hull, the others strips of wheels."""
    picture = Image.new("L", (columns, rows))
    ink = ImageDraw.Draw(picture)
    left, top = math.floor(LEFT * PIXEL_WIDTH), math.floor(TOP * PIXEL_HEIGHT)

    def place(x: float, y: float) -> tuple[int, int]:
        # pygame cuts the fractions off; the window is turned upside down afterwards.
        across, up = int(CAR_X + zoom * UNIT * x), int(CAR_Y + zoom * UNIT * y)
        return across - left, 799 - up - top

    ends = np.linspace(WHEEL_RADIUS, -WHEEL_RADIUS, STRIPS + 1)
    for x, y in WHEELS:
        angle = steer if y > 0 else 0.0
        cos, sin = math.cos(angle), math.sin(angle)
        for strip, (front, back) in enumerate(pairwise(ends.tolist())):
            outline = [(s * WHEEL_HALF_WIDTH, e) for s, e in ((-1, front), (1, front))]
            outline += [(s * WHEEL_HALF_WIDTH, e) for s, e in ((1, back), (-1, back))]
            turned = [place(x + cos * a - sin * b, y + sin * a + cos * b) for a, b in outline]
            ink.polygon(turned, fill=2 + strip)
    for part in HULL:
        ink.polygon([place(x, y) for x, y in part], fill=1)
    return np.asarray(picture)


def _mark_share() -> NDArray[np.float64]:
    """How much of the time each strip of a wheel is under its mark (STRIPS,), front first."""
    phase = np.linspace(0, 2 * math.pi, 2000, endpoint=False)
    begin, end = phase, phase + MARK_ANGLE
    above = (np.sin(begin) > 0) & (np.sin(end) > 0)
    one = np.where(np.sin(begin) > 0, np.sign(np.cos(begin)), np.cos(begin))
    other = np.where(np.sin(end) > 0, np.sign(np.cos(end)), np.cos(end))
    low, high = np.minimum(one, other), np.maximum(one, other)
    middle = 1 - (2 * np.arange(STRIPS)[:, None] + 1) / STRIPS
    half = 1 / STRIPS
    covered = np.clip(np.minimum(high, middle + half) - np.maximum(low, middle - half), 0, None)
    return np.where(above, 0.0, covered / (2 * half)).mean(1)
