"""What a configuration is worth trying, and where that is most.

    mean, sd   what a surrogate expects of the score at a point, and how sure it is
    explore    how many standard deviations of hope a proposal is given (UCB = mean + explore x sd)
    rule       worth of a point from its mean and sd, and its derivatives by the two
    pending    points that are running: their sd is already counted as learnt, their mean is not
               known, so it stays what the finished trials say

Everything is larger-is-better, in units of the score.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx, log_ndtr, ndtr
from scipy.stats import qmc

from hotlap.research.gp import Geometry, Surrogate
from hotlap.research.kernel import Array
from hotlap.research.space import SearchSpace

Rule = Callable[[Array, Array], tuple[Array, Array, Array]]
"""From means and sds: values, their derivatives by the mean, and by the sd."""

FEW_LEVELS = 40
"""A range of integers with at most so many is tried out; a longer one is climbed like floats."""


# --- worth of a point ----------------------------------------------------------------------------


def upper_bound(explore: float) -> Rule:
    """UCB: mean + explore x sd."""

    def rule(mean: Array, sd: Array) -> tuple[Array, Array, Array]:
        return mean + explore * sd, np.ones_like(mean), np.full_like(sd, explore)

    return rule


def log_improvement(best: float) -> Rule:
    """Logarithm of the expected improvement over `best`, good to the far tail."""

    def rule(mean: Array, sd: Array) -> tuple[Array, Array, Array]:
        z = (mean - best) / sd
        log_h, ratio = _log_hope(z)
        return np.log(sd) + log_h, ratio / sd, (1.0 - z * ratio) / sd

    return rule


def expected_improvement(mean: Array, sd: Array, best: float) -> Array:
    """Mean of max(score - best, 0) for a normal score; without sd, the improvement itself."""
    sd = np.asarray(sd, dtype=np.float64)
    gain = np.asarray(mean, dtype=np.float64) - best
    z = gain / np.where(sd > 0, sd, 1.0)
    density = np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
    return np.where(sd > 0, np.maximum(gain * ndtr(z) + sd * density, 0.0), np.maximum(gain, 0.0))


def _log_hope(z: Array) -> tuple[Array, Array]:
    """Log of h(z) = pdf(z) + z cdf(z), and h'/h = cdf / h."""
    log_density = -0.5 * z * z - 0.5 * math.log(2.0 * math.pi)
    # cdf / pdf is a scaled complementary error function, which neither over- nor underflows.
    low = np.minimum(z, 0.0)
    mills = math.sqrt(0.5 * math.pi) * erfcx(-low / math.sqrt(2.0))
    # Beyond z = -1e4, 1 + z mills is 1 / z² and nothing is left of the difference.
    rest = np.where(low > -1e4, 1.0 + low * mills, 1.0 / np.maximum(low * low, 1.0))
    below = log_density + np.log(np.maximum(rest, 1e-300))
    high = np.maximum(z, 0.0)
    above = np.log(np.exp(-0.5 * high * high) / math.sqrt(2.0 * math.pi) + high * ndtr(high))
    log_h = np.where(z > 0, above, below)
    return log_h, np.exp(log_ndtr(z) - log_h)


def probability_better(mean: Array, covariance: Array, a: int, b: int) -> float:
    """P(f_a > f_b) for two places of a joint posterior; one half where they cannot differ."""
    variance = covariance[a, a] + covariance[b, b] - 2.0 * covariance[a, b]
    difference = float(mean[a] - mean[b])
    if variance <= 1e-18 * max(float(covariance[a, a]), float(covariance[b, b])):
        return 0.5 if difference == 0 else float(difference > 0)
    return float(ndtr(difference / math.sqrt(variance)))


def probability_within(draws: Array, leader: int, epsilon: float) -> float:
    """Share of joint draws (count, m) in which the leader is within epsilon of the best place."""
    return float(np.mean(draws[:, leader] >= draws.max(axis=1) - epsilon))


# --- where it is most ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Belief:
    """Means from what is finished, sds from that and what is pending."""

    finished: Surrogate
    expected: Surrogate
    """`finished` with the pending points in it."""

    @classmethod
    def of(cls, surrogate: Surrogate, pending: Array) -> "Belief":
        """A surrogate and points (p, d) that are running."""
        return cls(surrogate, surrogate.with_pending(pending))

    def predict(self, points: Array) -> tuple[Array, Array]:
        """Mean and sd at points (m, d)."""
        mean, sd = self.finished.predict(points)
        return (mean, sd) if self.expected is self.finished else (mean, self._sd(points))

    def predict_with_slopes(self, points: Array) -> tuple[Array, Array, Array, Array]:
        """As `predict`, with the gradients of both."""
        mean, sd, mean_slope, sd_slope = self.finished.predict_with_slopes(points)
        if self.expected is not self.finished:
            _, sd, _, sd_slope = self.expected.predict_with_slopes(points)
        return mean, sd, mean_slope, sd_slope

    def _sd(self, points: Array) -> Array:
        return self.expected.predict(points)[1]


