"""The way into the vehicle models: a state to begin with, parameters to vary, and one step.

B environments, N vehicles. SI units; angles counter-clockwise positive.
A state is a flat dict; these keys are there for every vehicle, all (B, N) unless noted:
    x, y       position of the centre of mass, m
    heading    direction of the nose, rad, not wrapped
    vx, vy     velocity in the body frame, forward and left, m/s
    yaw_rate   rad/s
    steer      actual wheel angle, rad
    ax, ay     acceleration in the body frame, mean over the last control step, m/s2
    pending    commands on their way, the latest first   (B, N, D, 3)
A four_wheel car adds `spin` (B, N, 4), `gas`, `turn`, `press` and `rear`; see its
module.
"""

from __future__ import annotations

import torch
from torch import Tensor

from hotlap.config.vehicles import VehicleConfig
from hotlap.sim.vehicles.actuation import delay_command, split_command, steer_target
from hotlap.sim.vehicles.dynamic import move_dynamic
from hotlap.sim.vehicles.four_wheel import four_wheel_extras, move_four_wheel
from hotlap.sim.vehicles.kinematic import move_kinematic
from hotlap.sim.vehicles.unicycle import move_unicycle

_MOVES = {
    "kinematic": move_kinematic,
    "dynamic": move_dynamic,
    "four_wheel": move_four_wheel,
    "unicycle": move_unicycle,
}


def initial_state(
    config: VehicleConfig, x: Tensor, y: Tensor, heading: Tensor, speed: Tensor
) -> dict[str, Tensor]:
    """Vehicles rolling straight ahead at `speed` with an empty queue; arguments are (B, N)."""
    zero = torch.zeros_like(x)
    state = {
        "x": x,
        "y": y,
        "heading": heading,
        "vx": speed,
        "vy": zero,
        "yaw_rate": zero,
        "steer": zero,
        "ax": zero,
        "ay": zero,
        "pending": x.new_zeros(*x.shape, config.max_delay_steps, 3),
    }
    if config.model == "four_wheel":
        state |= four_wheel_extras(config, speed)
    return state


def vehicle_params(
    config: VehicleConfig, batch: int, device: torch.device | str = "cpu"
) -> dict[str, Tensor]:
    """What randomisation may vary, at its nominal value, each (B, 1) float32.

    mu: friction coefficient. mass: kg; inertia follows it. engine, brake, drag: multiples of the
    nominal force or resistance. steer_gain: multiple of the nominal steering. steer_offset: rad.
    steer_lag: s. delay_steps: whole control steps, at most the queue's length.
    """
    nominal = {
        "mu": config.mu,
        "mass": config.mass,
        "engine": 1.0,
        "brake": 1.0,
        "drag": 1.0,
        "steer_gain": 1.0,
        "steer_offset": 0.0,
        "steer_lag": config.steer_lag,
        "delay_steps": float(config.delay_steps),
    }
    return {
        name: torch.full((batch, 1), value, dtype=torch.float32, device=device)
        for name, value in nominal.items()
    }


def advance(
    config: VehicleConfig,
    state: dict[str, Tensor],
    command: Tensor,
    params: dict[str, Tensor],
    grip: Tensor,
    slope: Tensor,
    dt: float,
    substeps: int,
) -> dict[str, Tensor]:
    """The state one control step later.

    Args:
        config: The vehicle; a constant under torch.compile.
        state: As made by `initial_state` or by this function; it is not changed.
        command: Steer, throttle and brake, (B, N, 3).
        params: As made by `vehicle_params`, perhaps varied.
        grip: Multiplies mu, (B, N); for a four_wheel car also (B, N, 4): front left, front right,
            rear left, rear right.
        slope: Sine of the road's pitch along the heading, uphill positive, (B, N).
        dt: Length of a physics step, usually `config.physics_dt`, s.
        substeps: Physics steps in this control step, usually `config.substeps`.
    """
    active, pending = delay_command(command, state["pending"], params["delay_steps"])
    steer, throttle, brake = split_command(config, active)
    target = steer_target(config, steer, params)
    move = _MOVES[config.model]
    moved = move(config, state, (throttle, brake), target, params, grip, slope, dt, substeps)
    return moved | {"pending": pending}
