"""A small landscape with a known shape, for tests of replays."""

from pathlib import Path
from typing import Any

import numpy as np

from hotlap.research.landscape import write_landscape
from hotlap.research.space import make_space

SPACE: dict[str, Any] = {
    "agent": {"choices": ["ppo", "dqn"]},
    "rate": {"low": 1e-4, "high": 1e-1, "log": True},
    "clip": {"low": 0.1, "high": 0.4, "when": {"agent": "ppo"}},
}


def make_table(configs: int = 40, seeds: int = 10, noise: float = 0.2) -> dict[str, Any]:
    space, rng = make_space(SPACE), np.random.default_rng(0)
    chosen = [space.decode(point) for point in space.sample(rng, configs)]
    means = [-((np.log10(p["rate"]) + 2) ** 2) - (p["agent"] == "dqn") for p in chosen]
    scores = np.array(means)[:, None] + noise * rng.standard_normal((configs, seeds))
    return {
        "space": SPACE,
        "command": "made for a test",
        "configs": chosen,
        "scores": scores.tolist(),
        "seconds": np.ones((configs, seeds)).tolist(),
    }


def small_landscape(path: Path, **settings: Any) -> Path:
    write_landscape(path, make_table(**settings))
    return path
