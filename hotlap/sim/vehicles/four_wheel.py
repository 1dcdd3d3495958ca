"""The CarRacing car: one rigid body on four wheels that spin, grip and slide on their own.

B environments, N cars, in Box2D's units. Angles counter-clockwise positive.
    vx, vy  velocity of the common centre of mass in the body frame            (B, N)
    r       yaw rate                                                           (B, N)
    delta   angle of the front wheels' steering joints                         (B, N)
    rear    that of the rear wheels', which their motors hold at 0             (B, N)
    spin    wheel speeds about their axles, rad/s: front left, front right,
            rear left, rear right                                              (B, N, 4)
    gas     throttle after its gradual rise                                    (B, N)
    turn    speed of the steering joints in the last step, rad/s               (B, N)
    press   impulse with which the steering motors press against a limit       (B, N)

Follows gymnasium/envs/box2d/car_dynamics.py, where hull and wheels are five bodies held together by
Box2D's solver. Its many iterations make the joints rigid, so here they are one body. What is left
of the five: the joint motor's speed (50 per rad of error, at most 3 rad/s), the overshoot of its
limit within Box2D's angular slop, the impulse that a motor has heaped up against its limit and
takes back before it turns the other way, the yaw that a wheel takes from the body when it starts to
turn, velocities that the solver matched before the bodies moved, so that a wheel's share of the yaw
is one step old: it points where the wheel was and it loses a little momentum, and Box2D's speed
limit (`top_speed`): no body moves by more than two units in a step, each is held back by itself,
and what hull and wheels then have left is shared out in the next step. The state's velocity is the
one before anything is held back.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from hotlap.config.vehicles import VehicleConfig
from hotlap.sim.vehicles.actuation import lag_share

# Gain of the steering motor in Gymnasium, 1/s.
_MOTOR_GAIN = 50.0
# Box2D corrects a joint beyond its limit only down to this much, rad.
_ANGULAR_SLOP = 2.0 * 3.14159265 / 180.0
# What a motor that asks for 1 rad/s adds to its impulse against a limit in a step of 180 iterations
# (each with the inertia of a wheel), and the largest impulse that its torque allows in a step.
_PRESS_RATE = 180 * 0.007457
_MOST_PRESS = 64.8 / 50
# The engine turns power into spin; Gymnasium adds this to keep standstill finite, rad/s.
_LEAST_SPIN = 5.0
# Mass and yaw inertia of one wheel: density 0.1, 0.56 x 1.08.
_WHEEL_MASS = 0.1 * 0.56 * 1.08
_WHEEL_YAW_INERTIA = _WHEEL_MASS * (0.56**2 + 1.08**2) / 12.0


def four_wheel_extras(config: VehicleConfig, speed: Tensor) -> dict[str, Tensor]:
    """The keys that only this model's state has, for wheels rolling at `speed` (B, N)."""
    spin = (speed / config.wheel_radius).unsqueeze(-1).expand(*speed.shape, 4).clone()
    zero = torch.zeros_like(speed)
    names = ("gas", "turn", "press", "rear")
    return {"spin": spin} | {name: zero.clone() for name in names}


def wheel_places(config: VehicleConfig) -> tuple[tuple[float, float], ...]:
    """Position of each wheel, forward and left of the centre of mass."""
    half = 0.5 * config.track_width
    return ((config.lf, half), (config.lf, -half), (-config.lr, half), (-config.lr, -half))


def powered_spin(config: VehicleConfig, spin: Tensor, power: Tensor, dt: float) -> Tensor:
    """Spin after the engine's work: power / (inertia * spin) is its angular acceleration."""
    return spin + (dt / config.wheel_inertia) * power / (spin.abs() + _LEAST_SPIN)


def braked_spin(spin: Tensor, grab: Tensor, free: Tensor) -> Tensor:
    """Spin after the brakes took `grab` off it, but never past 0; `free` is 0 if they lock."""
    return spin.sign() * (spin.abs() - grab).clamp(min=0.0) * free


def tyre_force(
    config: VehicleConfig, rolling: Tensor, sideways: Tensor, spin: Tensor, limit: Tensor
) -> tuple[Tensor, Tensor]:
    """Force along and across a wheel: against the sliding speed, at most `limit` in size."""
    along = config.slip_stiffness * (spin * config.wheel_radius - rolling)
    across = -config.slip_stiffness * sideways
    size = torch.sqrt(along * along + across * across)
    kept = limit / torch.maximum(size, limit)
    return along * kept, across * kept