def quasi_random(space: SearchSpace, count: int, seed: int) -> Array:
    """Points that fill the space evenly (scrambled Sobol), (count, d), on its grid."""
    sampler = qmc.Sobol(len(space), scramble=True, rng=np.random.default_rng(seed))
    return space.settle(sampler.random_base2(max(count - 1, 1).bit_length())[:count])


def neighbours(space: SearchSpace, points: Array, count: int, rng: np.random.Generator) -> Array:
    """Points near others: `count` about each of them, at distances from 0.3 down to 0.003.

    A coordinate moves with probability one half or more, and a choice is drawn anew now and then.
    """
    if not len(points):
        return np.empty((0, len(space)))
    m, d = len(points) * count, len(space)
    centres = np.repeat(points, count, axis=0)
    sizes = 10.0 ** rng.uniform(-2.5, -0.5, (m, 1))
    moved = rng.random((m, d)) < max(0.5, 2.0 / d)
    near = centres + np.where(moved, sizes * rng.standard_normal((m, d)), 0.0)
    # What leaves the range comes back from its edge.
    near = 1.0 - np.abs(1.0 - np.abs(near) % 2.0)
    redrawn = rng.random((m, d)) < 1.0 / (2.0 * d)
    for column, dimension in enumerate(space):
        if dimension.is_choice:
            anew = rng.integers(len(dimension.levels or ()), size=m)
            near[:, column] = np.where(redrawn[:, column], anew, centres[:, column])
    return space.park(snap(space, near))


def choices_of(space: SearchSpace) -> NDArray[np.bool_]:
    """Which coordinates are choices, (d,)."""
    return np.array([dimension.is_choice for dimension in space])


def geometry_of(space: SearchSpace) -> Geometry:
    """What kind of coordinate each dimension of the space has."""
    choices = choices_of(space)
    parents = {name for dimension in space for name in dimension.when}
    return Geometry(choices, choices & np.array([each.name in parents for each in space]))


def snap(space: SearchSpace, points: Array) -> Array:
    """Points with every coordinate on the exact grid of its dimension."""
    snapped = points.copy()
    for column, dimension in enumerate(space):
        if dimension.is_choice or getattr(dimension.distribution, "step", None) is None:
            continue
        values = points[:, column]
        ladder = _ladder(space, column)
        if ladder is None:
            snapped[:, column] = [dimension.encode(dimension.decode(x)) for x in values]
        else:
            snapped[:, column] = ladder[np.abs(values[:, None] - ladder).argmin(axis=1)]
    return snapped


def maximise(
    space: SearchSpace,
    belief: Belief,
    rule: Rule,
    candidates: Array,
    starts: int = 8,
) -> tuple[Array, Array]:
    """Points worth most, best first, and what they are worth: candidates and climbs from them."""
    mean, sd = belief.predict(candidates)
    worth = rule(mean, sd)[0]
    chosen = apart(candidates, worth, starts)
    tops, heights = climb(space, belief, rule, candidates[chosen], worth[chosen])
    points = np.concatenate([tops, candidates])
    worths = np.concatenate([heights, worth])
    order = np.argsort(-worths, kind="stable")
    return points[order], worths[order]


def apart(points: Array, worth: Array, count: int, distance: float = 0.1) -> NDArray[np.intp]:
    """Rows of the best points no two of which are near; filled up with the best of the rest."""
    order = np.argsort(-worth, kind="stable")
    free = np.ones(len(points), dtype=bool)
    chosen: list[int] = []
    for row in order:
        if len(chosen) == count:
            break
        if free[row]:
            chosen.append(int(row))
            free &= np.abs(points - points[row]).max(axis=1) > distance
    rest = [int(row) for row in order[: 2 * count] if int(row) not in chosen]
    return np.array((chosen + rest)[:count], dtype=np.intp)


def climb(
    space: SearchSpace, belief: Belief, rule: Rule, points: Array, worth: Array, rounds: int = 3
) -> tuple[Array, Array]:
    """Tops near points (m, d), on the grid: floats by gradients, the rest by trying it out."""
    ladders = [_ladder(space, column) for column in range(len(space))]
    smooth = np.array([ladder is None for ladder in ladders])
    for turn in range(rounds):
        before = worth
        if smooth.any():
            points, worth = _ascend(space, belief, rule, points, worth, smooth)
        if smooth.all():
            break
        points, worth = _step(space, belief, rule, points, worth, ladders)
        if turn and np.all(worth <= before + 1e-9 * np.abs(before)):
            break
    return points, worth


def _ladder(space: SearchSpace, column: int) -> Array | None:
    """Every coordinate a dimension can have, where they are few; None where it is climbed."""
    dimension = space.dimensions[column]
    levels = dimension.levels
    if levels is None or (not dimension.is_choice and len(levels) > FEW_LEVELS):
        return None
    return np.array([dimension.encode(level) for level in levels])


