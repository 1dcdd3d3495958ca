"""A Gaussian process that says what a configuration would score, and how sure that is.

    n      configurations that were tried, d dimensions of the space
    point  a configuration as coordinates (see `space`), (d,)
    z      outcomes as the process sees them: standardised, and bad ones drawn together
    w      inverse squared length scales, one per dimension: how much a coordinate counts
    q      squared distance of two points, sum over dimensions of w (x - x')²; for a choice the
           difference is 0 or 1 (Hamming)

The covariance of two outcomes is `signal` x Matern-5/2 of their distance. A configuration that ran
n_i times stands in it once, with its mean and noise variance `noise` / n_i; how its runs differ
among themselves tells the noise too. Everything is a function of the data alone: a fit starts
from fixed places (and, where there are many configurations, from the fit of a part of them), never
from an earlier fit, so a study that is stopped and taken up again goes on as if it had not been.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, lapack, solve_triangular
from scipy.optimize import minimize

from hotlap.research.kernel import (
    Array,
    cholesky,
    matern,
    pair_differences,
    weighted_distances,
)
from hotlap.research.scale import Scale, scales_of

SMALLEST_NOISE = 1e-6
"""Least noise variance beside outcomes of variance 1; keeps nearly equal points apart."""
LARGEST_NOISE = 1e2
LEAST_FREEDOM = 3
"""Degrees of freedom from which replicates say how large the noise is; one pair may be luck."""
BRANCH_WEIGHT = 9.0
"""Squared distance of configurations on different branches."""
FULL_FIT = 320
"""Most configurations whose likelihood is climbed as a whole; of more, a part is taken."""
FIRST_FIT = 100
"""Configurations in the first, cheap fit, from which the whole one starts."""
MOST_POINTS = 600
"""Most configurations a surrogate holds; of more, the best and an even share of the rest."""


@dataclass(frozen=True)
class Geometry:
    """What kind of coordinate each dimension has."""

    choices: NDArray[np.bool_]
    """Which are choices, (d,)."""
    branches: NDArray[np.bool_]
    """Which choices decide what else counts, (d,).

    Configurations on different branches have other settings, so that they tell next to nothing of
    each other: the distance is fixed, at a correlation of 0.03. Where it was learnt, two branches
    that happened to be alike made the surrogate sure of a third that it had hardly seen.
    """


@dataclass(frozen=True)
class Observations:
    """What was seen, by configuration."""

    points: Array
    """(n, d)"""
    geometry: Geometry
    means: Array
    """Mean of the finite scores of each configuration, (n,); NaN where there is none."""
    counts: Array
    """Number of finite scores, (n,)."""
    failures: Array
    """Number of runs without a score, (n,)."""
    squares: float = 0.0
    """Squared differences of the scores from the mean of their configuration, summed over all."""
    freedom: int = 0
    """Number of scores beyond the first of each configuration."""

    def __len__(self) -> int:
        return len(self.points)

    def part(self, rows: NDArray[np.intp]) -> "Observations":
        """Some of the configurations; what was learnt of the noise stays."""
        return Observations(
            self.points[rows],
            self.geometry,
            self.means[rows],
            self.counts[rows],
            self.failures[rows],
            self.squares,
            self.freedom,
        )


@dataclass(frozen=True)
class Hyperparameters:
    """What a fit chooses, for standardised outcomes."""

    weights: Array
    """w, (d,)."""
    signal: float
    """Variance of the scores over configurations far from each other."""
    noise: float
    """Variance of one run about the mean of its configuration."""

    @property
    def scales(self) -> Array:
        """Length scales: how far a coordinate must move for the score to change much."""
        return 1.0 / np.sqrt(self.weights)


@dataclass(frozen=True)
class Prior:
    """What is believed of hyperparameters before there is data.

    Length scales and noise are log-normal; the signal's variance is Gamma(2, 1) distributed, with
    its mode at the variance of standardised outcomes.
    """

    scale: float = 0.5
    """Middle length scale; 1 is the whole range of a dimension."""
    scale_spread: float = 1.0
    """Standard deviation of its logarithm."""
    noise: float = 1e-3
    """Middle noise variance."""
    noise_spread: float = 2.0
    """Standard deviation of its logarithm."""

    def log_density(self, theta: Array) -> tuple[float, Array]:
        """Up to a constant, and its gradient, at (log w, log signal, log noise)."""
        middles = np.full(len(theta), -2.0 * math.log(self.scale))
        spreads = np.full(len(theta), 2.0 * self.scale_spread)
        middles[-1], spreads[-1] = math.log(self.noise), self.noise_spread
        away = (theta - middles) / spreads
        away[-2] = 0.0
        slope = -away / spreads
        signal = math.exp(theta[-2])
        slope[-2] = 1.0 - signal
        return float(-0.5 * away @ away + theta[-2] - signal), slope


@dataclass(frozen=True)
class Likelihood:
    """Log likelihood of outcomes under hyperparameters, with its gradient."""

    outcomes: Array
    """z, (n,)"""
    counts: Array
    """Runs behind each, (n,)."""
    pairs: Array
    """Squared differences of every pair, row after row of the lower triangle, (d, n(n-1)/2)."""
    squares: float
    """Squared differences of runs from the mean of their configuration, in outcome units."""
    freedom: int

    @cached_property
    def _places(self) -> NDArray[np.intp]:
        n = len(self.outcomes)
        rows, columns = np.tril_indices(n, -1)
        return rows * n + columns

    def __call__(self, theta: Array) -> tuple[float, Array]:
        """At (log w, log signal, log noise); minus infinity where it cannot be worked out."""
        n = len(self.outcomes)
        weights, signal, noise = np.exp(theta[:-2]), math.exp(theta[-2]), math.exp(theta[-1])
        correlation, slope = matern(weights @ self.pairs)
        covariance = np.zeros((n, n))
        flat = covariance.reshape(-1)
        flat[self._places] = signal * correlation
        flat[:: n + 1] = signal + noise / self.counts + 1e-10
        # The lower triangle of a C array is the upper one of the same memory in LAPACK's order.
        root, problem = lapack.dpotrf(covariance.T, lower=0, overwrite_a=1, clean=0)
        if problem:
            return -math.inf, np.zeros_like(theta)
        alpha, _ = lapack.dpotrs(root, self.outcomes, lower=0)
        log_root = float(np.log(np.diagonal(root)).sum())
        inverse, _ = lapack.dpotri(root, lower=0, overwrite_c=1)
        value = -0.5 * float(self.outcomes @ alpha) - log_root
        # Of G = K⁻¹ - alpha alphaᵀ: minus half its product with dK is the gradient.
        g = (inverse.T - np.outer(alpha, alpha)).reshape(-1)
        lower, diagonal = g[self._places], g[:: n + 1]
        gradient = np.empty_like(theta)
        gradient[:-2] = -signal * weights * (self.pairs @ (lower * slope))
        gradient[-2] = -signal * (float(lower @ correlation) + 0.5 * float(diagonal.sum()))
        gradient[-1] = -0.5 * noise * float(diagonal @ (1.0 / self.counts))
        # Replicates: their squares are noise x chi-squared.
        value -= 0.5 * (self.freedom * theta[-1] + self.squares / noise)
        gradient[-1] -= 0.5 * (self.freedom - self.squares / noise)
        return value, gradient


@dataclass(frozen=True)
class FitCheck:
    """How well each configuration is foretold from all others."""

    error: float
    """Root mean square error of the leave-one-out predictions, over that of the plain mean."""
    surprise: float
    """Root mean square of the errors, each over the standard deviation that was foretold."""
    good: bool
    sentence: str


@dataclass(frozen=True)
class Surrogate:
    """What is known of the score at every point, in units of the score.

    Standard deviations are of the mean score of a configuration; a single run differs from it by
    `noise` more. Far below the median score, figures are drawn together (see `Scale`).
    """

    points: Array
    geometry: Geometry
    outcomes: Array
    counts: Array
    hyperparameters: Hyperparameters
    scale: Scale
    root: Array
    """Lower Cholesky factor of the covariance of the outcomes."""
    alpha: Array

    @property
    def noise(self) -> float:
        """Standard deviation of one run about the mean of its configuration."""
        return math.sqrt(self.hyperparameters.noise) * self.scale.size

    @cached_property
    def inverse(self) -> Array:
        """Inverse covariance of the outcomes."""
        return np.asarray(cho_solve((self.root, True), np.eye(len(self.points))))

    def predict(self, points: Array) -> tuple[Array, Array]:
        """Mean and standard deviation at points (m, d)."""
        covariance, _ = self._covariance(points)
        mean = covariance @ self.alpha
        variance = self.hyperparameters.signal - np.einsum(
            "ij,ij->i", covariance @ self.inverse, covariance
        )
        return self.scale.to_scores(mean), np.sqrt(self._at_least(variance)) * self.scale.size

    def predict_with_slopes(self, points: Array) -> tuple[Array, Array, Array, Array]:
        """As `predict`, with the gradients (m, d) of both by the numeric coordinates."""
        covariance, slope = self._covariance(points)
        solved = covariance @ self.inverse
        mean = covariance @ self.alpha
        variance = self.hyperparameters.signal - np.einsum("ij,ij->i", solved, covariance)
        sd = np.sqrt(self._at_least(variance))
        mean_slope = self._chain(slope * self.alpha, points)
        sd_slope = -self._chain(slope * solved, points) / sd[:, None]
        size = self.scale.size
        return self.scale.to_scores(mean), sd * size, mean_slope * size, sd_slope * size

    def joint(self, points: Array) -> tuple[Array, Array]:
        """Mean (m,) and covariance (m, m) at points (m, d)."""
        covariance, _ = self._covariance(points)
        mean = self.scale.to_scores(covariance @ self.alpha)
        half = solve_triangular(self.root, covariance.T, lower=True)
        q = weighted_distances(points, points, self.hyperparameters.weights, self.geometry.choices)
        among = self.hyperparameters.signal * matern(q)[0] - half.T @ half
        return mean, among * self.scale.size**2

    def draw(self, points: Array, count: int, rng: np.random.Generator) -> Array:
        """Score functions that may be the true one, at points (m, d): (count, m)."""
        mean, covariance = self.joint(points)
        root, _ = cholesky(covariance)
        return mean + rng.standard_normal((count, len(points))) @ root.T

    def with_pending(self, points: Array) -> "Surrogate":
        """As if points (m, d) had run and scored just what is expected of them."""
        if not len(points):
            return self
        covariance, _ = self._covariance(points)
        return condition(
            np.concatenate([self.points, points]),
            self.geometry,
            np.concatenate([self.outcomes, covariance @ self.alpha]),
            np.concatenate([self.counts, np.ones(len(points))]),
            self.hyperparameters,
            self.scale,
        )

    @cached_property
    def check(self) -> FitCheck:
        """The fit put to the test, each configuration left out in turn."""
        n = len(self.points)
        if n < 8:
            return FitCheck(1.0, 1.0, True, "too few configurations to put the fit to the test")
        precision = np.diagonal(self.inverse)
        errors = self.alpha / precision
        plain = (self.outcomes - self.outcomes.mean()) * n / (n - 1)
        error = float(np.sqrt(np.mean(errors**2) / max(np.mean(plain**2), 1e-12)))
        surprise = float(np.sqrt(np.mean(errors**2 * precision)))
        good = error <= 1.15 and surprise <= 3.0
        verdict = (
            "the fit foretells configurations left out"
            if good
            else "the fit foretells badly, observed means are used instead"
        )
        return FitCheck(
            error,
            surprise,
            good,
            f"{verdict}: error {error:.2f} of that of the plain mean, {surprise:.1f} standard "
            "deviations",
        )

    def _covariance(self, points: Array) -> tuple[Array, Array]:
        """Covariance with what was seen, and its derivative by q; (m, n) each."""
        weights, signal = self.hyperparameters.weights, self.hyperparameters.signal
        q = weighted_distances(points, self.points, weights, self.geometry.choices)
        correlation, slope = matern(q)
        return signal * correlation, signal * slope

    def _chain(self, by_q: Array, points: Array) -> Array:
        """Sum over what was seen of a derivative by q times dq/dx, (m, d)."""
        inner = points * by_q.sum(axis=1, keepdims=True) - by_q @ self.points
        weights = np.where(self.geometry.choices, 0.0, self.hyperparameters.weights)
        return np.asarray(2.0 * weights * inner)

    def _at_least(self, variance: Array) -> Array:
        """Rounding may leave a variance at or below nothing."""
        return np.maximum(variance, 1e-12 * self.hyperparameters.signal)


def condition(
    points: Array,
    geometry: Geometry,
    outcomes: Array,
    counts: Array,
    hyperparameters: Hyperparameters,
    scale: Scale,
) -> Surrogate:
    """The surrogate with these hyperparameters, given outcomes."""
    q = weighted_distances(points, points, hyperparameters.weights, geometry.choices)
    np.fill_diagonal(q, 0.0)
    covariance = hyperparameters.signal * matern(q)[0]
    covariance[np.diag_indices(len(points))] += hyperparameters.noise / counts
    root, _ = cholesky(covariance)
    alpha = np.asarray(cho_solve((root, True), outcomes))
    return Surrogate(points, geometry, outcomes, counts, hyperparameters, scale, root, alpha)


def fit(seen: Observations, prior: Prior | None = None) -> Surrogate:
    """The surrogate with the most probable scale and hyperparameters for what was seen."""
    if not len(seen):
        raise ValueError("a surrogate needs at least one configuration that ran")
    prior = prior or Prior()
    seen = seen.part(most_telling(seen, MOST_POINTS))
    part = most_telling(seen, FIRST_FIT)
    scored = seen.counts > 0
    scales = scales_of(seen.means[scored]) if scored.any() else [Scale(0.0, 1.0, 1.0, 0.0, 1.0)]
    quiet, noisy = _starts(seen.geometry, prior)
    found = [(*_climb(seen, part, scale, prior, quiet, 60), scale) for scale in scales]
    # Densities of the scores, not of the outcomes: only those of two scales can be compared.
    worth = [
        value + float(scale.log_slopes(seen.means[part][scored[part]]).sum())
        for value, _, scale in found
    ]
    value, theta, scale = found[int(np.argmax(worth))]
    other, elsewhere = _climb(seen, part, scale, prior, noisy, 60)
    theta = elsewhere if other > value else theta
    if len(seen) > len(part):
        theta = _climb(seen, most_telling(seen, FULL_FIT), scale, prior, theta, 12)[1]
    outcomes, counts = outcomes_of(seen, scale)
    hyperparameters = Hyperparameters(np.exp(theta[:-2]), math.exp(theta[-2]), math.exp(theta[-1]))
    return condition(seen.points, seen.geometry, outcomes, counts, hyperparameters, scale)


def outcomes_of(seen: Observations, scale: Scale) -> tuple[Array, Array]:
    """Outcomes (n,) and how many runs stand behind each, (n,).

    A run without a score counts as the worst outcome there is: bad enough to keep out of a corner
    that crashes, and no worse than what the surrogate has to explain anyway.
    """
    scored = seen.counts > 0
    own = scale.to_outcomes(np.where(scored, seen.means, scale.middle))
    worst = float(own[scored].min()) if scored.any() else -1.0
    runs = seen.counts + seen.failures
    return (own * seen.counts + worst * seen.failures) / runs, runs


def most_telling(seen: Observations, most: int) -> NDArray[np.intp]:
    """Rows of at most so many configurations: the best half, and an even share of the others."""
    n = len(seen)
    if n <= most:
        return np.arange(n)
    ranked = np.argsort(-np.where(np.isnan(seen.means), -np.inf, seen.means), kind="stable")
    best, rest = ranked[: most // 2], np.sort(ranked[most // 2 :])
    spread = rest[np.linspace(0, len(rest) - 1, most - len(best)).round().astype(int)]
    return np.sort(np.concatenate([best, spread]))


def _starts(geometry: Geometry, prior: Prior) -> tuple[Array, Array]:
    """Where climbs begin: with little noise, and with much."""
    weights = np.full(len(geometry.choices), -2.0 * math.log(prior.scale))
    weights[geometry.branches] = math.log(BRANCH_WEIGHT)
    quiet = np.concatenate([weights, [0.0, math.log(prior.noise)]])
    noisy = np.concatenate([weights, [math.log(0.5), math.log(0.3)]])
    return quiet, noisy


def _most_noise(seen: Observations, scale: Scale) -> float:
    """The largest noise variance that a fit may choose."""
    # Runs of one configuration that agree to the last digit: there is no noise to be fitted.
    agree = seen.freedom > 0 and seen.squares / scale.size**2 < 1e-18
    return SMALLEST_NOISE if agree else LARGEST_NOISE


def _climb(
    seen: Observations,
    rows: NDArray[np.intp],
    scale: Scale,
    prior: Prior,
    start: Array,
    iterations: int,
) -> tuple[float, Array]:
    """Log posterior and place of the top reached from (log w, log signal, log noise)."""
    outcomes, counts = outcomes_of(seen, scale)
    told = seen.freedom >= LEAST_FREEDOM
    likelihood = Likelihood(
        outcomes[rows],
        counts[rows],
        pair_differences(seen.points[rows], seen.geometry.choices),
        seen.squares / scale.size**2 if told else 0.0,
        seen.freedom if told else 0,
    )

    def descend(theta: Array) -> tuple[float, Array]:
        value, slope = likelihood(theta)
        if not math.isfinite(value):
            return 1e10, np.zeros_like(theta)
        belief, pull = prior.log_density(theta)
        return -(value + belief), -(slope + pull)

    fixed = math.log(BRANCH_WEIGHT)
    bounds = [(fixed, fixed) if branch else (-10.0, 10.0) for branch in seen.geometry.branches]
    most_noise = _most_noise(seen, scale)
    bounds += [(math.log(1e-3), math.log(1e3)), (math.log(SMALLEST_NOISE), math.log(most_noise))]
    start = np.minimum(start, [high for _, high in bounds])
    found = minimize(
        descend,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": iterations, "ftol": 1e-7, "gtol": 1e-3},
    )
    return -float(found.fun), np.asarray(found.x)
