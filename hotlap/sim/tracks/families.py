"""Unlimited tracks by number.

    seed        integer that names one track of a family; the same on every platform
    half_width  half the width of the road, metres; every other length is a multiple of it
    attempt     a try at a seed: it draws from its own stream, and a later try is more careful

Each family draws a shape, checks it, and on failure tries again with a more careful draw. The last
attempt needs no luck: its shape is valid by construction. What every track of every family keeps
(and the tests check): the reference line is the middle of the road, it never crosses itself (an
`eight` does, once), parts of the road leave `CLEARANCE` half-widths between their middles (but for
the arms of an eight's crossroads), and no bend is tighter than `MIN_RADIUS` half-widths.
"""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.spatial import cKDTree

from hotlap.sim.tracks import curves, lattice
from hotlap.sim.tracks.track import Array, Track

DONKEY_HALF_WIDTH = 0.625
"""Half the width of a DonkeyCar road: 5 u."""
CAR_RACING_HALF_WIDTH = 40 / 6
"""Half the width of a Gymnasium CarRacing road."""

MIN_RADIUS = 1.2
"""Tightest bend in half-widths: 6 u on a DonkeyCar road, whose car can turn at 5.59 u."""
CLEARANCE = 2.3
"""Least distance between the middles of two parts of a road: their edges stay 0.3 apart."""
SPACING = 0.1
"""Distance between samples in half-widths."""
MAX_SLOPE = 0.15
MOST_NUDGE = 30.0
"""Largest nudge of a road's turn, degrees per span: from full left to full right at once."""

_BLUR = 0.16  # half-widths of Gaussian blur, so that curvature has no jumps
_WIDEST = 12.0  # half-widths: a corner is never rounder than this
_MAX_STEPS = 4000  # of the walker that draws a loop
_APART = 6.0  # half-widths of road beyond which two samples count as different parts of it
_CROSSROADS = 4.0  # half-widths of road on every arm of a crossing that may come near another
_LEAST_CROSSING = math.sin(math.radians(40))  # roads that cross meet at no smaller angle


def road(
    seed: int,
    half_width: float = DONKEY_HALF_WIDTH,
    spans: int = 1000,
    nudge: float | None = None,
) -> Track:
    """An open country road whose turn is a random walk, `spans` pieces of 0.4 half-widths long.

    Its heading stays within 80 degrees of a main direction, so that it cannot come back upon
    itself; the main direction wanders too, and only that can fail.

    The walk's nudges are as large as the seed draws them, 1 to 5 degrees per span, or `nudge`.
    """
    if nudge is not None and not 0 < nudge <= MOST_NUDGE:
        raise ValueError(f"nudge must lie above 0 and up to {MOST_NUDGE:g} degrees, got {nudge}")
    for wander in (1.0, 0.5, 0.0):
        rng = _stream("road", seed, attempt=round(wander * 10))
        points = _random_walk(rng, spans, wander, nudge)
        xy, _ = curves.resample(points * half_width, SPACING * half_width, closed=False)
        if wander == 0 or _is_sound(xy / half_width, closed=False):
            break
    return _as_track(f"road:{seed}", xy, half_width, closed=False)


def _random_walk(rng: np.random.Generator, spans: int, wander: float, nudge: float | None) -> Array:
    """Points of a road in half-widths (spans + 1, 2), from the origin along +x."""
    step, tightest, limit = 0.4, 1.7, np.radians(80)
    shares, drawn = rng.uniform(-1, 1, spans), rng.uniform(1.0, 5.0)
    nudges = shares * np.radians(drawn if nudge is None else nudge)
    nudges[:10] = 0.0  # a straight to start from
    phase, waves = rng.uniform(0, 2 * np.pi), rng.uniform(0.5, 2.0)
    main = wander * np.sin(phase + 2 * np.pi * waves * np.arange(spans) / spans)

    most = step / tightest
    turn = deviation = 0.0
    deviations = np.empty(spans)
    for i, nudge in enumerate(nudges.tolist()):
        turn = min(max(turn + nudge, -most), most)
        if abs(deviation + turn) > limit:
            turn *= -0.5
        deviation += turn
        deviations[i] = deviation
    heading = deviations + main
    steps = step * np.column_stack([np.cos(heading), np.sin(heading)])
    points = np.vstack([np.zeros(2), np.cumsum(steps, axis=0)])
    # Two spans of blur turn the kinks between spans into bends.
    blurred = curves.smooth(points, 2.0, closed=False)
    first = blurred[1] - blurred[0]
    return (blurred - blurred[0]) @ _rotation(-np.arctan2(first[1], first[0])).T


