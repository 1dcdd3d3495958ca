"""Landscapes that are hard to judge on, made up, so that the truth about each is known.

    python benchmarks/hard_landscapes.py hard/ 1      # the seed that they are drawn with
    hotlap bench research --measures landscape --landscape hard/collapse.json.gz

256 configurations of six parameters, each with 40 seeds; one in twenty is nearly as good as the
best, and one run of the best is about as uncertain as everything that configurations differ by:

    collapse   a run reaches its configuration's own height, or collapses, more often in bad ones
    success    all that succeed score alike; configurations differ in how often they do
    noise      plain Gaussian noise, 0.3 of the whole range
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotlap.research.landscape import write_landscape
from hotlap.research.space import make_space

CONFIGS, SEEDS = 256, 40
SPACE: dict[str, dict[str, Any]] = {
    "encoder": {"choices": ["small", "wide", "deep"]},
    "learning_rate": {"low": 1e-5, "high": 1e-2, "log": True},
    "gamma": {"low": 0.9, "high": 0.999},
    "entropy": {"low": 1e-5, "high": 1e-1, "log": True},
    "steps": {"low": 16, "high": 2048, "log": True},
    "epochs": {"low": 1, "high": 20},
}
HEIGHTS = np.array([0.6, 1.0, 0.8])
"""Of the three encoders."""
CENTRE, WEIGHT = np.array([0.6, 0.7, 0.4, 0.3, 0.6]), np.array([1.6, 0.8, 1.0, 0.7, 0.9])
"""Where the other parameters are best, and how much each matters."""
WIDTH, FLATNESS = 0.5, 3.0
"""Of the hill."""


def make(kind: str, seed: int = 0) -> dict[str, Any]:
    """A landscape as `write_landscape` takes it, with its true means."""
    space, rng = make_space(SPACE), np.random.default_rng(seed)
    points = space.sample(rng, CONFIGS)
    away = (((points[:, 1:] - CENTRE) * WEIGHT) ** 2).sum(axis=1)
    hill = np.tanh(FLATNESS * np.exp(-away / (2 * WIDTH**2))) / np.tanh(FLATNESS)
    hill = hill * HEIGHTS[points[:, 0].astype(int)]
    scores, truth = SCORES[kind](hill, rng)
    return {
        "space": SPACE,
        "command": f"python benchmarks/hard_landscapes.py FOLDER {seed} ({kind})",
        "configs": [space.decode(point) for point in points],
        "scores": scores.tolist(),
        "truth": truth.tolist(),
    }


Made = tuple[NDArray[np.float64], NDArray[np.float64]]


def collapse(hill: NDArray[np.float64], rng: np.random.Generator) -> Made:
    """Scores (configurations, seeds) and their true means."""
    chance = 0.35 + 0.5 * hill
    good, bad = 0.2 + 0.8 * hill, np.full_like(hill, 0.1)
    return _of_two_kinds(chance, good, bad, rng)


def success(hill: NDArray[np.float64], rng: np.random.Generator) -> Made:
    """Scores (configurations, seeds) and their true means."""
    return _of_two_kinds(0.1 + 0.8 * hill, np.full_like(hill, 0.85), np.full_like(hill, 0.12), rng)


def noise(hill: NDArray[np.float64], rng: np.random.Generator) -> Made:
    """Scores (configurations, seeds) and their true means."""
    return hill[:, None] + 0.3 * rng.standard_normal((len(hill), SEEDS)), hill


def _of_two_kinds(
    chance: NDArray[np.float64],
    good: NDArray[np.float64],
    bad: NDArray[np.float64],
    rng: np.random.Generator,
) -> Made:
    well = rng.random((len(chance), SEEDS)) < chance[:, None]
    scores = np.where(well, good[:, None], bad[:, None])
    scores = scores + 0.05 * rng.standard_normal(scores.shape)
    return scores, chance * good + (1 - chance) * bad


SCORES = {"collapse": collapse, "success": success, "noise": noise}

if __name__ == "__main__":
    for name in SCORES:
        path = Path(sys.argv[1]) / f"{name}.json.gz"
        write_landscape(path, make(name, int(sys.argv[2])))
        print(path)
