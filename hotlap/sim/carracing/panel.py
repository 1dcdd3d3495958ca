"""The indicators at the bottom of CarRacing's frame: bars on black.

    ROWS    rows of the frame that they take                                        12
    bars    speed, four wheel speeds (upwards), steering and yaw rate (to both sides)

The window has 1000x800 pixels, a bar's unit is 25 across and 20 up. Bars begin and end at whole
pixels of the window, both included; a frame's pixel is as bright as the share of it that a bar
takes. The score's digits, at the left end, are left out.
"""

import torch
from torch import Tensor

from hotlap.sim.carracing.maps import shrunk

FIRST_ROW, ROWS, COLUMNS = 84, 12, 96
PIXEL_WIDTH, PIXEL_HEIGHT = 1000 / 96, 800 / 96
LEAST = 1e-4
"""Smaller values have no bar."""
FOOT = 780.0
"""Where upward bars stand, in pixels of the window from its top."""
UPRIGHT = ((5, 0.02), (7, 0.01), (8, 0.01), (9, 0.01), (10, 0.01))
"""Place and scale of the bars for speed and wheel speeds."""
UPRIGHT_COLOURS = ((255, 255, 255), (0, 0, 255), (0, 0, 255), (51, 0, 255), (51, 0, 255))
LEVEL = ((20, -10.0), (30, -0.8))
"""Place and scale of the bars for steering and yaw rate."""
LEVEL_COLOURS = ((0, 255, 0), (255, 0, 0))
LEVEL_TOP, LEVEL_BOTTOM = 720.0, 761.0


class Panel:
    """Draws the indicators, in colour or gray."""

    def __init__(self, colour: bool, device: torch.device | str) -> None:
        def table(values: object) -> Tensor:
            return torch.tensor(values, dtype=torch.float32, device=device)

        weights = torch.eye(3) if colour else torch.tensor([[0.299], [0.587], [0.114]])
        self._row_edges = PIXEL_HEIGHT * table(range(FIRST_ROW, FIRST_ROW + ROWS + 1))
        self._column_edges = PIXEL_WIDTH * table(range(COLUMNS + 1))
        self._up_scale = 20.0 * table([scale for _, scale in UPRIGHT])
        self._side_scale = 25.0 * table([scale for _, scale in LEVEL])
        self._side_start = 25.0 * table([place for place, _ in LEVEL])
        begin = 25.0 * table([place for place, _ in UPRIGHT])
        # A bar's last column of pixels is drawn over by the next bar, if there is one.
        end = begin + table([26.0, 25.0, 25.0, 25.0, 26.0])
        paints = [table([shrunk(c) for c in cs]) for cs in (UPRIGHT_COLOURS, LEVEL_COLOURS)]
        across = _cover(begin, end, self._column_edges)
        down = _cover(table([LEVEL_TOP] * 2), table([LEVEL_BOTTOM] * 2), self._row_edges)
        weights = weights.to(device)
        self._across = across.unsqueeze(-1) * (paints[0] @ weights).unsqueeze(1)  # (5, 96, C)
        self._down = down.unsqueeze(-1) * (paints[1] @ weights).unsqueeze(1)  # (2, 12, C)

    def draw(self, speed: Tensor, spin: Tensor, steer: Tensor, yaw_rate: Tensor) -> Tensor:
        """Pixels (B, 12, 96, C) uint8, for speed, steering angle, yaw rate (B,), spin (B, 4)."""
        upward = torch.cat([speed.unsqueeze(-1), spin], -1)
        tip = FOOT - upward * self._up_scale
        foot = torch.full_like(tip, FOOT)
        rows = _between(tip, foot, self._row_edges) * (upward.abs() > LEAST).unsqueeze(-1)
        sideways = torch.stack([steer, yaw_rate], -1)
        tip = self._side_start + sideways * self._side_scale
        start = self._side_start.expand_as(tip)
        columns = _between(tip, start, self._column_edges) * (sideways.abs() > LEAST).unsqueeze(-1)
        pixels = torch.einsum("bkr,kxc->brxc", rows, self._across)
        pixels = pixels + torch.einsum("bkx,krc->brxc", columns, self._down)
        return pixels.round().clamp(0.0, 255.0).to(torch.uint8)


def _between(one: Tensor, other: Tensor, edges: Tensor) -> Tensor:
    """Share of each pixel that lies between two whole places of the window, both included."""
    low, high = torch.minimum(one, other), torch.maximum(one, other)
    return _cover(torch.floor(low), torch.floor(high) + 1.0, edges)


def _cover(begin: Tensor, end: Tensor, edges: Tensor) -> Tensor:
    """Share of each pixel (..., P) between edges (P + 1,) that lies in begin..end (...)."""
    filled = torch.minimum(torch.maximum(edges, begin.unsqueeze(-1)), end.unsqueeze(-1))
    return filled.diff(dim=-1) / (edges[1:] - edges[:-1])
