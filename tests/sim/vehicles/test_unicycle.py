"""The robot follows speed and turn-rate commands within its limits."""

from __future__ import annotations

import dataclasses
import math

import pytest

from hotlap.config.vehicles import find_vehicle

from .rollout import drive, start

ROBOT = find_vehicle("turtlebot")


def test_full_commands_end_at_full_speed_and_turn_rate() -> None:
    state = drive(ROBOT, start(ROBOT), 50, steer=1.0, throttle=1.0)
    assert state["vx"].item() == pytest.approx(0.22, rel=1e-4)
    assert state["yaw_rate"].item() == pytest.approx(2.84, rel=1e-4)
    assert state["ay"].item() == pytest.approx(0.22 * 2.84, rel=1e-3)


def test_speed_and_turn_rate_follow_with_their_time_constants() -> None:
    state = drive(ROBOT, start(ROBOT), 1, steer=1.0, throttle=1.0)  # 0.1 s, one time constant
    assert state["vx"].item() == pytest.approx((1 - math.exp(-1)) * 0.22, rel=1e-3)
    assert state["yaw_rate"].item() == pytest.approx((1 - math.exp(-1)) * 2.84, rel=1e-3)


def test_speed_changes_no_faster_than_its_limit() -> None:
    slow = dataclasses.replace(ROBOT, max_acceleration=0.5)
    assert drive(slow, start(slow), 1, throttle=1.0)["vx"].item() == pytest.approx(0.05)


def test_it_turns_on_the_spot_drives_backwards_and_brakes() -> None:
    turned = drive(ROBOT, start(ROBOT), 20, steer=1.0)
    assert (turned["x"].item(), turned["y"].item()) == (0.0, 0.0)
    assert turned["heading"].item() > 5.0
    assert drive(ROBOT, start(ROBOT), 20, throttle=-1.0)["x"].item() < -0.3
    braked = drive(ROBOT, start(ROBOT, speed=0.22), 20, throttle=1.0, brake=1.0)
    assert abs(braked["vx"].item()) < 1e-5
