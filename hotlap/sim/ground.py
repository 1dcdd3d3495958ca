"""Reading road coordinates under points of the ground.

gx, gy     a ground point in grid cells of its track (see `fields`)
u, v       the same within its cell, 0 to 1
at, side   a picture's row of ground points: at + side * right, in cells     (B, R)
right      place of a group of pixels in its row, in focal lengths or pixels (G,)
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from hotlap.sim.fields import Fields, read_patches

RIM = 0.001
"""How far inside the grid's last cell a point beyond the grid is read."""


def locate_cells(
    gx: Tensor, gy: Tensor, columns: Tensor, rows: Tensor, first_cell: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Cell (int32), u and v of ground points, all shaped like `gx`, which is overwritten."""
    gx = torch.minimum(gx.clamp_(min=0.0), columns - RIM)
    gy = torch.minimum(gy.clamp_(min=0.0), rows - RIM)
    cell_x, cell_y = torch.floor(gx), torch.floor(gy)
    cell = torch.addcmul(cell_x, cell_y, columns).to(torch.int32)
    cell += first_cell
    return cell, gx.sub_(cell_x), gy.sub_(cell_y)


def read_q(fields: Fields, cell: Tensor, u: Tensor, v: Tensor) -> Tensor:
    """Lateral place q at points of cells, in steps of 1/Q_STEPS."""
    a, b, c, d = read_patches(fields, cell)[:, 0]
    return torch.addcmul(torch.addcmul(a, b, u), torch.addcmul(c, d, u), v)


@dataclass(frozen=True)
class RoadCoordinates:
    """q and p of points of a picture's rows, in steps, each (2, B, R, G)."""

    value: Tensor
    across: Tensor
    """Change to the next pixel of the row."""
    down: Tensor
    """Change to the next row."""


@dataclass(frozen=True)
class GroundRows:
    """Ground points of a picture's rows, in grid cells: at + side * right, all (B, R)."""

    at_x: Tensor
    at_y: Tensor
    side_x: Tensor
    side_y: Tensor
    down: tuple[Tensor, ...]
    """Change of the four from one row of pixels to the next."""
    columns: Tensor
    """Cells across the grid (B, 1)."""
    rows: Tensor
    """Cells up the grid (B, 1)."""


def road_coordinates(
    fields: Fields, first_cell: Tensor, grid: GroundRows, right: Tensor, step: float
) -> RoadCoordinates:
    """Read the patches under points `right` (G,) of a picture's rows; a pixel is `step` wide."""

    def across(at: Tensor, side: Tensor) -> Tensor:
        return (side.unsqueeze(-1) * right).add_(at.unsqueeze(-1))  # (B, R, G)

    cell, u, v = locate_cells(
        across(grid.at_x, grid.side_x),
        across(grid.at_y, grid.side_y),
        grid.columns.unsqueeze(-1),
        grid.rows.unsqueeze(-1),
        first_cell.view(-1, 1, 1),
    )
    a, b, c, d = read_patches(fields, cell)
    by_x, by_y = torch.addcmul(b, d, v), torch.addcmul(c, d, u)
    value = torch.addcmul(torch.addcmul(a, b, u), by_y, v)
    at_x, at_y, side_x, side_y = grid.down
    down = torch.addcmul(by_x * across(at_x, side_x), by_y, across(at_y, side_y))
    across_x, across_y = (grid.side_x * step).unsqueeze(-1), (grid.side_y * step).unsqueeze(-1)
    return RoadCoordinates(value, torch.addcmul(by_x.mul_(across_x), by_y, across_y), down)


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
