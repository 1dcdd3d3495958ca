"""A fast line round a track, without a solver.

    s          arc length along the track's reference line, m        (K,)
    n          offset of the line to the left of it, m               (K,)
    curvature  of the driven line, 1/m, left positive                (K,)

`quick_line` flattens the curvature: a few Newton steps on the integral of |curvature|^p plus a
price on length, each a quadratic programme within the road's edges; the speed profile picks the
fastest line met on the way. It takes about a tenth of a second and comes within some percent of the
optimum that `hotlap.evaluation.lap_limit` solves for (`docs/lap_limit.md`).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline

from hotlap.sim.box_programme import solve_box_programme
from hotlap.sim.speed_profile import CarLimits, LineShape, speed_profile
from hotlap.sim.tracks.track import Track

Array = NDArray[np.float64]
FOLD = 0.8
"""How near a line may come to the reference line's centre of curvature, where s stands still."""
POWERS = (2, 2, 2, 3, 4)
"""Powers of curvature in turn: 2 bends least overall, higher ones spare the tightest places."""
THRIFTS = (3.0, 10.0, 30.0)
"""How dear length is beside curvature: a hairpin wants a short way, a fast bend a wide one."""
GENTLE = 0.05
"""Curvature (1/m) below which the steering is as good as straight."""


@dataclass(frozen=True)
class RoadSamples:
    """A track resampled for planning: K samples, evenly spaced."""

    s: Array
    """Arc length of each sample (K,)."""
    xy: Array
    """Reference line (K, 2)."""
    heading: Array
    """Direction of the reference line, unwrapped (K,)."""
    curvature: Array
    """Mean curvature of the reference line from each sample to the next: (K,), or (K - 1,) open."""
    low: Array
    """Rightmost offset that the car's centre may take (K,)."""
    high: Array
    """Leftmost offset that the car's centre may take (K,)."""
    z: Array
    """Height (K,)."""
    grip: Array
    """Grip of the surface (K,)."""
    spacing: float
    closed: bool

    @property
    def climb(self) -> Array:
        """Spacing times the sine of the slope to the next sample: (K,), or (K - 1,) open."""
        rise = np.diff(self.z, append=self.z[:1]) if self.closed else np.diff(self.z)
        return rise / np.hypot(1.0, rise / self.spacing)


@dataclass(frozen=True)
class RacingLine:
    """A line and the speed along it, even in s; a closed one does not repeat its first sample."""

    s: Array
    n: Array
    heading_error: Array
    """Direction of the line relative to the reference line's (K,)."""
    curvature: Array
    speed: Array
    time: float
    """Flying lap on a closed track; from standstill to the end on an open one (s)."""


def sample_road(track: Track, spacing: float, half_width: float) -> RoadSamples:
    """Resample a track about every `spacing` metres and leave `half_width` free at both edges."""
    points = np.vstack([track.xy, track.xy[:1]]) if track.closed else track.xy
    steps = np.diff(points, axis=0)
    along = np.concatenate([[0.0], np.cumsum(np.linalg.norm(steps, axis=1))])
    length = along[-1]
    intervals = max(8, round(length / spacing))
    ends = np.linspace(0.0, length, intervals + 1)
    # Splines, because the corners of a polyline would show up as noise in the curvature.
    curve = CubicSpline(along, points, bc_type="periodic" if track.closed else "natural")
    tangent = curve(ends, 1)
    heading = np.unwrap(np.arctan2(tangent[:, 1], tangent[:, 0]))
    keep = slice(None, -1) if track.closed else slice(None)

    def resample(values: Array) -> Array:
        around = np.append(values, values[:1]) if track.closed else values
        return np.interp(ends, along, around)[keep]

    curvature = np.diff(heading) / (length / intervals)
    low, high = _room(track, resample, curvature, half_width)
    if not track.closed:  # a standing start: two samples give the place and the direction
        low[:2], high[:2] = track.starts[0].n - 1e-3, track.starts[0].n + 1e-3
    return RoadSamples(
        s=ends[keep],
        xy=curve(ends)[keep],
        heading=heading[keep],
        curvature=curvature,
        low=low,
        high=high,
        z=resample(track.z),
        grip=np.ones(len(ends[keep])) if track.grip is None else resample(track.grip),
        spacing=length / intervals,
        closed=track.closed,
    )


