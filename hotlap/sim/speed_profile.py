"""What a car can do, and how fast it can drive a given line.

    v      speed along the line, m/s                                   (K,)
    k      curvature of the line, 1/m, left positive                   (K,)
    ds     length of the line between sample i and the next, m         (K,) closed, (K - 1,) open
    push   acceleration that the tyres give along the wheels, m/s^2
    side   acceleration that the tyres give across the wheels, m/s^2
    slip   slip angle of the tyres over the angle of their largest force

Push and side share the friction circle. A tyre that pushes sideways stands at an angle to its path,
so part of `side` pulls the car back: side * tan(slip angle), a fifth of g at the donkey's limit.
One car at a time, in NumPy: this is planning, done once per track.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hotlap.config.vehicles import VehicleConfig
from hotlap.sim.vehicles.limits import (
    braking_deceleration,
    drag_deceleration,
    drive_acceleration,
    lateral_limit,
    top_speed,
)

Array = NDArray[np.float64]
BEYOND = 1.25
"""How far tables reach, in top speeds on the level."""
FASTEST = 200.0
"""Top speed of a car that nothing stops, m/s."""
CRAWL = 0.01
"""Slowest speed of a profile, m/s: a hill too steep for the engine is crept over."""


@dataclass(frozen=True)
class CarLimits:
    """What a car can do. Accelerations are those of the whole car, m/s^2; tables go over speed."""

    speed: Array
    """Speeds of the tables (J,), evenly spaced from 0; the last lies beyond the top speed."""
    push: Array
    """Largest forward push at each speed (J,)."""
    hold: Array
    """Largest backward push at each speed: brake and reversed engine together (J,)."""
    drag: Array
    """Deceleration at each speed that does not go through the tyres (J,)."""
    grip: float
    """Largest acceleration of the tyres on a surface with grip 1: mu g."""
    gravity: float
    """What a slope pulls with."""
    drive_bias: float
    """How much of its circle the busier axle uses when the car as a whole uses 1, driving."""
    brake_bias: float
    """The same, braking."""
    peak_slip: float
    """Slip angle of the largest side force (the mean of the axles), rad."""
    slip_rate: float
    """Fastest change of slip, 1/s; inf for a car that turns at once."""
    blend_speed: float
    """Speed below which tyres slip more than their angle says, m/s."""
    max_curvature: float
    """Tightest line that the steering allows, 1/m."""
    max_curvature_rate: float
    """Fastest change of curvature that the steering allows, 1/(m s); inf where it is instant."""
    half_width: float
    """Half the width of the car, m."""

    @property
    def last_speed(self) -> float:
        """Speed at which the tables end."""
        return float(self.speed[-1])


def limits_of(vehicle: VehicleConfig, grip: float = 1.0) -> CarLimits:
    """The limits of a car, from its engine, tyres and steering.

    Args:
        vehicle: A kinematic or dynamic single-track car.
        grip: Multiplies its friction.
    """
    if vehicle.model not in ("kinematic", "dynamic"):
        raise ValueError(
            f"limits are known for kinematic and dynamic cars, not for model {vehicle.model!r}"
        )
    # A hill can make a car faster than its engine does, so the tables go on.
    speed = np.linspace(0.0, BEYOND * min(top_speed(vehicle), FASTEST), 126)
    engine = drive_acceleration(vehicle, speed)
    rolling = vehicle.rolling_force + vehicle.wheel_damping * speed
    rolling = rolling / (vehicle.mass + vehicle.wheel_mass)
    brake = braking_deceleration(vehicle, speed) + vehicle.reverse * engine
    slipping = vehicle.model == "dynamic"
    front_load = vehicle.lr / vehicle.wheelbase
    return CarLimits(
        speed=speed,
        push=engine - rolling,
        hold=brake + rolling,
        drag=drag_deceleration(vehicle, speed) - rolling,
        grip=grip * lateral_limit(vehicle),
        gravity=vehicle.gravity,
        drive_bias=bias_of(vehicle.front_drive, front_load) if slipping else 1.0,
        brake_bias=bias_of(vehicle.front_brake, front_load) if slipping else 1.0,
        peak_slip=0.5 * (vehicle.peak_slip_front + vehicle.peak_slip_rear) if slipping else 0.0,
        slip_rate=_slip_rate(vehicle) if slipping else math.inf,
        blend_speed=vehicle.blend_speed,
        max_curvature=math.tan(vehicle.max_steer) / vehicle.wheelbase,
        max_curvature_rate=vehicle.steer_rate / vehicle.wheelbase,
        half_width=vehicle.width / 2,
    )


def bias_of(share: float, load: float) -> float:
    """How much sooner the busier axle slides than a car whose force is shared like its load.

    Args:
        share: The front axle's share of the force along the wheels.
        load: The front axle's share of the load.
    """
    return max(share / load, (1.0 - share) / (1.0 - load))


def _slip_rate(vehicle: VehicleConfig) -> float:
    """How fast the car can swap its slip from one side to the other.

    The front tyres do so at once. The rear ones wait for the body, which the front axle turns with
    at most mu g lf lr / (wheelbase gyration^2): from rest to rest through twice the slip angle. The
    axles' mean swaps in half that time.
    """
    lever = vehicle.lf * vehicle.lr / vehicle.wheelbase * vehicle.mass / vehicle.yaw_inertia
    turn = vehicle.mu * vehicle.gravity * lever
    swap = 2.0 * math.sqrt(2.0 * vehicle.peak_slip_rear / turn)
    return 2.0 / (0.5 * swap)


def slip_of_force(force: Array) -> Array:
    """Slip that gives a share of the largest side force: inverts slip + slip^2 - slip^3."""
    slip = np.linspace(0.0, 1.0, 2001)
    return np.interp(force, slip + slip**2 - slip**3, slip)


@dataclass(frozen=True)
class LineShape:
    """A line's geometry: all that a speed profile needs to know."""

    curvature: Array
    """Curvature at each sample (K,)."""
    ds: Array
    """Length to the next sample: (K,) closed, (K - 1,) open."""
    grip: Array
    """Grip of the surface at each sample (K,)."""
    climb: Array
    """ds times the sine of the slope, m; like `ds`."""
    closed: bool


