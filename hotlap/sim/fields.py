"""Road coordinates of any ground point, by lookup.

    q   lateral place in units of half the road's width: -1 right edge, +1 left edge; beyond the
        edges it goes on in metres divided by the nominal half-width, so it is continuous
    p   place along the road in pattern periods (its fraction is the phase of dashes and kerbs)
    gx, gy   a ground point in grid cells of its track

Each track gets a grid. A cell holds the coefficients of a bilinear patch, q = a + b u + c v + d u v
with (u, v) in the unit square, and the same for p: one row of eight numbers gives a point's road
coordinates and their gradients. Patches keep lane lines sharp at any distance from a coarse grid,
and each patch is unwrapped on its own, so neither the seam of a lap nor the ridge half-way between
two parts of a road leaves a false line behind.
"""

from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import torch
from scipy.spatial import cKDTree
from torch import Tensor

from hotlap.sim.roads import PAD, Roads
from hotlap.sim.threads import at_once
from hotlap.sim.tracks.track import Track

Q_STEPS = 128
"""Patches hold q in steps of 1/Q_STEPS, the resolution of the finest picture of a road."""
P_STEPS = 64
"""Patches hold p in steps of 1/P_STEPS."""
CELLS_PER_HALF_WIDTH = 4.0
MARGIN = 2.2
"""How far a grid reaches beyond the road's edge, in half-widths: to where land is plain."""
PERIOD = 4.0
"""Length of the pattern along the road, in half-widths, before it is fitted to the lap."""
MAX_CELLS = 1_500_000
SURVEYS_KEPT = 4
"""Fields of the latest worlds are kept, of so many."""
FLAT = 1e-6
"""Heights of a track that differ by no more than this are those of a plane, metres."""


@dataclass(frozen=True)
class Fields:
    """Patches of all tracks in one table, and each track's grid."""

    patches: Tensor
    """Coefficients of each patch: a of q, a of p, b of q, b of p, ... (C, 8)."""
    planes: Tensor
    """The same, coefficient by coefficient (8, C), which is what a CPU reads fastest."""
    heights: Tensor
    """Coefficients of the ground's height in metres (C, 4); one row of zeros where all is flat."""
    first: Tensor
    """Row of each track's first cell (T,) int32."""
    grids: Tensor
    """Each track's grid: corner x, y (m), cells per metre, columns, rows, half-width (m) (T, 6)."""
    climbs: Tensor
    """Steepest climb of each track, metres up per metre; 0 for a flat one (T,)."""
    steepest: float
    """Angle of the steepest climb of any track, radians; 0 where all is flat."""


def survey(roads: Roads) -> Fields:
    """Make the fields of every track of `roads`.

    The latest ones are kept, because the tasks of a run (to train in, to be judged in) are often
    about the same tracks.
    """
    names = tuple(_fingerprint(track) for track in roads.tracks)
    key = (names, str(roads.device))
    fields = _surveyed.pop(key, None) or _survey(roads, names)
    _surveyed[key] = fields  # the latest last
    while len(_surveyed) > SURVEYS_KEPT:
        del _surveyed[next(iter(_surveyed))]
    return fields


_surveyed: dict[tuple[tuple[bytes, ...], str], Fields] = {}


def _fingerprint(track: Track) -> bytes:
    """Short for all that a survey asks of a track."""
    digest = blake2b(b"closed" if track.closed else b"open")
    for values in (track.xy, track.width_left, track.width_right, track.z):
        digest.update(repr((values.shape, values.dtype.str)).encode())
        digest.update(values.tobytes())
    return digest.digest()


def _survey(roads: Roads, names: tuple[bytes, ...]) -> Fields:
    """Fields of tracks with these fingerprints."""
    # A track may be there several times, to be driven more often.
    tracks = dict(zip(names, roads.tracks, strict=True))
    different = dict(zip(tracks, at_once(_survey_track, tracks.values()), strict=True))
    surveys = [different[name] for name in names]
    sizes = [len(patches) for patches, _, _ in surveys]
    patches = np.concatenate([patches for patches, _, _ in surveys])
    patches *= np.tile(np.array([Q_STEPS, P_STEPS], np.float32), 4)
    steepest = float(torch.atan(roads.features[5].abs().max())) if roads.hilly else 0.0
    heights = (
        np.concatenate([heights for _, heights, _ in surveys]) if steepest else np.zeros((1, 4))
    )

    def floats(values: np.ndarray) -> Tensor:
        return torch.as_tensor(values.astype(np.float32, copy=False), device=roads.device)

    table = floats(patches)
    return Fields(
        patches=table,
        planes=table.t().contiguous(),
        heights=floats(heights),
        first=torch.as_tensor(np.cumsum([0, *sizes[:-1]]), dtype=torch.int32, device=roads.device),
        grids=floats(np.array([grid for _, _, grid in surveys])),
        climbs=_steepest_climbs(roads),
        steepest=steepest,
    )


