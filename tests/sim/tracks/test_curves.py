"""Facts about plane curves, most of them worked out on paper."""

from itertools import pairwise

import numpy as np
import pytest

from hotlap.sim.tracks import curves


def circle(radius: float, count: int) -> np.ndarray:
    angle = np.linspace(0, 2 * np.pi, count, endpoint=False)
    return radius * np.column_stack([np.cos(angle), np.sin(angle)])


def test_resampling_is_even_and_keeps_the_first_point() -> None:
    uneven = circle(3.0, 60)[[*range(0, 30), *range(30, 60, 3)]]
    xy, where = curves.resample(uneven, 0.1)
    steps = np.hypot(*curves.edges(xy, closed=True).T)
    assert np.ptp(steps) / steps.mean() < 1e-3
    np.testing.assert_allclose(xy[0], uneven[0])
    np.testing.assert_allclose(np.hypot(*xy.T), 3.0, rtol=1e-3)
    assert where[0] == 0 and np.all(np.diff(where) > 0) and where[-1] < len(uneven)


def test_an_open_curve_keeps_both_ends() -> None:
    points = np.array([[0.0, 0.0], [1.0, 0.2], [2.0, -0.3], [4.0, 0.0]])
    xy, where = curves.resample(points, 0.05, closed=False)
    np.testing.assert_allclose(xy[[0, -1]], points[[0, -1]], atol=1e-12)
    assert where[-1] == 3


def test_a_left_hand_circle_has_positive_curvature_one_over_radius() -> None:
    xy = circle(2.0, 500)
    np.testing.assert_allclose(curves.curvature(xy), 0.5, rtol=1e-4)
    np.testing.assert_allclose(curves.curvature(xy[::-1]), -0.5, rtol=1e-4)
    assert curves.tightest_radius(xy) == pytest.approx(2.0, rel=1e-4)
    assert curves.net_turn(xy) == pytest.approx(2 * np.pi)
    assert curves.headings(xy)[0] == pytest.approx(np.pi / 2)


def test_a_straight_line_has_no_curvature() -> None:
    line = np.column_stack([np.arange(5.0), np.zeros(5)])
    assert curves.tightest_radius(line, closed=False) == np.inf
    np.testing.assert_array_equal(curves.headings(line, closed=False), 0)


def test_a_square_with_rounded_corners_has_the_length_of_its_parts() -> None:
    square = np.array([[4.0, 0.0], [4.0, 4.0], [0.0, 4.0], [0.0, 0.0]])
    xy = curves.round_corners(square, np.ones(4), 0.01)
    length = curves.cumulative_length(xy, closed=True)[-1]
    assert length == pytest.approx(4 * 2 + 2 * np.pi, rel=1e-4)  # four straights and one circle
    np.testing.assert_allclose(xy[0], [2.0, 0.0])
    assert curves.tightest_radius(xy) == pytest.approx(1.0, rel=1e-2)


def test_the_first_sample_lies_where_it_is_asked_to() -> None:
    square = np.array([[4.0, 0.0], [4.0, 4.0], [0.0, 4.0], [0.0, 0.0]])
    np.testing.assert_allclose(curves.round_corners(square, np.ones(4), 0.1, lead=3.0)[0], [1, 0])
    with pytest.raises(ValueError, match="straight part"):
        curves.round_corners(square, np.ones(4), 0.1, lead=3.5)


def test_arcs_that_do_not_fit_are_named() -> None:
    square = np.array([[4.0, 0.0], [4.0, 4.0], [0.0, 4.0], [0.0, 0.0]])
    with pytest.raises(ValueError, match="corners 0 and 1 need 5 but their edge has 4"):
        curves.round_corners(square, np.array([2.5, 2.5, 1.0, 1.0]), 0.1)


def test_smoothing_shrinks_a_circle_by_the_stated_factor() -> None:
    spacing = 2 * np.pi * 5 / 600
    smoothed = curves.smooth(circle(5.0, 600), 1.0 / spacing)
    np.testing.assert_allclose(np.hypot(*smoothed.T), 5 * np.exp(-(0.2**2) / 2), rtol=1e-3)


def test_crossings_tell_where() -> None:
    time = np.linspace(0, 2 * np.pi, 400, endpoint=False) + 0.01
    eight, _ = curves.resample(np.column_stack([np.sin(time), np.sin(2 * time)]), 0.02)
    found = curves.crossings(eight)
    assert len(found) == 1
    np.testing.assert_allclose(eight[found[0]], 0, atol=0.02)


@pytest.mark.parametrize("closed", [True, False])
def test_a_plain_loop_does_not_cross(closed: bool) -> None:
    assert len(curves.crossings(circle(1.0, 100), closed)) == 0


def test_crossings_of_an_open_line() -> None:
    corners = np.array([[0.0, 0.0], [4.0, 0.0], [4.0, 2.0], [2.0, 2.0], [2.0, -2.0]])
    pieces = [np.linspace(a, b, 20, endpoint=False) for a, b in pairwise(corners)]
    line = np.vstack(pieces)
    found = curves.crossings(line, closed=False)
    assert len(found) >= 1
    np.testing.assert_allclose(line[found[0]].mean(axis=0), [2, 0], atol=0.2)


def test_clearance_of_a_stadium_is_the_distance_of_its_straights() -> None:
    corners = np.array([[10.0, 0.0], [10.0, 4.0], [-10.0, 4.0], [-10.0, 0.0]])
    xy = curves.round_corners(corners, np.full(4, 1.9), 0.1)
    assert curves.clearance(xy, apart=7.0, reach=6.0) == pytest.approx(4.0, rel=1e-3)
    assert curves.clearance(xy, apart=7.0, reach=3.9) == np.inf