def _room(
    track: Track, resample: Callable[[Array], Array], curvature: Array, half_width: float
) -> tuple[Array, Array]:
    """Offsets that keep the car on the road and on its own side of the centre of curvature."""
    left, right = resample(track.width_left), resample(track.width_right)
    if track.closed:
        before = np.roll(curvature, 1)
        after = curvature
    else:
        before, after = np.append(curvature[:1], curvature), np.append(curvature, curvature[-1:])
    bend_left = np.maximum(np.maximum(before, after), 1e-9)
    bend_right = np.maximum(np.maximum(-before, -after), 1e-9)
    high = np.minimum(left - half_width, FOLD / bend_left)
    low = np.maximum(half_width - right, -FOLD / bend_right)
    if np.any(high <= low):
        where = int(np.argmin(high - low))
        raise ValueError(
            f"track {track.name!r} is {left[where] + right[where]:.3f} m wide near sample {where}, "
            f"too narrow for {2 * half_width:.3f} m of car and margin; use a smaller margin"
        )
    return low, high


def line_shape(road: RoadSamples, n: Array) -> LineShape:
    """Geometry of the line at offsets `n` from the reference line."""
    curvature, ds = _bend_and_length(road, n)
    return LineShape(curvature, ds, road.grip, road.climb, road.closed)


def _bend_and_length(road: RoadSamples, n: Array) -> tuple[Array, Array]:
    """Curvature by the circle through three neighbours (K,), and the distance between samples."""
    normal = np.column_stack([-np.sin(road.heading), np.cos(road.heading)])
    point = road.xy + n[:, None] * normal
    ahead = np.roll(point, -1, axis=0) - point
    behind = np.roll(ahead, 1, axis=0)
    ds = np.hypot(ahead[:, 0], ahead[:, 1])
    cross = behind[:, 0] * ahead[:, 1] - behind[:, 1] * ahead[:, 0]
    chord = np.hypot(*(ahead + behind).T)
    bend = 2 * cross / np.maximum(ds * np.roll(ds, 1) * chord, 1e-12)
    if not road.closed:
        bend[0], bend[-1] = bend[1], bend[-2]
        ds = ds[:-1]
    return bend, ds


def profile_of(road: RoadSamples, n: Array, limits: CarLimits) -> tuple[Array, float]:
    """Fastest speeds and time at offsets `n`: a flying lap, or from standstill on an open road."""
    return speed_profile(line_shape(road, n), limits, None if road.closed else 0.0)


def centre_time(track: Track, limits: CarLimits, spacing: float = 0.1) -> float:
    """Time along the middle of the road, by forward and backward passes."""
    road = sample_road(track, spacing, limits.half_width)
    return profile_of(road, (road.low + road.high) / 2, limits)[1]


def quick_line(
    track: Track, limits: CarLimits, spacing: float = 0.2, margin: float = 1.0
) -> RacingLine:
    """A fast line round `track` for a car with `limits`.

    Args:
        track: The road.
        limits: The car.
        spacing: Distance between samples, m.
        margin: Room left at both edges, in half-widths of the car.
    """
    road = sample_road(track, spacing, margin * limits.half_width)
    n = improve_line(road, limits)
    speed, time = profile_of(road, n, limits)
    bend, _ = _bend_and_length(road, n)
    return RacingLine(road.s, n, _heading_error(road, n), bend, speed, time)


def _heading_error(road: RoadSamples, n: Array) -> Array:
    """Direction of the line relative to the reference line (K,)."""
    if road.closed:
        slope = (np.roll(n, -1) - np.roll(n, 1)) / (2 * road.spacing)
        bend = (road.curvature + np.roll(road.curvature, 1)) / 2
    else:
        slope = np.gradient(n, road.spacing)
        bend = np.interp(road.s, road.s[:-1] + road.spacing / 2, road.curvature)
    return np.arctan2(slope, 1 - n * bend)


def sample_like(track: Track, line: RacingLine) -> RoadSamples:
    """The samples of `track` that belong to those of `line`."""
    return sample_road(track, track.length / (len(line.s) - (not track.closed)), 0.0)


