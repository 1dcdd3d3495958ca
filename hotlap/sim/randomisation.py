"""Drawing an episode's own car and camera from their ranges."""

import torch
from torch import Tensor

from hotlap.config.randomisation import RandomisationConfig, Range
from hotlap.config.vehicles import VehicleConfig
from hotlap.sim.random import Stream, make_key, uniform
from hotlap.sim.vehicles.model import vehicle_params


def _spread(draw: Tensor, limits: Range) -> Tensor:
    low, high = limits
    return low + (high - low) * draw


def draw_vehicle(
    ranges: RandomisationConfig, vehicle: VehicleConfig, key: Tensor
) -> dict[str, Tensor]:
    """Parameters of each environment's vehicles (B, 1), for keys (B,)."""
    params = vehicle_params(vehicle, len(key), key.device)
    draws = uniform(make_key(key, Stream.VEHICLE), 6).unsqueeze(-1).unbind(1)  # each (B, 1)
    steps = ranges.delay[1] - ranges.delay[0] + 1
    delay = ranges.delay[0] + torch.floor(draws[5] * steps)
    return params | {
        "mu": params["mu"] * _spread(draws[0], ranges.friction),
        "mass": params["mass"] * _spread(draws[1], ranges.mass),
        "engine": params["engine"] * _spread(draws[2], ranges.engine),
        "steer_offset": torch.deg2rad(_spread(draws[3], ranges.steering_offset)),
        "steer_lag": params["steer_lag"] + _spread(draws[4], ranges.steering_lag),
        "delay_steps": params["delay_steps"] + delay,
    }


def draw_camera(ranges: RandomisationConfig, key: Tensor) -> dict[str, Tensor]:
    """How each environment's camera differs from the configured one (B,), for keys (B,)."""
    draws = uniform(make_key(key, Stream.CAMERA), 6).unbind(-1)
    return {
        "up": _spread(draws[0], ranges.camera_up),
        "pitch": torch.deg2rad(_spread(draws[1], ranges.camera_pitch)),
        "yaw": torch.deg2rad(_spread(draws[2], ranges.camera_yaw)),
        "zoom": _spread(draws[3], ranges.camera_zoom),
        "noise": _spread(draws[4], ranges.noise),
        "blur": _spread(draws[5], ranges.blur),
    }