def circuit(seed: int, half_width: float = DONKEY_HALF_WIDTH) -> Track:
    """A closed circuit with straights, hairpins and chicanes, begun on its longest straight.

    It follows the outline of a random patch of squared paper (see `lattice`), with corners cut,
    shaken and rounded. Where that comes out too tight or too close, it is shaken less.
    """
    return _as_track(f"circuit:{seed}", _circuit_line("circuit", seed) * half_width, half_width)


def hills(seed: int, half_width: float = DONKEY_HALF_WIDTH) -> Track:
    """A closed circuit that climbs and falls, no steeper than `MAX_SLOPE`."""
    xy = _circuit_line("hills", seed) * half_width
    flat = _as_track(f"hills:{seed}", xy, half_width)
    rng = _stream("heights", seed, attempt=0)
    waves = np.arange(1, 7)
    phase = rng.uniform(0, 2 * np.pi, len(waves))
    share = rng.uniform(0, 1, len(waves)) / waves
    around = np.linspace(0, 2 * np.pi, len(xy), endpoint=False)
    z = (share * np.sin(np.outer(around, waves) + phase)).sum(axis=1)
    slope = np.abs(np.diff(z, append=z[:1])).max() / flat.spacing
    return replace(flat, z=(z - z.min()) * rng.uniform(0.3, 0.98) * MAX_SLOPE / slope, style="dirt")


def eight(seed: int, half_width: float = DONKEY_HALF_WIDTH) -> Track:
    """A closed circuit that crosses itself once, on the level, in a figure of eight.

    Its lobes are outlines of two patches of squared paper (see `lattice`) on either side of a
    corner that they share. The paper is pushed askew, so that roads do not always meet at a right
    angle.
    """
    rng = _stream("eight", seed, attempt=0)
    near, far = _lobe(rng), _lobe(rng)
    # Straight on at the shared corner, round the far lobe the other way, and straight on again.
    corners = np.vstack([near, -far[::-1]]) * rng.uniform(4.4, 6.5)
    corners = corners @ np.array([[rng.uniform(1.0, 1.4), rng.uniform(-0.5, 0.5)], [0.0, 1.0]]).T
    if rng.random() < 0.5:
        corners = corners[::-1]
    corners = corners @ _rotation(rng.uniform(0, 2 * np.pi)).T
    xy = _drawn("eight", seed, corners, _crosses_once)
    # It starts where it is straightest, and not on the crossroads.
    bend = curves.smooth(np.abs(curves.curvature(xy))[:, None], 2 / SPACING)[:, 0]
    beyond = np.hypot(*(xy - xy[curves.crossings(xy)[0, 0]]).T) > _CROSSROADS
    xy = np.roll(xy, -int(np.where(beyond, bend, np.inf).argmin()), axis=0)
    return replace(_as_track(f"eight:{seed}", xy * half_width, half_width), crosses_itself=True)


def _lobe(rng: np.random.Generator) -> Array:
    """Outline of a patch in cells (K, 2), from its lowest left corner, which is left out.

    That corner is the origin, and the patch lies to its right: turned half round about it, another
    such patch meets this one there and nowhere else.
    """
    columns, rows = int(rng.integers(2, 6)), int(rng.integers(2, 5))
    size = int(rng.integers(1, max(3, round(0.6 * columns * rows)) + 1))
    corners = lattice.outline(lattice.grow_patch(rng, columns, rows, size, rng.uniform()))
    return corners[1:] - corners[0]


def _circuit_line(family: str, seed: int) -> Array:
    """Middle of a circuit in half-widths (M, 2)."""
    rng = _stream(family, seed, attempt=0)
    columns, rows = int(rng.integers(3, 8)), int(rng.integers(2, 6))
    size = int(rng.integers(4, max(5, round(0.7 * columns * rows)) + 1))
    corners = lattice.outline(lattice.grow_patch(rng, columns, rows, size, rng.uniform()))
    corners = (corners - corners.mean(axis=0)) * rng.uniform(3.6, 6.0)
    corners = corners * np.array([rng.uniform(1.0, 1.4), 1.0])
    if rng.random() < 0.5:
        corners = corners[::-1]
    corners = corners @ _rotation(rng.uniform(0, 2 * np.pi)).T
    return _drawn(family, seed, corners, lambda xy: _is_sound(xy, closed=True))


