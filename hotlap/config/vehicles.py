"""What a vehicle is made of, and five that are ready to drive.

SI units and radians, except for the CarRacing car, which lives in Box2D's units.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Literal, get_args

from hotlap.config.naming import nearest

Model = Literal["kinematic", "dynamic", "four_wheel", "unicycle"]


@dataclass(frozen=True)
class VehicleConfig:
    """One vehicle: its body, tyres, engine, steering and the step it is simulated with."""

    model: Model = "dynamic"
    """Equations of motion: kinematic, dynamic, four_wheel or unicycle."""

    mass: float = 1.0
    """Mass of the whole vehicle, kg."""
    wheel_mass: float = 0.0
    """What the spinning wheels add to the mass when speeding up or slowing down, kg."""
    yaw_inertia: float = 0.1
    """Moment of inertia about the vertical axis through the centre of mass, kg m2."""
    lf: float = 0.1
    """Distance from the centre of mass forward to the front axle, m."""
    lr: float = 0.1
    """Distance from the centre of mass back to the rear axle, m."""
    track_width: float = 0.2
    """Distance between the left and the right wheels, m."""
    wheel_radius: float = 0.04
    """Radius of a wheel, m."""
    cog_height: float = 0.0
    """Height of the centre of mass, m; it moves load between the axles, and 0 keeps load fixed."""
    length: float = 0.4
    """Length of the body's box, used for contact and the track edge, m."""
    width: float = 0.2
    """Width of the body's box, m."""
    body_offset: float = 0.0
    """How far the box's centre lies ahead of the centre of mass, m."""

    max_steer: float = 0.4
    """Largest wheel angle to either side, rad; for a unicycle any unit, as it only sets a share."""
    steer_gain: float | None = None
    """Wheel angle asked for by a full command, rad; None asks for exactly `max_steer`."""
    steer_rate: float = math.inf
    """Fastest change of the wheel angle, rad/s."""
    steer_lag: float = 0.0
    """Time constant with which the wheels follow the command, s; 0 follows at once."""
    actuation_delay: float = 0.0
    """Time between a command and its effect, rounded to whole control steps, s."""
    max_delay_steps: int = 0
    """Length of the queue of commands on their way, control steps; 0 keeps no queue."""

    mu: float = 1.0
    """Friction coefficient on a surface whose grip is 1."""
    gravity: float = 9.81
    """Acceleration of gravity, m/s2."""
    peak_slip_front: float = 0.2
    """Slip angle at which a front tyre pushes hardest, rad; 1/peak is the starting stiffness."""
    peak_slip_rear: float = 0.2
    """Slip angle at which a rear tyre pushes hardest, rad."""
    slide_slip: float = 2.5
    """Slip, in multiples of the peak, from which the tyre slides outright."""
    slide_grip: float = 1.0
    """Share of the peak force left to a tyre that slides outright."""
    blend_speed: float = 0.5
    """Speed below which tyres act as dampers, so the car rolls as if kinematic, m/s."""

    engine_force: float = 1.0
    """Force of the engine at full throttle from standstill, N."""
    engine_knots: tuple[tuple[float, float, float], ...] = ()
    """Share of the force left over speed: (speed m/s, share, slope per m/s), joined by cubics."""
    power_speed: float = math.inf
    """Speed above which the force falls as 1/speed because power runs out, m/s."""
    top_speed: float = math.inf
    """Speed at which a limiter takes the last force away, m/s; no part of a four_wheel
    car is faster."""
    front_drive: float = 0.5
    """Share of the engine's force on the front axle: 1 front, 0 rear, 0.5 four-wheel drive."""
    front_brake: float = 0.5
    """Share of the brakes' and the rolling force on the front axle."""
    reverse: float = 1.0
    """Share of the force available backwards; 0 means negative throttle does nothing."""
    brake_force: float = 1.0
    """Force of the brakes at full command, N."""
    rolling_force: float = 0.0
    """Constant rolling resistance, N."""
    wheel_damping: float = 0.0
    """Resistance of the wheels that grows with speed, N per m/s."""
    drag: float = 0.0
    """Damping of the body's velocity, 1/s."""
    air_drag: float = 0.0
    """Resistance that grows with the square of speed, N per (m/s)2."""
    yaw_drag: float = 0.0
    """Damping of the yaw rate, 1/s."""

    max_yaw_rate: float = math.inf
    """Turn rate at full command, unicycle only, rad/s."""
    max_acceleration: float = math.inf
    """Largest change of speed, unicycle only, m/s2."""
    speed_lag: float = 0.0
    """Time constant with which the speed follows the command, unicycle only, s."""
    wheel_inertia: float = 1.0
    """Moment of inertia of one wheel about its axle, four_wheel only."""
    engine_power: float = 0.0
    """Power of the engine on each rear wheel at full throttle, four_wheel only."""
    slip_stiffness: float = 0.0
    """Tyre force per unit of sliding speed before the friction limit, four_wheel only."""
    gas_rate: float = math.inf
    """Most the throttle may rise in one physics step, four_wheel only."""
    brake_spin: float = 0.0
    """Wheel spin that full braking takes off in one physics step, four_wheel only, rad/s."""
    lock_brake: float = math.inf
    """Brake command from which the wheels lock, four_wheel only."""

    physics_dt: float = 0.01
    """Length of one physics step, s."""
    substeps: int = 5
    """Physics steps in one control step."""

    def __post_init__(self) -> None:
        if self.model not in get_args(Model):
            raise ValueError(nearest(self.model, get_args(Model), "model"))
        positive = ("mass", "yaw_inertia", "lf", "lr", "track_width", "wheel_radius", "length",
                    "width", "max_steer", "steer_rate", "mu", "gravity", "peak_slip_front",
                    "peak_slip_rear", "blend_speed", "power_speed", "top_speed", "max_yaw_rate",
                    "max_acceleration", "wheel_inertia", "gas_rate", "lock_brake",
                    "physics_dt")  # fmt: skip
        for name in positive:
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")
        not_negative = ("wheel_mass", "cog_height", "steer_lag", "actuation_delay", "engine_force",
                        "brake_force", "rolling_force", "wheel_damping", "drag", "air_drag",
                        "yaw_drag", "speed_lag", "engine_power", "slip_stiffness", "brake_spin",
                        "max_delay_steps")  # fmt: skip
        for name in not_negative:
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} must not be negative, got {getattr(self, name)}")
        for name in ("slide_grip", "front_drive", "front_brake", "reverse"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must lie between 0 and 1, got {getattr(self, name)}")
        if not self.slide_slip > 1:
            raise ValueError(f"slide_slip must exceed 1 (the peak), got {self.slide_slip}")
        if self.substeps < 1:
            raise ValueError(f"substeps must be at least 1, got {self.substeps}")
        if self.delay_steps > self.max_delay_steps:
            raise ValueError(
                f"actuation_delay of {self.actuation_delay} s is {self.delay_steps} control steps, "
                f"but the queue holds {self.max_delay_steps}; raise max_delay_steps"
            )
        speeds = [knot[0] for knot in self.engine_knots]
        if len(speeds) == 1 or any(b <= a for a, b in itertools.pairwise(speeds)):
            raise ValueError(f"engine_knots need two or more rising speeds, got {speeds}")

    @property
    def wheelbase(self) -> float:
        """Distance between the axles, m."""
        return self.lf + self.lr

    @property
    def control_dt(self) -> float:
        """Length of one control step, s."""
        return self.physics_dt * self.substeps

    @property
    def delay_steps(self) -> int:
        """The actuation delay in whole control steps."""
        return round(self.actuation_delay / self.control_dt)

    @property
    def full_steer(self) -> float:
        """Wheel angle asked for by a full command, rad."""
        return self.max_steer if self.steer_gain is None else self.steer_gain


# sdsandbox's car in metres: 1 u = 0.125 m, Unity's masses kept (only ratios matter). Per wheel
# 100 u of torque on a radius of 0.32 u: 4 * 100 / 0.32 u = 156.25 N. Wheel damping
# 4 * 0.25 / 0.32^2; wheel inertia worth 10 kg; inertia of the 1.0 x 1.75 u box collider. The centre
# of mass lies 0.1 u ahead of the prefab's origin, which moves the axles 0.837 and -0.765 u.
_DONKEY = VehicleConfig(
    model="dynamic", mass=50.0, wheel_mass=10.0, yaw_inertia=0.2645,
    lf=0.0921, lr=0.1081, track_width=0.174, wheel_radius=0.04,
    length=0.219, width=0.174, body_offset=-0.0125,
    max_steer=math.radians(16.0), max_delay_steps=3,
    mu=0.5, peak_slip_front=0.2, peak_slip_rear=0.2, slide_slip=2.5, slide_grip=0.75,
    engine_force=156.25,
    engine_knots=((0.0, 1.0, -0.0047), (3.1, 0.896, -0.1266), (5.0, 0.501, -0.121)),
    brake_force=156.25, wheel_damping=9.765625, drag=0.05, yaw_drag=0.05,
    physics_dt=0.01, substeps=5,
)  # fmt: skip

# f1tenth_gym's published parameters; its linear tyre (C_S per unit of load and friction) becomes a
# saturating one with the same starting stiffness, 1 / C_S. Force a_max * m, falling above v_switch,
# split between the axles as load transfer loads them, so that a_max is reached both ways.
_F1TENTH = VehicleConfig(
    model="dynamic", mass=3.74, yaw_inertia=0.04712, lf=0.15875, lr=0.17145, track_width=0.26,
    wheel_radius=0.05, cog_height=0.074, length=0.58, width=0.31,
    max_steer=0.4189, steer_rate=3.2, max_delay_steps=3,
    mu=1.0489, peak_slip_front=1 / 4.718, peak_slip_rear=1 / 5.4562, slide_slip=3.0,
    slide_grip=0.9, blend_speed=1.0,
    engine_force=9.51 * 3.74, power_speed=7.319, top_speed=20.0, front_drive=0.3, front_brake=0.72,
    brake_force=9.51 * 3.74, physics_dt=0.01, substeps=5,
)  # fmt: skip

# A car that feels like Trackmania's: 10 ms ticks, 15.6 m/s2 at the start, 342 km/h = 95 m/s into
# the last gear; grip, gravity, mass and body are guesses, as the game does not publish them.
_TRACKMANIA = VehicleConfig(
    model="dynamic", mass=1000.0, yaw_inertia=1600.0, lf=1.3, lr=1.35, track_width=1.8,
    wheel_radius=0.36, length=4.0, width=2.0, max_steer=0.5, steer_rate=6.0, max_delay_steps=3,
    mu=1.6, gravity=15.0, peak_slip_front=0.12, peak_slip_rear=0.1, slide_slip=3.0,
    slide_grip=0.85, blend_speed=4.0,
    engine_force=15600.0, power_speed=28.0, top_speed=120.0, front_drive=0.3, reverse=0.5,
    brake_force=22000.0, air_drag=0.4, rolling_force=150.0, physics_dt=0.01, substeps=5,
)  # fmt: skip

# Gymnasium's CarRacing car in Box2D's units (SIZE = 0.02). The friction limit of 400 per wheel does
# not depend on load, so gravity is chosen to make mu = 1 mean 4 * 400 / mass. Box2D moves no body
# by more than 2 units in a step of 0.02 s.
_CARRACING = VehicleConfig(
    model="four_wheel", mass=7.302, yaw_inertia=19.17, lf=1.6805, lr=1.5595, track_width=2.2,
    wheel_radius=0.54, length=5.0, width=2.4, body_offset=0.0805 + 0.1,
    max_steer=0.4, steer_gain=1.0, steer_rate=3.0, max_delay_steps=4,
    mu=1.0, gravity=1600.0 / 7.302,
    reverse=0.0, front_drive=0.0, wheel_inertia=1.6, engine_power=40000.0, slip_stiffness=82.0,
    gas_rate=0.1, brake_spin=15.0, lock_brake=0.9, physics_dt=0.02, substeps=1,
    top_speed=100.0,
)  # fmt: skip

# TurtleBot3 Burger: 0.22 m/s, 2.84 rad/s; its lags and acceleration limit are round guesses.
_TURTLEBOT = VehicleConfig(
    model="unicycle", mass=1.0, yaw_inertia=0.01, lf=0.07, lr=0.07, track_width=0.16,
    wheel_radius=0.033, length=0.138, width=0.178, body_offset=-0.032,
    max_steer=1.0, steer_lag=0.1, max_delay_steps=3, mu=0.8,
    top_speed=0.22, max_yaw_rate=2.84, max_acceleration=2.5, speed_lag=0.1,
    physics_dt=0.02, substeps=5,
)  # fmt: skip

VEHICLES = {
    "donkey": _DONKEY,
    "f1tenth": _F1TENTH,
    "trackmania": _TRACKMANIA,
    "carracing": _CARRACING,
    "turtlebot": _TURTLEBOT,
}


def find_vehicle(name: str) -> VehicleConfig:
    """The preset called `name`.

    Raises:
        KeyError: No preset has that name; the message names the nearest and lists all.
    """
    if name not in VEHICLES:
        raise KeyError(nearest(name, VEHICLES, "vehicle"))
    return VEHICLES[name]
