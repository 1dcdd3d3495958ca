"""The surrogate: covariance, likelihood, noise and failures against answers worked by hand."""

import dataclasses
import math

import numpy as np
import pytest

from hotlap.research.gp import Geometry, Likelihood, Observations, Prior, fit, most_telling
from hotlap.research.kernel import cholesky, matern, pair_differences, weighted_distances
from hotlap.research.scale import Scale, scales_of


def seen(
    points: object,
    means: object,
    counts: object = None,
    failures: object = None,
    squares: float = 0.0,
    freedom: int = 0,
    choices: object = None,
) -> Observations:
    points = np.atleast_2d(np.asarray(points, dtype=float))
    n, d = points.shape
    chosen = np.zeros(d, dtype=bool) if choices is None else np.asarray(choices)
    return Observations(
        points,
        Geometry(chosen, np.zeros(d, dtype=bool)),
        np.asarray(means, dtype=float),
        np.ones(n) if counts is None else np.asarray(counts, dtype=float),
        np.zeros(n) if failures is None else np.asarray(failures, dtype=float),
        squares,
        freedom,
    )


def wavy(n: int = 30, noise: float = 0.0, seed: int = 0) -> Observations:
    rng = np.random.default_rng(seed)
    points = rng.random((n, 2))
    scores = np.sin(6 * points[:, 0]) + noise * rng.standard_normal(n)
    return seen(points, scores)


def test_matern_at_nothing_and_at_one() -> None:
    value, slope = matern(np.array([0.0, 1.0]))
    root = math.sqrt(5)
    assert value[0] == 1.0
    assert value[1] == pytest.approx((1 + root + 5 / 3) * math.exp(-root))
    assert slope[0] == pytest.approx(-5 / 6)
    step = 1e-6
    assert slope[1] == pytest.approx((matern(np.array(1 + step))[0] - value[1]) / step, rel=1e-4)


def test_choices_are_one_apart_however_far_their_numbers() -> None:
    a, b = np.array([[0.2, 0.0]]), np.array([[0.5, 2.0], [0.2, 0.0]])
    q = weighted_distances(a, b, np.array([10.0, 3.0]), np.array([False, True]))
    assert q == pytest.approx(np.array([[10 * 0.09 + 3, 0.0]]))  # w (x - x')², and 1 choice apart
    pairs = pair_differences(np.concatenate([a, b]), np.array([False, True]))
    assert pairs[0] == pytest.approx([0.09, 0.0, 0.09])
    assert pairs[1].tolist() == [1.0, 0.0, 1.0]


def test_likelihood_of_two_configurations_by_hand() -> None:
    theta = np.log([1.0, 2.0, 0.5])  # w, signal, noise
    likelihood = Likelihood(np.array([1.0, -1.0]), np.array([1.0, 2.0]), np.array([[1.0]]), 0.0, 0)
    correlation = float(matern(np.array(1.0))[0])
    k = np.array([[2.0 + 0.5, 2 * correlation], [2 * correlation, 2.0 + 0.25]])
    z = np.array([1.0, -1.0])
    expected = -0.5 * z @ np.linalg.solve(k, z) - 0.5 * np.log(np.linalg.det(k))
    assert likelihood(theta)[0] == pytest.approx(expected, rel=1e-8)


def test_replicates_enter_as_noise_times_chi_squared() -> None:
    theta = np.log([1.0, 2.0, 0.5])
    z, pairs = np.array([1.0, -1.0]), np.array([[1.0]])
    without = Likelihood(z, np.ones(2), pairs, 0.0, 0)(theta)[0]
    with_them = Likelihood(z, np.ones(2), pairs, 3.0, 4)(theta)[0]
    assert with_them - without == pytest.approx(-0.5 * (4 * math.log(0.5) + 3.0 / 0.5))


def test_gradients_of_likelihood_and_prior_are_their_slopes() -> None:
    rng = np.random.default_rng(1)
    points = rng.random((12, 3))
    points[:, 2] = rng.integers(3, size=12)
    pairs = pair_differences(points, np.array([False, False, True]))
    likelihood = Likelihood(rng.standard_normal(12), rng.integers(1, 4, 12) * 1.0, pairs, 1.3, 5)
    theta = np.array([1.0, 0.3, -0.5, 0.2, -2.0])
    for function in (likelihood, Prior().log_density):
        _, gradient = function(theta)
        for i, each in enumerate(gradient):
            step = np.zeros(5)
            step[i] = 1e-5
            slope = (function(theta + step)[0] - function(theta - step)[0]) / 2e-5
            assert each == pytest.approx(slope, rel=1e-4, abs=1e-6)


def test_scores_come_back_from_outcomes() -> None:
    scores = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    for scale in scales_of(scores):
        assert scale.to_scores(scale.to_outcomes(scores))[2:] == pytest.approx(scores[2:])


