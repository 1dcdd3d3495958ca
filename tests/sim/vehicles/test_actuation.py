"""Commands reach the wheels late, lagged, limited and offset, exactly as configured."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch

from hotlap.config.vehicles import VehicleConfig, find_vehicle
from hotlap.sim.vehicles.actuation import delay_command
from hotlap.sim.vehicles.model import advance, initial_state, vehicle_params

from .rollout import column, drive, start

DONKEY = find_vehicle("donkey")


@pytest.mark.parametrize("delay", [0, 1, 2, 3])
def test_a_delay_of_k_steps_delays_exactly_k(delay: int) -> None:
    state, zero = start(DONKEY), column(0.0)
    params = vehicle_params(DONKEY, 1) | {"delay_steps": column(float(delay))}
    angles = []
    for step in range(6):
        command = torch.tensor([[[0.1 * (step + 1), 0.0, 0.0]]])
        state = advance(DONKEY, state, command, params, zero + 1, zero, 0.01, 5)
        angles.append(state["steer"].item() / DONKEY.max_steer)
    expected = [0.0] * delay + [0.1 * (k + 1) for k in range(6 - delay)]
    assert angles == pytest.approx(expected, abs=1e-6)


def test_each_environment_has_its_own_delay() -> None:
    command = torch.full((3, 1, 3), 9.0)
    pending = torch.tensor([1.0, 2.0]).view(1, 1, 2, 1).expand(3, 1, 2, 3)
    active, queue = delay_command(command, pending, column([0.0, 1.0, 2.0]))
    assert active[:, 0, 0].tolist() == [9.0, 1.0, 2.0]
    assert queue[0, 0, :, 0].tolist() == [9.0, 1.0]


def test_no_queue_is_kept_for_a_vehicle_without_delay() -> None:
    config = dataclasses.replace(DONKEY, max_delay_steps=0)
    state = drive(config, start(config), 1, steer=1.0)
    assert state["pending"].shape == (1, 1, 0, 3)
    assert state["steer"].item() == pytest.approx(config.max_steer)


def test_the_configured_delay_is_rounded_to_control_steps() -> None:
    config = dataclasses.replace(DONKEY, actuation_delay=0.1)
    assert vehicle_params(config, 2)["delay_steps"].tolist() == [[2.0], [2.0]]  # 0.1 / 0.05


def test_after_one_time_constant_the_wheels_are_63_percent_there() -> None:
    config = dataclasses.replace(DONKEY, steer_lag=0.2)
    state = drive(config, start(config), 4, steer=1.0)  # 4 * 0.05 = 0.2 s
    assert state["steer"].item() == pytest.approx((1 - math.exp(-1)) * config.max_steer, rel=1e-4)


def test_the_wheels_turn_no_faster_than_their_rate() -> None:
    config = dataclasses.replace(DONKEY, steer_rate=1.0)
    state = drive(config, start(config), 2, steer=-1.0)
    assert state["steer"].item() == pytest.approx(-0.1, rel=1e-5)  # 1 rad/s for 0.1 s


def test_an_offset_shifts_the_wheels_but_not_past_their_stop() -> None:
    params = vehicle_params(DONKEY, 1) | {"steer_offset": column(0.05)}
    assert drive(DONKEY, start(DONKEY), 1, params=params)["steer"].item() == pytest.approx(0.05)
    turned = drive(DONKEY, start(DONKEY), 1, steer=1.0, params=params)
    assert turned["steer"].item() == pytest.approx(DONKEY.max_steer)


def test_without_reverse_negative_throttle_does_nothing() -> None:
    forward_only = dataclasses.replace(DONKEY, reverse=0.0)
    assert drive(forward_only, start(DONKEY), 20, throttle=-1.0)["vx"].item() == 0.0
    assert drive(DONKEY, start(DONKEY), 20, throttle=-1.0)["vx"].item() == pytest.approx(
        -2.34, rel=0.01
    )  # the donkey table, mirrored


@pytest.mark.parametrize("name", ["donkey", "f1tenth", "trackmania", "carracing", "turtlebot"])
def test_every_vehicle_keeps_the_common_keys_and_shapes(name: str) -> None:
    config: VehicleConfig = find_vehicle(name)
    zero = torch.zeros(3, 2)
    state = initial_state(config, zero, zero, zero, zero + 1)
    moved = drive(config, state, 2, steer=0.3, throttle=0.5)
    assert moved.keys() == state.keys()
    for key, value in state.items():
        assert moved[key].shape == value.shape, key
        assert moved[key].dtype == torch.float32, key
        assert torch.isfinite(moved[key]).all(), key
