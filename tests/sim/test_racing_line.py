"""Quick lines and speed profiles."""

import math

import numpy as np
import pytest

from hotlap.config.vehicles import find_vehicle
from hotlap.sim.box_programme import solve_box_programme
from hotlap.sim.lap_records import lap_limit, racing_line
from hotlap.sim.racing_line import centre_time, quick_line, sample_road, slower_line
from hotlap.sim.speed_profile import LineShape, limits_of, slip_of_force, speed_profile
from hotlap.sim.tracks import find_track

CAR = limits_of(find_vehicle("donkey"))


def test_limits_of_the_donkey_are_those_of_its_engine_and_tyres() -> None:
    assert CAR.grip == pytest.approx(0.5 * 9.81)
    assert CAR.push[0] == pytest.approx(156.25 / 60)
    assert CAR.max_curvature == pytest.approx(math.tan(math.radians(16)) / 0.2002)


def test_a_turtlebot_has_no_lap_limit() -> None:
    with pytest.raises(ValueError, match="kinematic and dynamic"):
        limits_of(find_vehicle("turtlebot"))


def test_slip_inverts_the_tyre() -> None:
    slip = np.array([0.0, 0.3, 0.6, 1.0])
    assert slip_of_force(slip + slip**2 - slip**3) == pytest.approx(slip, abs=1e-3)


def test_a_constant_bend_is_driven_at_the_limit_of_grip() -> None:
    shape = LineShape(np.full(50, 1.0), np.full(50, 0.1), np.ones(50), np.zeros(50), closed=True)
    speed, time = speed_profile(shape, CAR)
    assert speed == pytest.approx(math.sqrt(CAR.grip), rel=0.02)
    assert time == pytest.approx(5.0 / math.sqrt(CAR.grip), rel=0.02)


def test_a_box_programme_matches_its_solution_by_hand() -> None:
    # 1/2 |x|^2 - 2 sum(x) wants x = 2; the box stops half of them at 1
    high = np.where(np.arange(8) % 2, 1.0, 5.0)
    found = solve_box_programme(
        {0: np.ones(8)}, np.full(8, -2.0), np.full(8, -5.0), high, closed=True
    )
    assert found == pytest.approx(np.minimum(2.0, high), abs=1e-3)


@pytest.mark.parametrize("name", ["circuit:0", "circuit:1", "warehouse"])
def test_a_quick_line_stays_on_the_road_and_beats_its_middle(name: str) -> None:
    track = find_track(name)
    line = quick_line(track, CAR)
    road = sample_road(track, 0.2, CAR.half_width)
    assert np.all(line.n <= road.high + 1e-6) and np.all(line.n >= road.low - 1e-6)
    assert line.time < centre_time(track, CAR)


@pytest.mark.parametrize("name", ["waveshare", "warren", "generated_track"])
def test_a_quick_line_comes_within_some_percent_of_the_limit(name: str) -> None:
    record = lap_limit(name)
    assert record is not None
    assert record.time < quick_line(find_track(name), CAR).time < 1.06 * record.time


def test_less_grip_is_slower_along_the_same_path() -> None:
    track = find_track("waveshare")
    line = racing_line(track)
    slower = slower_line(track, line, CAR, 0.8)
    assert np.array_equal(slower.n, line.n)
    assert slower.time > 1.05 * line.time


def test_an_unknown_track_gets_a_quick_line() -> None:
    assert lap_limit("circuit:3") is None
    track = find_track("circuit:3")
    assert racing_line(track).time == quick_line(track, CAR).time
