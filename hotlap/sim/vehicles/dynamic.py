"""Single-track car with saturating tyres.

B environments, N cars. SI units; angles counter-clockwise positive. All tensors (B, N), or
(2, B, N) where both axles are handled at once, the front one first.
    vx, vy    velocity of the centre of mass in the body frame, forward and left, m/s
    r         yaw rate, rad/s
    delta     wheel angle, rad; the rear one is 0                                 (2, B, N)
    rolling   speed of an axle along its wheels, m/s                              (2, B, N)
    sideways  speed of an axle across its wheels, to the left, m/s                (2, B, N)
    limit     largest acceleration that an axle's tyres can give the car, m/s2    (2, B, N)

Everything is per unit of mass: tyre forces scale with load, so mass only weighs on the engine, the
brakes and drag. The slip of a tyre is its sideways speed over sqrt(rolling speed^2 + blend^2). At
speed this is the slip angle; near standstill the tyre becomes a damper so stiff that the car rolls
as the kinematic model does, without a division by zero and without a branch.

On a CPU the time goes into starting operations, most of all those with a Python number, hence both
axles in one tensor, `addcmul`, and constants that are tensors.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from hotlap.config.vehicles import VehicleConfig
from hotlap.sim.vehicles.actuation import follow_target, lag_share
from hotlap.sim.vehicles.drive import creep_speed, drive_demand, engine_share, resistance

# Load transfer never lifts an axle fully: the tyre model has no wheel in the air.
_LEAST_LOAD = 0.05


class Fixed(NamedTuple):
    """What stays fixed during a control step: per axle (2, B, N), the last three (B, N)."""

    lever: Tensor
    """Place of the axle ahead of the centre of mass, m."""
    drive: Tensor
    """Pull of the engine on the axle, m/s2."""
    grab: Tensor
    """Braking and rolling deceleration on the axle per unit of creep speed, 1/s."""
    damping: Tensor
    """Damping of the axle's rolling speed, 1/s."""
    stiffness: Tensor
    """Minus one over the slip of the largest force, 1/rad; the tyre pushes against the slip."""
    blend: Tensor
    """Square of the blend speed, m2/s2."""
    one: Tensor
    """Ones."""
    climb: Tensor
    """Deceleration by the slope, m/s2."""
    drag: Tensor
    """Damping of the body's velocity, 1/s."""
    air: Tensor
    """Deceleration by air over speed squared, 1/m."""


def pair(front: Tensor | float, rear: Tensor | float, like: Tensor) -> Tensor:
    """Front and rear in one tensor, (2, B, N), each broadcast to the shape of `like`."""
    both = [
        value.expand_as(like) if isinstance(value, Tensor) else torch.full_like(like, value)
        for value in (front, rear)
    ]
    return torch.stack(both)


def tyre_curve(config: VehicleConfig, slip: Tensor, one: Tensor) -> Tensor:
    """Sideways force over its largest value, odd in `slip`, which is in multiples of the peak.

    PhysX's curve: a cubic with slope 1 that peaks at 1, then a smooth fall to `slide_grip`. `one`
    holds ones in the shape of `slip`.
    """
    size = slip.abs()
    rising = size.clamp(max=1.0)
    shape = torch.addcmul(one + rising, rising, rising, value=-1.0)
    lost, width = 1.0 - config.slide_grip, config.slide_slip - 1.0
    if lost > 0:
        sliding = (size - one).clamp(0.0, width)
        square = sliding * sliding
        # The smoothstep 3 t^2 - 2 t^3 of t = sliding / width, times what is lost.
        shape = torch.add(shape, square, alpha=-3.0 * lost / width**2)
        shape = torch.addcmul(shape, square, sliding, value=2.0 * lost / width**3)
    return slip.clamp(-1.0, 1.0) * shape


def axle_force(
    config: VehicleConfig,
    fixed: Fixed,
    rolling: Tensor,
    sideways: Tensor,
    limit: Tensor,
    creep: float,
) -> tuple[Tensor, Tensor]:
    """Acceleration from each axle's tyres, along and across its wheels, (2, B, N).

    The forward part is served first; what the friction circle leaves goes to the sideways part, so
    together they never exceed `limit`. Below the speed `creep` the brakes fade.
    """
    push = torch.addcmul(fixed.drive, fixed.grab, rolling.clamp(-creep, creep), value=-1.0)
    push = torch.addcmul(push, fixed.damping, rolling, value=-1.0)
    used = (push / limit).clamp(-1.0, 1.0)
    left = torch.sqrt(torch.addcmul(fixed.one, used, used, value=-1.0))
    per_speed = torch.rsqrt(torch.addcmul(fixed.blend, rolling, rolling))
    slip = sideways * fixed.stiffness * per_speed
    return used * limit, limit * left * tyre_curve(config, slip, fixed.one)