def steer_joint(
    config: VehicleConfig, delta: Tensor, target: Tensor, press: Tensor, dt: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Joint angle one step later, the joint's speed, and its pressure against a limit.

    A joint at its limit cannot go on; Box2D notices only in the step after it was passed, and then
    moves it back to the limit plus its slop. A motor that has pressed against the limit first takes
    that back, which may last longer than a step.
    """
    wish = ((target - delta) * _MOTOR_GAIN).clamp(-config.steer_rate, config.steer_rate)
    pressed = (press + _PRESS_RATE * wish).clamp(-_MOST_PRESS, _MOST_PRESS)
    reach = config.max_steer
    held = ((delta >= reach) & (pressed > 0)) | ((delta <= -reach) & (pressed < 0))
    speed = torch.where(held, 0.0, wish)
    moved = delta + dt * speed
    slop = reach + _ANGULAR_SLOP
    beyond = delta.abs() >= reach
    angle = torch.where(beyond, moved.clamp(-slop, slop), moved)
    return angle, speed, torch.where(held, pressed, 0.0)


class Held(NamedTuple):
    """What the speed limit leaves and takes, (B, N)."""

    wheels: list[tuple[Tensor, Tensor]]
    """Velocity that is left to every wheel, forward and left."""
    forward: Tensor
    """What the common velocity loses, forward,"""
    left: Tensor
    """and left."""
    yaw: Tensor
    """What the yaw rate loses."""


def hold_back(
    config: VehicleConfig, velocity: tuple[Tensor, Tensor], yaw: tuple[Tensor, Tensor]
) -> Held:
    """Hold every body back that is faster than the top speed.

    `yaw` is (swing, sweep): the yaw rate times the cosine and the sine of the angle that the body
    has turned since its velocities were matched.
    """
    (vx, vy), (swing, sweep) = velocity, yaw
    places = wheel_places(config)
    hull = config.mass - 4.0 * _WHEEL_MASS
    behind = -sum(_WHEEL_MASS * ahead for ahead, _ in places) / hull
    bodies = [(ahead, aside, _WHEEL_MASS) for ahead, aside in places] + [(behind, 0.0, hull)]
    most = config.top_speed
    wheels = []
    forward, left, spun = torch.zeros_like(vx), torch.zeros_like(vx), torch.zeros_like(vx)
    for ahead, aside, mass in bodies:
        wx, wy = vx - aside * swing + ahead * sweep, vy + ahead * swing + aside * sweep
        kept = (most / torch.sqrt(wx * wx + wy * wy).clamp(min=1e-6)).clamp(max=1.0)
        wheels.append((wx * kept, wy * kept))
        lost_x, lost_y = wx * (1.0 - kept), wy * (1.0 - kept)
        forward, left = forward + mass * lost_x, left + mass * lost_y
        spun = spun + mass * (ahead * lost_y - aside * lost_x)
    return Held(wheels[:4], forward / config.mass, left / config.mass, spun / config.yaw_inertia)


class Pedals(NamedTuple):
    """What the pedals do to the wheels in one control step, (B, N)."""

    grab: Tensor
    """Spin that the brakes take off in one physics step, rad/s."""
    free: Tensor
    """0 where the brakes lock the wheels, else 1."""


def wheel_forces(
    config: VehicleConfig,
    wheels: list[tuple[Tensor, Tensor]],
    joints: tuple[Tensor, Tensor],
    spins: list[Tensor],
    power: Tensor,
    pedals: Pedals,
    limits: tuple[Tensor, ...],
    dt: float,
) -> tuple[list[Tensor], Tensor, Tensor, Tensor]:
    """New spins, and the four tyres' force forward and left and their torque; all (B, N).

    `wheels` are their velocities forward and left; the joints' angles are those of the front and of
    the rear ones.
    """
    turned = [(torch.cos(angle), torch.sin(angle)) for angle in joints]
    fx, fy, torque = torch.zeros_like(power), torch.zeros_like(power), torch.zeros_like(power)
    spun = []
    for i, (ahead, aside) in enumerate(wheel_places(config)):
        front = i < 2
        wx, wy = wheels[i]
        cos, sin = turned[0 if front else 1]
        rolling, sideways = wx * cos + wy * sin, wy * cos - wx * sin
        spin = spins[i] if front else powered_spin(config, spins[i], power, dt)
        spin = braked_spin(spin, pedals.grab, pedals.free)
        along, across = tyre_force(config, rolling, sideways, spin, limits[i])
        spun.append(spin - (dt * config.wheel_radius / config.wheel_inertia) * along)
        along, across = along * cos - across * sin, along * sin + across * cos
        fx, fy = fx + along, fy + across
        torque = torque + ahead * across - aside * along
    return spun, fx, fy, torque


def wheel_limits(config: VehicleConfig, grip: Tensor, mu: Tensor) -> tuple[Tensor, ...]:
    """Friction limit of each wheel, (B, N) each, for grip (B, N) or (B, N, 4)."""
    each = grip if grip.dim() == 3 else grip.unsqueeze(-1)
    limit = each * (mu * (config.mass * config.gravity / 4.0)).unsqueeze(-1)
    return limit.clamp(min=1e-6).expand(*limit.shape[:2], 4).unbind(-1)


def move_four_wheel(
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
    """Advance `substeps` physics steps; arguments as in `dynamic.move_dynamic`."""
    throttle, brake = pedals
    free = (brake < config.lock_brake).to(brake.dtype)
    braking = Pedals(grab=brake * (config.brake_spin * params["brake"]), free=free)
    limits = wheel_limits(config, grip, params["mu"])
    inverse_mass = 1.0 / params["mass"]
    inverse_inertia = inverse_mass * (config.mass / config.yaw_inertia)
    recoil = 2.0 * _WHEEL_YAW_INERTIA / config.yaw_inertia
    orbit = sum(_WHEEL_MASS * (a * a + b * b) for a, b in wheel_places(config)) / config.yaw_inertia
    follow = lag_share(params["steer_lag"], dt)

    x, y, heading, gas = state["x"], state["y"], state["heading"], state["gas"]
    vx, vy, r, delta = state["vx"], state["vy"], state["yaw_rate"], state["steer"]
    turn, press, spins = state["turn"], state["press"], list(state["spin"].unbind(-1))
    rear = state["rear"]
    cos, sin = torch.cos(heading), torch.sin(heading)
    sum_ax, sum_ay = torch.zeros_like(x), torch.zeros_like(x)
    for _ in range(substeps):
        gas = gas + (throttle - gas).clamp(max=config.gas_rate)
        power = gas * (config.engine_power * params["engine"])
        held = hold_back(config, (vx, vy), (r * torch.cos(dt * r), r * torch.sin(dt * r)))
        spins, fx, fy, torque = wheel_forces(
            config, held.wheels, (delta, rear), spins, power, braking, limits, dt
        )
        before = turn
        aim = delta + (target - delta) * follow
        delta, turn, press = steer_joint(config, delta, aim, press, dt)
        rear = rear - dt * (rear * _MOTOR_GAIN).clamp(-config.steer_rate, config.steer_rate)
        ax, ay = fx * inverse_mass - slope * config.gravity, fy * inverse_mass
        # A wheel that starts to turn pushes the body back; its way round the corner is cut short.
        r = r - held.yaw - recoil * (turn - before) - orbit * r * (1.0 - torch.cos(dt * r))
        r = r + dt * torque * inverse_inertia
        vx, vy = vx - held.forward + dt * ax, vy - held.left + dt * ay
        east, north = cos * vx - sin * vy, sin * vx + cos * vy
        held = hold_back(config, (vx, vy), (r, torch.zeros_like(r)))
        ahead, aside = vx - held.forward, vy - held.left
        x, y = x + dt * (cos * ahead - sin * aside), y + dt * (sin * ahead + cos * aside)
        heading = heading + dt * (r - held.yaw)
        cos, sin = torch.cos(heading), torch.sin(heading)
        vx, vy = cos * east + sin * north, cos * north - sin * east
        sum_ax, sum_ay = sum_ax + ax, sum_ay + ay
    moved = {"x": x, "y": y, "heading": heading, "vx": vx, "vy": vy, "yaw_rate": r, "steer": delta}
    mean = {"ax": sum_ax * (1.0 / substeps), "ay": sum_ay * (1.0 / substeps)}
    joints = {"turn": turn, "press": press, "rear": rear}
    return moved | mean | joints | {"spin": torch.stack(spins, dim=-1), "gas": gas}
