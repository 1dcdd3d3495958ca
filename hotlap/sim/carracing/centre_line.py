"""Any closed line as a CarRacing track.

    points  places along the middle of the road, in driving order and however spaced        (M, 2)
    line    a smooth curve through them, sampled evenly                                     (N, 2)
    radius  of a bend: the length of a tile over the angle it turns by                      (N,)

A tile is as wide to the inside of a bend as to the outside. Where the radius is less than half the
road, its inner corners change places: such a line is refused, with the place.
"""

import numpy as np

from hotlap.sim.carracing.generator import kerb_sides
from hotlap.sim.carracing.tile_track import HALF_WIDTH, PLAYFIELD, STEP, Numbers, TileTrack
from hotlap.sim.tracks import curves

TILES = (150, 450)
"""Least and most tiles of a lap; those that Gymnasium makes have about 220 to 380."""
REACH = PLAYFIELD - 30.0
"""Largest coordinate of a node, so that a car can leave the road and come back."""
MIN_RADIUS = 7.0
"""Tightest bend: half the road and 0.3 more, so that the inner side of a tile keeps 0.17 units."""

_STRAIGHT = 1e-9  # radians a tile: its radius is as good as infinite
_LEAST_POINTS = 4
_REPEATED = 0.01  # of the median piece: a shorter one says nothing about the line's direction
_WIDEST_GAP = 3.0  # of the closing piece, in longest other pieces
_NARROWEST_GAP = 0.02  # of the line's length: always taken as closed


def from_centre_line(name: str, points: Numbers, length: float | None = None) -> TileTrack:
    """Lay tiles along a closed line, in the middle of the playfield.

    Args:
        name: What the track is called.
        points: Places along the line (M, 2); the last may repeat the first. A lap begins at the
            first. The line may cross itself.
        length: Length of a lap in units. By default the line keeps its size, or takes the nearest
            one at which it fits the playfield and has 150 to 450 tiles.

    Raises:
        ValueError: The line has too few points or some that are no numbers, is not closed, does not
            fit at that length, or bends too tightly; the message begins with the name.
    """
    points = _checked(name, np.asarray(points, dtype=np.float64))
    fine, _ = curves.resample(points, _length(points) / (4 * TILES[1]))
    middle = (fine.min(axis=0) + fine.max(axis=0)) / 2
    scale = _scale(name, fine - middle, length)
    xy, _ = curves.resample((points - middle) * scale, STEP)

    # The nose of a car at angle 0 points along +y.
    turn = np.unwrap(curves.headings(xy)) - np.pi / 2
    changes = curves.wrap(turn - np.roll(turn, 1))
    radius = np.hypot(*(xy - np.roll(xy, 1, axis=0)).T) / np.maximum(np.abs(changes), _STRAIGHT)
    _refuse_tight_bends(name, radius, xy / scale + middle)
    return TileTrack(name, xy[:, 0].copy(), xy[:, 1].copy(), turn, kerb_sides(changes))


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
    pieces = np.hypot(*curves.edges(points, closed=True).T)
    most = max(_WIDEST_GAP * pieces[:-1].max(), _NARROWEST_GAP * pieces.sum())
    if pieces[-1] > most:
        raise ValueError(
            f"{name}: the line is not closed: its last point lies {pieces[-1]:.4g} from its first, "
            f"and no two others are more than {pieces[:-1].max():.4g} apart"
        )
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


def _refuse_tight_bends(name: str, radius: Numbers, places: Numbers) -> None:
    """Refuse a line with too small a radius, and name the place in its own coordinates."""
    worst = int(radius.argmin())
    if radius[worst] < MIN_RADIUS:
        x, y = places[worst]
        raise ValueError(
            f"{name}: the bend at ({x:.4g}, {y:.4g}), {worst / len(places):.0%} of a lap from the "
            f"first point, has a radius of {radius[worst]:.1f} units on this track; its road is "
            f"{HALF_WIDTH:.1f} wide to either side and needs {MIN_RADIUS:g}: use a longer lap or a "
            f"rounder bend"
        )