def test_slopes_of_a_scale() -> None:
    scores, step = np.array([-50.0, 0.0, 1.0, 2.0, 4.0]), 1e-6
    for scale in scales_of(scores):
        slopes = (scale.to_outcomes(scores + step) - scale.to_outcomes(scores - step)) / (2 * step)
        assert scale.log_slopes(scores) == pytest.approx(np.log(slopes), abs=1e-5)


def test_a_terrible_outlier_hardly_moves_the_unit() -> None:
    usual = scales_of(np.array([0.0, 1.0, 2.0, 3.0, 4.0]))
    spoilt = scales_of(np.array([-1e6, 1.0, 2.0, 3.0, 4.0]))
    for one, other in zip(usual, spoilt, strict=True):
        assert other.spread < 3 * one.spread
        assert other.to_outcomes(np.array([-1e6]))[0] > -4.0
        assert np.all(np.diff(other.to_outcomes(np.array([-1e6, -1e3, 0.0, 2.0, 5.0]))) > 0)


def test_the_warp_is_strong_where_that_explains_the_scores() -> None:
    points = np.random.default_rng(0).random((40, 2))
    even = np.sin(5 * points[:, 0]) + points[:, 1]
    assert fit(seen(points, even)).scale.knot == 1.0
    assert fit(seen(points, -np.exp(5 * even))).scale.knot == 0.0


def test_the_fit_foretells_a_smooth_function() -> None:
    surrogate = fit(wavy())
    new = np.random.default_rng(5).random((50, 2))
    mean, sd = surrogate.predict(new)
    truth = np.sin(6 * new[:, 0])
    assert np.sqrt(np.mean((mean - truth) ** 2)) < 0.1
    assert np.mean(np.abs(mean - truth) < 3 * sd + 1e-3) > 0.9
    assert surrogate.check.good and surrogate.check.error < 0.5
    scales = surrogate.hyperparameters.scales
    assert scales[1] > 1.5 * scales[0]  # the second coordinate does not matter


def test_noise_is_learnt_and_is_no_part_of_sd() -> None:
    surrogate = fit(wavy(80, noise=0.3))
    assert surrogate.noise == pytest.approx(0.3, rel=0.4)
    assert fit(wavy(80)).noise < 0.05


def test_replicates_tell_noise_from_signal() -> None:
    rng = np.random.default_rng(0)
    points = rng.random((12, 1))
    runs = np.sin(6 * points) + 0.5 * rng.standard_normal((12, 6))
    squares = float(np.sum((runs - runs.mean(axis=1, keepdims=True)) ** 2))
    surrogate = fit(seen(points, runs.mean(axis=1), np.full(12, 6), None, squares, 60))
    assert surrogate.noise == pytest.approx(math.sqrt(squares / 60), rel=0.2)


def test_more_runs_of_one_configuration_make_it_surer() -> None:
    data = wavy(20, noise=0.3)
    often = Observations(
        data.points,
        data.geometry,
        data.means,
        np.array([20.0] + [1.0] * 19),
        data.failures,
        1.8,
        19,
    )
    _, sd = fit(often).predict(data.points[:3])
    assert sd[0] < sd[1] and sd[0] < sd[2]


def test_a_failure_lowers_its_surroundings_and_not_the_rest() -> None:
    data = wavy(30)
    corner = np.array([[0.27, 0.98], [0.3, 0.95]])  # where the score would be best
    failed = Observations(
        np.concatenate([data.points, corner]),
        data.geometry,
        np.concatenate([data.means, [np.nan, np.nan]]),
        np.concatenate([data.counts, [0.0, 0.0]]),
        np.concatenate([data.failures, [1.0, 2.0]]),
    )
    before, after = fit(data), fit(failed)
    assert after.predict(corner)[0].max() < before.predict(corner)[0].min() - 0.5
    far = np.array([[0.27, 0.2], [0.8, 0.2]])
    assert after.predict(far)[0] == pytest.approx(before.predict(far)[0], abs=0.4)


def test_slopes_are_the_derivatives_of_predictions() -> None:
    rng = np.random.default_rng(2)
    points = np.column_stack([rng.random((15, 2)), rng.integers(2, size=15)])
    scores = points[:, 0] ** 2 - points[:, 1] + points[:, 2]
    surrogate = fit(seen(points, scores, choices=[False, False, True]))
    at = np.array([[0.4, 0.7, 1.0], [0.2, 0.1, 0.0]])
    _, _, mean_slope, sd_slope = surrogate.predict_with_slopes(at)
    for column in range(2):
        step = np.zeros(3)
        step[column] = 1e-5
        up, down = surrogate.predict(at + step), surrogate.predict(at - step)
        assert mean_slope[:, column] == pytest.approx((up[0] - down[0]) / 2e-5, rel=1e-3, abs=1e-6)
        assert sd_slope[:, column] == pytest.approx((up[1] - down[1]) / 2e-5, rel=1e-2, abs=1e-4)
    assert not mean_slope[:, 2].any() and not sd_slope[:, 2].any()