def _steepest_climbs(roads: Roads) -> Tensor:
    """Steepest climb of each track (T,)."""
    padded = roads.features[5].abs().split((roads.count + 2 * PAD).tolist())
    hilly = [float(np.ptp(track.z) > FLAT) for track in roads.tracks]
    return torch.stack([climb.max() for climb in padded]) * torch.tensor(hilly, device=roads.device)


Patches = tuple[Tensor, ...]
"""Coefficients a, b, c, d."""


def read_patches(fields: Fields, cell: Tensor) -> list[Patches]:
    """Coefficients at `cell` (...,), in steps: of q and p together, or of each.

    Together, one set of (2, ...): fewer and longer operations. A compiler, which merges operations
    over the same points, gets two sets of (...,).
    """
    if cell.is_cuda:
        rows = fields.patches.index_select(0, cell.reshape(-1))
        table = rows.view(*cell.shape, 4, 2).movedim((-2, -1), (0, 1))
    else:
        fused = torch.compiler.is_compiling()
        read = torch.ops.hotlap.read_planes if fused else _read_planes
        table = read(fields.planes, cell).view(4, 2, *cell.shape)
    if not torch.compiler.is_compiling():
        return [tuple(table.unbind(0))]
    return [tuple(table[k, which] for k in range(4)) for which in (0, 1)]


def _read_planes(planes: Tensor, cell: Tensor) -> Tensor:
    """Coefficients (8, ...) of cells (...,)."""
    return planes.index_select(1, cell.view(-1)).view(len(planes), *cell.shape)


# Opaque to a compiler, which for a CPU would work out the cell anew for each coefficient.
torch.library.define("hotlap::read_planes", "(Tensor planes, Tensor cell) -> Tensor")
torch.library.impl("hotlap::read_planes", "cpu", _read_planes)
torch.library.register_fake(
    "hotlap::read_planes", lambda planes, cell: planes.new_empty(len(planes), *cell.shape)
)


def apart(parts: list[Tensor]) -> tuple[Tensor, Tensor]:
    """What was worked out for both, as `read_patches` gave them: that of q, that of p."""
    q, p = parts[0] if len(parts) == 1 else parts
    return q, p


def _survey_track(track: Track) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Patches (C, 8), heights (C, 4) and grid (6,) of one track."""
    half_width = track.half_width
    reach = float(max(track.width_left.max(), track.width_right.max()) + MARGIN * half_width)
    low, high = track.xy.min(0) - reach, track.xy.max(0) + reach
    cell = half_width / CELLS_PER_HALF_WIDTH
    cell *= max(1.0, float(np.sqrt(np.prod((high - low) / cell) / MAX_CELLS)))
    columns, rows = np.ceil((high - low) / cell).astype(int)
    corner_x = low[0] + cell * np.arange(columns + 1)
    corner_y = low[1] + cell * np.arange(rows + 1)
    grid = np.stack(np.meshgrid(corner_x, corner_y), -1)  # (rows + 1, columns + 1, 2)
    points = grid.reshape(-1, 2)
    away, node = cKDTree(track.xy).query(points)
    s, n = _road_coordinates(track, points, node)
    q = _edge_coordinate(track, node, n, half_width)
    shape = grid.shape[:2]
    patches = _patches(q.reshape(shape), s.reshape(shape), track, half_width, cell)
    ground = _ground_height(track, points, half_width, away, node)
    heights = _bilinear(*_corners(ground.reshape(shape)))
    geometry = np.array([low[0], low[1], 1 / cell, columns, rows, half_width])
    return _singles(patches, 8), _singles(heights, 4), geometry


def _singles(values: np.ndarray, width: int) -> np.ndarray:
    """Values as a table (C, width) of single precision, at once: a table of all tracks is long."""
    return values.reshape(-1, width).astype(np.float32)


def _road_coordinates(
    track: Track, points: np.ndarray, node: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Arc length and signed offset of ground points (K, 2), whose nearest nodes are `node`."""
    count, spacing = track.num_points, track.spacing
    # x and y apart: sums over an axis of two take several times as long.
    x, y = points.T.copy()
    line_x, line_y = track.xy.T.copy()
    best = np.full(len(points), np.inf)
    s, n = np.zeros(len(points)), np.zeros(len(points))
    for side in (-1, 0):
        first = node + side
        first = first % count if track.closed else np.clip(first, 0, count - 2)
        after = (first + 1) % count
        ax, ay = line_x[first], line_y[first]
        dx, dy = line_x[after] - ax, line_y[after] - ay
        px, py = x - ax, y - ay
        fraction = np.clip((px * dx + py * dy) / (dx * dx + dy * dy), 0, 1)
        ex, ey = px - fraction * dx, py - fraction * dy
        distance = np.sqrt(ex * ex + ey * ey)
        left = dx * py - dy * px >= 0
        nearer = distance < best
        best = np.where(nearer, distance, best)
        s = np.where(nearer, (first + fraction) * spacing, s)
        n = np.where(nearer, np.where(left, distance, -distance), n)
    return s, n


