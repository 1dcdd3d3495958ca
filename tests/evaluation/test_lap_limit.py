"""The lap limit against answers worked out on paper, and against the simulator."""

import json
import math
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hotlap.config.vehicles import find_vehicle
from hotlap.evaluation.lap_limit import (
    RESERVE,
    LimitConfig,
    as_point,
    drive_records,
    solve_line,
    solve_record,
)
from hotlap.evaluation.lap_programme import solve_road
from hotlap.sim.lap_records import FOLDER, TIMES, lap_limit, lap_times, limit_time, save_lap_times
from hotlap.sim.racing_line import centre_time, sample_road
from hotlap.sim.speed_profile import CarLimits, limits_of
from hotlap.sim.tracks import NAMES, find_track
from hotlap.sim.tracks.catalogue import mirrored
from hotlap.sim.tracks.selection import chosen_tracks
from hotlap.sim.tracks.track import Track


def point_car(push: float = 2.0, grip: float = 5.0, drag: float = 0.0) -> CarLimits:
    """A point mass with a constant engine and linear drag."""
    speed = np.linspace(0.0, 40.0, 81)
    car = as_point(limits_of(find_vehicle("donkey")))
    return replace(
        car,
        speed=speed,
        push=np.full(81, push),
        hold=np.full(81, 2 * push),
        drag=drag * speed,
        grip=grip,
        half_width=0.1,
    )


def circle(radius: float, half_width: float = 0.6) -> Track:
    angle = np.linspace(0, 2 * np.pi, 400, endpoint=False)
    xy = radius * np.column_stack([np.cos(angle), np.sin(angle)])
    width = np.full(400, half_width)
    return Track("circle", xy, width, width, np.zeros(400))


def strip(length: float, climb: float = 0.0) -> Track:
    x = np.linspace(0.0, length, 201)
    width = np.full(201, 0.105)  # with more room a weak engine would tack up the hill
    return Track("strip", np.column_stack([x, 0 * x]), width, width, climb * x, closed=False)


def ellipse(half_width: float = 0.6, grip: np.ndarray | None = None) -> Track:
    angle = np.linspace(0, 2 * np.pi, 4000, endpoint=False)
    dense = np.column_stack([5 * np.cos(angle), 2 * np.sin(angle)])
    along = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(dense, axis=0).T))])
    even = np.interp(np.linspace(0, along[-1], 300, endpoint=False), along, angle)
    xy = np.column_stack([5 * np.cos(even), 2 * np.sin(even)])
    width = np.full(300, half_width)
    return Track("ellipse", xy, width, width, np.zeros(300), grip=grip)


def limit(track: Track, car: CarLimits, spacing: float = 0.25) -> float:
    return solve_line(track, car, LimitConfig(spacing=spacing))[0].time


def test_a_circle_is_driven_along_its_inner_edge_at_the_limit_of_grip() -> None:
    inner = 3.0 - 0.6 + 0.1  # v^2 / r = grip, so the lap takes 2 pi sqrt(r / grip): least r wins
    assert limit(circle(3.0), point_car()) == pytest.approx(
        2 * math.pi * math.sqrt(inner / 5.0), 1e-3
    )


def test_a_drag_strip_takes_what_constant_acceleration_takes() -> None:
    assert limit(strip(25.0), point_car()) == pytest.approx(math.sqrt(2 * 25.0 / 2.0), rel=1e-4)


def test_linear_drag_follows_its_closed_form() -> None:
    # x(t) = push / drag (t - (1 - exp(-drag t)) / drag) with push 2, drag 0.5 is 25 m at t = 8.182
    seconds = limit(strip(25.0), point_car(drag=0.5), spacing=0.1)
    assert 4.0 * (seconds - 2.0 * (1 - math.exp(-0.5 * seconds))) == pytest.approx(25.0, rel=2e-3)


def test_a_hill_takes_its_share_of_gravity() -> None:
    pull = 2.0 - 9.81 * 0.1 / math.hypot(1.0, 0.1)
    seconds = limit(strip(25.0, climb=0.1), point_car())
    assert seconds == pytest.approx(math.sqrt(2 * 25.0 / pull), rel=1e-3)


def test_more_grip_and_a_wider_road_are_never_slower() -> None:
    car = limits_of(find_vehicle("donkey"))
    base = limit(ellipse(), car)
    assert limit(ellipse(), replace(car, grip=1.2 * car.grip)) < base
    assert limit(ellipse(half_width=0.8), car) < base
    assert limit(ellipse(), as_point(car)) < base


def test_ice_costs_time() -> None:
    car = limits_of(find_vehicle("donkey"))
    grip = np.where(np.arange(300) % 150 < 20, 0.3, 1.0)
    assert limit(ellipse(grip=grip), car) > limit(ellipse(), car)


def test_a_mirrored_track_takes_the_same_time() -> None:
    car = limits_of(find_vehicle("donkey"))
    track = find_track("waveshare")
    assert limit(track, car) == pytest.approx(limit(mirrored(track), car), rel=1e-4)


