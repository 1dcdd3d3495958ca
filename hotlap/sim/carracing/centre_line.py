"""Any closed line as a CarRacing track.

    points  places along the middle of the road, in driving order and however spaced        (M, 2)
    line    a smooth curve through them, sampled evenly                                     (N, 2)
    radius  of a bend: the length of a tile over the angle it turns by                      (N,)

A tile is as wide to the inside of a bend as to the outside. Where the radius is less than half the
road, its inner corners would change places: there the line is rounded, or refused with the place.
"""

import numpy as np

from hotlap.sim.carracing.generator import kerb_sides
from hotlap.sim.carracing.rounding import round_bends
from hotlap.sim.carracing.tile_track import HALF_WIDTH, PLAYFIELD, STEP, Numbers, TileTrack
from hotlap.sim.tracks import curves

TILES = (150, 450)
"""Least and most tiles of a lap; those that Gymnasium makes have about 220 to 380."""
REACH = PLAYFIELD - 30.0
"""Largest coordinate of a node, so that a car can leave the road and come back."""
MIN_RADIUS = 7.0
"""Tightest bend: half the road and 0.3 more, so that the inner side of a tile keeps 0.17 units."""
MOST_MOVED = 20.0
"""Furthest that rounding moves a node: beyond `REACH`, so that the road stays in the playfield."""

_ROUNDED = 1.04 * MIN_RADIUS  # what bends are rounded to; measured at new nodes, some come out less
_STRAIGHT = 1e-9  # radians a tile: its radius is as good as infinite
_LEAST_POINTS = 4
_REPEATED = 0.01  # of the median piece: a shorter one says nothing about the line's direction


def from_centre_line(
    name: str, points: Numbers, length: float | None = None, size: float = 1.0
) -> TileTrack:
    """Lay tiles along a closed line, in the middle of the playfield.

    Bends that are too tight are rounded, and nothing else is moved.

    Args:
        name: What the track is called.
        points: Places along the line (M, 2); the last may repeat the first. A lap begins at the
            first. The line may cross itself.
        length: Length of a lap in units. By default the line has the size below, or the nearest
            at which it fits the playfield and has 150 to 450 tiles.
        size: How many units long one of the points' is.

    Raises:
        ValueError: The line has too few points or some that are no numbers, is not closed, does not
            fit at that length, or bends so tightly that rounding moves it too far; the message
            begins with the name.
    """
    points = _checked(name, np.asarray(points, dtype=np.float64)) * size
    fine, _ = curves.resample(points, _length(points) / (4 * TILES[1]))
    middle = (fine.min(axis=0) + fine.max(axis=0)) / 2
    scale = _scale(name, fine - middle, length)
    xy, _ = curves.resample((points - middle) * scale, STEP)
    notes = []
    if length is None and scale != 1:
        own = _length(fine) / size
        notes.append(
            f"lap of {own:,.0f} m made {_length(fine) * scale:,.0f} units long "
            f"({size * scale:.2f} times its size)"
        )

    turn, changes, radius = _bends(xy)
    if radius.min() < MIN_RADIUS:
        rounded, moved = _rounded(xy)
        if rounded is None:
            raise _too_tight(name, radius, (xy / scale + middle) / size)
        bends = np.count_nonzero((radius < MIN_RADIUS) & (np.roll(radius, 1) >= MIN_RADIUS))
        word = "bend" if bends == 1 else "bends"
        notes.append(f"{bends} {word} rounded, by {moved:.1f} units at most")
        xy, (turn, changes, _) = rounded, _bends(rounded)
    note = ", ".join(notes) or None
    return TileTrack(name, xy[:, 0].copy(), xy[:, 1].copy(), turn, kerb_sides(changes), note)


def _checked(name: str, points: Numbers) -> Numbers:
    """The points without those that the next one repeats, as the first often does the last."""
    if points.ndim != 2 or points.shape[1] != 2:
        raise ValueError(f"{name}: expected points (M, 2), found the shape {points.shape}")
    wrong = ~np.isfinite(points).all(axis=1)
    if wrong.any():
        raise ValueError(f"{name}: point {int(wrong.argmax())} is not two finite numbers")
    pieces = np.hypot(*curves.edges(points, closed=True).T)
    points = points[pieces > _REPEATED * np.median(pieces)]
    if len(points) < _LEAST_POINTS:
        raise ValueError(
            f"{name}: a closed line needs at least {_LEAST_POINTS} points apart, found "
            f"{len(points)}"
        )
    gap = curves.why_open(points)
    if gap is not None:
        raise ValueError(f"{name}: {gap}")
    return points


def _length(xy: Numbers) -> float:
    return float(curves.cumulative_length(xy, closed=True)[-1])


def _scale(name: str, line: Numbers, wanted: float | None) -> float:
    """Factor for a line about the middle, so that it has the wanted length or the nearest."""
    length = _length(line)
    # A loop is at most half as wide as it is long, so the shortest lap always fits.
    least = TILES[0] * STEP
    most = min(TILES[1] * STEP, length * REACH / float(np.abs(line).max()))
    if wanted is None:
        wanted = min(max(length, least), most)
    if not least <= wanted <= most:
        raise ValueError(
            f"{name}: its lap may be {least:.0f} to {most:.0f} units long, so that it has "
            f"{TILES[0]} to {TILES[1]} tiles and ends {REACH:.0f} units from the middle at most; "
            f"got {wanted:.4g}"
        )
    return wanted / length


def _bends(xy: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """At every node (N,): angle of a car there, turn from the node before, radius."""
    # The nose of a car at angle 0 points along +y.
    turn = np.unwrap(curves.headings(xy)) - np.pi / 2
    changes = curves.wrap(turn - np.roll(turn, 1))
    step = np.hypot(*(xy - np.roll(xy, 1, axis=0)).T)
    return turn, changes, step / np.maximum(np.abs(changes), _STRAIGHT)


def _rounded(xy: Numbers) -> tuple[Numbers | None, float]:
    """Even nodes of the line without tight bends, if that can be had, and how far one has moved."""
    moved = round_bends(xy, _ROUNDED)
    if moved is None:
        return None, 0.0
    furthest = float(np.hypot(*(moved - xy).T).max())
    even, _ = curves.resample(moved, STEP)
    good = furthest <= MOST_MOVED and _bends(even)[2].min() >= MIN_RADIUS
    return even if good else None, furthest


def _too_tight(name: str, radius: Numbers, places: Numbers) -> ValueError:
    """What to say of the tightest bend, with its place in the line's own coordinates."""
    worst = int(radius.argmin())
    x, y = places[worst]
    return ValueError(
        f"{name}: the bend at ({x:.4g}, {y:.4g}), {worst / len(places):.0%} of a lap from the "
        f"first point, has a radius of {radius[worst]:.1f} units on this track; its road is "
        f"{HALF_WIDTH:.1f} wide to either side and needs {MIN_RADIUS:g}, and moving the line by "
        f"{MOST_MOVED:g} or less does not round it: draw a rounder bend"
    )
