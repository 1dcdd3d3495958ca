"""The solver's limits agree with paper and with the simulated car."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hotlap.config.vehicles import VEHICLES, find_vehicle
from hotlap.sim.vehicles import limits

from .rollout import drive, start

DONKEY = find_vehicle("donkey")


def test_the_donkey_car_by_hand() -> None:
    assert limits.lateral_limit(DONKEY) == pytest.approx(4.905)
    assert float(limits.drive_acceleration(DONKEY, 0.0)) == pytest.approx(156.25 / 60)
    # Half the force is left at 40 u/s = 5 m/s and beyond.
    assert limits.drive_acceleration(DONKEY, [5.0, 9.0]) == pytest.approx(
        [1.3047, 1.3047], rel=1e-3
    )
    assert float(limits.drag_deceleration(DONKEY, 2.0)) == pytest.approx(2 * 12.2656 / 60, rel=1e-4)
    assert float(limits.braking_deceleration(DONKEY, 3.0)) == pytest.approx(2.604, rel=1e-3)
    assert limits.top_speed(DONKEY) == pytest.approx(6.38, rel=2e-3)
    assert limits.min_radius(DONKEY) == pytest.approx(0.2002 / math.tan(math.radians(16)))


@pytest.mark.parametrize("name", ["donkey", "f1tenth", "trackmania"])
def test_the_simulated_car_accelerates_and_brakes_as_its_limits_say(name: str) -> None:
    config = find_vehicle(name)
    first = [share * limits.top_speed(config) for share in (0.1, 0.3, 0.5, 0.7)]
    for pedal, sign in (("throttle", 1.0), ("brake", -1.0)):
        # One step lets the load move; the next is measured, at the speed it begins with.
        state = drive(config, start(config, speed=first), 1, **{pedal: 1.0})
        speeds = state["vx"].flatten().numpy()
        found = drive(config, state, 1, **{pedal: 1.0})["ax"].flatten().numpy()
        gain = limits.drive_acceleration if pedal == "throttle" else limits.braking_deceleration
        expected = sign * gain(config, speeds) - limits.drag_deceleration(config, speeds)
        np.testing.assert_allclose(found, expected, rtol=0.03)


def test_carracings_car_gains_nothing_beyond_box2ds_speed_limit() -> None:
    car = find_vehicle("carracing")
    assert limits.top_speed(car) == pytest.approx(100.0)
    assert limits.drive_acceleration(car, [99.0, 101.0]).tolist() == [pytest.approx(27, rel=0.3), 0]


def test_a_unicycle_turns_on_the_spot_and_stops_gaining_at_its_top_speed() -> None:
    robot = find_vehicle("turtlebot")
    assert limits.min_radius(robot) < 1e-6
    assert float(limits.max_curvature(robot, 0.22)) == pytest.approx(2.84 / 0.22)
    assert limits.top_speed(robot) == pytest.approx(0.22)


def test_the_carracing_car_is_held_by_the_grip_of_its_rear_wheels() -> None:
    car = find_vehicle("carracing")
    assert float(limits.drive_acceleration(car, 0.0)) == pytest.approx(800 / 7.302)
    assert float(limits.braking_deceleration(car, 30.0)) == pytest.approx(1600 / 7.302)


@pytest.mark.parametrize("name", sorted(VEHICLES))
def test_limits_have_the_shape_of_the_speeds(name: str) -> None:
    config, speeds = find_vehicle(name), np.linspace(0.0, 5.0, 7)
    for limit in (limits.drive_acceleration, limits.braking_deceleration,
                  limits.drag_deceleration, limits.max_curvature):  # fmt: skip
        values = limit(config, speeds)
        assert values.shape == (7,)
        assert (values >= 0).all()
