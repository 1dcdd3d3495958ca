"""The picture of CarRacing: what the ground, the car and the indicators look like from above.

    B pictures. The frame has 96x96 pixels, of which the last 12 rows are the panel.
    zoom    pixels of Gymnasium's window (1000x800) per unit; it grows in the first second
    right, ahead  place of a pixel as seen from the car, in pixels of the window   (W,), (H,)
    u, v    the same on a map, in texels along its rows and from row to row         (B, H, W)

Gymnasium draws a large picture and shrinks it; here every pixel is one texel of a map that was
blurred beforehand. What differs: tiles that were visited keep their shade (up to 5 of 255 darker
in Gymnasium), the wheels' marks stand still, and the score is not shown.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from hotlap.config.carracing import FRAMES_PER_SECOND, CarRacingConfig
from hotlap.sim.atlas import split_channels
from hotlap.sim.carracing.maps import GUARD, LEVELS, NEAREST_ZOOM, PERIOD, make_maps
from hotlap.sim.carracing.panel import COLUMNS, FIRST_ROW, Panel
from hotlap.sim.carracing.sprites import (
    CAR_X,
    HEIGHT,
    LEFT,
    PIXEL_HEIGHT,
    PIXEL_WIDTH,
    TOP,
    WIDTH,
    lay_over,
    make_sprites,
    sprite_number,
)
from hotlap.sim.carracing.tile_track import PLAYFIELD, TileTrack

FURTHEST_ZOOM = 0.6
"""At the beginning of the first second."""
CAR_FROM_TOP = 600.0
"""Of the window, in its pixels."""
CROP = 6
"""Columns that `crop` leaves out at each side."""
CHUNK = 16
"""Pictures read at a time on a CPU, so that what is worked on stays in its cache."""


def zoom_at(frame: int) -> float:
    """Zoom of an episode's picture, the first being number 1."""
    time = min(frame / FRAMES_PER_SECOND, 1.0)
    return FURTHEST_ZOOM * (1 - time) + NEAREST_ZOOM * time


def level_at(zoom: float) -> int:
    """The level of maps that is blurred most nearly like a picture of this zoom."""
    return min(range(len(LEVELS)), key=lambda i: max(LEVELS[i].zoom / zoom, zoom / LEVELS[i].zoom))


