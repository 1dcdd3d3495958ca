"""Single-track car that rolls without slip, within a friction circle.

B environments, N cars. SI units; angles counter-clockwise positive. All tensors (B, N).
    vx     forward speed, the same at the rear axle and at the centre of mass, m/s
    r      yaw rate, rad/s
    limit  mu g, the largest acceleration the tyres can give, m/s2

The rear axle moves along the body, so its acceleration is (dvx/dt, vx r): those are `ax` and `ay`.
Turning is served first: vx r is capped at the limit (the car runs wide), and engine and brakes get
what the circle leaves.
"""

from __future__ import annotations

import torch
from torch import Tensor

from hotlap.config.vehicles import VehicleConfig
from hotlap.sim.vehicles.actuation import follow_target, lag_share
from hotlap.sim.vehicles.drive import creep_speed, drive_demand, engine_share, resistance


def turn_and_left(curvature: Tensor, vx: Tensor, limit: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Yaw rate within the limit, the sideways acceleration, and what is left for speed."""
    wanted = vx * vx * curvature
    kept = limit / torch.maximum(wanted.abs(), limit)
    ay = wanted * kept
    left = torch.sqrt((limit * limit - ay * ay).clamp(min=0.0))
    return vx * curvature * kept, ay, left


def move_kinematic(
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
    pull, grab = drive_demand(config, *pedals, params)
    limit = (grip * (params["mu"] * config.gravity)).clamp(min=1e-6)
    climb = slope * config.gravity
    creep = creep_speed(config, dt)
    grab = grab * (1.0 / creep)
    follow = lag_share(params["steer_lag"], dt)
    damping, drag = resistance(config, params)
    air = (config.air_drag * params["drag"]) / params["mass"]

    x, y, heading = state["x"], state["y"], state["heading"]
    vx, delta = state["vx"], state["steer"]
    sum_ax, sum_ay = torch.zeros_like(x), torch.zeros_like(x)
    for _ in range(substeps):
        delta = follow_target(config, delta, target, follow, dt)
        curvature = torch.tan(delta) * (1.0 / config.wheelbase)
        _, ay, left = turn_and_left(curvature, vx, limit)
        push = pull * engine_share(config, vx) - grab * vx.clamp(-creep, creep)
        push = torch.minimum(torch.maximum(push - damping * vx, -left), left)
        ax = push - drag * vx - climb
        if config.air_drag > 0:
            ax = ax - air * vx * vx.abs()
        vx = vx + dt * ax
        r, _, _ = turn_and_left(curvature, vx, limit)
        vy = config.lr * r
        middle = heading + (0.5 * dt) * r
        cos, sin = torch.cos(middle), torch.sin(middle)
        x = x + dt * (cos * vx - sin * vy)
        y = y + dt * (sin * vx + cos * vy)
        heading = heading + dt * r
        sum_ax, sum_ay = sum_ax + ax, sum_ay + ay
    return {
        "x": x,
        "y": y,
        "heading": heading,
        "vx": vx,
        "vy": vy,
        "yaw_rate": r,
        "steer": delta,
        "ax": sum_ax * (1.0 / substeps),
        "ay": sum_ay * (1.0 / substeps),
    }
