"""How much a few episodes tell.

    groups   values by track, one array each; together N values
    draws    how often the bootstrap draws N values anew, with replacement

Means of few and skewed episodes mislead: the interquartile mean with a stratified bootstrap
interval is what Agarwal et al. (2021, rliable) recommend in their place.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[Any]
Statistic = Callable[[Array], Array]
"""Reduces the last axis."""
SMALLEST_GROUP = 4
"""Fewest values of a group that is drawn from by itself.

Drawing n values from n makes their spread too small by sqrt((n - 1) / n), and a single value would
look certain; from four values on, what is missing is less than 14 %.
"""


def interquartile_mean(values: ArrayLike) -> Array:
    """Mean of the middle half of the values along the last axis.

    Exactly a quarter of the weight is cut off at either end, so where N is not a multiple of 4 the
    values at the cuts count in part. scipy's `trim_mean(values, 0.25)`, which rliable uses, rounds
    the number cut down to whole values instead; both agree where N is a multiple of 4.
    """
    ordered = np.sort(np.asarray(values, dtype=np.float64), axis=-1)
    size = ordered.shape[-1]
    if size == 0:
        raise ValueError("the interquartile mean of no values is not defined")
    lower = np.arange(size)
    inside = np.minimum(lower + 1, 0.75 * size) - np.maximum(lower, 0.25 * size)
    return np.asarray(ordered @ (inside.clip(min=0.0) / (0.5 * size)))


def bootstrap_interval(
    groups: Sequence[ArrayLike],
    statistic: Statistic,
    seed: int,
    draws: int = 2000,
    level: float = 0.95,
) -> tuple[float, float]:
    """Percentile bootstrap interval of a statistic of all values together.

    Each group is drawn from by itself (stratified), so that differences between tracks do not count
    as chance. Where a group has fewer than SMALLEST_GROUP values, all are drawn from together,
    which is wider and claims less.

    Args:
        groups: Values by track.
        statistic: Maps (draws, N) to (draws,).
        seed: Decides the draws.
        draws: How many.
        level: Share of them that lies within the interval.
    """
    generator = np.random.default_rng(seed)
    return _middle(statistic(_draw(groups, generator, draws)), level)


def _draw(groups: Sequence[ArrayLike], generator: np.random.Generator, draws: int) -> Array:
    """Values drawn anew (draws, N), group by group where each is large enough."""
    strata = [np.asarray(group, dtype=np.float64) for group in groups]
    if not sum(len(group) for group in strata):
        raise ValueError("there are no values to draw from")
    if min(len(group) for group in strata) < SMALLEST_GROUP:
        strata = [np.concatenate(strata)]
    drawn = [group[generator.integers(len(group), size=(draws, len(group)))] for group in strata]
    return np.concatenate(drawn, axis=1)


def _middle(found: Array, level: float) -> tuple[float, float]:
    """What holds the middle `level` of the values."""
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, got {level}")
    low, high = np.quantile(found, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def mean_interval(
    groups: Sequence[ArrayLike], seed: int, draws: int = 2000, level: float = 0.95
) -> tuple[float, float]:
    """Bootstrap interval of the mean; see `bootstrap_interval`."""
    return bootstrap_interval(groups, lambda values: values.mean(axis=-1), seed, draws, level)


def gap_interval(
    groups: Sequence[ArrayLike],
    others: Sequence[ArrayLike],
    seed: int,
    draws: int = 2000,
    level: float = 0.95,
) -> tuple[float, float]:
    """Bootstrap interval of the mean of `groups` less that of `others`, drawn independently."""
    generator = np.random.default_rng(seed)
    ours, theirs = (_draw(side, generator, draws).mean(axis=-1) for side in (groups, others))
    return _middle(ours - theirs, level)