def test_joint_agrees_with_predict_and_draws_with_joint() -> None:
    surrogate = fit(wavy(12, noise=0.2))
    points = np.random.default_rng(3).random((5, 2))
    mean, sd = surrogate.predict(points)
    joint_mean, covariance = surrogate.joint(points)
    assert joint_mean == pytest.approx(mean)
    assert np.sqrt(np.diagonal(covariance)) == pytest.approx(sd, rel=1e-4)
    draws = surrogate.draw(points, 20_000, np.random.default_rng(0))
    assert draws.mean(axis=0) == pytest.approx(mean, abs=0.05)
    assert np.cov(draws.T) == pytest.approx(covariance, abs=0.05)


def test_a_pending_point_lowers_sd_and_leaves_the_mean() -> None:
    surrogate = fit(wavy(6))
    there = np.array([[0.95, 0.95]])
    mean, sd = surrogate.predict(there)
    expected = surrogate.with_pending(there)
    assert expected.predict(there)[0] == pytest.approx(mean, abs=1e-6)
    assert expected.predict(there)[1] < 0.5 * sd


def test_leave_one_out_is_what_leaving_one_out_gives() -> None:
    data = wavy(10, noise=0.2)
    surrogate = fit(data)
    rest = np.arange(1, 10)
    k = matern(
        weighted_distances(
            data.points, data.points, surrogate.hyperparameters.weights, data.geometry.choices
        )
    )[0]
    k = surrogate.hyperparameters.signal * k + surrogate.hyperparameters.noise * np.eye(10)
    by_hand = k[0, rest] @ np.linalg.solve(k[np.ix_(rest, rest)], surrogate.outcomes[rest])
    found = surrogate.outcomes[0] - surrogate.alpha[0] / surrogate.inverse[0, 0]
    assert found == pytest.approx(by_hand, rel=1e-6)


def test_a_fit_that_is_sure_and_wrong_says_so() -> None:
    data = wavy(20)
    good = fit(data)
    wrong = dataclasses.replace(good, alpha=good.alpha * 50)
    assert good.check.good
    assert not wrong.check.good and "badly" in wrong.check.sentence


@pytest.mark.parametrize(
    "data",
    [
        seen([[0.5, 0.5]], [3.0]),
        seen([[0.5], [0.2]], [3.0, 3.0]),
        seen([[0.5]], [np.nan], [0], [1]),
        seen([[0.5], [0.1]], [np.nan, 1.0], [0, 2], [3, 1]),
        seen(np.tile([[0.3, 0.7]], (12, 1)), np.arange(12.0)),
        seen(np.linspace(0, 1, 9)[:, None], np.r_[np.zeros(8), 1e12]),
        seen(np.linspace(0, 1, 9)[:, None], np.r_[np.zeros(8), -1e12]),
        seen(np.linspace(0, 1, 9)[:, None], np.full(9, 1e9) + np.arange(9) * 1e-9),
        seen([[0.0], [1.0], [2.0]], [1.0, 2.0, 3.0], choices=[True]),
    ],
)
def test_nothing_is_ever_not_a_number(data: Observations) -> None:
    surrogate = fit(data)
    everywhere = np.random.default_rng(0).random((20, data.points.shape[1]))
    numbers = [*surrogate.predict(everywhere), *surrogate.predict_with_slopes(data.points)]
    numbers += [surrogate.draw(everywhere, 3, np.random.default_rng(0)), np.array(surrogate.noise)]
    assert all(np.isfinite(each).all() for each in numbers)
    assert math.isfinite(surrogate.check.error)


def test_the_same_data_give_the_same_bits() -> None:
    one, two = fit(wavy(150, noise=0.1)), fit(wavy(150, noise=0.1))
    assert np.array_equal(one.alpha, two.alpha)
    assert np.array_equal(one.hyperparameters.weights, two.hyperparameters.weights)


def test_of_many_configurations_the_best_are_kept() -> None:
    data = wavy(1000)
    rows = most_telling(data, 100)
    assert len(rows) == len(set(rows.tolist())) == 100
    assert set(np.argsort(-data.means)[:50]) <= set(rows)
    assert len(fit(data).points) <= 600


def test_jitter_rises_until_there_is_a_factor() -> None:
    root, jitter = cholesky(np.ones((3, 3)))
    assert jitter > 0
    assert root @ root.T == pytest.approx(np.ones((3, 3)), abs=1e-3)
    with pytest.raises(ArithmeticError, match="NaN"):
        cholesky(np.full((2, 2), np.nan))


def test_no_configuration_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        fit(seen(np.empty((0, 2)), np.empty(0)))


def test_the_scale_of_equal_scores_is_one() -> None:
    assert scales_of(np.full(4, 7.0)) == [Scale(7.0, 1.0, 1.0, 0.0, 1.0)]


@pytest.mark.parametrize("worse", [1, 3, 6])
def test_scores_that_mostly_stand_at_the_top_keep_their_unit(worse: int) -> None:
    for scale in scales_of(np.array([0.0] * worse + [1.0] * (12 - worse))):
        assert 0.1 < scale.size < 3.0
