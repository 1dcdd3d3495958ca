"""Plane curves as arrays of points.

    points   corners or control points, however spaced (K, 2)
    xy       a curve sampled evenly by arc length (M, 2); a closed one does not repeat its first
    where    for each sample, its place among the points it came from: 3.25 lies a quarter of the
             way from point 3 to point 4
    spacing  arc length between neighbouring samples
    turn     angle between neighbouring pieces, positive to the left

Lengths are in whatever unit the points are in, angles in radians.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline
from scipy.ndimage import gaussian_filter1d
from scipy.spatial import cKDTree

from hotlap.sim.tracks.track import Array

_WIDEST_GAP = 3.0  # of the closing piece, in longest other pieces
_NARROWEST_GAP = 0.02  # of the line's length: always taken as closed


def resample(points: Array, spacing: float, closed: bool = True) -> tuple[Array, Array]:
    """Lay a cubic spline through the points and sample it evenly by arc length.

    Args:
        points: Control points (K, 2), neighbours distinct; a closed curve does not repeat one.
        spacing: Wanted arc length between samples; the nearest one that divides the curve is used.
        closed: Whether the curve returns to its first point.

    Returns:
        The samples `xy` (M, 2), of which the first is the first point, and their places `where`.
    """
    knots = np.vstack([points, points[:1]]) if closed else points
    chord = cumulative_length(points, closed)
    spline = CubicSpline(chord, knots, bc_type="periodic" if closed else "natural")

    # Arc length is measured on a denser line: at least four samples a piece, and four a spacing.
    per_piece = int(np.clip(np.ceil(4 * chord[-1] / spacing / (len(knots) - 1)), 4, 256))
    index = np.linspace(0, len(knots) - 1, per_piece * (len(knots) - 1) + 1)
    dense = np.interp(index, np.arange(len(knots)), chord)
    travelled = cumulative_length(spline(dense), closed=False)
    pieces = max(round(travelled[-1] / spacing), 3)
    samples = np.linspace(0.0, travelled[-1], pieces + 1)[: pieces if closed else pieces + 1]
    return spline(np.interp(samples, travelled, dense)), np.interp(samples, travelled, index)


def cumulative_length(xy: Array, closed: bool) -> Array:
    """Distance travelled along the polyline at each point: (M,), or (M + 1,) if closed."""
    steps = np.hypot(*edges(xy, closed).T)
    return np.concatenate([[0.0], np.cumsum(steps)])


def edges(xy: Array, closed: bool) -> Array:
    """Vectors from each point to the next: (M, 2) if closed, (M - 1, 2) if open."""
    return (np.roll(xy, -1, axis=0) - xy) if closed else np.diff(xy, axis=0)


def why_open(points: Array) -> str | None:
    """What is wrong where the last point of a line does not lead back to the first, in words."""
    pieces = np.hypot(*edges(points, closed=True).T)
    longest = pieces[:-1].max()
    if pieces[-1] <= max(_WIDEST_GAP * longest, _NARROWEST_GAP * pieces.sum()):
        return None
    return (
        f"the line is not closed: its last point lies {pieces[-1]:.4g} from its first, and no two "
        f"others are more than {longest:.4g} apart"
    )


def wrap(angle: Array) -> Array:
    """Bring angles into [-pi, pi)."""
    return (angle + np.pi) % (2 * np.pi) - np.pi


def headings(xy: Array, closed: bool = True) -> Array:
    """Direction of travel at each sample (M,), from its two neighbours."""
    if not closed:
        step = np.gradient(xy, axis=0)
        return np.arctan2(step[:, 1], step[:, 0])
    step = np.roll(xy, -1, axis=0) - np.roll(xy, 1, axis=0)
    return np.arctan2(step[:, 1], step[:, 0])


def curvature(xy: Array, closed: bool = True) -> Array:
    """Signed curvature at each sample (M,), positive to the left; 0 at the ends of an open one."""
    step = edges(xy, closed)
    length = np.hypot(step[:, 0], step[:, 1])
    direction = np.arctan2(step[:, 1], step[:, 0])
    if closed:
        before = np.roll(direction, 1)
        return wrap(direction - before) / (0.5 * (length + np.roll(length, 1)))
    inner = wrap(np.diff(direction)) / (0.5 * (length[1:] + length[:-1]))
    return np.pad(inner, 1)


def tightest_radius(xy: Array, closed: bool = True) -> float:
    """Smallest radius of curvature; infinite for a straight line."""
    sharpest = np.abs(curvature(xy, closed)).max()
    return float(1.0 / sharpest) if sharpest > 0 else float("inf")


def net_turn(xy: Array, closed: bool = True) -> float:
    """Sum of all turns: 2 pi for a plain left-hand loop, 0 for a figure of eight."""
    step = edges(xy, closed)
    direction = np.arctan2(step[:, 1], step[:, 0])
    turns = np.diff(direction, append=direction[:1]) if closed else np.diff(direction)
    return float(wrap(turns).sum())


def smooth(xy: Array, sigma: float, closed: bool = True) -> Array:
    """Blur the points along the curve by a Gaussian of `sigma` samples: curvature loses its jumps.

    An arc of radius r shrinks by the factor exp(-(sigma * spacing / r)^2 / 2): under 1 % for r of
    seven sigma or more. Straight parts stay where they are.
    """
    return gaussian_filter1d(xy, sigma, axis=0, mode="wrap" if closed else "nearest")


def round_corners(points: Array, radii: Array, step: float, lead: float | None = None) -> Array:
    """Replace each corner of a closed polygon by an arc that touches both of its edges.

    Args:
        points: Corners (K, 2) in driving order, none of which turns right back.
        radii: Radius of the arc at each corner (K,).
        step: Wanted arc length between samples.
        lead: Distance from the first sample to the first corner, measured along the edge that leads
            there from the last; None means the middle of that edge's straight part.

    Returns:
        Samples (M, 2) of lines and arcs.
    """
    into = points - np.roll(points, 1, axis=0)
    edge = np.hypot(into[:, 0], into[:, 1])
    direction = np.arctan2(into[:, 1], into[:, 0])
    turn = wrap(np.roll(direction, -1) - direction)
    tangent = radii * np.tan(np.abs(turn) / 2)
    straight = edge - tangent - np.roll(tangent, 1)  # of the edge that leads into each corner
    if straight.min() < 0:
        corner = int(straight.argmin())
        raise ValueError(
            f"the arcs of corners {(corner - 1) % len(points)} and {corner} need "
            f"{edge[corner] - straight[corner]:.4g} but their edge has {edge[corner]:.4g}; "
            "use smaller radii or move the corners apart"
        )
    # The first straight is cut in two at the first sample, and its first half is driven last.
    ahead = straight[0] / 2 if lead is None else lead - tangent[0]
    if not 0 <= ahead <= straight[0]:
        raise ValueError(f"lead {lead} does not lie on the straight part of the first edge")
    lengths = np.ravel(np.column_stack([straight, radii * np.abs(turn)]))
    bends = np.ravel(np.column_stack([np.zeros_like(turn), np.sign(turn) / radii]))
    lengths = np.append(lengths, straight[0] - ahead)
    lengths[0] = ahead
    first = points[0] - into[0] / edge[0] * (tangent[0] + ahead)
    return trace_arcs(first, direction[0], lengths, np.append(bends, 0.0), step, closed=True)


def trace_arcs(
    origin: Array, heading: float, lengths: Array, bends: Array, step: float, closed: bool
) -> Array:
    """Drive a chain of lines and arcs, exactly, and note the position every `step`.

    Args:
        origin: First position (2,).
        heading: First direction.
        lengths: Length of each piece (P,).
        bends: Curvature of each piece (P,), 0 for a line.
        step: Wanted arc length between samples.
        closed: Whether to leave out the last sample because it is the first again.

    Returns:
        Positions (M, 2).
    """
    ends = np.cumsum(lengths)
    starts = ends - lengths
    piece_heading = heading + np.cumsum(lengths * bends) - lengths * bends
    jumps = _chords(piece_heading, lengths, bends)
    piece_origin = origin + np.cumsum(jumps, axis=0) - jumps

    count = max(round(ends[-1] / step), 3)
    travelled = np.linspace(0.0, ends[-1], count + 1)[: count if closed else count + 1]
    piece = np.minimum(np.searchsorted(ends, travelled, side="right"), len(lengths) - 1)
    along = travelled - starts[piece]
    return piece_origin[piece] + _chords(piece_heading[piece], along, bends[piece])


def _chords(heading: Array, length: Array, bend: Array) -> Array:
    """Vector from beginning to end of each arc (P, 2); np.sinc makes lines no special case."""
    half_turn = length * bend / 2
    chord = length * np.sinc(half_turn / np.pi)
    return np.column_stack(
        [chord * np.cos(heading + half_turn), chord * np.sin(heading + half_turn)]
    )


def crossings(xy: Array, closed: bool = True) -> NDArray[np.int64]:
    """Pairs of pieces that cut each other: (K, 2) indices, piece i going from sample i to i + 1.

    The samples should be about evenly spaced: pieces are paired by the distance of their middles.
    """
    vector = edges(xy, closed)
    start = xy[: len(vector)]
    reach = np.hypot(vector[:, 0], vector[:, 1]).max() * (1 + 1e-9)
    pairs = cKDTree(start + vector / 2).query_pairs(reach, output_type="ndarray")
    first, second = pairs.min(axis=1), pairs.max(axis=1)
    neighbours = second - first <= 1
    if closed:
        neighbours |= second - first == len(vector) - 1
    first, second = first[~neighbours], second[~neighbours]

    between = start[second] - start[first]
    determinant = _cross(vector[first], vector[second])
    parallel = determinant == 0
    safe = np.where(parallel, 1.0, determinant)
    along_first = _cross(between, vector[second]) / safe
    along_second = _cross(between, vector[first]) / safe
    hit = ~parallel & (abs(along_first - 0.5) <= 0.5) & (abs(along_second - 0.5) <= 0.5)
    found = np.column_stack([first, second])[hit]
    return found[np.lexsort((found[:, 1], found[:, 0]))]


def _cross(a: Array, b: Array) -> Array:
    return a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]


def clearance(xy: Array, apart: float, reach: float, closed: bool = True) -> float:
    """Smallest distance between samples that are more than `apart` from each other along the curve.

    Args:
        xy: The curve (M, 2).
        apart: Distance along the curve from which on two samples belong to different parts of it.
        reach: How far to look.
        closed: Whether the curve returns to its first point.

    Returns:
        The distance, or infinity if it is more than `reach`.
    """
    travelled = cumulative_length(xy, closed)
    pairs = cKDTree(xy).query_pairs(reach, output_type="ndarray")
    gap = np.abs(travelled[pairs[:, 0]] - travelled[pairs[:, 1]])
    if closed:
        gap = np.minimum(gap, travelled[-1] - gap)
    near = pairs[gap > apart]
    distance = np.hypot(*(xy[near[:, 0]] - xy[near[:, 1]]).T)
    return float(distance.min(initial=np.inf))