def _edge_coordinate(
    track: Track, node: np.ndarray, n: np.ndarray, half_width: float
) -> np.ndarray:
    """Q of offsets `n` at `node`: stretched to the road's edges inside, metric outside."""
    left, right = track.width_left[node], track.width_right[node]
    middle, half = (left - right) / 2, (left + right) / 2
    across = n - middle
    inside = np.clip(across / half, -1, 1)
    outside = np.maximum(np.abs(across) - half, 0) / half_width
    return inside + np.sign(across) * outside


def _corners(values: np.ndarray) -> tuple[np.ndarray, ...]:
    """The four corners of every cell: (v=0,u=0), (v=0,u=1), (v=1,u=0), (v=1,u=1)."""
    return values[:-1, :-1], values[:-1, 1:], values[1:, :-1], values[1:, 1:]


def _bilinear(v00: np.ndarray, v01: np.ndarray, v10: np.ndarray, v11: np.ndarray) -> np.ndarray:
    """Coefficients a, b (of u), c (of v), d (of u v) of each patch."""
    return np.stack([v00, v01 - v00, v10 - v00, v11 - v01 - v10 + v00], -1)


def _patches(
    q: np.ndarray, s: np.ndarray, track: Track, half_width: float, cell: float
) -> np.ndarray:
    """Patches of q and p (rows, columns, 4, 2) of cells `cell` metres wide."""
    corners_q, corners_s = _corners(q), _corners(s)
    length = track.length
    # Unwrap each patch around its first corner, so that a lap's seam does not show.
    unwrapped = [corners_s[0]]
    for corner in corners_s[1:]:
        step = corner - corners_s[0]
        if track.closed:
            step = (step + length / 2) % length - length / 2
        unwrapped.append(corners_s[0] + step)
    lowest = np.minimum.reduce(unwrapped)
    spread = np.maximum.reduce(unwrapped) - lowest
    size = np.abs(np.stack(corners_q))
    near = size.min(0)
    # Corners whose nearest road parts differ straddle a ridge. |q| is continuous there, its sign
    # may not be; p is meaningless. On the inside of a bend arc lengths fan out without a ridge.
    ridge = spread > np.maximum(6 * cell, 3 * near * half_width)
    sizes, values = size[:, ridge], np.stack([corner[ridge] for corner in corners_q])
    sign = np.sign(np.take_along_axis(values, np.argmin(sizes, 0)[None], 0)[0])
    periods = max(1.0, np.round(length / (PERIOD * half_width))) / length
    patches = np.empty((*ridge.shape, 4, 2))
    patches[..., 0] = _bilinear(*corners_q)
    patches[ridge, :, 0] = _bilinear(*sizes) * sign[:, None]
    patches[..., 1] = _bilinear(*[corner * periods for corner in unwrapped])
    # Whole periods mean nothing, so each patch begins with its smallest p between 0 and 1.
    patches[..., 0, 1] -= np.floor(lowest * periods)
    patches[ridge, :, 1] = 0.0
    return patches


def _ground_height(
    track: Track, points: np.ndarray, half_width: float, away: np.ndarray, node: np.ndarray
) -> np.ndarray:
    """Height of the land at points (K, 2), `away` metres from their nearest nodes `node`.

    The road's own near it, a smooth blend of nearby parts away from it.
    """
    if np.ptp(track.z) < FLAT:
        return np.full(len(points), track.z[0])
    height = track.z[node]
    mix = np.clip((away - half_width) / (2 * half_width), 0, 1)
    off = np.flatnonzero(mix)
    thin = slice(None, None, max(1, round(half_width / track.spacing)))
    count = min(24, len(track.xy[thin]))
    far, near = cKDTree(track.xy[thin]).query(points[off], k=count)
    square = far**2 + (0.5 * half_width) ** 2
    weight = 1.0 / square**1.5
    blend = (weight * track.z[thin][near]).sum(1) / weight.sum(1)
    height[off] = (1 - mix[off]) * height[off] + mix[off] * blend
    return height
