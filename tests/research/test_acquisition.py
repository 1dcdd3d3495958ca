"""What a point is worth, and that the best one is found."""

import math

import numpy as np
import pytest

from hotlap.research.acquisition import (
    Belief,
    apart,
    climb,
    counting,
    expected_improvement,
    log_improvement,
    maximise,
    neighbours,
    probability_better,
    probability_within,
    quasi_random,
    snap,
    upper_bound,
)
from hotlap.research.proposer import Seen, fit_surrogate
from hotlap.research.space import SearchSpace, make_space

MIXED = make_space(
    {
        "agent": {"choices": ["ppo", "dqn"]},
        "rate": {"low": 1e-4, "high": 1e-2, "log": True},
        "envs": {"low": 1, "high": 12},
        "steps": {"low": 1000, "high": 100_000, "log": True},
        "n_steer": {"low": 3, "high": 11, "when": {"agent": "dqn"}},
        "clip": {"low": 0.1, "high": 0.4, "when": {"agent": "ppo"}},
    }
)
PLANE = make_space({"x": {"low": 0.0, "high": 1.0}, "y": {"low": 0.0, "high": 1.0}})


def on_grid(space: SearchSpace, points: np.ndarray) -> bool:
    return all(np.allclose(space.encode(space.decode(p)), p, atol=1e-9) for p in points)


def hill(x: float, y: float) -> float:
    return -((x - 0.3) ** 2) - 2 * (y - 0.8) ** 2


def plane_surrogate(n: int = 25) -> Belief:
    points = PLANE.sample(np.random.default_rng(0), n)
    seen = [Seen(PLANE.decode(p), (hill(*p),)) for p in points]
    return Belief.of(fit_surrogate(PLANE, seen), np.empty((0, 2)))


def test_upper_bound_by_hand() -> None:
    value, by_mean, by_sd = upper_bound(2.0)(np.array([1.0]), np.array([0.5]))
    assert (value[0], by_mean[0], by_sd[0]) == (2.0, 1.0, 2.0)


def test_expected_improvement_by_hand() -> None:
    at_best = expected_improvement(np.array([1.0]), np.array([2.0]), 1.0)
    assert at_best[0] == pytest.approx(2.0 / math.sqrt(2 * math.pi))
    certain = expected_improvement(np.array([3.0, -1.0]), np.array([0.0, 0.0]), 1.0)
    assert certain.tolist() == [2.0, 0.0]


def test_log_improvement_is_its_logarithm_and_lives_in_the_far_tail() -> None:
    mean, sd = np.array([0.0, 1.0, 3.0, 0.5]), np.array([1.0, 0.5, 0.1, 2.0])
    value, _, _ = log_improvement(1.0)(mean, sd)
    assert value == pytest.approx(np.log(expected_improvement(mean, sd, 1.0)))
    far, by_mean, by_sd = log_improvement(0.0)(np.array([-30.0, -1e6]), np.ones(2))
    assert np.isfinite([far, by_mean, by_sd]).all()
    assert far[0] == pytest.approx(-450 - 0.5 * math.log(2 * math.pi) - 2 * math.log(30), abs=0.01)


@pytest.mark.parametrize("mean", [-20.0, -1.0, 0.0, 0.7, 5.0])
def test_derivatives_of_log_improvement(mean: float) -> None:
    rule, step = log_improvement(0.2), 1e-5
    _, by_mean, by_sd = rule(np.array([mean]), np.array([0.8]))
    up, down = (rule(np.array([mean + s]), np.array([0.8]))[0][0] for s in (step, -step))
    assert by_mean[0] == pytest.approx((up - down) / (2 * step), rel=1e-3, abs=1e-8)
    up, down = (rule(np.array([mean]), np.array([0.8 + s]))[0][0] for s in (step, -step))
    assert by_sd[0] == pytest.approx((up - down) / (2 * step), rel=1e-3, abs=1e-8)