class Painter:
    """Draws what is seen of cars on tracks.

    Args:
        tracks: Where they drive.
        config: Which part of the frame is wanted, and in which colours.
        device: Where pictures are made.
        compiled: Whether to compile the drawing.
    """

    def __init__(
        self,
        tracks: Sequence[TileTrack],
        config: CarRacingConfig,
        device: torch.device | str = "cpu",
        compiled: bool = False,
    ) -> None:
        self.config = config
        self.device = torch.device(device)
        self.maps = make_maps(tracks, config.colour, device)
        zooms = tuple(zoom_at(frame) for frame in range(FRAMES_PER_SECOND + 1))
        self._sprites = make_sprites(zooms, config.colour, device)
        self._panel = None if config.view == "crop" else Panel(config.colour, device)
        levels = [level_at(zoom) for zoom in zooms]
        self._level = torch.tensor(levels, device=device)
        steps = [LEVELS[i].texels / (PERIOD * z) for i, z in zip(levels, zooms, strict=True)]
        self._step = torch.tensor(steps, device=device)  # texels per pixel of the window
        self._first_column = CROP if config.view == "crop" else 0
        column = torch.arange(self._first_column, COLUMNS - self._first_column, device=device)
        self._right = (column + 0.5) * PIXEL_WIDTH - CAR_X
        self._ahead = CAR_FROM_TOP - (torch.arange(FIRST_ROW, device=device) + 0.5) * PIXEL_HEIGHT
        small = len(self.maps.pool) < 2**31
        self._index_type = torch.int32 if small else torch.int64
        self._compiled = compiled
        # Compiled one by one: what a stage hands on is stored, where a compiler given the whole
        # would work it out again at every pixel.
        self._aim = _compile(self._take_aim, compiled)
        self._read = _compile(self._read_ground, compiled)
        self._finish = _compile(self._lay_out, compiled)

    def draw(
        self,
        track: Tensor,
        x: Tensor,
        y: Tensor,
        turn: Tensor,
        steer: Tensor,
        frame: Tensor,
        spin: Tensor,
        yaw_rate: Tensor,
        speed: Tensor,
    ) -> Tensor:
        """Pictures (B, H, W) uint8 in gray, (B, H, W, 3) in colour; all arguments (B,) but spin.

        Args:
            track: Number of the track, int64.
            x: Place of the hull's origin.
            y: Its other coordinate.
            turn: Angle of the hull; its nose points to (-sin turn, cos turn).
            steer: Angle of the front wheels' joints.
            frame: Pictures of the episode so far, this one included, int64.
            spin: Wheel speeds (B, 4).
            yaw_rate: Of the hull.
            speed: Of the hull.
        """
        number = frame.clamp(0, FRAMES_PER_SECOND)
        aim = self._aim(track, torch.stack([x, y], -1), turn, number)
        # A compiler fuses what is worked on into one loop, so that it needs no cache.
        whole = self.device.type != "cpu" or self._compiled or torch.compiler.is_compiling()
        parts = [aim] if whole else zip(*(values.split(CHUNK) for values in aim), strict=True)
        ground = torch.empty(
            self._shape(len(track)), dtype=self.maps.pool.dtype, device=self.device
        )
        for part, out in zip(parts, ground.split(len(track) if whole else CHUNK), strict=True):
            self._read(*part, out)
        return self._finish(ground, number, steer, spin, yaw_rate, speed)

    def _shape(self, batch: int) -> tuple[int, int, int]:
        """Of the ground that is seen."""
        return batch, len(self._ahead), len(self._right)

    def _take_aim(
        self, track: Tensor, place: Tensor, turn: Tensor, number: Tensor
    ) -> tuple[Tensor, ...]:
        """Where on the maps the cars at `place` (B, 2) look, for the number of the zoom (B,).

        u and v of rows of pixels (B, 2, H, 1) and what columns add to it (B, 2, 1, W); texels in a
        row of the map and place in the pool that u and v count from (B, 1, 1).
        """
        maps = self.maps
        level = self._level[number]
        low, high = maps.near[track].unbind(1)
        near = ((place >= low) & (place <= high)).all(-1)
        which = level * maps.count + torch.where(near | (level > 0), track, maps.count - 1)
        # Numbers that are none, and cars that left the field, must not read beyond the pool.
        place = place.nan_to_num(0.0).clamp(-PLAYFIELD, PLAYFIELD)
        turn = turn.nan_to_num(0.0)
        uv = (place - maps.corner[which]) * maps.scale[level].unsqueeze(-1)
        cell = torch.floor(uv)
        column, row = (cell.to(torch.int64) - GUARD).unbind(-1)
        width = maps.width[which]
        first = maps.first[which] + row * width + column
        step = self._step[number]
        cos, sin = torch.cos(turn) * step, torch.sin(turn) * step
        rows = torch.stack([-sin, cos], -1).unsqueeze(-1) * self._ahead
        rows = rows + (uv - cell + GUARD).unsqueeze(-1)
        columns = torch.stack([cos, sin], -1).unsqueeze(-1) * self._right
        width = width.to(torch.float32).view(-1, 1, 1)
        first = first.to(self._index_type).view(-1, 1, 1)
        return rows.unsqueeze(-1), columns.unsqueeze(-2), width, first

    def _read_ground(
        self, rows: Tensor, columns: Tensor, width: Tensor, first: Tensor, out: Tensor
    ) -> None:
        """Write the texels that pixels show to `out` (B, H, W)."""
        v = torch.add(rows[:, 1], columns[:, 1]).floor_()
        # Cutting off fractions is the floor of u; below 2 ** 20 they are still known to 1 / 16.
        place = torch.add(rows[:, 0], columns[:, 0]).addcmul_(v, width)
        index = place.to(first.dtype).add_(first).view(-1)
        if out.is_cuda or torch.compiler.is_compiling():
            out.copy_(self.maps.pool.index_select(0, index).view(out.shape))
        else:
            torch.index_select(self.maps.pool, 0, index, out=out.view(-1))

    def _lay_out(
        self,
        ground: Tensor,
        number: Tensor,
        steer: Tensor,
        spin: Tensor,
        yaw_rate: Tensor,
        speed: Tensor,
    ) -> Tensor:
        """Pictures of the ground (B, H, W), with the car on it and the panel below."""
        picture = split_channels(ground) if self.config.colour else ground
        left = LEFT - self._first_column
        behind = picture[:, TOP : TOP + HEIGHT, left : left + WIDTH]
        behind.copy_(lay_over(self._sprites, sprite_number(number, steer), behind))
        if self._panel is None:
            return picture
        panel = self._panel.draw(speed, spin, steer, yaw_rate)
        picture = torch.cat([picture, panel if self.config.colour else panel.squeeze(-1)], 1)
        return warp(picture) if self.config.view == "warp" else picture


def _compile(stage: Callable[..., Any], compiled: bool) -> Callable[..., Any]:
    """A stage, compiled if asked for."""
    return torch.compile(stage, dynamic=False, fullgraph=True) if compiled else stage


def warp(frame: Tensor) -> Tensor:
    """A frame (B, 96, 96) or (..., C) uint8 shrunk to 84x84, every pixel the mean over its area.

    Eight pixels become seven: each is made of two neighbours, in eighths. Along a row, an eighth
    one is worked out too and then left out, so that the sums run over whole rows.
    """
    channels = frame.shape[3] if frame.dim() == 4 else 1
    next_share = torch.arange(1, 9, dtype=torch.int16, device=frame.device)
    whole = frame.flatten(2).to(torch.int16).unflatten(1, (12, 8))
    share = next_share[:7].unsqueeze(-1)
    rows = (whole[:, :, :7] * (8 - share)).add_(whole[:, :, 1:] * share).flatten(1, 2)
    share = next_share.repeat_interleave(channels).repeat(12)
    pixels = rows * (8 - share)
    pixels[..., :-channels] += rows[..., channels:] * share[:-channels]
    pixels = ((pixels + 32) >> 6).to(torch.uint8).unflatten(2, (12, 8 * channels))
    return pixels[..., : 7 * channels].reshape(len(frame), 84, 84, *frame.shape[3:])
