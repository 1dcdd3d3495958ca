"""What a vehicle can do at a given speed, for the lap-time solver.

SI units. `speed` is a float or a NumPy array, and the answer has its shape. Surface grip is 1, the
road flat. These are the limits of a point mass with a friction circle: the sum of the axles' grip,
without load transfer.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from hotlap.config.vehicles import VehicleConfig
from hotlap.sim.vehicles.drive import engine_share

Speeds = NDArray[np.float64]

# The bisection for the top speed starts here: faster than any vehicle, m/s.
_FASTEST = 1000.0


def lateral_limit(config: VehicleConfig) -> float:
    """Largest acceleration the tyres can give in any direction, mu g, m/s2."""
    return config.mu * config.gravity


def drive_acceleration(config: VehicleConfig, speed: ArrayLike) -> Speeds:
    """Acceleration at full throttle within the grip, before drag, m/s2."""
    v = np.abs(np.asarray(speed, dtype=np.float64))
    grip = lateral_limit(config)
    if config.model == "unicycle":
        return np.where(v < config.top_speed, min(config.max_acceleration, grip), 0.0)
    if config.model == "four_wheel":
        # Two driven wheels, half the grip; all four have to be spun up.
        spin = v / config.wheel_radius
        force = 2.0 * config.engine_power / (config.wheel_radius * (spin + 5.0))
        moved = config.mass + 4.0 * config.wheel_inertia / config.wheel_radius**2
        return np.where(v < config.top_speed, np.minimum(force / moved, 0.5 * grip), 0.0)
    share = engine_share(config, torch.as_tensor(v))
    share = share.numpy() if isinstance(share, torch.Tensor) else np.full_like(v, share)
    pull = config.engine_force / (config.mass + config.wheel_mass) * share
    return np.minimum(pull, grip)


def braking_deceleration(config: VehicleConfig, speed: ArrayLike) -> Speeds:
    """Deceleration at full brake within the grip, without drag, m/s2."""
    v = np.asarray(speed, dtype=np.float64)
    grip = lateral_limit(config)
    if config.model == "unicycle":
        most = min(config.max_acceleration, grip)
    elif config.model == "four_wheel":
        most = grip
    else:
        most = min(config.brake_force / (config.mass + config.wheel_mass), grip)
    return np.full_like(v, most)


def drag_deceleration(config: VehicleConfig, speed: ArrayLike) -> Speeds:
    """Deceleration by rolling and air with no pedal pressed, m/s2."""
    v = np.abs(np.asarray(speed, dtype=np.float64))
    if config.model in ("unicycle", "four_wheel"):
        return np.zeros_like(v)
    linear = config.wheel_damping + config.drag * config.mass
    rolling = (linear * v + config.rolling_force) / (config.mass + config.wheel_mass)
    return rolling + config.air_drag * v * v / config.mass


def max_curvature(config: VehicleConfig, speed: ArrayLike) -> Speeds:
    """Largest curvature of the rear axle's path by steering alone, without the grip limit, 1/m."""
    v = np.abs(np.asarray(speed, dtype=np.float64))
    if config.model == "unicycle":
        return config.max_yaw_rate / np.maximum(v, 1e-9)
    return np.full_like(v, math.tan(config.max_steer) / config.wheelbase)


def min_radius(config: VehicleConfig) -> float:
    """Smallest radius of the rear axle's path, m; a unicycle turns on the spot."""
    return 1.0 / float(max_curvature(config, 0.0))


def top_speed(config: VehicleConfig) -> float:
    """Speed at which drag eats the whole drive, m/s; infinite where nothing stops the car."""
    low, high = 0.0, min(_FASTEST, config.top_speed)
    if drive_acceleration(config, high) > drag_deceleration(config, high):
        return config.top_speed
    for _ in range(60):
        middle = 0.5 * (low + high)
        gains = drive_acceleration(config, middle) > drag_deceleration(config, middle)
        low, high = (middle, high) if gains else (low, middle)
    return low
