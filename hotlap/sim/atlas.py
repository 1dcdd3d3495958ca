"""Drawing pixels from an atlas, in blocks.

    B pictures, R rows of blocks, G blocks in a row; a block is a few neighbouring pixels.
    q, p          road coordinates at the middle of a block             (B, R, G)
    across, down  their change to the next pixel of the row, to the next row of pixels
    column, row   place in the atlas, in atlas pixels

Within a block the atlas place moves in equal steps, so the costly part (where on the ground, which
level of detail) is done once per block, and a pixel costs a few additions and one read.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from torch import Tensor

from hotlap.sim.fields import Q_STEPS, apart
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
HIGH = 4
"""Rows of pixels in a high block; others have one."""
EXPONENT = 0x7F800000
ONE_TWICE = 0x7F000000
"""Exponent bits of 1.0, twice: subtracting the bits of a power of two from it gives its inverse."""
TAU = 6.283185307179586
Q_EDGE = Q_SPAN * Q_STEPS
Q_CALM = 0.8 * Q_EDGE
"""Beyond this q settles to a constant within a block: plain land must not read back into a road."""
CALMING = Q_EDGE**2 - Q_CALM**2
Q_STEP = 1.9
"""Most columns of the atlas from one pixel to the next; more is filtered out."""
P_STEP = 7.0
"""Most p from one pixel to the next."""
P_REACH = 21.0
"""Most p between a block's middle and its corner, which must stay within what the tile repeats."""
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
        """Its rows of blocks from start to stop."""

        def cut(step: Step) -> Step:
            return step[0][:, start:stop], step[1][:, start:stop]

        row, column = cut((self.row, self.column))
        down = None if self.down is None else cut(self.down)
        return Band(row, column, cut(self.across), down, self.block)


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

    def part(self, start: int, stop: int) -> "Sky":
        """Its rows from start to stop."""
        return Sky(self.row[:, start:stop], self.column)


