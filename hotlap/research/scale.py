"""Scores as a Gaussian process sees them: standardised, and bad ones drawn together."""

import math
from dataclasses import dataclass

import numpy as np

from hotlap.research.kernel import Array


@dataclass(frozen=True)
class Scale:
    """How scores become outcomes: `z = (warp((score - middle) / spread) - shift) / unit`.

    The warp is the identity down to `knot` spreads below the median and a logarithm from there: bad
    regions may differ by orders of magnitude, which says nothing about where the best one lies.
    """

    middle: float
    spread: float
    knot: float
    shift: float
    unit: float

    def to_outcomes(self, scores: Array) -> Array:
        """Outcomes of scores."""
        values = (scores - self.middle) / self.spread
        return (_warp(values, self.knot) - self.shift) / self.unit

    def log_slopes(self, scores: Array) -> Array:
        """Logarithm of the derivative of the outcome by the score."""
        beyond = np.maximum(-self.knot - (scores - self.middle) / self.spread, 0.0)
        return -np.log1p(beyond) - math.log(self.size)

    @property
    def size(self) -> float:
        """Score units per unit of outcome, where the warp is the identity."""
        return self.spread * self.unit

    def to_scores(self, outcomes: Array) -> Array:
        """Scores of outcomes, straight on where the warp is not."""
        return self.middle + self.spread * (self.shift + self.unit * outcomes)


def _warp(values: Array, knot: float) -> Array:
    """The identity down to -knot, a logarithm below, smooth where they meet."""
    return np.where(values < -knot, -knot - np.log1p(np.maximum(-knot - values, 0.0)), values)


def scales_of(means: Array) -> list[Scale]:
    """Scales that may suit these means of configurations, all finite: a gentle and a strong one.

    The gentle one leaves all but the worst as it is. The strong one takes its spread from the good
    half alone and begins at the median.
    """
    middle = float(np.median(means))
    tiny = 1e-12 * float(np.max(np.abs(means))) + 1e-300
    if float(np.std(means)) <= tiny:
        return [Scale(middle, 1.0, 1.0, 0.0, 1.0)]
    # What lies further below the median than three times the best, or the lower quartile, is away
    # from it is an outlier, and would set the unit for all.
    reach = max(float(np.max(means)) - middle, middle - float(np.quantile(means, 0.25)))
    lowest = middle - 3.0 * reach if reach > tiny else -math.inf
    usual = float(np.std(np.maximum(means, lowest)))
    good = float(np.sqrt(np.mean((means[means >= middle] - middle) ** 2)))
    scales = [_standardised(means, middle, usual, knot=1.0)]
    if good > tiny:
        scales.append(_standardised(means, middle, good, knot=0.0))
    return scales


def _standardised(means: Array, middle: float, spread: float, knot: float) -> Scale:
    warped = _warp((means - middle) / spread, knot)
    return Scale(middle, spread, knot, float(np.mean(warped)), float(np.std(warped)))
