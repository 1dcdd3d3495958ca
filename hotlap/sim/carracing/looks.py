"""Other looks of CarRacing's pictures, so that a policy can be trained on more than one.

    B pictures as `Painter` draws them, uint8: (B, H, W) in gray, (B, H, W, 3) in colour.
    colours  of road, grass and the lighter squares of grass, red, green and blue   (B, 3, 3)
    kind     number of an episode's look in `KINDS`                                 (B,) int64

The rules are those of the real environment's frames. There they come before gray and view, here
after: a level of gray stands for road, grass or some of both, so that kerbs that are blurred into
the ground are recoloured a little too, and noise is drawn with the spread that gray and view leave.
"""

import math

import torch
from torch import Tensor

from hotlap.config.carracing import CarRacingConfig
from hotlap.sim.carracing.maps import BACKGROUND, LOSS, ROAD, gray, shrunk
from hotlap.sim.carracing.maps import GRASS as TUFT
from hotlap.sim.carracing.panel import COLUMNS, FIRST_ROW
from hotlap.sim.carracing.picture import CROP, warp
from hotlap.sim.optics import add_noise, make_strip
from hotlap.sim.random import Stream, integers, make_key, uniform

KINDS = ("plain", "recoloured", "noise", "bars")
"""Looks that a varied episode draws from."""
BAR = 12
"""Columns of the frame under a bar."""
NOISE = 12.0
"""Standard deviation of noise in every colour of the frame, levels."""
WARPED = 0.625
"""What averaging over neighbours leaves of it in `warp`; in the mean over its pixels."""
LUMA = (0.299, 0.587, 0.114)
"""Share of red, green and blue in gray."""
DARKEST, LIGHTEST = 94, 116
"""Red and blue of ground."""
GRAYEST = 6
"""Most that red and blue of ground differ."""
BRIGHTEST = 210
"""Levels that colours are drawn from."""
LEAST_CONTRAST = 40
"""Levels of gray that road and grass are apart at least."""
TRIES = 16
"""Pairs of colours drawn at once; in one of 30,000 episodes none has the contrast, and the pair
with most of it is taken."""
LIGHTER = 20
"""By which one colour of the lighter squares is above the grass's."""
MARGIN = 3
"""Levels of gray by which ground may be lighter than its lighter squares."""

BYTES_PER_PIXEL = 8
"""Of what is worked on: places in a table, sums, and the changed picture."""


class Looks:
    """Changes pictures as the settings say.

    Args:
        config: Look, view and colours.
        device: Where pictures are.
        compiled: Whether to compile it.
    """

    def __init__(
        self, config: CarRacingConfig, device: torch.device | str = "cpu", compiled: bool = False
    ) -> None:
        self.config = config
        height, width, channels = config.shape
        warped = config.view == "warp"
        self._ground = height * FIRST_ROW // COLUMNS if config.view != "crop" else height
        noisy = config.look in ("noise", "varied")
        self._strip = make_strip(height, width, channels, device) if noisy else None
        one_gray = sum(share**2 for share in LUMA) ** 0.5
        self._spread = NOISE * (1.0 if config.colour else one_gray) * (WARPED if warped else 1.0)
        self._halves = _seen_halves(config).to(device)
        self._luma = torch.tensor(LUMA, device=device)
        self._changed = self._change
        if compiled:
            self._changed = torch.compile(self._change, dynamic=False, fullgraph=True)

    def change(self, pictures: Tensor, key: Tensor, frame: Tensor) -> Tensor:
        """Pictures in the looks of their episodes.

        Args:
            pictures: From `Painter.draw`.
            key: Random key of each episode (B,).
            frame: Number of each picture in its episode (B,), for noise.
        """
        return pictures if self.config.look == "plain" else self._changed(pictures, key, frame)

    @property
    def bytes_per_picture(self) -> int:
        """Memory that changing a picture takes."""
        return 0 if self.config.look == "plain" else BYTES_PER_PIXEL * math.prod(self.config.shape)

    def kind(self, key: Tensor) -> Tensor:
        """Number in `KINDS` of the looks of episodes (B,)."""
        if self.config.look == "varied":
            return integers(make_key(key, Stream.STYLE), len(KINDS)).squeeze(-1)
        return torch.full_like(key, KINDS.index(self.config.look))

    def _change(self, pictures: Tensor, key: Tensor, frame: Tensor) -> Tensor:
        kind, look = self.kind(key), self.config.look
        if look in ("recoloured", "varied"):
            pictures = self._recolour(pictures, key, kind == KINDS.index("recoloured"))
        if look in ("noise", "varied"):
            strength = torch.where(kind == KINDS.index("noise"), self._spread, 0.0)
            with_channels = pictures if self.config.colour else pictures.unsqueeze(-1)
            words = make_key(key, frame, Stream.IMAGE)
            pictures = add_noise(with_channels, self._strip, strength, words).view(pictures.shape)
        if look in ("bars", "varied"):
            pictures = self._bar(pictures, kind == KINDS.index("bars"))
        return pictures

    def _recolour(self, pictures: Tensor, key: Tensor, which: Tensor) -> Tensor:
        """Pictures, those in `which` (B,) with their episodes' colours above the panel."""
        colours = draw_colours(key)
        ground, below = pictures[:, : self._ground], pictures[:, self._ground :]
        if self.config.colour:
            new = recolour(ground, colours)
        else:
            new = recolour_gray(ground, colours @ self._luma)
        new = torch.where(which.view(-1, *[1] * (pictures.dim() - 1)), new, ground)
        return torch.cat([new, below], 1) if below.shape[1] else new

    def _bar(self, pictures: Tensor, which: Tensor) -> Tensor:
        """Pictures, those in `which` (B,) with bars."""
        halves = torch.where(which.unsqueeze(-1), self._halves, 2)  # (B, W)
        halves = halves.view(*halves.shape, 1) if self.config.colour else halves
        seen = pictures.to(torch.int16) * halves.unsqueeze(1)
        return ((seen + 1) >> 1).to(torch.uint8)


