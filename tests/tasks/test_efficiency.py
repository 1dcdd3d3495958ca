"""Road counts as won once, and what was driven long ago is forgotten."""

import math

import pytest
import torch

from hotlap.tasks.efficiency import HALF_WINDOW, begin_window, efficiency, move_window


def told(steps: list[tuple[float, float]]) -> list[float]:
    """Efficiency after each step of (distance along the road, distance driven)."""
    window, found = begin_window(torch.zeros(1, 1)), []
    for clock, step in enumerate(steps):
        moved, driven = (torch.tensor([[value]]) for value in step)
        window = move_window(window, moved, driven, torch.tensor([[clock]]))
        found.append(float(efficiency(window)))
    return found


def loops(turns: int, steps_a_turn: int) -> list[tuple[float, float]]:
    """Circles of one metre's radius, beginning along the road."""
    share = 2 * math.pi / steps_a_turn
    return [(math.cos(share * i) * share, share) for i in range(turns * steps_a_turn)]


def test_road_won_over_distance_driven() -> None:
    assert told([(0.1, 0.1)] * 3) == pytest.approx([1.0, 1.0, 1.0])
    assert told([(0.1, 0.2), (0.1, 0.1)])[-1] == pytest.approx(2 / 3)
    assert told([(0.12, 0.1)] * 3)[-1] == pytest.approx(1.2)  # on the inside of a bend


def test_road_is_won_once() -> None:
    # 0.2 on, 0.1 back, 0.2 on: 0.3 of 0.5 is new.
    assert told([(0.2, 0.2), (-0.1, 0.1), (0.2, 0.2)])[-1] == pytest.approx(0.6)
    assert told([(-0.1, 0.1)] * 5 + [(0.1, 0.1)] * 5)[-1] == 0.0


def test_the_older_half_is_dropped_when_the_younger_is_full() -> None:
    found = told([(0.1, 0.1)] * 30 + [(0.0, 0.1)] * 31)
    assert found[29] == pytest.approx(1.0)
    assert found[59] == pytest.approx(0.5)
    assert found[60] == 0.0


@pytest.mark.parametrize("honest", [1, 30, 31, 45, 60])
def test_sixty_steps_later_everything_is_forgotten(honest: int) -> None:
    found = told([(0.1, 0.1)] * honest + [(0.0, 0.1)] * 2 * HALF_WINDOW)
    assert found[honest + HALF_WINDOW - 1] > 0.0
    assert found[-1] == 0.0


@pytest.mark.parametrize("steps_a_turn", [20, 60, 200])
def test_circles_win_no_road_at_any_pace(steps_a_turn: int) -> None:
    found = told(loops(5, steps_a_turn))
    won_last = steps_a_turn // 4 + 1  # a quarter of the first turn
    assert max(found[won_last + 2 * HALF_WINDOW :]) < 1e-6  # a rounding


def test_the_same_stretch_driven_up_and_down_is_won_once() -> None:
    there, back = [(0.1, 0.1)] * 100, [(-0.1, 0.1)] * 100
    found = told(there + (back + there) * 2)
    assert found[99] == pytest.approx(1.0)
    assert max(found[160:]) < 1e-6


def test_a_car_that_stands_has_no_efficiency() -> None:
    assert told([(0.0, 0.0)] * 3) == [0.0] * 3
    assert told([(0.1, 0.1)] * 5 + [(0.0, 0.0)] * 60)[-1] == 0.0
