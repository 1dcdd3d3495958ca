"""Whether anything can still plausibly win.

A surrogate whose uncertainty has collapsed proves nothing: with length scales too long it is sure
of what it never saw. So three things must hold together, for a while: the best configuration that
was confirmed on fresh seeds is probably within epsilon of the best place there is, by joint draws
of the whole posterior; no place promises an improvement that matters; and the surrogate foretells
configurations left out better than their plain mean does.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from hotlap.config.study import StopConfig
from hotlap.research.acquisition import (
    expected_improvement,
    neighbours,
    probability_within,
    quasi_random,
)
from hotlap.research.gp import Surrogate
from hotlap.research.kernel import Array
from hotlap.research.space import SearchSpace

DRAWS, PLACES, NEAR = 256, 512, 32
RELATIVE, NOTHING = 0.005, 1e-5
"""Differences that never matter: beside what configurations differ by, and beside their scores."""


@dataclass(frozen=True)
class Assessment:
    """How sure it is that the leader cannot be beaten by what matters."""

    within: float
    """Probability that the leader is within epsilon of the best."""
    epsilon: float
    """Difference that does not matter: what was asked for, the leader's own error, or a small part
    of what configurations differ by, whichever is largest."""
    improvement: float
    """Largest expected improvement on the leader anywhere."""
    gap: float
    """Highest upper bound anywhere minus the highest lower bound of what ran (two sds each)."""

    def settled(self, config: StopConfig) -> bool:
        """Whether the posterior sees nothing left to win."""
        return self.within >= config.probability and self.improvement < self.epsilon / 2

    def to_table(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {
            "within": self.within,
            "epsilon": self.epsilon,
            "improvement": self.improvement,
            "gap": self.gap,
        }


def assess(
    space: SearchSpace,
    surrogate: Surrogate,
    leader: Array,
    leader_runs: int,
    noise: float,
    epsilon: float,
    seed: int,
    pool: Array | None = None,
) -> Assessment:
    """Look at the whole space at once.

    Args:
        space: What may be chosen.
        surrogate: What is known.
        leader: The leader's point, (d,).
        leader_runs: How often it ran.
        noise: Standard deviation of one run.
        epsilon: Difference that the user does not care about.
        seed: Of the places looked at and of the draws.
        pool: The only points there are, if there are so few.
    """
    rng = np.random.default_rng([seed, len(surrogate.points)])
    visited = surrogate.points[: 2 * PLACES]
    if pool is None:
        pool = np.concatenate(
            [quasi_random(space, PLACES, seed), neighbours(space, leader[None], NEAR, rng)]
        )
    places = np.concatenate([leader[None], pool, visited])
    mean, sd = surrogate.predict(places)
    size = max(float(np.abs(mean).max()), surrogate.scale.size)
    spread = max(RELATIVE * surrogate.scale.size, NOTHING * size)
    epsilon = max(epsilon, spread, noise / math.sqrt(max(leader_runs, 1)))
    # The draws need only the places that may be best: the rest cannot change the maximum.
    hopeful = np.flatnonzero(mean + 3.5 * sd >= mean[0])
    hopeful = np.concatenate([[0], hopeful[hopeful > 0]])
    draws = surrogate.draw(places[hopeful], DRAWS, rng)
    seen_low = (mean - 2 * sd)[[0, *range(1 + len(pool), len(places))]]
    return Assessment(
        within=probability_within(draws, 0, epsilon),
        epsilon=epsilon,
        improvement=float(expected_improvement(mean, sd, float(mean[0])).max()),
        gap=float((mean + 2 * sd).max() - seen_low.max()),
    )
