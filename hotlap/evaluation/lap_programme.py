"""The minimum-time problem of a car on a road, as a nonlinear programme.

    s        arc length along the reference line, the independent variable
    n        offset of the car from it, left positive                          node
    course   direction of travel relative to the reference line                node
    v        speed                                                             node
    push     acceleration that the tyres give along the wheels                 interval
    slip     slip angle over that of the largest side force, in [-1, 1]        interval
    bend     curvature of the driven path, which follows from the others       interval

Direct collocation, one implicit midpoint step per interval, solved by IPOPT through CasADi. The
equations stand in `docs/lap_limit.md`.
"""

import time
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotlap.sim.racing_line import RacingLine, RoadSamples, improve_line, line_shape, profile_of
from hotlap.sim.speed_profile import CarLimits, slip_of_force

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Solution:
    """A solved line: M nodes, I intervals (M = I on a closed track, I + 1 on an open one)."""

    n: Array
    course: Array
    speed: Array
    push: Array
    slip: Array
    time: float
    iterations: int
    seconds: float


def solve_road(road: RoadSamples, limits: CarLimits, max_iterations: int = 1000) -> Solution:
    """Solve the problem on a sampled road."""
    ca = _casadi()
    began = time.perf_counter()
    problem, low, high = _transcribe(ca, road, limits)
    variables_low, variables_high = _bounds(road, limits)
    options = {
        "print_time": False,
        "ipopt.print_level": 0,
        "ipopt.sb": "yes",
        "ipopt.max_iter": max_iterations,
        "ipopt.tol": 1e-6,
    }
    solver = ca.nlpsol("lap", "ipopt", problem, options)
    answer = solver(
        x0=np.clip(_guess(road, limits), variables_low, variables_high),
        lbx=variables_low,
        ubx=variables_high,
        lbg=low,
        ubg=high,
    )
    stats = solver.stats()
    if not stats["success"]:
        raise RuntimeError(
            f"no lap limit found: IPOPT says {stats['return_status']} after {stats['iter_count']} "
            f"steps on {len(road.s)} nodes; try another node spacing"
        )
    nodes, intervals = len(road.s), len(road.curvature)
    cuts = np.cumsum([nodes] * 3 + [intervals])
    n, course, speed, push, slip = np.split(np.asarray(answer["x"]).ravel(), cuts)
    return Solution(
        n=n,
        course=course,
        speed=speed,
        push=push,
        slip=slip,
        time=float(answer["f"]),
        iterations=int(stats["iter_count"]),
        seconds=time.perf_counter() - began,
    )


def _casadi() -> ModuleType:
    try:
        import casadi
    except ImportError as error:
        raise ImportError(
            "solving a lap limit needs CasADi: pip install hotlap[limit] "
            "(reading the shipped limits does not)"
        ) from error
    return casadi


def _transcribe(
    ca: ModuleType, road: RoadSamples, limits: CarLimits
) -> tuple[dict[str, Any], Array, Array]:
    """The nonlinear programme: variables, objective, constraints and their bounds."""
    nodes, intervals = len(road.s), len(road.curvature)
    n, course, v = (ca.SX.sym(name, nodes) for name in ("n", "course", "v"))
    push, slip = ca.SX.sym("push", intervals), ca.SX.sym("slip", intervals)

    def ends(values: Any) -> tuple[Any, Any]:
        return (
            (values, ca.vertcat(values[1:], values[0]))
            if road.closed
            else (values[:-1], values[1:])
        )

    (n0, n1), (course0, course1), (v0, v1) = ends(n), ends(course), ends(v)
    nm, cm, vm = (n0 + n1) / 2, (course0 + course1) / 2, (v0 + v1) / 2
    curvature = ca.DM(road.curvature)
    ds = road.spacing * (1 - nm * curvature) / ca.cos(cm)
    dt = ds / vm

    # The tyre: its side force stands askew by `tilt`; the circle leaves it what push does not use.
    grip = limits.grip * _interval_grip(road)
    bias = ca.if_else(push > 0, limits.drive_bias, limits.brake_bias)
    circle = ca.sqrt(ca.DM(grip) ** 2 - (bias * push) ** 2)
    side = circle * (1.27 * slip - 0.04 * slip**3 - 0.23 * slip**5)
    tilt = limits.peak_slip * slip * ca.sqrt(1 + (limits.blend_speed / vm) ** 2)
    cosine = 1 / ca.sqrt(1 + tilt**2)
    along = (push - side * tilt) * cosine - _smooth(ca, limits.speed, limits.drag, vm)
    across = (side + push * tilt) * cosine
    bend = across / vm**2
    equal = [
        n1 - n0 - ds * ca.sin(cm),
        course1 - course0 - bend * ds + road.spacing * curvature,
        (v1**2 - v0**2) / 2 - along * ds + limits.gravity * ca.DM(road.climb),
    ]
    within = [
        push - _smooth(ca, limits.speed, limits.push, vm),
        -push - _smooth(ca, limits.speed, limits.hold, vm),
        across - limits.max_curvature * vm**2,
        -across - limits.max_curvature * vm**2,
    ]
    for values, rate in ((bend, limits.max_curvature_rate), (slip, limits.slip_rate)):
        if np.isfinite(rate):
            (before, after), (dt0, dt1) = ends(values), ends(dt)
            most = rate * (dt0 + dt1) / 2
            within += [after - before - most, before - after - most]
    free = sum(part.numel() for part in within)
    low = np.concatenate([np.zeros(3 * intervals), np.full(free, -np.inf)])
    high = np.zeros(3 * intervals + free)
    problem = {
        "x": ca.vertcat(n, course, v, push, slip),
        "f": ca.sum1(dt),
        "g": ca.vertcat(*equal, *within),
    }
    return problem, low, high


