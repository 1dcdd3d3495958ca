"""Reading road coordinates under points of the ground.

gx, gy     a ground point in grid cells of its track (see `fields`)
u, v       the same within its cell, 0 to 1
at, side   a picture's row of ground points: at + side * right, in cells     (B, R)
right      place of a group of pixels in its row, in focal lengths or pixels (G,)
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from hotlap.sim.fields import Fields, apart, read_patches

INSIDE = 1 - 2.0**-22
"""Where a point beyond the grid is read: as a share of the grid's size, just inside its rim."""


def locate_cells(
    gx: Tensor, gy: Tensor, columns: Tensor, rows: Tensor, first_cell: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Cell (int32), u and v of ground points, all shaped like `gx`, which is overwritten."""
    gx = torch.minimum(gx.clamp_(min=0.0), columns * INSIDE)
    gy = torch.minimum(gy.clamp_(min=0.0), rows * INSIDE)
    cell_x, cell_y = torch.floor(gx), torch.floor(gy)
    cell = torch.addcmul(cell_x, cell_y, columns).to(torch.int32)
    cell += first_cell
    return cell, gx.sub_(cell_x), gy.sub_(cell_y)


def read_q(fields: Fields, cell: Tensor, u: Tensor, v: Tensor) -> Tensor:
    """Lateral place q at points of cells, in steps of 1/Q_STEPS."""
    a, b, c, d = (apart(list(both))[0] for both in zip(*read_patches(fields, cell), strict=True))
    return torch.addcmul(torch.addcmul(a, b, u), torch.addcmul(c, d, u), v)


@dataclass(frozen=True)
class RoadCoordinates:
    """q and p of points of a picture's rows, in steps, in parts as `fields.apart` takes them."""

    value: list[Tensor]
    across: list[Tensor]
    """Change to the next pixel of the row."""
    down: list[Tensor]
    """Change to the next row."""


@dataclass(frozen=True)
class GroundRows:
    """Ground points of a picture's rows, in grid cells: at + side * right."""

    lines: Tensor
    """At and side (the last axis) of x, of y, and of their change to the next row (B, 4, R, 2)."""
    columns: Tensor
    """Cells across the grid (B, 1)."""
    rows: Tensor
    """Cells up the grid (B, 1)."""
    first_cell: Tensor
    """Row of the grid's first cell in the fields (B, 1) int32."""


def road_coordinates(
    fields: Fields, grid: GroundRows, right: Tensor, step: float
) -> RoadCoordinates:
    """Read the patches under points `right` (G,) of a picture's rows; a pixel is `step` wide."""
    gx, gy, down_x, down_y = _along(grid.lines, right)
    size = (grid.columns.unsqueeze(-1), grid.rows.unsqueeze(-1))
    cell, u, v = locate_cells(gx, gy, *size, grid.first_cell.unsqueeze(-1))
    across_x, across_y = (grid.lines[:, :2, :, 1:] * step).unbind(1)  # (B, R, 1)
    found = RoadCoordinates([], [], [])
    for a, b, c, d in read_patches(fields, cell):
        by_x, by_y = torch.addcmul(b, d, v), torch.addcmul(c, d, u)
        found.value.append(torch.addcmul(a, b, u).addcmul_(by_y, v))
        found.down.append((by_x * down_x).addcmul_(by_y, down_y))
        found.across.append(by_x.mul_(across_x).addcmul_(by_y, across_y))
    return found


def _along(lines: Tensor, right: Tensor) -> tuple[Tensor, ...]:
    """Points `right` (G,) of lines (B, 4, R, 2): four of (B, R, G)."""
    if torch.compiler.is_compiling():
        return tuple(line[..., :1] + line[..., 1:] * right for line in lines.unbind(1))
    basis = torch.stack([torch.ones_like(right), right])
    points = torch.mm(lines.view(-1, 2), basis)  # a single pass over memory
    return points.view(*lines.shape[:3], len(right)).unbind(1)


def land_height(fields: Fields, road: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Height of the land at points (B, M) of tracks (B,), metres; 0 where all is flat."""
    if not fields.steepest:
        return torch.zeros_like(x)
    grids = fields.grids.index_select(0, road)
    left, bottom, scale, columns, rows, _ = grids.unsqueeze(1).unbind(-1)
    first_cell = fields.first.index_select(0, road).unsqueeze(-1)
    gx, gy = (x - left) * scale, (y - bottom) * scale
    cell, u, v = locate_cells(gx, gy, columns, rows, first_cell)
    a, b, c, d = fields.heights.index_select(0, cell.reshape(-1)).view(*cell.shape, 4).unbind(-1)
    return a + b * u + (c + d * u) * v
