"""Which tiles a car's wheels touch.

    B cars on T tracks of at most N tiles; K tiles near a place; W = 4 wheels.
    corners   of every tile, clockwise                                        (T, N + 1, 4, 2)
    outward   normals of its edges, from corner i to corner i + 1             (T, N + 1, 4, 2)
    beyond    place of each edge along its normal                             (T, N + 1, 4)
    ids       tiles near a place, filled up with N, which is no tile           (B, K)

The ground is divided into square cells. Each holds the tiles that a car in it may touch, so that
self-crossing roads need nothing of their own. Wheel and tile are convex: they are apart exactly
where some edge of one of them has the other wholly behind it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hotlap.config.vehicles import VehicleConfig
from hotlap.sim.carracing.tile_track import PLAYFIELD, Numbers, TileTrack
from hotlap.sim.threads import at_once
from hotlap.sim.vehicles.four_wheel import wheel_places

CELL = 2.5
"""Side of a cell, units."""
CELLS = int(np.ceil((PLAYFIELD + 20.0) * 2 / CELL))
"""Cells across the field and some of the ground beyond it."""
WHEEL = (0.54, 0.28)
"""Half the length and half the width of a wheel."""
SKIN = 0.02
"""Box2D takes shapes for touching that are as near as this."""
FARTHEST = 2.7
"""From the centre of mass to the farthest corner of a wheel, at any steering, and a little more."""


@dataclass(frozen=True)
class Tiles:
    """See the module's first lines."""

    corners: Tensor
    outward: Tensor
    beyond: Tensor
    count: Tensor
    """Tiles of every track (T,) int64."""
    cells: Tensor
    """Row of `near` for every cell of every track (T, CELLS * CELLS) int32; row 0 is empty."""
    near: Tensor
    """Tiles that lie near the cells (R, K) int64."""
    wheels: Tensor
    """Places of a car's wheels, forward and left of its centre of mass (W, 2)."""

    @property
    def most(self) -> int:
        """N."""
        return self.corners.shape[1] - 1


def lay_tiles(
    tracks: Sequence[TileTrack], car: VehicleConfig, device: torch.device | str = "cpu"
) -> Tiles:
    """The tables of some tracks, for a car."""
    most = max(len(track) for track in tracks)
    corners = np.zeros((len(tracks), most + 1, 4, 2))
    for row, track in enumerate(tracks):
        corners[row, : len(track)] = track.tiles
    edge = np.roll(corners, -1, axis=2) - corners
    outward = np.stack([-edge[..., 1], edge[..., 0]], -1)
    length = np.linalg.norm(outward, axis=-1, keepdims=True)
    outward = np.divide(outward, length, out=np.zeros_like(outward), where=length > 0)
    beyond = (outward * corners).sum(-1)
    beyond[length[..., 0] == 0] = -np.inf  # no tile: everything is outside of it
    rows = zip(tracks, outward, beyond, strict=True)
    closeness = at_once(lambda row: _close_cells(*row), rows)
    cells, near = _fill_cells(closeness, most)

    def tensor(values: Numbers) -> Tensor:
        return torch.as_tensor(values, dtype=torch.float32, device=device)

    return Tiles(
        corners=tensor(corners),
        outward=tensor(outward),
        beyond=tensor(beyond),
        count=torch.tensor([len(track) for track in tracks], device=device),
        cells=torch.as_tensor(cells, device=device),
        near=torch.as_tensor(near, device=device),
        wheels=tensor(np.array(wheel_places(car))),
    )