def _interval_grip(road: RoadSamples) -> Array:
    """Grip of each interval: the worse of its ends, so that no patch of ice is cut short."""
    return np.minimum(road.grip, np.roll(road.grip, -1))[: len(road.curvature)]


def _smooth(ca: ModuleType, speed: Array, values: Array, at: Any) -> Any:
    """A table over speed as a sum of rounded hinges: IPOPT wants second derivatives."""
    knots = _knots(speed, values, 1e-3 * float(np.abs(values).max()) + 1e-9)
    slopes = np.diff(values[knots]) / np.diff(speed[knots])
    result = float(values[0]) + float(slopes[0]) * at
    radius = 0.003 * speed[-1]
    for knot, change in zip(speed[knots[1:-1]], np.diff(slopes), strict=True):
        result += float(change) / 2 * (at - knot + ca.sqrt((at - knot) ** 2 + radius**2))
    return result


def _knots(speed: Array, values: Array, tolerance: float) -> list[int]:
    """Samples whose straight joints stay within `tolerance` of the table; greedy, left to right."""
    knots = [0]
    while knots[-1] < len(speed) - 1:
        first = knots[-1]
        last = first + 1
        while last + 1 < len(speed):
            inside = slice(first, last + 2)
            chord = np.interp(speed[inside], speed[[first, last + 1]], values[[first, last + 1]])
            if np.abs(chord - values[inside]).max() > tolerance:
                break
            last += 1
        knots.append(last)
    return knots


def _bounds(road: RoadSamples, limits: CarLimits) -> tuple[Array, Array]:
    """Lowest and highest value of every variable."""
    nodes, intervals = len(road.s), len(road.curvature)
    grip = limits.grip * _interval_grip(road)
    slowest = np.full(nodes, 0.02)
    fastest = np.full(nodes, limits.last_speed)
    if not road.closed:
        slowest[0] = fastest[0] = 0.0
    each = [
        (road.low, road.high),
        (np.full(nodes, -1.3), np.full(nodes, 1.3)),
        (slowest, fastest),
        (-0.995 * grip / limits.brake_bias, 0.995 * grip / limits.drive_bias),
        (np.full(intervals, -1.0), np.full(intervals, 1.0)),
    ]
    return np.concatenate([low for low, _ in each]), np.concatenate([high for _, high in each])


def _guess(road: RoadSamples, limits: CarLimits) -> Array:
    """Begin from the quick line, driven at nine tenths of its speed."""
    n = improve_line(road, limits)
    speed = 0.9 * profile_of(road, n, limits)[0]
    intervals = len(road.curvature)
    side = (speed**2 * line_shape(road, n).curvature)[:intervals]
    force = np.clip(side / (limits.grip * _interval_grip(road)), -0.95, 0.95)
    slip = np.copysign(slip_of_force(np.abs(force)), force)
    course = np.arctan2(np.roll(n, -1) - n, road.spacing)
    course[-1] = course[-1] if road.closed else 0.0
    return np.concatenate([n, course, speed, np.zeros(intervals), slip])


def racing_line_of(solution: Solution, road: RoadSamples) -> RacingLine:
    """The solved line by node, with the curvature of its geometry."""
    bend = line_shape(road, solution.n).curvature
    return RacingLine(road.s, solution.n, solution.course, bend, solution.speed, solution.time)