def test_probability_better_by_hand() -> None:
    mean, covariance = np.array([1.0, 0.0]), np.array([[1.0, 0.5], [0.5, 1.0]])
    assert probability_better(mean, covariance, 0, 1) == pytest.approx(0.8413, abs=1e-4)  # 1 sd
    assert probability_better(mean, covariance, 1, 0) == pytest.approx(1 - 0.8413, abs=1e-4)
    assert probability_better(mean, covariance, 0, 0) == 0.5
    same = np.ones((2, 2))
    assert probability_better(mean, same, 0, 1) == 1.0


def test_probability_within_counts_draws() -> None:
    draws = np.array([[1.0, 0.0], [1.0, 1.05], [1.0, 2.0], [0.0, 0.2]])
    assert probability_within(draws, 0, 0.1) == 0.5
    assert probability_within(draws, 0, 0.2) == 0.75


def test_quasi_random_points_fill_the_space_the_same_each_time() -> None:
    points = quasi_random(MIXED, 100, 3)
    assert points.shape == (100, 6) and on_grid(MIXED, points)
    assert np.array_equal(points, quasi_random(MIXED, 100, 3))
    assert 40 <= (points[:, 0] == 0).sum() <= 60


def test_neighbours_are_near_on_the_grid_and_parked() -> None:
    rng = np.random.default_rng(0)
    points = MIXED.sample(rng, 3)
    near = neighbours(MIXED, points, 30, rng)
    assert near.shape == (90, 6) and on_grid(MIXED, near)
    assert np.array_equal(MIXED.park(near), near)
    assert np.median(np.abs(near[:, 1] - np.repeat(points[:, 1], 30))) < 0.1
    assert neighbours(MIXED, points[:0], 30, rng).shape == (0, 6)


def test_snap_rounds_only_what_has_steps() -> None:
    point = np.array([[0.0, 0.123456, 0.5, 0.5, 0.5, 0.5]])
    snapped = snap(MIXED, point)
    assert snapped[0, 1] == 0.123456
    assert MIXED.decode(snapped[0])["envs"] in (6, 7)


def test_counting_knows_branches() -> None:
    ppo, dqn = np.full(6, 0.5), np.full(6, 0.5)
    ppo[0], dqn[0] = 0.0, 1.0
    assert counting(MIXED, np.stack([ppo, dqn])).tolist() == [
        [True, True, True, True, False, True],
        [True, True, True, True, True, False],
    ]


def test_points_apart_start_with_the_best() -> None:
    points = np.array([[0.0], [0.01], [0.5], [0.9]])
    assert apart(points, np.array([1.0, 2.0, 0.0, 1.5]), 3).tolist() == [1, 3, 2]


def test_the_top_of_a_hill_is_found() -> None:
    belief = plane_surrogate()
    points, worth = maximise(PLANE, belief, upper_bound(0.0), quasi_random(PLANE, 16, 0))
    assert points[0] == pytest.approx([0.3, 0.8], abs=0.03)
    assert np.all(np.diff(worth) <= 0)


def test_climbing_never_loses_height_and_ends_on_the_grid() -> None:
    rng = np.random.default_rng(4)
    seen = [
        Seen(MIXED.decode(p), (float(-((p[1] - 0.4) ** 2) - p[2] + 0.5 * p[0]),))
        for p in MIXED.sample(rng, 30)
    ]
    belief = Belief.of(fit_surrogate(MIXED, seen), np.empty((0, 6)))
    starts = MIXED.sample(rng, 8)
    for rule in (upper_bound(2.0), log_improvement(0.0)):
        before = rule(*belief.predict(starts))[0]
        tops, after = climb(MIXED, belief, rule, starts, before)
        assert np.all(after >= before)
        assert on_grid(MIXED, tops) and np.array_equal(MIXED.park(tops), tops)
        assert after == pytest.approx(rule(*belief.predict(tops))[0])
    assert (tops[:, 0] == 1.0).all() and (tops[:, 2] == 0.0).all()  # dqn, and one env


def test_what_is_pending_is_surer_but_not_better() -> None:
    belief = plane_surrogate(6)
    there = np.array([[0.02, 0.02]])
    with_it = Belief.of(belief.finished, there)
    assert with_it.predict(there)[0] == belief.predict(there)[0]
    assert with_it.predict(there)[1] < belief.predict(there)[1]
    assert with_it.predict_with_slopes(there)[1] == pytest.approx(with_it.predict(there)[1])
