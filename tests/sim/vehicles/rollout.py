"""Shared by the vehicle tests: start a batch and drive it with fixed commands."""

from __future__ import annotations

import torch
from torch import Tensor

from hotlap.config.vehicles import VehicleConfig
from hotlap.sim.vehicles.model import advance, initial_state, vehicle_params

State = dict[str, Tensor]


def column(values: list[float] | float, batch: int = 1) -> Tensor:
    """One vehicle per environment: (B, 1)."""
    if isinstance(values, float | int):
        values = [float(values)] * batch
    return torch.tensor(values, dtype=torch.float32).reshape(-1, 1)


def start(config: VehicleConfig, speed: list[float] | float = 0.0, batch: int = 1) -> State:
    """At the origin, looking along +x."""
    v = column(speed, batch)
    zero = torch.zeros_like(v)
    return initial_state(config, zero, zero, zero, v)


def drive(
    config: VehicleConfig,
    state: State,
    steps: int,
    steer: Tensor | float = 0.0,
    throttle: Tensor | float = 0.0,
    brake: Tensor | float = 0.0,
    params: State | None = None,
    grip: float = 1.0,
    slope: float = 0.0,
) -> State:
    """The state after `steps` control steps of the same command."""
    shape = state["x"].shape
    parts = [torch.as_tensor(part, dtype=torch.float32) for part in (steer, throttle, brake)]
    command = torch.stack([part.expand(shape) for part in parts], dim=-1)
    params = params or vehicle_params(config, shape[0])
    surface = torch.full(shape, grip)
    pitch = torch.full(shape, slope)
    for _ in range(steps):
        state = advance(
            config, state, command, params, surface, pitch, config.physics_dt, config.substeps
        )
    return state


def random_state(config: VehicleConfig, batch: int, fastest: float, seed: int = 0) -> State:
    """Any pose, speed, sideways speed, yaw rate and wheel angle."""
    g = torch.Generator().manual_seed(seed)

    def spread(size: float) -> Tensor:
        return (torch.rand(batch, 1, generator=g) * 2 - 1) * size

    state = initial_state(config, spread(10.0), spread(10.0), spread(3.0), spread(fastest))
    return state | {
        "vy": spread(0.5 * fastest),
        "yaw_rate": spread(fastest / config.wheelbase * 0.3),
        "steer": spread(config.max_steer),
    }


def random_command(config: VehicleConfig, batch: int, seed: int = 0) -> Tensor:
    """Uniform over all commands, (B, 1, 3)."""
    g = torch.Generator().manual_seed(seed)
    u = torch.rand(batch, 1, 3, generator=g)
    return u * torch.tensor([2.0, 2.0, 1.0]) - torch.tensor([1.0, 1.0, 0.0])
