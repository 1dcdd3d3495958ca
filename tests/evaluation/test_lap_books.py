"""Which laps count and which were begun, worked by hand: a road of 15 m, ten steps a second."""

from typing import Any

import numpy as np
import pytest

from hotlap.evaluation.lap_books import LapBook, Road, read_laps
from hotlap.records import End

DT, WIDTH = 0.1, 0.2
SLOW = 101  # steps: at 1.5 m/s a lap of 15 m takes 100


def road(closed: bool = True, from_rest: bool = False) -> Road:
    return Road(15.0, closed, from_rest, WIDTH, DT)


def steps(length: int, laps: dict[int, float] | None = None, **columns: Any) -> dict[str, Any]:
    """An episode that passes the line in the steps of `laps`, with the times that count there."""
    lap_time, passed = np.zeros(length), np.zeros(length)
    for step, seconds in (laps or {}).items():
        lap_time[step] = seconds
        passed[step:] += 1
    given = {name: np.broadcast_to(value, length) for name, value in columns.items()}
    return {"lap_time": lap_time, "passed": passed, "over_edge": np.full(length, -1.0)} | given


def book(own: dict[str, Any], end: End, **kind: bool) -> LapBook:
    return read_laps(own, end, road(**kind))


def test_the_first_lap_begins_where_the_episode_does_and_the_others_fly() -> None:
    found = book(steps(80, {29: 2.95, 49: 2.0, 70: 2.1}), "time")
    assert found.times == (2.95, 2.0, 2.1) and found.flying == (2.0, 2.1)
    assert found.laps == found.begun == 3


def test_a_lap_after_one_that_did_not_count_flies_too() -> None:
    found = book(steps(60, {29: 0.0, 49: 2.0}), "time")
    assert found.times == found.flying == (2.0,)
    assert (found.laps, found.begun) == (1, 2)  # the first left the road: begun, not finished


def test_a_crash_loses_the_lap_it_happened_in_and_no_other() -> None:
    found = book(steps(60, {29: 2.95, 49: 2.0}), "crashed")
    assert (found.laps, found.begun) == (2, 3)


@pytest.mark.parametrize(("length", "begun"), [(30 + SLOW - 2, 1), (30 + SLOW - 1, 2)])
def test_the_lap_that_the_clock_cuts_counts_only_if_it_dawdled(length: int, begun: int) -> None:
    assert book(steps(length, {29: 2.95}), "time").begun == begun


def test_a_car_that_stands_still_has_begun_a_lap_and_lost_it() -> None:
    assert book(steps(SLOW), "time") == LapBook(0, 1, (), ())


def test_an_open_road_driven_from_the_line_is_one_lap_with_a_time() -> None:
    own = steps(40, progress=14.8)
    assert book(own, "road end", closed=False, from_rest=True) == LapBook(1, 1, (4.0,), ())


@pytest.mark.parametrize(("driven", "laps"), [(12.0, 1), (11.9, 0)])
def test_an_open_road_counts_where_four_fifths_of_it_were_driven(driven: float, laps: int) -> None:
    found = book(steps(40, progress=driven), "road end", closed=False)
    assert found == LapBook(laps, laps, (), ())  # rolling and from anywhere: no time to compare


def test_an_open_road_that_was_left_on_the_way_is_begun_and_not_finished() -> None:
    beside = np.where(np.arange(40) == 7, WIDTH, -1.0)
    found = book(steps(40, progress=14.8, over_edge=beside), "road end", closed=False)
    assert (found.laps, found.begun) == (0, 1)


def test_a_crash_on_an_open_road_is_a_lap_lost() -> None:
    assert book(steps(5, progress=2.0), "crashed", closed=False) == LapBook(0, 1, (), ())
    assert book(steps(5, progress=2.0), "time", closed=False) == LapBook(0, 0, (), ())
