"""Engine, brakes and resistance, per unit of mass, shared by the single-track models.

B environments, N cars. SI units.
    v     forward speed, m/s                                   (B, N)
    pull  acceleration asked for by the throttle at standstill (B, N)
    grab  deceleration asked for by brakes and rolling         (B, N)
"""

from __future__ import annotations

import itertools
import math

import torch
from torch import Tensor

from hotlap.config.vehicles import VehicleConfig

# The limiter takes the force away over the last 5 % of the top speed.
_LIMITER_SPAN = 0.05


def engine_share(config: VehicleConfig, v: Tensor) -> Tensor | float:
    """Share of the engine's force that is left at speed `v`."""
    share: Tensor | float = 1.0
    speed = v.abs()
    if config.engine_knots:
        share = _knot_share(config.engine_knots, speed)
    if config.power_speed < math.inf:
        share = share * (config.power_speed / speed.clamp(min=config.power_speed))
    if config.top_speed < math.inf:
        slope = 1.0 / (_LIMITER_SPAN * config.top_speed)
        share = share * (config.top_speed * slope - speed * slope).clamp(0.0, 1.0)
    return share


def _knot_share(knots: tuple[tuple[float, float, float], ...], speed: Tensor) -> Tensor:
    """Cubic Hermite curve through (speed, share, slope); constant beyond both ends.

    Each piece is added on its own clamped coordinate, so no piece has to be selected.
    """
    total = torch.full_like(speed, knots[0][1])
    for (a, fa, da), (b, fb, db) in itertools.pairwise(knots):
        span = b - a
        t = ((speed - a) * (1.0 / span)).clamp(0.0, 1.0)
        linear = span * da
        square = 3 * (fb - fa) - span * (2 * da + db)
        cube = 2 * (fa - fb) + span * (da + db)
        total = total + ((t * cube + square) * t + linear) * t
    return total


def rolling_mass(config: VehicleConfig, params: dict[str, Tensor]) -> Tensor:
    """Mass that the engine has to speed up: the vehicle's and its wheels' share, (B, 1)."""
    return params["mass"] + config.wheel_mass


def drive_demand(
    config: VehicleConfig, throttle: Tensor, brake: Tensor, params: dict[str, Tensor]
) -> tuple[Tensor, Tensor]:
    """What the pedals ask for: `pull` and `grab`, both (B, N), m/s2."""
    inverse = 1.0 / rolling_mass(config, params)
    pull = throttle * (config.engine_force * params["engine"] * inverse)
    grab = brake * (config.brake_force * params["brake"] * inverse)
    return pull, grab + config.rolling_force * inverse


def creep_speed(config: VehicleConfig, dt: float) -> float:
    """Speed below which brakes fade in proportion, so that they stop the car and no more, m/s.

    Twice what the strongest nominal braking takes off in one step: it leaves room for randomised
    brakes and masses.
    """
    strongest = (config.brake_force + config.rolling_force) / (config.mass + config.wheel_mass)
    return 2.0 * max(strongest, 1e-3) * dt


def resistance(config: VehicleConfig, params: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Damping of the wheels' and of the body's forward speed, both (B, 1), 1/s."""
    inverse = params["drag"] / rolling_mass(config, params)
    return config.wheel_damping * inverse, config.drag * params["mass"] * inverse