@dataclass(frozen=True)
class Mixed:
    """Rows each of which is ground in some pictures and sky in others."""

    ground: Band
    sky: Sky
    seen: Tensor
    """1 where a row of pixels is ground, 0 where it is sky (B, R, 1) float."""

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the band, in pixels."""
        return self.ground.size


@dataclass(frozen=True)
class Planes:
    """Atlas indices of a band, apart by the pixel's place across its block."""

    index: tuple[Tensor, ...]
    """As many as a block is wide, each (B, R, height, G) int32."""

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the band, in pixels."""
        rows, height, blocks = self.index[0].shape[1:]
        return rows * height, blocks * len(self.index)


def road_places(at: RoadCoordinates, high: int = 0) -> tuple[Band, Band | None]:
    """Where in the tile blocks of ground pixels read, at the level of detail that fits them.

    The last `high` rows of blocks are high ones, a band of their own.
    """
    q, p = apart(at.value)
    q_fine, p_fine = apart([_fineness(*steps) for steps in zip(at.across, at.down, strict=True)])
    calm = (q * q).mul_(-1 / CALMING).add_(Q_EDGE**2 / CALMING).clamp_(0.0, 1.0)
    row = p.clamp(max=P_LAST).add_(REPEAT - 2 * LEVEL_ROWS).mul_(p_fine).add_(2 * LEVEL_ROWS)
    column = q.clamp(-Q_EDGE, Q_EDGE).add_(Q_EDGE - WIDTH).mul_(q_fine).add_(WIDTH)
    across = _step(apart(at.across), q_fine, p_fine, calm)
    low = Band(row, column, across, None, (1, GROUP))
    if not high:
        return low, None
    single = row.shape[1] - high
    below = [x[:, single:] for x in (*apart(at.down), q_fine, p_fine, calm)]
    down = _step((below[0], below[1]), *below[2:])
    last = low.part(single, row.shape[1])
    return low.part(0, single), replace(last, down=down, block=(HIGH, GROUP))


def _fineness(across: Tensor, down: Tensor) -> Tensor:
    """1 / (largest power of two not above a pixel's footprint), from the exponent's bits."""
    footprint = across.abs().add_(down.abs()).clamp_(1.0, 2.0 ** (LEVELS - 1))
    return (ONE_TWICE - (footprint.view(torch.int32) & EXPONENT)).view(torch.float32)


def _step(change: tuple[Tensor, Tensor], q_fine: Tensor, p_fine: Tensor, calm: Tensor) -> Step:
    """A change of q and p from pixel to pixel as one of atlas row and column."""
    q, p = change
    rows = p.clamp(-P_STEP, P_STEP).mul_(p_fine)
    return rows, (q * q_fine).clamp_(-Q_STEP, Q_STEP).mul_(calm)


def sky_places(tangent: Tensor, azimuth: Tensor) -> Sky:
    """Where in the panorama sky pixels read.

    tangent (B, R, 1) of the row's elevation; azimuth (B, 1, W) counter-clockwise from +x.
    """
    row = ((SKY_STEEPEST - tangent) * SKY_SCALE).clamp(0.0, SKY_ROWS - 0.01) + SKY_TOP
    turns = azimuth / TAU
    return Sky(row, (turns - torch.floor(turns)) * SKY_COLUMNS + SKY_MARGIN)


def read_raw(
    looks: Looks,
    look: Tensor,
    bands: Sequence[Band | Mixed | Sky | Planes],
    colour: bool,
    out: Tensor | None = None,
    index: Tensor | None = None,
) -> Tensor:
    """Raw pixels (B, H, W) of bands, from top to bottom, each picture in its own look.

    Colour is packed into int32, gray is uint8; `unpack` makes them channels. They go to `out`, if
    given, which must be contiguous. Those who draw often on a CPU give `index`, room to work in
    (int32 of the same shape), and may have made the `Planes` of bands themselves.
    """
    atlas = looks.colour if colour else looks.gray
    first = first_place(look)
    if out is None:
        shape = (len(look), sum(band.size[0] for band in bands), bands[0].size[1])
        out = torch.empty(shape, dtype=atlas.dtype, device=atlas.device)
    if out.is_cuda or torch.compiler.is_compiling():
        for band, part in zip(bands, split_rows(bands, out), strict=True):
            assert not isinstance(band, Planes)
            read_band(atlas, first, band, part)
        return out
    if index is None:
        index = torch.empty_like(out, dtype=torch.int32)
    _write_index(bands, index)
    if len(atlas) > ROWS * WIDTH:
        index += first
    torch.index_select(atlas, 0, index.view(-1), out=out.view(-1))
    return out


def first_place(look: Tensor) -> Tensor:
    """Where each picture's look begins in the atlases (B, 1, 1) int32, for looks (B,)."""
    return (look * (ROWS * WIDTH)).to(torch.int32).view(-1, 1, 1)


def split_rows(
    bands: Sequence[Band | Mixed | Sky | Planes], pictures: Tensor
) -> tuple[Tensor, ...]:
    """The part of pictures (B, H, W) that belongs to each band."""
    return pictures.split([band.size[0] for band in bands], 1)


def read_band(atlas: Tensor, first: Tensor, band: Band | Mixed | Sky, out: Tensor) -> None:
    """Raw pixels of one band, written to its part of pictures; for a compiler to fuse."""
    index = _band_index(band) + first
    out.copy_(atlas.index_select(0, index.reshape(-1)).view(index.shape))


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


def _offsets(length: int, device: torch.device) -> Tensor:
    """Places of a block's pixels along one side, from its middle (length,)."""
    return torch.arange(length, device=device) - (length - 1) / 2


_kept = lru_cache(maxsize=64)(lambda make, *settings: make(*settings))


def constant(make: Callable[..., Tensor], *settings: object) -> Tensor:
    """A constant made once; a compiler makes it its own."""
    return make(*settings) if torch.compiler.is_compiling() else _kept(make, *settings)


def _band_index(band: Band | Mixed | Sky) -> Tensor:
    """Atlas index of every pixel of a band (B, H, W) int32, within one atlas."""
    if isinstance(band, Mixed):
        return torch.where(band.seen > 0, _band_index(band.ground), _band_index(band.sky))
    if isinstance(band, Sky):
        return band.row.to(torch.int32) * WIDTH + band.column.to(torch.int32)
    height, width = band.block
    aside = _offsets(width, band.row.device)
    places = []
    for middle, across, down in zip(
        (band.row, band.column), band.across, band.down or (None, None), strict=True
    ):
        place = middle[:, :, None, :, None] + across[:, :, None, :, None] * aside
        if down is not None:
            below = _offsets(height, band.row.device)[:, None, None]
            place = place + down[:, :, None, :, None] * below
        places.append(place)
    row, column = places
    return (column + torch.floor(row) * WIDTH).to(torch.int32).flatten(3).flatten(1, 2)


def block_planes(band: Band | Mixed) -> Planes:
    """Atlas indices of a band in long vector operations: several times faster on a CPU."""
    if isinstance(band, Band):
        return Planes(tuple(place.to(torch.int32) for place in _block_places(band)))
    rows, columns = torch.floor(band.sky.row), torch.floor(band.sky.column)
    shape = (-1, band.ground.block[0])
    seen, rows = band.seen.unflatten(1, shape), rows.unflatten(1, shape)  # (B, R, height, 1)
    columns = columns.unflatten(2, (-1, GROUP)).unsqueeze(1)  # (B, 1, 1, G, width)
    planes = []
    for x, place in enumerate(_block_places(band.ground)):
        above = torch.add(columns[..., x], rows, alpha=WIDTH)
        # A mask of numbers: faster than one of bools.
        planes.append(torch.lerp(above, place, seen).to(torch.int32))
    return Planes(tuple(planes))


def _block_places(band: Band) -> Iterator[Tensor]:
    """Atlas places of a band, apart by the pixel's place across its block (B, R, height, G)."""
    height, width = band.block
    row, column = band.row.unsqueeze(2), band.column.unsqueeze(2)  # (B, R, 1, G)
    rows_across, columns_across = (step.unsqueeze(2) for step in band.across)
    if band.down is not None:
        below = constant(_offsets, height, row.device).view(-1, 1)
        row = torch.addcmul(row, band.down[0].unsqueeze(2), below)
        column = torch.addcmul(column, band.down[1].unsqueeze(2), below)
    for x in range(width):
        aside = x - (width - 1) / 2
        rows = torch.add(row, rows_across, alpha=aside).floor_()
        yield torch.add(column, columns_across, alpha=aside).add_(rows, alpha=WIDTH)


def _write_index(bands: Sequence[Band | Mixed | Sky | Planes], index: Tensor) -> None:
    """Write the atlas index of every pixel of all bands to `index` (B, H, W)."""
    for band, part in zip(bands, split_rows(bands, index), strict=True):
        if isinstance(band, Sky):
            rows, columns = band.row.to(torch.int32), band.column.to(torch.int32)
            torch.add(columns, rows, alpha=WIDTH, out=part)
            continue
        planes = (band if isinstance(band, Planes) else block_planes(band)).index
        blocks = part.unflatten(2, (-1, len(planes))).unflatten(1, (-1, planes[0].shape[2]))
        for x, plane in enumerate(planes):  # blocks: (B, R, height, G, width)
            blocks[..., x].copy_(plane)
