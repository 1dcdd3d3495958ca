"""Reading road coordinates under points of the ground.

gx, gy     a ground point in grid cells of its track (see `fields`)
u, v       the same within its cell, 0 to 1
at, side   a picture's row of ground points: at + side * right, in cells     (B, R)
right      place of a group of pixels in its row, in focal lengths or pixels (G,)
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from hotlap.sim.atlas import Places, road_places
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
    return cell, gx - cell_x, gy - cell_y


def read_q(fields: Fields, cell: Tensor, u: Tensor, v: Tensor) -> Tensor:
    """Lateral place q at points of cells, in steps of 1/Q_STEPS."""
    flat = cell.reshape(-1)
    if cell.is_cuda:
        a, b, c, d = fields.patches.index_select(0, flat).view(*cell.shape, 8)[..., :4].unbind(-1)
    else:
        a, b, c, d = (plane.index_select(0, flat).view(cell.shape) for plane in fields.planes[:4])
    return torch.addcmul(torch.addcmul(a, b, u), torch.addcmul(c, d, u), v)


@dataclass(frozen=True)
class GroundRows:
    """Ground points of a picture's rows, in grid cells: at + side * right, all (B, R)."""

    at_x: Tensor
    at_y: Tensor
    side_x: Tensor
    side_y: Tensor
    columns: Tensor
    """Cells across the grid (B, 1)."""
    rows: Tensor
    """Cells up the grid (B, 1)."""


def _slopes(values: Tensor) -> Tensor:
    """Change per row of (B, R) values, by central differences."""
    inner = (values[:, 2:] - values[:, :-2]) * 0.5
    return torch.cat([values[:, 1:2] - values[:, :1], inner, values[:, -1:] - values[:, -2:-1]], 1)