def _drawn(family: str, seed: int, corners: Array, is_sound: Callable[[Array], bool]) -> Array:
    """A closed line round the corners of an outline, in half-widths (M, 2).

    Where that comes out unsound it is shaken less. It starts on its longest straight.
    """
    for attempt, boldness in enumerate((1.0, 0.8, 0.5, 0.0), start=1):
        polygon = _shaken(_stream(family, seed, attempt), corners, boldness)
        radii, widest = _corner_radii(_stream(family, seed, attempt + 10), polygon)
        if boldness == 0:
            radii = widest
        elif widest.min() < 1.05 * MIN_RADIUS:
            continue
        line = curves.smooth(curves.round_corners(polygon, radii, 0.2), _BLUR / 0.2)
        xy, _ = curves.resample(line, SPACING)
        if boldness == 0 or is_sound(xy):
            break
    return xy


def _shaken(rng: np.random.Generator, corners: Array, boldness: float) -> Array:
    """Vary the corners of an outline: some cut, straights cleared of theirs, the rest moved.

    Cutting replaces a corner by the middles of its two edges, which turns a staircase into a
    diagonal and a square end into a pointed one.
    """
    before, after = np.roll(corners, 1, axis=0), np.roll(corners, -1, axis=0)
    pitch = np.hypot(*(after - corners).T)
    along = np.abs(np.sum((corners - before) * (after - corners), axis=1))
    straight = along > 0.9 * pitch * np.roll(pitch, 1)
    cut = ~straight & (rng.random(len(corners)) < boldness * rng.uniform(0, 1.2))
    keep = ~cut & ~(straight & (rng.random(len(corners)) < 0.8))
    halved = cut | np.roll(cut, -1)
    both = np.stack([corners, (corners + after) / 2], axis=1).reshape(-1, 2)
    polygon = both[np.column_stack([keep, halved]).ravel()]
    move = 0.3 * boldness * pitch.min() * rng.uniform(-1, 1, polygon.shape)
    polygon = polygon + move
    longest = int(np.hypot(*(polygon - np.roll(polygon, 1, axis=0)).T).argmax())
    return np.roll(polygon, -longest, axis=0)


def _corner_radii(rng: np.random.Generator, polygon: Array) -> tuple[Array, Array]:
    """A radius for each corner drawn between the least and the widest that fits, and the widest.

    Two corners share their edge so that both could have the same radius.
    """
    into = polygon - np.roll(polygon, 1, axis=0)
    direction = np.arctan2(into[:, 1], into[:, 0])
    bend = np.tan(np.abs(curves.wrap(np.roll(direction, -1) - direction)) / 2) + 1e-9
    shared = 0.99 * np.hypot(into[:, 0], into[:, 1]) / (bend + np.roll(bend, 1))
    widest = np.minimum(np.minimum(shared, np.roll(shared, -1)), _WIDEST)
    least = 1.05 * MIN_RADIUS
    return least + rng.random(len(polygon)) * np.maximum(widest - least, 0.0), widest


def loop(seed: int, half_width: float = CAR_RACING_HALF_WIDTH) -> Track:
    """A closed loop in the manner of Gymnasium's CarRacing, driven either way round.

    Checkpoints lie at growing bearings and random distances from the middle; a walker with a
    limited turn rate heads for them in order, and its settled lap is the road. Where the road comes
    out too close to itself, the checkpoints are drawn nearer to a circle.
    """
    for attempt, boldness in enumerate((1.0, 1.0, 1.0, 0.6, 0.3, 0.0)):
        rng = _stream("loop", seed, attempt)
        lap = _settled_lap(_checkpoints(rng, boldness))
        if len(lap) == 0:
            continue
        mirror = np.array([1.0, rng.choice([-1.0, 1.0])])
        # The start is on the long straight between the two outermost checkpoints.
        start = int(np.abs(np.arctan2(lap[:, 1], lap[:, 0]) + np.pi / 12).argmin())
        lap = np.roll(curves.smooth(lap, 1.0), -start, axis=0)
        xy, _ = curves.resample(lap * mirror, SPACING)
        if boldness == 0 or _is_sound(xy, closed=True):
            break
    return _as_track(f"loop:{seed}", xy * half_width, half_width)


