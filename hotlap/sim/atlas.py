"""Drawing pixels from an atlas, in blocks.

    B pictures, R rows of blocks, G blocks in a row; a block is a few neighbouring pixels.
    q, p          road coordinates at the middle of a block             (B, R, G)
    across, down  their change to the next pixel of the row, to the next row of pixels
    column, row   place in the atlas, in atlas pixels

Within a block the atlas place moves in equal steps, so the costly part (where on the ground, which
level of detail) is done once per block, and a pixel costs a few additions and one read.
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
"""Pixels across a block."""
EXPONENT = 0x7F800000
ONE_TWICE = 0x7F000000
"""Exponent bits of 1.0, twice: subtracting the bits of a power of two from it gives its inverse."""
TAU = 6.283185307179586
Q_EDGE = Q_SPAN * Q_STEPS
Q_CALM = 0.8 * Q_EDGE
"""Beyond this q settles to a constant within a block: plain land must not read back into a road."""
Q_REACH = 2.9
"""Most columns of the atlas between a block's middle and its end; more is filtered out."""
P_REACH = 21.0
"""Most p between a block's middle and its end, so that it stays within what the tile repeats."""
P_LAST = PHASES + REPEAT - P_REACH - 1
"""Largest p of a block's middle, for the same reason."""


Step = tuple[Tensor, Tensor]
"""Change of the atlas row and column from one pixel to the next."""


@dataclass(frozen=True)
class Band:
    """Rows of blocks of pixels, and where in the atlas they read, all (B, R, G)."""

    row: Tensor
    column: Tensor
    across: Step
    down: Step | None
    """None where blocks are one pixel high."""
    block: tuple[int, int]
    """Height and width of a block, in pixels."""

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the band, in pixels."""
        rows, blocks = self.row.shape[1:]
        return rows * self.block[0], blocks * self.block[1]

    def part(self, start: int, stop: int) -> "Band":
        """Its rows from start to stop, of a band whose blocks are one pixel high."""
        row, column, *across = (x[:, start:stop] for x in (self.row, self.column, *self.across))
        return Band(row, column, (across[0], across[1]), None, self.block)


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


def road_places(at: RoadCoordinates, block: tuple[int, int]) -> Band:
    """Where in the tile blocks of ground pixels read, at the level of detail that fits them."""
    footprint = at.across.abs().add_(at.down.abs()).clamp_(1.0, 2.0 ** (LEVELS - 1))
    # 1 / (largest power of two not above the footprint), from the exponent's bits.
    fine = (ONE_TWICE - (footprint.view(torch.int32) & EXPONENT)).view(torch.float32)
    (q, p), (q_fine, p_fine) = at.value, fine
    calm = (Q_EDGE**2 - q * q).mul_(1 / (Q_EDGE**2 - Q_CALM**2)).clamp_(0.0, 1.0)
    far = max(0.5, sum(length - 1 for length in block) / 2)  # pixels from the middle to a corner

    def step(change: Tensor) -> Step:
        rows = change[1].clamp(-P_REACH / far, P_REACH / far).mul_(p_fine)
        columns = (change[0] * q_fine).clamp_(-Q_REACH / far, Q_REACH / far).mul_(calm)
        return rows, columns

    return Band(
        row=p.clamp(max=P_LAST).add_(REPEAT - 2 * LEVEL_ROWS).mul_(p_fine).add_(2 * LEVEL_ROWS),
        column=q.clamp(-Q_EDGE, Q_EDGE).add_(Q_EDGE - WIDTH).mul_(q_fine).add_(WIDTH),
        across=step(at.across),
        down=step(at.down) if block[0] > 1 else None,
        block=block,
    )


def sky_places(tangent: Tensor, azimuth: Tensor) -> Sky:
    """Where in the panorama sky pixels read.

    tangent (B, R, 1) of the row's elevation; azimuth (B, 1, W) counter-clockwise from +x.
    """
    row = ((SKY_STEEPEST - tangent) * SKY_SCALE).clamp(0.0, SKY_ROWS - 0.01) + SKY_TOP
    turns = azimuth / TAU
    return Sky(row, (turns - torch.floor(turns)) * SKY_COLUMNS + SKY_MARGIN)


def sky_blocks(sky: Sky, start: int, stop: int) -> Band:
    """Rows of a sky as blocks, to be mixed with ground."""
    row = sky.row[:, start:stop]
    column = sky.column.unflatten(2, (-1, GROUP))
    first, last = column[..., 0], column[..., -1]
    step = (last - first) / max(GROUP - 1, 1)
    step = step * (step.abs() < SKY_COLUMNS / 8)  # a block that straddles north is drawn plain
    shape = (len(row), row.shape[1], first.shape[2])
    parts = (row, first + step * ((GROUP - 1) / 2), torch.zeros_like(row), step)
    rows, columns, *across = (part.expand(shape) for part in parts)
    return Band(rows, columns, (across[0], across[1]), None, (1, GROUP))


def choose(mask: Tensor, yes: Band, no: Band) -> Band:
    """`yes` where mask is 1, `no` where it is 0 (a mask of numbers is faster than one of bools)."""
    return Band(
        torch.lerp(no.row, yes.row, mask),
        torch.lerp(no.column, yes.column, mask),
        (
            torch.lerp(no.across[0], yes.across[0], mask),
            torch.lerp(no.across[1], yes.across[1], mask),
        ),
        None,
        yes.block,
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
        index = _fused_index(bands) + first
        return atlas.index_select(0, index.reshape(-1)).view(index.shape)
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


def _offsets(length: int) -> list[float]:
    """Places of a block's pixels along one side, from its middle."""
    return [pixel - (length - 1) / 2 for pixel in range(length)]


