"""A robot that takes speed and turn-rate commands.

B environments, N robots. SI units; angles counter-clockwise positive. All tensors (B, N).
    vx     forward speed, m/s
    steer  the turn command after its lag, in units of `max_steer`: it scales `max_yaw_rate`

Both commands are followed with a first-order lag; the speed changes no faster than its limit and
the friction allow. Its motors hold any slope.
"""

from __future__ import annotations

import torch
from torch import Tensor

from hotlap.config.vehicles import VehicleConfig
from hotlap.sim.vehicles.actuation import follow_target, lag_share


def move_unicycle(
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
    """Advance `substeps` physics steps; arguments as in `dynamic.move_dynamic`.

    The brake scales the commanded speed down to 0.
    """
    throttle, brake = pedals
    wanted = throttle * (1.0 - brake) * (config.top_speed * params["engine"])
    follow = lag_share(params["steer_lag"], dt)
    speed_lag = torch.full_like(params["steer_lag"], config.speed_lag)
    speed_follow = lag_share(speed_lag, dt)
    limit = (grip * (params["mu"] * config.gravity)).clamp(max=config.max_acceleration)
    most = dt * limit
    turn = config.max_yaw_rate / config.max_steer

    x, y, heading = state["x"], state["y"], state["heading"]
    start, vx, steer = state["vx"], state["vx"], state["steer"]
    sum_ay = torch.zeros_like(x)
    for _ in range(substeps):
        steer = follow_target(config, steer, target, follow, dt)
        change = (wanted - vx) * speed_follow
        vx = vx + torch.minimum(torch.maximum(change, -most), most)
        r = steer * turn
        middle = heading + (0.5 * dt) * r
        x = x + dt * vx * torch.cos(middle)
        y = y + dt * vx * torch.sin(middle)
        heading = heading + dt * r
        sum_ay = sum_ay + vx * r
    return {
        "x": x,
        "y": y,
        "heading": heading,
        "vx": vx,
        "vy": torch.zeros_like(vx),
        "yaw_rate": r,
        "steer": steer,
        "ax": (vx - start) * (1.0 / (dt * substeps)),
        "ay": sum_ay * (1.0 / substeps),
    }
