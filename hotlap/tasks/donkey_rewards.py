"""Rewards of the donkey task, by name.

    closeness  1 on the line, 0 at max_cte and beyond
    forward    speed along the car's nose, m/s

Each is a dict of named terms with weights, so that what a policy earned can be read term by term.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Signals:
    """What rewards are made of, all (B, N)."""

    closeness: Tensor
    forward: Tensor
    speed: Tensor
    """Magnitude of the velocity, m/s."""
    off_track: Tensor
    """1 where the car has just left the road for good, else 0."""
    hit: Tensor
    """1 where the car has just hit a wall, else 0."""
    on_road: Tensor
    """Whether some part of the car's width is on the road, bool."""


def _ended(signals: Signals) -> Tensor:
    """1 where the episode ends in this step, else 0."""
    return torch.maximum(signals.off_track, signals.hit)


Term = Callable[[Signals], Tensor]

TERMS: dict[str, Term] = {
    # DonkeyCar's own: forward speed scaled by closeness, backward speed in full; not paid at the
    # end.
    "line_speed": lambda s: (
        torch.where(s.forward > 0, s.closeness * s.forward, s.forward) * (1 - _ended(s))
    ),
    "close_speed": lambda s: s.closeness * s.speed,
    "ended": lambda s: _ended(s),
}

REWARDS: dict[str, dict[str, float]] = {
    # What the DonkeyCar client pays: (1 - |cte| / max_cte) * forward speed, and -1 for the step
    # that ends the episode, off the road or at a wall (its -2 for a hit is never reached: a hit
    # ends it).
    "default": {"line_speed": 1.0, "ended": -1.0},
    # speed * (1 - |cte| / max_cte) and nothing else: the first shaping, paid for circling as well.
    "v1": {"close_speed": 1.0},
}


def reward_terms(name: str, signals: Signals) -> dict[str, Tensor]:
    """Weighted terms of the reward called `name`, each (B, N)."""
    return {term: weight * TERMS[term](signals) for term, weight in REWARDS[name].items()}
