"""Statistics against answers worked by hand."""

import numpy as np
import pytest
from scipy.stats import trim_mean

from hotlap.evaluation.statistics import (
    bootstrap_interval,
    gap_interval,
    interquartile_mean,
    mean_interval,
)


@pytest.mark.parametrize(
    ("values", "answer"),
    [
        ([7.0], 7.0),
        ([1.0, 3.0], 2.0),  # half of each is left
        ([0.0, 4.0, 100.0], 58 / 3),  # 0.75 go at each end: (0.25 * 0 + 4 + 0.25 * 100) / 1.5
        ([9.0, 1.0, 5.0, 3.0], 4.0),  # 1 and 9 go
        ([1000.0, 1.0, 2.0, 3.0, 4.0], 3.0),  # 1.25 go: (0.75 * 2 + 3 + 0.75 * 4) / 2.5
    ],
)
def test_the_interquartile_mean(values: list[float], answer: float) -> None:
    assert float(interquartile_mean(values)) == pytest.approx(answer)


def test_the_interquartile_mean_is_scipys_where_whole_values_are_cut() -> None:
    values = np.random.default_rng(1).normal(size=(3, 20))
    assert interquartile_mean(values) == pytest.approx(trim_mean(values, 0.25, axis=-1))
    assert interquartile_mean(values[0, :6]) != pytest.approx(trim_mean(values[0, :6], 0.25))


def test_the_mean_of_a_hundred_coins() -> None:
    # Half of them heads: standard error 0.05, so 0.5 -+ 1.96 * 0.05, in steps of 0.01.
    low, high = mean_interval([np.arange(100) % 2], seed=0, draws=20_000)
    assert low == pytest.approx(0.402, abs=0.011)
    assert high == pytest.approx(0.598, abs=0.011)


def test_differences_between_tracks_are_not_chance() -> None:
    assert mean_interval([[0.0] * 4, [10.0] * 4], seed=0) == (5.0, 5.0)


def test_tracks_with_few_episodes_do_not_look_certain() -> None:
    # Two values drawn from {0, 10}: both 0, or both 10, a quarter of the time each.
    assert mean_interval([[0.0], [10.0]], seed=0) == (0.0, 10.0)


def test_the_level_is_the_share_of_the_draws_inside() -> None:
    # Means of two values from {0, 1}: 0, 1/2, 1 with chances 1/4, 1/2, 1/4.
    assert mean_interval([[0.0, 1.0]], seed=0, level=0.4) == (0.5, 0.5)
    assert mean_interval([[0.0, 1.0]], seed=0, level=0.6) == (0.0, 1.0)


def test_a_seed_decides_the_draws() -> None:
    groups = [np.random.default_rng(2).normal(size=10), np.random.default_rng(3).normal(size=7)]
    first = bootstrap_interval(groups, interquartile_mean, seed=5)
    assert bootstrap_interval(groups, interquartile_mean, seed=5) == first
    assert bootstrap_interval(groups, interquartile_mean, seed=6) != first


def test_the_interval_holds_the_truth_about_as_often_as_it_says() -> None:
    generator = np.random.default_rng(4)
    inside = 0
    for seed in range(200):
        # Two tracks of 20 episodes, means 0 and 50.
        groups = [generator.normal(size=20), 50 + generator.normal(size=20)]
        low, high = mean_interval(groups, seed, draws=500)
        inside += low <= 25 <= high
    assert 0.88 <= inside / 200 <= 0.99


def test_a_gap_is_as_uncertain_as_its_two_sides() -> None:
    known, unseen = [[10.0, 12.0] * 50], [[1.0, 3.0] * 50]
    low, high = gap_interval(known, unseen, seed=0)
    assert low < 9.0 < high
    assert high - low == pytest.approx(2 * 1.96 * (2 / 100) ** 0.5, rel=0.1)
    assert gap_interval([[5.0] * 4], [[2.0] * 4], seed=0) == (3.0, 3.0)


def test_what_has_no_statistics_is_refused() -> None:
    with pytest.raises(ValueError, match="no values"):
        interquartile_mean([])
    with pytest.raises(ValueError, match="no values to draw from"):
        mean_interval([], seed=0)
    with pytest.raises(ValueError, match="level must lie between 0 and 1"):
        mean_interval([[1.0]], seed=0, level=95)
