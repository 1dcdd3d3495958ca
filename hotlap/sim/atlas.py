"""Drawing pixels from an atlas, in groups.

    B pictures, R rows of groups, G groups in a row; a group is a few neighbouring pixels in a line,
    side by side or one below another.
    q, p          road coordinates at the middle of a group            (B, R, G)
    along         their change from one pixel of a group to the next
    aside         their change from a pixel of a group to its neighbour outside of the line of the group
    column, row   place in the atlas, in atlas pixels

Within a group the atlas place moves in equal steps, so the costly part (where on the ground, which
level of detail) is done once per group, and a pixel costs three additions and one read.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from hotlap.sim.fields import Q_STEPS
from hotlap.sim.ground import RoadCoordinates
from hotlap.sim.looks import (
    LEVEL_ROWS,
    LEVELS,
    PHASES,
    Q_SPAN,
    REPEAT,
    ROWS,
    SKY_COLUMNS,
    SKY_MARGIN,
    SKY_ROWS,
    SKY_SCALE,
    SKY_STEEPEST,
    SKY_TOP,
    WIDTH,
    Looks,
)

GROUP = 4
"""Pixels of a group, unless a band says otherwise."""
EXPONENT = 0x7F800000
ONE_TWICE = 0x7F000000
"""Exponent bits of 1.0, twice: subtracting the bits of a power of two from it gives its inverse."""
TAU = 6.283185307179586
Q_EDGE = Q_SPAN * Q_STEPS
Q_CALM = 0.8 * Q_EDGE
"""Beyond this q settles to a constant within a group: plain land must not read back into a road."""
Q_REACH = 2.9
"""Most columns of the atlas between a group's middle and its end; faster changes are filtered out."""
P_REACH = 21.0
"""Most p between a group's middle and its end, so that it stays within what the tile repeats."""
P_LAST = PHASES + REPEAT - P_REACH - 1
"""Largest p of a group's middle, for the same reason."""


@dataclass(frozen=True)
class Band:
    """Rows of groups of pixels, and where in the atlas they read, all (B, R, G)."""

    row: Tensor
    row_step: Tensor
    """Change of `row` from one pixel of a group to the next."""
    column: Tensor
    column_step: Tensor
    group: int = GROUP
    """Pixels of a group."""
    upright: bool = False
    """Whether a group's pixels stand one below another, instead of side by side."""

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the band, in pixels."""
        rows, groups = self.row.shape[1:]
        return (rows * self.group, groups) if self.upright else (rows, groups * self.group)

    def part(self, start: int, stop: int) -> "Band":
        """Its rows from start to stop."""
        parts = (self.row, self.row_step, self.column, self.column_step)
        return Band(*(part[:, start:stop] for part in parts), self.group, self.upright)


@dataclass(frozen=True)
class Sky:
    """Rows of sky: every pixel of a row reads one row of the atlas, every row the same columns."""

    row: Tensor
    """(B, R, 1) float."""
    column: Tensor
    """(B, 1, W) float."""

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the band, in pixels."""
        return self.row.shape[1], self.column.shape[2]


def road_places(at: RoadCoordinates, group: int = GROUP, upright: bool = False) -> Band:
    """Where in the tile groups of ground pixels read, at the level of detail that fits them."""
    along = at.down if upright else at.across
    footprint = at.across.abs().add_(at.down.abs()).clamp_(1.0, 2.0 ** (LEVELS - 1))
    # 1 / (largest power of two not above the footprint), from the exponent's bits.
    fine = (ONE_TWICE - (footprint.view(torch.int32) & EXPONENT)).view(torch.float32)
    (q, p), (q_along, p_along), (q_fine, p_fine) = at.value, along, fine
    reach = max((group - 1) / 2, 0.5)
    calm = (Q_EDGE**2 - q * q).mul_(1 / (Q_EDGE**2 - Q_CALM**2)).clamp_(0.0, 1.0)
    return Band(
        row=p.clamp(max=P_LAST).add_(REPEAT - 2 * LEVEL_ROWS).mul_(p_fine).add_(2 * LEVEL_ROWS),
        row_step=p_along.clamp(-P_REACH / reach, P_REACH / reach).mul_(p_fine),
        column=q.clamp(-Q_EDGE, Q_EDGE).add_(Q_EDGE - WIDTH).mul_(q_fine).add_(WIDTH),
        column_step=(q_along * q_fine).clamp_(-Q_REACH / reach, Q_REACH / reach).mul_(calm),
        group=group,
        upright=upright,
    )


def sky_places(tangent: Tensor, azimuth: Tensor) -> Sky:
    """Where in the panorama sky pixels read.

    tangent (B, R, 1) of the row's elevation; azimuth (B, 1, W) counter-clockwise from +x.
    """
    row = ((SKY_STEEPEST - tangent) * SKY_SCALE).clamp(0.0, SKY_ROWS - 0.01) + SKY_TOP
    turns = azimuth / TAU
    return Sky(row, (turns - torch.floor(turns)) * SKY_COLUMNS + SKY_MARGIN)