def _checkpoints(rng: np.random.Generator, boldness: float, count: int = 12) -> Array:
    """Bearing and position of each checkpoint (count, 3); the start is half as far out again."""
    radius = 150 / CAR_RACING_HALF_WIDTH
    sector = 2 * np.pi / count
    bearing = sector * (np.arange(count) + boldness * rng.uniform(0, 1, count))
    distance = radius * (1 - boldness * rng.uniform(0, 2 / 3, count))
    bearing[0], bearing[-1] = 0.0, sector * (count - 1)
    distance[[0, -1]] = radius * (1 + 0.5 * boldness)
    return np.column_stack([bearing, distance * np.cos(bearing), distance * np.sin(bearing)])


def _settled_lap(checkpoints: Array) -> Array:
    """Third lap of the walker, in half-widths (M, 2): by then it repeats. Empty if it got lost.

    Its step is 3.5 m and its turn 0.006 rad per metre that the checkpoint lies to the side, at most
    0.31 rad a step, all on CarRacing's road.
    """
    step, gain, most = 3.5 / CAR_RACING_HALF_WIDTH, 0.006 * CAR_RACING_HALF_WIDTH, 0.31
    targets = checkpoints.tolist()
    _, x, y = targets[0]
    heading, laps, goal = np.pi / 2, 0, 1
    lap: list[tuple[float, float]] = []
    for _ in range(_MAX_STEPS):  # three laps take about 900
        bearing = math.atan2(y, x) % (2 * math.pi)
        while goal < len(targets) and targets[goal][0] < bearing:
            goal += 1
        if goal == len(targets) and bearing < math.pi:
            laps, goal = laps + 1, 1
            if laps == 3:
                return np.array(lap)
        if laps == 2:
            lap.append((x, y))
        _, aim_x, aim_y = targets[goal % len(targets)]
        side = (aim_y - y) * math.cos(heading) - (aim_x - x) * math.sin(heading)
        heading += min(max(gain * side, -most), most)
        x, y = x + step * math.cos(heading), y + step * math.sin(heading)
    return np.empty((0, 2))


def _stream(family: str, seed: int, attempt: int) -> np.random.Generator:
    """Random numbers of one attempt; named bit generator, so that NumPy's default may change."""
    if seed < 0:
        raise ValueError(f"a track's seed is a whole number from 0 up, got {seed}")
    words = [int.from_bytes(family.encode(), "little"), seed, attempt]
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(words)))


def _rotation(angle: float) -> Array:
    """Matrix that turns a column vector counter-clockwise."""
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


def _is_sound(xy: Array, closed: bool) -> bool:
    """Whether a line, in half-widths, keeps the radius, the clearance and so out of its own way.

    Different parts cannot cross if they keep clear, and one part cannot loop round within `_APART`
    because a loop with the least radius is 2 pi `MIN_RADIUS` = 7.5 long. Clearance is measured on
    every fourth sample, which can miss 0.1 half-widths at the most.
    """
    wanted = CLEARANCE + 0.1
    return (
        curves.tightest_radius(xy, closed) >= MIN_RADIUS
        and curves.clearance(xy[::4], _APART, wanted, closed) >= wanted
    )


def _crosses_once(xy: Array) -> bool:
    """Whether a closed line, in half-widths, is an eight, and sound but for its crossroads.

    What lies within `_CROSSROADS` of the crossing along the line may come near anything.
    """
    found = curves.crossings(xy)
    if len(found) != 1:
        return False
    step = curves.headings(xy)[found[0]]
    if abs(np.sin(step[0] - step[1])) < _LEAST_CROSSING:
        return False
    apart = round(_CROSSROADS / SPACING)
    first, second = found[0]
    lobes = (
        xy[first + apart : second - apart],
        np.roll(xy, -second, axis=0)[apart : len(xy) - second + first - apart],
    )
    if min(map(len, lobes)) < apart:
        return False
    wanted = CLEARANCE + 0.1
    near, far = lobes[0][::4], lobes[1][::4]
    return (
        curves.tightest_radius(xy) >= MIN_RADIUS
        and all(
            curves.clearance(lobe, _APART, wanted, closed=False) >= wanted for lobe in (near, far)
        )
        and float(cKDTree(near).query(far)[0].min()) >= wanted
    )


def _as_track(name: str, xy: Array, half_width: float, closed: bool = True) -> Track:
    if not half_width > 0:
        raise ValueError(f"half_width must be above zero, got {half_width}")
    width = np.full(len(xy), half_width)
    return Track(name, xy, width, width.copy(), np.zeros(len(xy)), closed=closed)


FAMILIES: dict[str, Callable[..., Track]] = {
    "road": road,
    "circuit": circuit,
    "loop": loop,
    "hills": hills,
    "eight": eight,
}
"""Makers by name, each called with a seed."""