def draw_colours(key: Tensor) -> Tensor:
    """Colours (B, 3, 3) that episodes draw by their keys (B,)."""
    draws = uniform(make_key(key, Stream.LOOK), 6 * TRIES + 1)
    pairs = torch.floor(draws[:, :-1] * (BRIGHTEST + 1)).view(-1, TRIES, 2, 3)
    levels = sum(share * pairs[..., i] for i, share in enumerate(LUMA))
    contrast = (levels[..., 0] - levels[..., 1]).abs()  # type: ignore[index]
    # The first that has enough of it, which is worth more than any contrast; or else the most.
    first = torch.arange(TRIES, 0, -1, device=key.device) * 256.0
    best = torch.where(contrast >= LEAST_CONTRAST, first, contrast).argmax(-1)
    pair = pairs.gather(1, best.view(-1, 1, 1, 1).expand(-1, 1, 2, 3)).squeeze(1)
    which = torch.floor(draws[:, -1:] * 3)
    lighter = LIGHTER * (torch.arange(3, device=key.device) == which)
    return torch.cat([pair, pair[:, 1:] + lighter.unsqueeze(1)], 1)


def recolour(ground: Tensor, colours: Tensor) -> Tensor:
    """Ground (B, H, W, 3) with other colours (B, 3, 3) of road and grass; car and kerbs stay."""
    red, green, blue = ground.to(torch.float32).unbind(-1)
    is_ground = (red >= DARKEST) & (red <= LIGHTEST) & (green >= red - GRAYEST)
    is_ground &= (red - blue).abs() <= GRAYEST
    plain, grass, tuft = ROAD[0][1], BACKGROUND[1], TUFT[1]
    grassy = ((green - red) / (grass - plain)).clamp(0.0, 1.0).unsqueeze(-1)
    tufty = ((green - grass) / (tuft - grass)).clamp(0.0, 1.0).unsqueeze(-1)
    ours = colours[:, :, None, None].unbind(1)
    new = ours[0] + grassy * (ours[1] - ours[0]) + tufty * (ours[2] - ours[1])
    new = new + (red - plain).unsqueeze(-1)
    new = torch.floor(new + 0.5).clamp(0.0, 255.0).to(torch.uint8)
    return torch.where(is_ground.unsqueeze(-1), new, ground)


def recolour_gray(ground: Tensor, levels: Tensor) -> Tensor:
    """Gray ground (B, H, W) with other levels (B, 3) of road, grass and lighter squares."""
    table = gray_table(levels)
    row = torch.arange(len(ground), dtype=torch.int32, device=ground.device) * table.shape[1]
    index = ground.to(torch.int32) + row.view(-1, 1, 1)
    return table.view(-1).index_select(0, index.view(-1)).view(ground.shape)


def gray_table(levels: Tensor) -> Tensor:
    """What every level of gray becomes (B, 256) uint8 for new ones (B, 3) of the ground.

    Up to the lightest shade of the road it is road, and shades keep their distance; above, it is
    some road of the middle shade and some grass, or some grass and some of its lighter squares.
    """
    road, grass, tuft = levels.unsqueeze(-1).unbind(1)  # (B, 1)
    shades = [gray(shrunk(shade)) for shade in ROAD]
    low, middle, high = shades[0], sum(shades) / len(shades), shades[-1]
    field, light = gray(shrunk(BACKGROUND)), gray(shrunk(TUFT))
    old = torch.arange(256, device=levels.device, dtype=torch.float32)
    is_road, is_ground = old <= high, (old >= DARKEST) & (old <= light + MARGIN)
    grassy = ((old - middle) / (field - middle)).clamp(0.0, 1.0) * ~is_road
    tufty = ((old - field) / (light - field)).clamp(0.0, 1.0)
    shade = torch.where(is_road, old - low, (1 - grassy) * (middle - low))
    new = road - LOSS + shade + grassy * (grass - road) + tufty * (tuft - grass)
    new = torch.where(is_ground, torch.floor(new + 0.5).clamp(0.0, 255.0), old)
    return new.to(torch.uint8)


def _seen_halves(config: CarRacingConfig) -> Tensor:
    """How much of each column (W,) is seen between the bars, in halves, int16."""
    frame = torch.full((1, COLUMNS, COLUMNS), 2, dtype=torch.uint8)
    frame[:, :, :BAR] = 0
    frame[:, :, -BAR:] = 0
    if config.view == "warp":
        frame = warp(frame)
    elif config.view == "crop":
        frame = frame[:, :, CROP:-CROP]
    return frame[0, 0].to(torch.int16)
