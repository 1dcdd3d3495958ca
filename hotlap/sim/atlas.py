"""Drawing pixels from an atlas, in groups.

    B pictures, R rows, G groups of GROUP neighbouring pixels in a row.
    q, p          road coordinates at the middle of a group            (B, R, G)
    across, along their change from one pixel to the next in the row
    down_*        their change from one row to the next
    column, row   place in the atlas, in atlas pixels

Within a group the atlas place moves in equal steps, so the costly part (where on the ground, which
level of detail) is done once per group, and a pixel costs three additions and one read.
"""

import torch
from torch import Tensor

from hotlap.sim.fields import Q_STEPS
from hotlap.sim.looks import (
    LEVELS_ACROSS,
    LEVELS_ALONG,
    PHASES,
    Q_SPAN,
    ROW_PAD,
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
EXPONENT = 0x7F800000
ONE_TWICE = 0x7F000000
"""Exponent bits of 1.0, twice: subtracting the bits of a power of two from it gives its inverse."""
TAU = 6.283185307179586
MAX_STEP = 1.9
"""Most atlas pixels between neighbouring pixels of a picture; faster changes are filtered out."""
Q_EDGE = Q_SPAN * Q_STEPS
Q_CALM = 0.8 * Q_EDGE
"""Beyond this q is taken as constant within a group, so that plain land never reads back into a road."""

Places = tuple[Tensor, Tensor, Tensor, Tensor]
"""Atlas row, its step per pixel, atlas column, its step per pixel."""


def _exponent(across: Tensor, down: Tensor, levels: int) -> Tensor:
    """Bits of the largest power of two not above a pixel's footprint, limited to the levels there are."""
    footprint = across.abs().add_(down.abs()).clamp_(1.0, 2.0 ** (levels - 1))
    return footprint.view(torch.int32) & EXPONENT


def road_places(
    q: Tensor, q_across: Tensor, q_down: Tensor, p: Tensor, p_across: Tensor, p_down: Tensor
) -> Places:
    """Where in the tile groups of ground pixels read, at the level of detail that fits them.

    All in steps, as `fields.read_patches` gives them.
    """
    fine = (ONE_TWICE - _exponent(q_across, q_down, LEVELS_ACROSS)).view(torch.float32)
    calm = (Q_EDGE**2 - q * q).mul_(1 / (Q_EDGE**2 - Q_CALM**2)).clamp_(0.0, 1.0)
    column = q.clamp(-Q_EDGE, Q_EDGE).add_(Q_EDGE - WIDTH).mul_(fine).add_(WIDTH)
    column_step = (q_across * fine).clamp_(-MAX_STEP, MAX_STEP).mul_(calm)
    bits = _exponent(p_across, p_down, LEVELS_ALONG)
    fine = (ONE_TWICE - bits).view(torch.float32)
    level = (bits >> 23).to(torch.float32)  # biased by 127
    phase = p - torch.floor(p * (1 / PHASES)) * PHASES
    row = (phase - 2 * PHASES).mul_(fine).add_(level, alpha=2 * ROW_PAD)
    row = row.add_(2 * PHASES + ROW_PAD - 127 * 2 * ROW_PAD)
    row_step = (p_across * fine).clamp_(-MAX_STEP, MAX_STEP)
    return row, row_step, column, column_step


def sky_places(tangent: Tensor, azimuth: Tensor, azimuth_step: Tensor) -> Places:
    """Where in the panorama groups of sky pixels read.

    tangent (B, R, 1) of the row's elevation; azimuth (B, 1, G) counter-clockwise from +x.
    """
    row = ((SKY_STEEPEST - tangent) * SKY_SCALE).clamp(0.0, SKY_ROWS - 0.01) + SKY_TOP
    turns = azimuth / TAU
    column = (turns - torch.floor(turns)) * SKY_COLUMNS + SKY_MARGIN
    step = azimuth_step * (SKY_COLUMNS / TAU)
    return row, torch.zeros_like(row), column, step


def choose(mask: Tensor, yes: Places, no: Places) -> Places:
    """`yes` where mask is 1, `no` where it is 0 (a mask of numbers is faster than one of bools)."""
    return tuple(torch.lerp(b, a, mask) for a, b in zip(yes, no, strict=True))  # type: ignore[return-value]


def read(looks: Looks, look: Tensor, places: Places, colour: bool) -> Tensor:
    """Pixels (B, R, G * GROUP, 3 or 1) uint8 of the places of groups, each picture in its own look."""
    return unpack(read_raw(looks, look, places, colour))


def read_raw(looks: Looks, look: Tensor, places: Places, colour: bool) -> Tensor:
    """Raw pixels (B, R, G * GROUP) of the places of groups, each picture in its own look.

    Colour is packed into int32, gray is uint8; `unpack` makes them channels.
    """
    atlas = looks.colour if colour else looks.gray
    index = _indices(places)
    index += (look * (ROWS * WIDTH)).to(torch.int32).view(-1, 1, 1, 1)
    return atlas.index_select(0, index.reshape(-1)).view(*index.shape[:2], -1)


def unpack(pixels: Tensor) -> Tensor:
    """Raw pixels (..., W) as channels (..., W, 3 or 1) uint8, without copying.

    Kept apart from `read_raw` because a compiler cannot look at one tensor as two types.
    """
    if pixels.dtype == torch.uint8:
        return pixels.unsqueeze(-1)
    return pixels.unsqueeze(-1).view(torch.uint8)[..., :3]


def _indices(places: Places) -> Tensor:
    """Flat atlas index of every pixel (B, R, G, GROUP) int32, within one atlas."""
    row, row_step, column, column_step = places
    if torch.compiler.is_compiling():
        offset = torch.arange(GROUP, device=row.device) - (GROUP - 1) / 2
        rows = torch.floor(row.unsqueeze(-1) + row_step.unsqueeze(-1) * offset)
        columns = column.unsqueeze(-1) + column_step.unsqueeze(-1) * offset
        return (rows * WIDTH + columns).to(torch.int32)
    # The same sums with the pixel's place in its group as the outer loop, so that each is one
    # long vector operation: three times faster without a compiler.
    index = torch.empty(*row.shape, GROUP, dtype=torch.int32, device=row.device)
    for pixel in range(GROUP):
        offset = pixel - (GROUP - 1) / 2
        rows = torch.add(row, row_step, alpha=offset).floor_()
        columns = torch.add(column, column_step, alpha=offset)
        index[..., pixel] = columns.add_(rows, alpha=WIDTH)
    return index