def sky_groups(sky: Sky, start: int, stop: int, group: int = GROUP) -> Band:
    """Rows of a sky as groups, to be mixed with ground."""
    row = sky.row[:, start:stop]
    column = sky.column.unflatten(2, (-1, group))
    first, last = column[..., 0], column[..., -1]
    step = (last - first) / (group - 1)  # where a group straddles north it is drawn from one side
    step = step * (step.abs() < SKY_COLUMNS / group)
    shape = (len(row), row.shape[1], first.shape[2])
    parts = (row, torch.zeros_like(row), 0.5 * (first + last), step)
    return Band(*(part.expand(shape) for part in parts), group)


def choose(mask: Tensor, yes: Band, no: Band) -> Band:
    """`yes` where mask is 1, `no` where it is 0 (a mask of numbers is faster than one of bools)."""
    return Band(
        torch.lerp(no.row, yes.row, mask),
        torch.lerp(no.row_step, yes.row_step, mask),
        torch.lerp(no.column, yes.column, mask),
        torch.lerp(no.column_step, yes.column_step, mask),
        yes.group,
    )


def read(looks: Looks, look: Tensor, bands: Sequence[Band | Sky], colour: bool) -> Tensor:
    """Pixels (B, H, W, 3 or 1) uint8 of bands, from top to bottom, each picture in its own look."""
    return unpack(read_raw(looks, look, bands, colour))


def read_raw(
    looks: Looks, look: Tensor, bands: Sequence[Band | Sky], colour: bool, out: Tensor | None = None
) -> Tensor:
    """Raw pixels (B, H, W) of bands, from top to bottom, each picture in its own look.

    Colour is packed into int32, gray is uint8; `unpack` makes them channels. They go to `out`, if
    given, which must be contiguous.
    """
    atlas = looks.colour if colour else looks.gray
    first = (look * (ROWS * WIDTH)).to(torch.int32).view(-1, 1, 1)
    if torch.compiler.is_compiling():
        parts = [_fused_index(band) + first for band in bands]
        return torch.cat([atlas.index_select(0, i.reshape(-1)).view(i.shape) for i in parts], 1)
    index = _index(bands, len(look))
    if len(atlas) > ROWS * WIDTH:
        index += first
    if out is None:
        return atlas.index_select(0, index.view(-1)).view(index.shape)
    torch.index_select(atlas, 0, index.view(-1), out=out.view(-1))
    return out


def unpack(pixels: Tensor) -> Tensor:
    """Raw pixels (..., W) as channels (..., W, 3 or 1) uint8, without copying.

    Kept apart from `read_raw` because a compiler cannot look at one tensor as two types.
    """
    if pixels.dtype == torch.uint8:
        return pixels.unsqueeze(-1)
    return pixels.unsqueeze(-1).view(torch.uint8)[..., :3]


def split_channels(pixels: Tensor) -> Tensor:
    """The same as `unpack`, as numbers of their own, which a compiler can go on with."""
    if not torch.compiler.is_compiling() or pixels.dtype == torch.uint8:
        return unpack(pixels)
    return torch.stack([(pixels >> shift) & 255 for shift in (0, 8, 16)], -1).to(torch.uint8)


def _fused_index(band: Band | Sky) -> Tensor:
    """Atlas index of every pixel (B, H, W) int32, within one atlas; for a compiler to fuse."""
    if isinstance(band, Sky):
        return band.row.to(torch.int32) * WIDTH + band.column.to(torch.int32)
    axis = 2 if band.upright else 3
    offset = torch.arange(band.group, device=band.row.device) - (band.group - 1) / 2
    offset = offset.view(-1, 1) if band.upright else offset
    rows = band.row.unsqueeze(axis) + band.row_step.unsqueeze(axis) * offset
    columns = band.column.unsqueeze(axis) + band.column_step.unsqueeze(axis) * offset
    index = rows.to(torch.int32) * WIDTH + columns.to(torch.int32)
    return index.reshape(len(index), *band.size)


def _index(bands: Sequence[Band | Sky], batch: int) -> Tensor:
    """The same of all bands, with the pixel's place in its group as the outer loop.

    Each sum is then one long vector operation: three times faster without a compiler.
    """
    height, width = sum(band.size[0] for band in bands), bands[0].size[1]
    index = torch.empty(batch, height, width, dtype=torch.int32, device=bands[0].row.device)
    top = 0
    for band in bands:
        block = index[:, top : top + band.size[0]]
        top += band.size[0]
        if isinstance(band, Sky):
            rows, columns = band.row.to(torch.int32), band.column.to(torch.int32)
            torch.add(columns, rows, alpha=WIDTH, out=block)
            continue
        block = block.unflatten(1, (-1, band.group)) if band.upright else block.unflatten(2, (-1, band.group))
        for pixel in range(band.group):
            offset = pixel - (band.group - 1) / 2
            rows = torch.add(band.row, band.row_step, alpha=offset).to(torch.int32)
            columns = torch.add(band.column, band.column_step, alpha=offset).to(torch.int32)
            out = block[:, :, pixel] if band.upright else block[..., pixel]
            torch.add(columns, rows, alpha=WIDTH, out=out)
    return index