def _close_cells(
    track: TileTrack, outward: Numbers, beyond: Numbers
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Cells, and for each a tile that a car may touch whose centre is in it; ordered by cell."""
    reach = FARTHEST + SKIN + CELL / np.sqrt(2)
    corners = track.tiles
    across = int(np.ceil(np.ptp(corners, axis=1).max() / CELL + 2 * reach / CELL)) + 2
    first = np.floor((corners.min(1) - reach + CELLS * CELL / 2) / CELL).astype(int)  # (N, 2)
    steps = np.stack(np.meshgrid(np.arange(across), np.arange(across), indexing="ij"), -1)
    cell = first[:, None] + steps.reshape(1, -1, 2)  # (N, C, 2): column and row
    centre = (cell + 0.5) * CELL - CELLS * CELL / 2
    tiles = len(track)
    apart = np.matmul(centre, outward[:tiles].transpose(0, 2, 1)) - beyond[:tiles, None]
    close = (apart.max(-1) <= reach) & (cell >= 0).all(-1) & (cell < CELLS).all(-1)
    tile, which = close.nonzero()
    numbers = cell[tile, which, 1] * CELLS + cell[tile, which, 0]
    order = np.argsort(numbers, kind="stable")
    return numbers[order], tile[order]


def _fill_cells(
    closeness: Sequence[tuple[NDArray[np.int64], NDArray[np.int64]]], nobody: int
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """The tables `cells` and `near` of `Tiles`, from what every track's cells are close to."""
    cells = np.zeros((len(closeness), CELLS * CELLS), dtype=np.int32)
    parts, rows = [], 1
    for track, (numbers, tile) in enumerate(closeness):
        found, start, count = np.unique(numbers, return_index=True, return_counts=True)
        cells[track, found] = rows + np.arange(len(found))
        row = np.repeat(np.arange(len(found)), count)
        parts.append((rows + row, np.arange(len(numbers)) - start[row], tile))
        rows += len(found)
    row, column, tile = (np.concatenate(column) for column in zip(*parts, strict=True))
    near = np.full((rows, int(column.max()) + 1), nobody, dtype=np.int64)
    near[row, column] = tile
    return cells, near


def nearby(tiles: Tiles, track: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Tiles (B, K) that cars may touch whose centres of mass are at x, y (B,) on a track (B,)."""
    half = CELLS / 2
    column = (x * (1 / CELL) + half).floor().clamp(0, CELLS - 1)
    row = (y * (1 / CELL) + half).floor().clamp(0, CELLS - 1)
    cell = (row * CELLS + column).to(torch.int64)
    return tiles.near[tiles.cells[track, cell].to(torch.int64)]


def touching(
    tiles: Tiles,
    track: Tensor,
    ids: Tensor,
    x: Tensor,
    y: Tensor,
    heading: Tensor,
    steer: Tensor,
) -> Tensor:
    """Which of the tiles `ids` each wheel touches (B, W, K) bool; positions are (B,)."""
    corners, outward, beyond = (
        table[track.unsqueeze(-1), ids] for table in (tiles.corners, tiles.outward, tiles.beyond)
    )
    ahead, aside = tiles.wheels.unbind(-1)  # (W,)
    cos, sin = torch.cos(heading).unsqueeze(-1), torch.sin(heading).unsqueeze(-1)
    wheel_x = x.unsqueeze(-1) + ahead * cos - aside * sin  # (B, W)
    wheel_y = y.unsqueeze(-1) + ahead * sin + aside * cos
    angle = heading.unsqueeze(-1) + torch.where(ahead > 0, steer.unsqueeze(-1), 0.0)
    shape = (*wheel_x.shape, 1, 1)
    wheels = (part.view(shape) for part in (wheel_x, wheel_y, angle.cos(), angle.sin()))
    return _overlap(corners.unsqueeze(1), outward.unsqueeze(1), beyond.unsqueeze(1), *wheels)


def _overlap(
    corners: Tensor,
    outward: Tensor,
    beyond: Tensor,
    x: Tensor,
    y: Tensor,
    cos: Tensor,
    sin: Tensor,
) -> Tensor:
    """Which tiles (B, 1, K, 4, ...) each wheel (B, W, 1, 1) touches, (B, W, K) bool."""
    long, wide = WHEEL
    out_x, out_y = outward.unbind(-1)
    # How far the wheel stays in front of each edge of the tile.
    centre = out_x * x + out_y * y - beyond  # (B, W, K, 4)
    extent = long * (out_x * cos + out_y * sin).abs() + wide * (out_y * cos - out_x * sin).abs()
    gap = (centre - extent).amax(-1)
    # And how far the tile's corners stay in front of the edges of the wheel.
    corner_x, corner_y = corners[..., 0] - x, corners[..., 1] - y
    forward, left = corner_x * cos + corner_y * sin, corner_y * cos - corner_x * sin
    for side, half in ((forward, long), (left, wide)):
        gap = torch.maximum(gap, torch.maximum(side.amin(-1), -side.amax(-1)) - half)
    return gap < SKIN