def _fused_index(bands: Sequence[Band | Sky]) -> Tensor:
    """Atlas index of every pixel (B, H, W) int32, within one atlas; for a compiler to fuse.

    Bands are joined while they are few numbers, and read in one sweep: joining pixels would make
    a compiled kernel work out every band at every pixel.
    """
    rows = [_single_rows(band) for band in bands]
    parts = [(b.row, b.across[0], b.column, b.across[1]) for b in rows]
    row, row_step, column, column_step = (torch.cat(part, 1) for part in zip(*parts, strict=True))
    offset = torch.arange(GROUP, device=row.device) - (GROUP - 1) / 2
    down = (row.unsqueeze(-1) + row_step.unsqueeze(-1) * offset).to(torch.int32)
    along = (column.unsqueeze(-1) + column_step.unsqueeze(-1) * offset).to(torch.int32)
    return (down * WIDTH + along).flatten(2)


def _single_rows(band: Band | Sky) -> Band:
    """A band as blocks of one row."""
    if isinstance(band, Sky):
        return sky_blocks(band, 0, band.row.shape[1])
    if band.down is None:
        return band
    height = band.block[0]
    below = (torch.arange(height, device=band.row.device) - (height - 1) / 2).view(-1, 1)

    def spread(middle: Tensor, step: Tensor | None = None) -> Tensor:
        """(B, R, G) to (B, R * height, G)."""
        values = middle.unsqueeze(2).expand(-1, -1, height, -1)
        return (values if step is None else values + step.unsqueeze(2) * below).flatten(1, 2)

    row, column = spread(band.row, band.down[0]), spread(band.column, band.down[1])
    across = (spread(band.across[0]), spread(band.across[1]))
    return Band(row, column, across, None, (1, band.block[1]))


def _index(bands: Sequence[Band | Sky], batch: int) -> Tensor:
    """The same of all bands, with the pixel's place in its block as the outer loops.

    Each sum is then one long vector operation: three times faster without a compiler.
    """
    height, width = sum(band.size[0] for band in bands), bands[0].size[1]
    index = torch.empty(batch, height, width, dtype=torch.int32, device=bands[0].row.device)
    top = 0
    for band in bands:
        part = index[:, top : top + band.size[0]]
        top += band.size[0]
        if isinstance(band, Sky):
            rows, columns = band.row.to(torch.int32), band.column.to(torch.int32)
            torch.add(columns, rows, alpha=WIDTH, out=part)
        else:
            _write_blocks(band, part)
    return index


def _write_blocks(band: Band, index: Tensor) -> None:
    """Write a band's atlas indices to its part of the whole."""
    height, width = band.block
    blocks = index.unflatten(2, (-1, width)).unflatten(1, (-1, height))  # (B, R, height, G, width)
    for x, aside in enumerate(_offsets(width)):
        row = torch.add(band.row, band.across[0], alpha=aside)
        column = torch.add(band.column, band.across[1], alpha=aside)
        for y, below in enumerate(_offsets(height)):
            rows, columns = row, column
            if band.down is not None:
                rows = torch.add(row, band.down[0], alpha=below)
                columns = torch.add(column, band.down[1], alpha=below)
            torch.add(
                columns.to(torch.int32),
                rows.to(torch.int32),
                alpha=WIDTH,
                out=blocks[:, :, y, :, x],
            )
