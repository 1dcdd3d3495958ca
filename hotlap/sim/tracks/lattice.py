"""Closed outlines drawn on squared paper.

    cell     a square of the paper, named by its lower left corner (column, row)
    patch    a set of cells in one piece, without holes, whose cells never touch at a mere corner
    outline  the corners met when walking once round a patch, patch on the left (K, 2)

An outline never meets itself and keeps one cell's side between its parts: whatever patch chance
grows, a road laid along its outline is drivable.
"""

import numpy as np

from hotlap.sim.tracks.track import Array

Cell = tuple[int, int]

# The eight neighbours of a cell, once round; those at even places share a side with it.
_RING = ((1, 0), (1, 1), (0, 1), (-1, 1), (-1, 0), (-1, -1), (0, -1), (1, -1))
_SIDES = _RING[::2]


def grow_patch(
    rng: np.random.Generator, columns: int, rows: int, size: int, spindly: float
) -> set[Cell]:
    """Grow a patch cell by cell.

    Args:
        rng: Where chance comes from.
        columns: Width of the paper in cells.
        rows: Height of the paper in cells.
        size: Wanted number of cells; fewer are returned if the paper has no room for more.
        spindly: From 0 (compact blobs) to 1 (long arms): how often the cell with the fewest
            neighbours, rather than the one with the most, is taken.
    """
    patch: set[Cell] = {(columns // 2, rows // 2)}
    while len(patch) < size:
        free = sorted(
            (c + dx, r + dy)
            for c, r in patch
            for dx, dy in _SIDES
            if 0 <= c + dx < columns and 0 <= r + dy < rows and (c + dx, r + dy) not in patch
        )
        candidates = [cell for cell in dict.fromkeys(free) if _keeps_whole(patch, cell)]
        if not candidates:
            break
        luck = rng.random(len(candidates))
        sign = 1.0 if rng.random() < spindly else -1.0
        crowd = [sign * _num_neighbours(patch, cell) for cell in candidates]
        patch.add(candidates[int(np.argmin(np.asarray(crowd) + luck))])
    return patch


def _num_neighbours(patch: set[Cell], cell: Cell) -> int:
    return sum((cell[0] + dx, cell[1] + dy) in patch for dx, dy in _RING)


def _keeps_whole(patch: set[Cell], cell: Cell) -> bool:
    """Whether the patch stays in one piece, without holes or mere corner contacts, with this cell.

    It does if the taken neighbours form one unbroken run round the cell, and the run includes a
    side.
    """
    taken = [(cell[0] + dx, cell[1] + dy) in patch for dx, dy in _RING]
    runs = sum(taken[i] and not taken[i - 1] for i in range(8))
    return runs == 1 and any(taken[::2])


def outline(patch: set[Cell]) -> Array:
    """Walk once round the patch, counter-clockwise (K, 2); neighbours are one apart."""
    following: dict[Cell, Cell] = {}
    for c, r in patch:
        corners = ((c, r), (c + 1, r), (c + 1, r + 1), (c, r + 1))
        for i, (dx, dy) in enumerate(((0, -1), (1, 0), (0, 1), (-1, 0))):
            if (c + dx, r + dy) not in patch:
                following[corners[i]] = corners[(i + 1) % 4]
    corner = min(following)
    walk = [corner]
    while following[corner] != walk[0]:
        corner = following[corner]
        walk.append(corner)
    return np.array(walk, dtype=np.float64)
