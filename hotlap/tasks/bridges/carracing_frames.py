"""What is made of CarRacing's frames: other looks first, then the view that a driver gets.

    B frames of 96 x 96 points, red, green and blue in 0..255: ground in the upper 84 rows, the
    panel with speed, gyroscope and score below.
    seeds    seed of each frame's episode  (B,)
    numbers  frames of that episode before it  (B,)

Looks and views are plain functions of uint8 arrays, each frame by itself. Sums are done in whole
numbers and halves rounded up, so that whoever computes them elsewhere can get the same.
"""

from collections.abc import Callable, Sequence

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from hotlap.config.carracing import CarRacingConfig, Look, View

Pixels = NDArray[np.uint8]
Seeds = Sequence[int]

SIZE = 96
"""Height and width of Gymnasium's frame."""
PANEL_ROW = 84
"""First row of the panel."""
SIDE = 6
"""Columns that `crop` leaves out at either side."""
BAR = 12
"""Columns of a bar."""
NOISE = 12.0
"""Standard deviation of noise, levels."""
ROAD, GRASS, TUFT = 102, 204, 230
"""Green of the road, of grass and of its lighter squares; red and blue are 102 in all of them."""
DARKEST, LIGHTEST = 94, 116
"""Red and blue of pixels that are ground: tiles that nobody touched are up to 5 lighter."""
GRAYEST = 6
"""Most that red and blue of ground differ."""
BRIGHTEST = 210
"""Levels that new colours are drawn from, as Gymnasium's own `domain_randomize` does."""
LEAST_CONTRAST = 40
"""Levels of gray that new colours of road and grass are apart at least."""
LUMA = (299, 587, 114)
"""Share of red, green and blue in gray, in thousandths."""


def driver_spaces(config: CarRacingConfig) -> tuple[spaces.Box, spaces.Box]:
    """What a driver sees, channels last, and does."""
    low, high = ([-1, -1], [1, 1]) if config.actions == "pair" else ([-1, 0, 0], [1, 1, 1])
    acts = spaces.Box(np.array(low, np.float32), np.array(high, np.float32))
    return spaces.Box(0, 255, config.shape, np.uint8), acts


# --- looks -------------------------------------------------------------------------------------


def plain(frames: Pixels, seeds: Seeds, numbers: Seeds) -> Pixels:
    """As they are."""
    return frames


def recoloured(frames: Pixels, seeds: Seeds, numbers: Seeds) -> Pixels:
    """Road and grass in colours that the episode's seed draws; car, kerbs and panel stay."""
    ground = frames[:, :PANEL_ROW].astype(np.float32)
    red, green, blue = np.moveaxis(ground, -1, 0)
    is_ground = (red >= DARKEST) & (red <= LIGHTEST) & (green >= red - GRAYEST)
    is_ground &= np.abs(red - blue) <= GRAYEST
    # Where road meets grass a pixel has some of both, and where tiles differ it is a bit lighter.
    grassy = np.clip((green - red) / (GRASS - ROAD), 0.0, 1.0)[..., None]
    tufty = np.clip((green - GRASS) / (TUFT - GRASS), 0.0, 1.0)[..., None]
    colours = np.stack([colours_of(seed) for seed in seeds]).astype(np.float32)
    road, grass, tuft = (colours[:, None, None, kind] for kind in range(3))
    new = road + grassy * (grass - road) + tufty * (tuft - grass) + (red - ROAD)[..., None]
    changed = frames.copy()
    changed[:, :PANEL_ROW] = np.where(is_ground[..., None], _rounded(new), ground)
    return changed


def colours_of(seed: int) -> NDArray[np.int64]:
    """Colours (3, 3) of road, grass and lighter grass that a seed draws, told apart in gray too."""
    draws = np.random.default_rng([seed, 1])
    while True:
        road, grass = draws.integers(0, BRIGHTEST, (2, 3), endpoint=True)
        if abs(int((road - grass) @ np.array(LUMA))) >= LEAST_CONTRAST * 1000:
            break
    tuft = grass.copy()
    tuft[draws.integers(3)] += 20
    return np.stack([road, grass, tuft])


def noise(frames: Pixels, seeds: Seeds, numbers: Seeds) -> Pixels:
    """Gaussian noise on every point and colour."""
    grain = [
        np.random.default_rng([seed, 2, number]).standard_normal(frames.shape[1:], np.float32)
        for seed, number in zip(seeds, numbers, strict=True)
    ]
    return _rounded(frames + NOISE * np.stack(grain))


def bars(frames: Pixels, seeds: Seeds, numbers: Seeds) -> Pixels:
    """Black bars at both sides, from top to bottom."""
    barred = frames.copy()
    barred[:, :, :BAR] = 0
    barred[:, :, -BAR:] = 0
    return barred


LOOKS: dict[Look, Callable[[Pixels, Seeds, Seeds], Pixels]] = {
    "plain": plain,
    "recoloured": recoloured,
    "noise": noise,
    "bars": bars,
}


# --- views -------------------------------------------------------------------------------------


def to_gray(frames: Pixels) -> Pixels:
    """Frames (B, H, W, 1) without colours."""
    red, green, blue = np.moveaxis(frames.astype(np.int32), -1, 0)
    gray = (LUMA[0] * red + LUMA[1] * green + LUMA[2] * blue + 500) // 1000
    return gray[..., None].astype(np.uint8)


def crop(frames: Pixels) -> Pixels:
    """Frames (B, 84, 84, C) without the panel and the sides."""
    return frames[:, :PANEL_ROW, SIDE : SIZE - SIDE]


def warp(frames: Pixels) -> Pixels:
    """Whole frames shrunk to (B, 84, 84, C), each point the mean of the area it covers."""
    summed = _eight_to_seven(_eight_to_seven(frames.astype(np.int32), 1), 2)
    return ((summed + 32) // 64).astype(np.uint8)


def full(frames: Pixels) -> Pixels:
    """Frames (B, 96, 96, C) as they are."""
    return frames


VIEWS: dict[View, Callable[[Pixels], Pixels]] = {"crop": crop, "warp": warp, "full": full}


def driver_view(frames: Pixels, config: CarRacingConfig) -> Pixels:
    """What a driver sees (B, H, W, C) of frames whose look was changed already.

    Gray comes first, as in the usual wrappers; it matters to how `warp` rounds.
    """
    return VIEWS[config.view](frames if config.colour else to_gray(frames))


def _eight_to_seven(values: NDArray[np.int32], axis: int) -> NDArray[np.int32]:
    """Every eight points as seven, in eighths: the first covers one and a seventh, and so on."""
    rows = np.moveaxis(values, axis, -1)
    eights = rows.reshape(*rows.shape[:-1], -1, 8)
    second = np.arange(1, 8, dtype=np.int32)
    sevens = (8 - second) * eights[..., :-1] + second * eights[..., 1:]
    return np.moveaxis(sevens.reshape(*rows.shape[:-1], -1), -1, axis)


def _rounded(values: NDArray[np.float32]) -> Pixels:
    return np.clip(np.floor(values + 0.5), 0, 255).astype(np.uint8)
