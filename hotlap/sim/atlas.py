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
    LEVEL_ROWS,
    LEVELS_ACROSS,
    LEVELS_ALONG,
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
EXPONENT = 0x7F800000
ONE_TWICE = 0x7F000000
"""Exponent bits of 1.0, twice: subtracting the bits of a power of two from it gives its inverse."""
TAU = 6.283185307179586
Q_EDGE = Q_SPAN * Q_STEPS
Q_CALM = 0.8 * Q_EDGE
"""Beyond this q settles to a constant within a group: plain land must not read back into a road."""
Q_STEP = 1.9
"""Most columns of the atlas between neighbouring pixels; faster changes are filtered out."""
P_STEP = 14.0
"""Fastest change of p between neighbouring pixels, so that a group stays within what the tile
repeats (one and a half steps lie between a group's middle and its end); more is a blur anyway."""
P_LAST = PHASES + REPEAT - 1.5 * P_STEP - 1
"""Largest p of a group's middle, for the same reason."""

Places = tuple[Tensor, Tensor, Tensor, Tensor]
"""Atlas row, its step per pixel, atlas column, its step per pixel."""


def _detail(across: Tensor, down: Tensor, levels: int) -> Tensor:
    """1 / (largest power of two not above a pixel's footprint), limited to the levels there are."""
    footprint = across.abs().add_(down.abs()).clamp_(1.0, 2.0 ** (levels - 1))
    return (ONE_TWICE - (footprint.view(torch.int32) & EXPONENT)).view(torch.float32)


def road_places(
    q: Tensor, q_across: Tensor, q_down: Tensor, p: Tensor, p_across: Tensor, p_down: Tensor
) -> Places:
    """Where in the tile groups of ground pixels read, at the level of detail that fits them.

    All in steps, as `fields.read_patches` gives them.
    """
    fine = _detail(q_across, q_down, LEVELS_ACROSS)
    column = q.clamp(-Q_EDGE, Q_EDGE).add_(Q_EDGE - WIDTH).mul_(fine).add_(WIDTH)
    calm = (Q_EDGE**2 - q * q).mul_(1 / (Q_EDGE**2 - Q_CALM**2)).clamp_(0.0, 1.0)
    column_step = (q_across * fine).clamp_(-Q_STEP, Q_STEP).mul_(calm)
    fine = _detail(p_across, p_down, LEVELS_ALONG)
    row = p.clamp(max=P_LAST).add_(REPEAT - 2 * LEVEL_ROWS).mul_(fine).add_(2 * LEVEL_ROWS)
    row_step = p_across.clamp(-P_STEP, P_STEP).mul_(fine)
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


def read_raw(
    looks: Looks, look: Tensor, places: Places, colour: bool, out: Tensor | None = None
) -> Tensor:
    """Raw pixels (B, R, G * GROUP) of the places of groups, each picture in its own look.

    Colour is packed into int32, gray is uint8; `unpack` makes them channels. They go to `out`, if
    given, which must be contiguous.
    """
    atlas = looks.colour if colour else looks.gray
    index = _indices(places)
    if len(atlas) > ROWS * WIDTH:
        index += (look * (ROWS * WIDTH)).to(torch.int32).view(-1, 1, 1, 1)
    flat = index.reshape(-1)
    if out is not None:
        torch.index_select(atlas, 0, flat, out=out.view(-1))
        return out
    return atlas.index_select(0, flat).view(*index.shape[:2], -1)


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