def speed_profile(
    shape: LineShape, limits: CarLimits, start_speed: float | None = None
) -> tuple[Array, float]:
    """Fastest speeds along a line (K,), and the time it takes.

    Grip caps the speed at each sample; a forward pass keeps what the engine can reach, a backward
    pass what the brakes can shed.

    Args:
        shape: The line; a closed one is driven as a flying lap.
        limits: The car.
        start_speed: Speed at the first sample of an open line; None means free.
    """
    count = len(shape.curvature)
    bend = np.abs(shape.curvature)
    cap = np.sqrt(limits.grip * shape.grip / np.maximum(bend, 1e-9))
    cap = np.minimum(cap, limits.last_speed)
    if start_speed is not None and not shape.closed:
        cap[0] = min(cap[0], start_speed)
    # A flying lap begins where the cap is lowest: no pass can lower that sample any further.
    first = int(np.argmin(cap)) if shape.closed else 0
    order = np.r_[first:count, 0 : first + 1] if shape.closed else np.arange(count)
    steps = order[:-1]
    passes = _Passes(*(values[order].tolist() for values in (cap, bend, limits.grip * shape.grip)))
    passes.run(shape.ds[steps].tolist(), shape.climb[steps].tolist(), limits)
    speed = np.array(passes.speed)
    time = float((2 * shape.ds[steps] / (speed[1:] + speed[:-1])).sum())
    settled = np.empty(count)
    settled[order] = speed
    return settled, time


@dataclass
class _Passes:
    """Plain lists, because the passes walk them one number at a time."""

    speed: list[float]
    bend: list[float]
    grip: list[float]

    def run(self, ds: list[float], climb: list[float], limits: CarLimits) -> None:
        """Lower `speed` to what can be driven."""
        gain = self._gains(limits)
        last = len(self.speed) - 1
        for direction, order in ((1, range(last)), (-1, range(last, 0, -1))):
            for i in order:
                step = i if direction == 1 else i - 1
                u = self.speed[i]
                work = gain(i, direction) * ds[step] - direction * limits.gravity * climb[step]
                reach = math.sqrt(max(u * u + 2.0 * work, CRAWL * CRAWL))
                self.speed[i + direction] = min(self.speed[i + direction], reach)

    def _gains(self, limits: CarLimits) -> Callable[[int, int], float]:
        """A function of a sample and a direction: the acceleration away from it."""
        push, hold, drag = limits.push.tolist(), limits.hold.tolist(), limits.drag.tolist()
        pull = np.tan(limits.peak_slip * slip_of_force(np.linspace(0.0, 1.0, 65))).tolist()
        per_speed, last = (len(push) - 1) / limits.last_speed, len(push) - 2
        bias = {1: limits.drive_bias, -1: limits.brake_bias}

        def gain(i: int, direction: int) -> float:
            u = self.speed[i]
            cell = min(int(u * per_speed), last)
            part = u * per_speed - cell
            most = push if direction == 1 else hold
            engine = most[cell] + part * (most[cell + 1] - most[cell])
            resist = drag[cell] + part * (drag[cell + 1] - drag[cell])
            side = u * u * self.bend[i]
            grip = self.grip[i]
            disc = math.sqrt(max(grip * grip - side * side, 0.0)) / bias[direction]
            if direction == -1:  # tilted tyres help the brakes, which seldom need it
                return min(engine, disc) + resist
            circle = math.sqrt(max(grip * grip - (bias[1] * engine) ** 2, 1e-9))
            used = 64.0 * min(side / circle, 1.0)
            place = min(int(used), 63)
            tilt = pull[place] + (used - place) * (pull[place + 1] - pull[place])
            return min(engine - side * tilt, disc) - resist

        return gain
