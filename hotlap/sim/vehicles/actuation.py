"""From a driver's command to what the actuators do: delay, steering offset, lag and rate limit.

B environments, N vehicles, D slots of delay.
    command  steer [-1, 1] left positive, throttle [-1, 1], brake [0, 1]   (B, N, 3)
    pending  commands given before this one, the latest first              (B, N, D, 3)
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from hotlap.config.vehicles import VehicleConfig

# exp(-20) is nothing beside 1 in float32; larger exponents end in denormals, which are slow.
_LONGEST_WAIT = 20.0


def delay_command(command: Tensor, pending: Tensor, delay_steps: Tensor) -> tuple[Tensor, Tensor]:
    """The command that takes effect now, and the queue for the next step.

    Args:
        command: The command given now, (B, N, 3).
        pending: Earlier commands, the latest first, (B, N, D, 3).
        delay_steps: Whole control steps of delay between 0 and D, (B, 1).
    """
    slots = pending.shape[-2]
    if slots == 0:
        return command, pending
    queue = torch.cat([command.unsqueeze(-2), pending], dim=-2)  # (B, N, D + 1, 3)
    index = delay_steps.round().clamp(0, slots).long()
    index = index[:, :, None, None].expand(*command.shape[:2], 1, 3)
    # Contiguous, as the first queue is: a compiled step would be compiled anew for other strides.
    return queue.gather(-2, index).squeeze(-2), queue[..., :slots, :].contiguous()


def split_command(config: VehicleConfig, command: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Steer, throttle and brake, each (B, N) and held to what the vehicle allows."""
    steer, throttle, brake = command.unbind(-1)
    throttle = throttle.clamp(-config.reverse, 1.0)
    return steer.clamp(-1.0, 1.0), throttle, brake.clamp(0.0, 1.0)


def steer_target(config: VehicleConfig, steer: Tensor, params: dict[str, Tensor]) -> Tensor:
    """Wheel angle that the command asks for, rad (B, N)."""
    angle = steer * (config.full_steer * params["steer_gain"]) + params["steer_offset"]
    reach = max(config.full_steer, config.max_steer)
    return angle.clamp(-reach, reach)


def lag_share(lag: Tensor, dt: float) -> Tensor:
    """Share of the remaining way that a first-order lag covers in `dt`, (B, 1)."""
    return 1.0 - torch.exp(-dt / lag.clamp(min=dt / _LONGEST_WAIT))


def follow_target(
    config: VehicleConfig, angle: Tensor, target: Tensor, share: Tensor, dt: float
) -> Tensor:
    """Wheel angle one physics step later, rad (B, N)."""
    change = (target - angle) * share
    if config.steer_rate < math.inf:
        change = change.clamp(-config.steer_rate * dt, config.steer_rate * dt)
    return angle + change
