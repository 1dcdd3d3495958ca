"""Drawing an episode's own car and camera from their ranges."""

from dataclasses import replace

import torch
from torch import Tensor

from hotlap.config.randomisation import RandomisationConfig, Range
from hotlap.config.vehicles import VehicleConfig
from hotlap.sim.random import Stream, make_key, uniform
from hotlap.sim.vehicles.model import vehicle_params


def _spread(draw: Tensor, limits: Range) -> Tensor:
    low, high = limits
    return low + (high - low) * draw


def differs(ranges: RandomisationConfig, key: Tensor, share: Tensor | None = None) -> Tensor | None:
    """Which episodes are randomised at all (B,) bool, for keys (B,); None where all are.

    A `share` () goes before that of the ranges.
    """
    if share is None and ranges.share == 1:
        return None
    drawn = uniform(make_key(key, Stream.PLAIN), 1).squeeze(-1)
    return drawn < (ranges.share if share is None else share)


def strangers(ranges: RandomisationConfig, key: Tensor, share: Tensor | None = None) -> Tensor:
    """1 for the episodes that are randomised, 0 for those as they are by themselves (B,)."""
    differ = differs(ranges, key, share)
    if differ is not None:
        return differ.to(torch.float32)
    randomised = replace(ranges, paint=0) != RandomisationConfig()
    return torch.full_like(key, float(randomised), dtype=torch.float32)


def _where(differ: Tensor | None, drawn: Tensor, plain: float) -> Tensor:
    """What was drawn, or where an episode does not differ, what is there by itself."""
    return drawn if differ is None else torch.where(differ, drawn, plain)


def draw_vehicle(
    ranges: RandomisationConfig, vehicle: VehicleConfig, key: Tensor, share: Tensor | None = None
) -> dict[str, Tensor]:
    """Parameters of each environment's vehicles (B, 1), for keys (B,)."""
    params = vehicle_params(vehicle, len(key), key.device)
    draws = uniform(make_key(key, Stream.VEHICLE), 6).unsqueeze(-1).unbind(1)  # each (B, 1)
    steps = ranges.delay[1] - ranges.delay[0] + 1
    delay = ranges.delay[0] + torch.floor(draws[5] * steps)
    differ = differs(ranges, key, share)
    differ = None if differ is None else differ.unsqueeze(-1)
    offset = torch.deg2rad(_spread(draws[3], ranges.steering_offset))
    return params | {
        "mu": params["mu"] * _where(differ, _spread(draws[0], ranges.friction), 1.0),
        "mass": params["mass"] * _where(differ, _spread(draws[1], ranges.mass), 1.0),
        "engine": params["engine"] * _where(differ, _spread(draws[2], ranges.engine), 1.0),
        "steer_offset": _where(differ, offset, 0.0),
        "steer_lag": params["steer_lag"]
        + _where(differ, _spread(draws[4], ranges.steering_lag), 0.0),
        "delay_steps": params["delay_steps"] + _where(differ, delay, 0.0),
    }


def draw_camera(
    ranges: RandomisationConfig, key: Tensor, share: Tensor | None = None
) -> dict[str, Tensor]:
    """How each environment's camera differs from the configured one (B,), for keys (B,)."""
    draws = uniform(make_key(key, Stream.CAMERA), 6).unbind(-1)
    differ = differs(ranges, key, share)
    return {
        "up": _where(differ, _spread(draws[0], ranges.camera_up), 1.0),
        "pitch": torch.deg2rad(_where(differ, _spread(draws[1], ranges.camera_pitch), 0.0)),
        "yaw": torch.deg2rad(_where(differ, _spread(draws[2], ranges.camera_yaw), 0.0)),
        "zoom": _where(differ, _spread(draws[3], ranges.camera_zoom), 1.0),
        "noise": _where(differ, _spread(draws[4], ranges.noise), 0.0),
        "blur": _where(differ, _spread(draws[5], ranges.blur), 0.0),
    }