def _ascend(
    space: SearchSpace,
    belief: Belief,
    rule: Rule,
    points: Array,
    worth: Array,
    smooth: NDArray[np.bool_],
    iterations: int = 30,
) -> tuple[Array, Array]:
    """Climb by the gradient, all points side by side, within 0..1 (projected BFGS).

    Points share every call of the surrogate, which costs less than one climb after another.
    """
    m, d = points.shape
    free = smooth[None, :] & counting(space, points)
    x = points.copy()
    value, slope = _worth_and_slope(belief, rule, x)
    slope = np.where(free, slope, 0.0)
    length = np.linalg.norm(slope, axis=1)
    curvature = np.tile(np.eye(d), (m, 1, 1)) * (0.1 / np.maximum(length, 1e-12))[:, None, None]
    step = np.ones(m)
    for _ in range(iterations):
        held = ((x <= 0.0) & (slope < 0.0)) | ((x >= 1.0) & (slope > 0.0)) | ~free
        open_slope = np.where(held, 0.0, slope)
        direction = np.einsum("mij,mj->mi", curvature, open_slope)
        direction[held] = 0.0
        uphill = np.einsum("mi,mi->m", direction, open_slope) > 0.0
        direction = np.where(uphill[:, None], direction, open_slope)
        # No step is longer than a quarter of the range: far away, a gradient knows nothing.
        longest = np.abs(direction).max(axis=1)
        direction *= np.minimum(1.0, 0.25 / np.maximum(longest, 1e-300))[:, None]
        trial = np.clip(x + step[:, None] * direction, 0.0, 1.0)
        moved = trial - x
        if np.abs(moved).max() < 1e-7:
            break
        new_value, new_slope = _worth_and_slope(belief, rule, trial)
        new_slope = np.where(free, new_slope, 0.0)
        better = new_value >= value + 1e-4 * np.einsum("mi,mi->m", open_slope, moved)
        better &= np.isfinite(new_value)
        curvature = _bfgs(curvature, moved, slope - new_slope)
        x[better], value[better], slope[better] = (
            trial[better],
            new_value[better],
            new_slope[better],
        )
        step = np.where(better, 1.0, 0.3 * step)
    settled = space.park(snap(space, x))
    mean, sd = belief.predict(settled)
    heights = rule(mean, sd)[0]
    better = heights > worth
    return np.where(better[:, None], settled, points), np.where(better, heights, worth)


def _worth_and_slope(belief: Belief, rule: Rule, points: Array) -> tuple[Array, Array]:
    mean, sd, mean_slope, sd_slope = belief.predict_with_slopes(points)
    value, by_mean, by_sd = rule(mean, sd)
    return value, by_mean[:, None] * mean_slope + by_sd[:, None] * sd_slope


def _bfgs(curvature: Array, moved: Array, turned: Array) -> Array:
    """Inverse curvatures (m, d, d) after moves (m, d) in which the slope fell by `turned`."""
    product = np.einsum("mi,mi->m", moved, turned)
    sizes = np.linalg.norm(moved, axis=1) * np.linalg.norm(turned, axis=1)
    usable = product > 1e-8 * np.maximum(sizes, 1e-300)
    rho = np.where(usable, 1.0 / np.where(usable, product, 1.0), 0.0)[:, None, None]
    left = np.eye(moved.shape[1]) - rho * moved[:, :, None] * turned[:, None, :]
    outer = rho * moved[:, :, None] * moved[:, None, :]
    return left @ curvature @ left.transpose(0, 2, 1) + outer


def counting(space: SearchSpace, points: Array) -> NDArray[np.bool_]:
    """Which coordinates count at each point, (m, d): those that parking does not move."""
    parents = {name for dimension in space for name in dimension.when}
    kept = np.array([dimension.name in parents or dimension.is_choice for dimension in space])
    probe = np.where(kept, points, 0.25)
    return np.asarray(space.park(probe) == probe)


def _step(
    space: SearchSpace,
    belief: Belief,
    rule: Rule,
    points: Array,
    worth: Array,
    ladders: list[Array | None],
) -> tuple[Array, Array]:
    """Move each point to the best of those that differ from it in one stepped coordinate."""
    for _ in range(3):
        variants = [points]
        for column, ladder in enumerate(ladders):
            if ladder is None:
                continue
            many = np.repeat(points[None], len(ladder), axis=0)
            many[:, :, column] = ladder[:, None]
            variants.extend(many)
        stacked = np.stack(variants)  # (variants, m, d)
        flat = space.park(stacked.reshape(-1, points.shape[1]))
        mean, sd = belief.predict(flat)
        worths = rule(mean, sd)[0].reshape(len(variants), -1)
        best = worths.argmax(axis=0)
        if not best.any():
            break
        rows = np.arange(len(points))
        points = flat.reshape(stacked.shape)[best, rows]
        worth = worths[best, rows]
    return points, worth