def test_the_solution_respects_every_limit() -> None:
    car = limits_of(find_vehicle("donkey"))
    track = find_track("waveshare")
    road = sample_road(track, 0.1, car.half_width)
    solved = solve_road(road, car)
    tolerance = 1e-3
    assert np.all(solved.n <= road.high + tolerance) and np.all(solved.n >= road.low - tolerance)
    speed = (solved.speed + np.roll(solved.speed, -1)) / 2
    assert np.all(solved.push <= np.interp(speed, car.speed, car.push) + 5e-3)
    assert np.all(-solved.push <= np.interp(speed, car.speed, car.hold) + 5e-3)
    assert np.all(np.abs(solved.slip) <= 1 + tolerance)
    _, line = solve_line(track, car, LimitConfig())
    assert np.abs(line.curvature).max() <= car.max_curvature + 0.02
    assert np.max(line.speed**2 * np.abs(line.curvature)) <= 1.04 * car.grip


def test_half_the_spacing_changes_the_time_by_less_than_a_fifth_of_a_percent() -> None:
    car = limits_of(find_vehicle("donkey"))
    for name in ("waveshare", "generated_track"):
        track = find_track(name)
        assert limit(track, car, 0.1) == pytest.approx(limit(track, car, 0.2), rel=2e-3)


def test_missing_casadi_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "casadi", None)
    with pytest.raises(ImportError, match=r"pip install hotlap\[limit\]"):
        limit(circle(3.0), point_car())


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="spacing must be positive"):
        LimitConfig(spacing=0.0)
    with pytest.raises(ValueError, match="too narrow"):
        limit(circle(3.0, half_width=0.05), point_car())


def test_every_named_track_has_its_limit_shipped_in_little_room() -> None:
    for name in NAMES:
        record = lap_limit(name)
        assert record is not None, f"solve it: python -m hotlap.evaluation.lap_limit {name}"
        track = find_track(name)
        assert record.length == pytest.approx(track.length, rel=1e-3)
        assert record.point_time <= record.time < record.centre_time
        assert record.centre_time == pytest.approx(
            centre_time(track, limits_of(find_vehicle("donkey"))), 1e-2
        )
    assert sum(path.stat().st_size for path in FOLDER.rglob("*.json")) < 300_000


def test_every_unseen_track_has_its_time_shipped_in_little_room() -> None:
    shipped = lap_times("donkey")
    assert set(shipped) == set(chosen_tracks(["unseen"]))
    for name, row in shipped.items():
        track = find_track(name)
        assert row["length"] == pytest.approx(track.length, rel=1e-4), f"{name} is another road now"
        assert row["point_time"] <= row["time"] < row["centre_time"]
        assert limit_time(name) == row["time"]
    assert (TIMES / "donkey.json").stat().st_size < 100_000


def test_a_time_is_shipped_for_some_tracks_and_cars_only() -> None:
    scene = lap_limit("warren")
    assert scene is not None and limit_time("warren") == scene.time
    assert limit_time("circuit:3") is None
    assert limit_time("circuit:90000", "turtlebot") is None


def test_times_are_added_to_those_that_are_there(tmp_path: Path) -> None:
    record = lap_limit("waveshare")
    assert record is not None
    save_lap_times([replace(record, track="b")], "car", tmp_path)
    path = save_lap_times([replace(record, track="a", time=1.23456)], "car", tmp_path)
    rows = json.loads(path.read_text())
    assert list(rows) == ["a", "b"] and rows["a"][0] == 1.2346


@pytest.mark.slow
@pytest.mark.parametrize("name", ["circuit:90025", "hills:90048"])
def test_an_unseen_time_is_what_the_solver_finds_and_the_reference_driver_comes_near(
    name: str,
) -> None:
    shipped = limit_time(name)
    assert shipped is not None
    solved, _ = solve_line(find_track(name), limits_of(find_vehicle("donkey")), LimitConfig())
    assert solved.time == pytest.approx(shipped, rel=1e-3)
    assert 1.0 < drive_records([name], "donkey")[name] / shipped < 1.05


def test_a_shipped_limit_is_what_the_solver_finds() -> None:
    solved, _ = solve_record(find_track("waveshare"), "donkey")
    shipped = lap_limit("waveshare")
    assert shipped is not None
    assert solved.time == pytest.approx(shipped.time, rel=1e-3)


def check_driven(names: list[str]) -> None:
    for name, seconds in drive_records(names, "donkey").items():
        record = lap_limit(name)
        assert record is not None
        assert record.time < seconds < 1.03 * record.time, (name, seconds, record.time)


def test_the_reference_driver_comes_within_three_percent_on_two_tracks() -> None:
    assert 0 < RESERVE < 1
    check_driven(["waveshare", "generated_track"])


@pytest.mark.slow
def test_the_reference_driver_comes_within_three_percent_on_every_track() -> None:
    check_driven(list(NAMES))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_shipped_limit_is_what_the_solver_finds(name: str) -> None:
    shipped = lap_limit(name)
    assert shipped is not None
    solved, _ = solve_line(
        find_track(name), limits_of(find_vehicle("donkey")), LimitConfig(spacing=0.2)
    )
    assert solved.time == pytest.approx(shipped.time, rel=2e-3)