def slower_line(
    track: Track, line: RacingLine, limits: CarLimits, grip_share: float, width_share: float = 1.0
) -> RacingLine:
    """A line driven as if there were less grip and less road: what is left is room for corrections.

    Args:
        track: The road.
        line: A line on it.
        limits: The car.
        grip_share: Share of the grip that speeds are planned for.
        width_share: How far the line keeps from the middle of the road, as a share of its own way.
    """
    road = sample_like(track, line)
    cautious = replace(limits, grip=grip_share * limits.grip)
    middle = 0.5 * (road.low + road.high)
    n = middle + width_share * (line.n - middle)
    speed, time = profile_of(road, n, cautious)
    if width_share == 1.0:
        return replace(line, speed=speed, time=time)
    bend, _ = _bend_and_length(road, n)
    return RacingLine(line.s, n, _heading_error(road, n), bend, speed, time)


def improve_line(road: RoadSamples, limits: CarLimits) -> Array:
    """Offsets of a fast line: the best of those met while flattening the curvature."""
    middle = (road.low + road.high) / 2
    best, best_time = middle, profile_of(road, middle, limits)[1]
    for thrift in THRIFTS:
        n = middle
        for power in POWERS:
            n = _flatter(road, n, power, thrift)
            if power == 2:  # the first steps are always bettered by the later ones
                continue
            time = profile_of(road, n, limits)[1]
            if time < best_time:
                best, best_time = n, time
    return best


def _flatter(road: RoadSamples, n: Array, power: float, thrift: float) -> Array:
    """One Newton step towards the least integral of |curvature|^power plus a price on length."""
    bend, ds = _bend_and_length(road, n)
    length_price = thrift * np.mean(np.abs(bend)) ** 2 / road.spacing
    weight = _around(road, ds) * (bend**2 + GENTLE**2) ** (power / 2 - 1)
    scale = weight.mean()
    weight = weight / scale
    bend_by, length_by = _derivatives(road, n)
    hessian = {offset: np.zeros(len(n)) for offset in (0, 1, 2)}
    gradient = length_price * (length_by[0] + np.roll(length_by[1], 1))
    for i in (-1, 0, 1):
        gradient += np.roll(weight * bend * bend_by[i], i)
        for j in range(i, 2):
            hessian[j - i] += (power - 1) * np.roll(weight * bend_by[i] * bend_by[j], i)
    hessian[0] += 1e-7 * hessian[0].max()
    move = solve_box_programme(hessian, gradient, road.low - n, road.high - n, road.closed)

    def cost(offsets: Array) -> float:
        bend, ds = _bend_and_length(road, offsets)
        bent = _around(road, ds) * (bend**2 + GENTLE**2) ** (power / 2) / (power * scale)
        return float(bent.sum() + length_price * ds.sum())

    here = cost(n)
    for share in (1.0, 0.5, 0.25, 0.1):
        if cost(n + share * move) < here:
            return n + share * move
    return n


def _around(road: RoadSamples, ds: Array) -> Array:
    """Lengths between samples as one number per sample (K,)."""
    return ds if road.closed else np.append(ds, ds[-1])


def _derivatives(road: RoadSamples, n: Array) -> tuple[dict[int, Array], dict[int, Array]]:
    """Derivatives of curvature by the offsets of samples i - 1, i, i + 1, of length by i and i + 1.

    Every third sample is nudged at once: their effects do not overlap.
    """
    count, nudge = len(n), 1e-5
    bend_by = {offset: np.zeros(count) for offset in (-1, 0, 1)}
    length_by = {offset: np.zeros(count) for offset in (0, 1)}
    group = np.arange(count) % 3
    if road.closed and count % 3:  # the last one or two would touch the first
        group[count - count % 3 :] = 3 + np.arange(count % 3)
    for colour in range(int(group.max()) + 1):
        chosen = np.flatnonzero(group == colour)
        shift = np.zeros(count)
        shift[chosen] = nudge
        up, down = _bend_and_length(road, n + shift), _bend_and_length(road, n - shift)
        bend = (up[0] - down[0]) / (2 * nudge)
        length = np.resize((up[1] - down[1]) / (2 * nudge), count)
        for offset in (-1, 0, 1):  # sample j moves the curvature of j - offset
            at = (chosen - offset) % count
            bend_by[offset][at] = bend[at]
            if offset >= 0:
                length_by[offset][at] = length[at]
    if not road.closed:
        bend_by[-1][[0, -1]] = bend_by[0][[0, -1]] = bend_by[1][[0, -1]] = 0.0
        length_by[0][-1] = length_by[1][-1] = 0.0
    return bend_by, length_by
