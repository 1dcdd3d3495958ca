"""Laps are driven, or they do not count."""

import math

import pytest
import torch
from torch import Tensor

from hotlap.sim.roads import Roads, arc_between, lay_out, locate, locate_anywhere
from hotlap.tasks.laps import begin_laps, count_laps

from ..sim.roads_drawn import circle

RADIUS = 3.0
LENGTH = torch.tensor([[10.0]])
DT = 0.5


def book(moves: list[float], astray: tuple[int, ...] = ()) -> list[tuple[int, float]]:
    """Laps and lap time after each step of signed distances, on a loop of 10 m, 0.5 s a step.

    `astray` are the steps that end beside the road.
    """
    books, told = begin_laps(torch.zeros(1, 1)), []
    for step, moved in enumerate(moves, start=1):
        time = torch.tensor([[step * DT]])
        on_road = torch.tensor([[step not in astray]])
        books = count_laps(books, torch.tensor([[moved]]), LENGTH, time, DT, on_road)
        told.append((int(books["laps"]), round(float(books["lap_time"]), 5)))
    return told


def test_a_lap_counts_once_when_its_whole_length_is_driven() -> None:
    # 4 + 4 + 4 = 12: the line is crossed half-way through the third step, at 1.25 s.
    assert book([4.0, 4.0, 4.0, 1.0]) == [(0, 0.0), (0, 0.0), (1, 1.25), (1, 0.0)]


def test_the_second_lap_is_timed_from_the_end_of_the_first() -> None:
    # Lines at 10 and 20 m: 1.25 s, and 2.5 s exactly at the end of the fifth step.
    assert book([4.0] * 5) == [(0, 0.0), (0, 0.0), (1, 1.25), (1, 0.0), (2, 1.25)]


def test_what_is_driven_backwards_is_taken_off_again() -> None:
    assert book([-1.0, 2.0] * 4 + [4.0])[-1] == (0, 0.0)  # net 8
    assert book([9.5, 1.0, -1.0, 1.0, -1.0, 1.0])[1:] == [(1, 0.75), *[(1, 0.0)] * 4]


def test_a_lap_backwards_is_no_lap() -> None:
    assert all(laps == 0 for laps, _ in book([-4.0] * 6))


@pytest.mark.parametrize("astray", [(1,), (2,), (3,), (1, 2, 3)])
def test_a_lap_with_a_moment_beside_the_road_does_not_count_but_the_next_does(
    astray: tuple[int, ...],
) -> None:
    assert book([4.0] * 5, astray) == [(0, 0.0)] * 4 + [(1, 1.25)]


def test_a_lap_begun_beside_the_road_does_not_count() -> None:
    assert book([4.0] * 8, astray=(4,))[2:] == [
        (1, 1.25),
        (1, 0.0),
        (1, 0.0),
        (1, 0.0),
        (1, 0.0),
        (2, 1.25),
    ]


def drive(points: list[tuple[float, float]]) -> int:
    """Laps counted on a round road for a car that is led through points."""
    roads: Roads = lay_out([circle(RADIUS)])
    road, still = torch.zeros(1, 1, dtype=torch.int64), torch.zeros(1, 1)
    spots = [tuple(torch.tensor([[v]]) for v in point) for point in points]
    place = locate_anywhere(roads, road, *spots[0], still)
    books = begin_laps(still)
    for step, (x, y) in enumerate(spots[1:], start=1):
        after = locate(roads, road, place.node, x, y, still, arc_along(place.s, x, y, roads))
        moved = arc_between(roads, road, place.s, after.s)
        on_road = (after.n < after.width_left) & (-after.n < after.width_right)
        time = torch.tensor([[step * DT]])
        books = count_laps(books, moved, roads.length[road], time, DT, on_road)
        place = after
    return int(books["laps"])


def arc_along(s: Tensor, x: Tensor, y: Tensor, roads: Roads) -> Tensor:
    """Roughly how far the car moves along the road, as a task guesses from its speed."""
    aim = torch.remainder(torch.atan2(y, x), 2 * math.pi) * RADIUS
    return arc_between(roads, torch.zeros(1, 1, dtype=torch.int64), s, aim)


def around(
    start: float, end: float, steps: int = 80, radius: float = RADIUS
) -> list[tuple[float, float]]:
    """Points on the road, or inside it, from one angle to another."""
    angles = [start + (end - start) * i / steps for i in range(steps + 1)]
    return [(radius * math.cos(a), radius * math.sin(a)) for a in angles]


def loops(times: int) -> list[tuple[float, float]]:
    """Small circles on the road, over its starting line and back."""
    angles = [2 * math.pi * i / 40 for i in range(40 * times)]
    return [(RADIUS + 0.3 * math.cos(a) - 0.3, 0.3 * math.sin(a)) for a in angles]


def test_driving_round_counts() -> None:
    turn = 2 * math.pi
    assert drive(around(0, turn - 0.05)) == 0
    assert drive(around(0, turn + 0.05)) == 1
    assert drive(around(0, 2 * turn + 0.05, 160)) == 2


@pytest.mark.parametrize(
    "points",
    [
        loops(6),
        around(0, 0.2)
        + (around(0.2, -0.2) + around(-0.2, 0.2)) * 5,  # back and forth over the line
        around(0, 6.0) + around(6.0, -6.0, 160),  # turned round before the line
        around(0, -6.5),  # the wrong way
        around(0, 6.5, radius=1.0),  # through the infield
    ],
    ids=["circling", "back and forth", "turned round", "the wrong way", "infield"],
)
def test_what_only_crosses_the_line_does_not_count(points: list[tuple[float, float]]) -> None:
    assert drive(points) == 0