def _fix_forces(
    config: VehicleConfig,
    pedals: tuple[Tensor, Tensor],
    vx: Tensor,
    params: dict[str, Tensor],
    slope: Tensor,
    creep: float,
) -> Fixed:
    """What pedals, parameters and slope come to in this control step.

    The engine's falling force is read here, once: in 50 ms a donkey car gains at most 0.13 m/s,
    and its engine loses at most 3 % of its force.
    """
    pull, grab = drive_demand(config, *pedals, params)
    pull, grab = pull * engine_share(config, vx), grab * (1.0 / creep)
    damping, drag = resistance(config, params)
    drive, brake = config.front_drive, config.front_brake
    one = vx.new_ones(2, *vx.shape)
    return Fixed(
        lever=pair(config.lf, -config.lr, vx),
        drive=pair(pull * drive, pull * (1 - drive), vx),
        grab=pair(grab * brake, grab * (1 - brake), vx),
        damping=pair(damping * brake, damping * (1 - brake), vx),
        stiffness=pair(-1 / config.peak_slip_front, -1 / config.peak_slip_rear, vx),
        blend=one * config.blend_speed**2,
        one=one,
        climb=slope * config.gravity,
        drag=drag,
        air=(config.air_drag * params["drag"]) / params["mass"],
    )


def _load_split(config: VehicleConfig, limit: Tensor, ax: Tensor) -> Tensor:
    """The friction limit of each axle, (2, B, N); braking moves load forward."""
    share = config.lr / config.wheelbase
    if config.cog_height == 0:
        return pair(limit * share, limit * (1 - share), ax)
    shift = config.cog_height / (config.gravity * config.wheelbase)
    front = limit * (share - ax * shift).clamp(_LEAST_LOAD, 1.0 - _LEAST_LOAD)
    return pair(front, limit - front, ax)


def car_acceleration(
    config: VehicleConfig,
    fixed: Fixed,
    velocity: tuple[Tensor, Tensor, Tensor],
    delta: Tensor,
    limit: Tensor,
    creep: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Acceleration forward and left, and the tyres' torque per unit of mass; (B, N)."""
    vx, vy, r = velocity
    cos, sin = torch.cos(delta), torch.sin(delta)
    side = torch.addcmul(vy, fixed.lever, r)
    rolling = torch.addcmul(vx * cos, side, sin)
    sideways = torch.addcmul(side * cos, vx, sin, value=-1.0)
    along, across = axle_force(config, fixed, rolling, sideways, limit, creep)
    forward = torch.addcmul(along * cos, across, sin, value=-1.0)
    left = torch.addcmul(along * sin, across, cos)
    torque = left * fixed.lever
    ax = torch.addcmul(forward[0] + forward[1] - fixed.climb, fixed.drag, vx, value=-1.0)
    ay = torch.addcmul(left[0] + left[1], fixed.drag, vy, value=-1.0)
    if config.air_drag > 0:
        ax = ax - fixed.air * vx * vx.abs()
    return ax, ay, torque[0] + torque[1]


def move_dynamic(
    config: VehicleConfig,
    state: dict[str, Tensor],
    pedals: tuple[Tensor, Tensor],
    target: Tensor,
    params: dict[str, Tensor],
    grip: Tensor,
    slope: Tensor,
    dt: float,
    substeps: int,
) -> dict[str, Tensor]:
    """Advance `substeps` physics steps of `dt` with semi-implicit Euler.

    `pedals` are throttle and brake, `target` is the wheel angle asked for; the rest is as in
    `model.advance`. Velocity is carried in the world frame (u, w): turning creates no energy.
    """
    x, y, heading, r = state["x"], state["y"], state["heading"], state["yaw_rate"]
    vx, vy = state["vx"], state["vy"]
    creep = creep_speed(config, dt)
    fixed = _fix_forces(config, pedals, vx, params, slope, creep)
    whole_limit = (grip * (params["mu"] * config.gravity)).clamp(min=1e-6)
    limit = _load_split(config, whole_limit, state["ax"])
    follow = lag_share(params["steer_lag"], dt)
    spin_up = dt * config.mass / config.yaw_inertia
    delta, target = pair(state["steer"], 0.0, vx), pair(target, 0.0, vx)
    cos, sin = torch.cos(heading), torch.sin(heading)
    u, w = cos * vx - sin * vy, sin * vx + cos * vy
    sum_ax, sum_ay = torch.zeros_like(x), torch.zeros_like(x)
    for _ in range(substeps):
        delta = follow_target(config, delta, target, follow, dt)
        ax, ay, torque = car_acceleration(config, fixed, (vx, vy, r), delta, limit, creep)
        if config.cog_height > 0:
            limit = _load_split(config, whole_limit, ax)
        r = torch.add(r, r, alpha=-dt * config.yaw_drag)
        r = torch.add(r, torque, alpha=spin_up)
        u = torch.add(u, torch.addcmul(cos * ax, sin, ay, value=-1.0), alpha=dt)
        w = torch.add(w, torch.addcmul(sin * ax, cos, ay), alpha=dt)
        x, y = torch.add(x, u, alpha=dt), torch.add(y, w, alpha=dt)
        heading = torch.add(heading, r, alpha=dt)
        cos, sin = torch.cos(heading), torch.sin(heading)
        vx = torch.addcmul(cos * u, sin, w)
        vy = torch.addcmul(cos * w, sin, u, value=-1.0)
        sum_ax, sum_ay = sum_ax + ax, sum_ay + ay
    moved = {"x": x, "y": y, "heading": heading, "vx": vx, "vy": vy, "yaw_rate": r}
    mean = {"ax": sum_ax * (1.0 / substeps), "ay": sum_ay * (1.0 / substeps)}
    return moved | mean | {"steer": delta[0]}
