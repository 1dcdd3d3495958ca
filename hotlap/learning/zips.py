"""Models as Stable-Baselines3 saves them. Opening one can run any code: ask before."""

import json
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import sb3_contrib
import stable_baselines3
from gymnasium import spaces
from stable_baselines3.common.policies import BasePolicy

from hotlap.config.learners import AGENTS

CLASSES: dict[str, Any] = {
    "ppo": stable_baselines3.PPO, "dqn": stable_baselines3.DQN,
    "sac": stable_baselines3.SAC, "tqc": sb3_contrib.TQC,
}  # fmt: skip
MARKS = {
    "tqc": "top_quantiles_to_drop_per_net", "sac": "target_entropy",
    "dqn": "exploration_fraction", "ppo": "clip_range",
}  # fmt: skip
"""A setting that only this algorithm has, or none before it in the table."""
LARGEST = 2 << 30
"""Bytes that a zip may unpack to."""


def open_zip(path: Path, device: str, algorithm: str = "auto") -> tuple[BasePolicy, spaces.Space]:
    """The policy in a zip, and what it sees, pictures with their channels last."""
    made_by = algorithm_of(settings_in(path))
    if algorithm == "auto":
        if made_by is None:
            raise ValueError(
                f"{path} was made by none of {', '.join(AGENTS)}; say which by --algorithm"
            )
        algorithm = made_by
    elif made_by not in (None, algorithm):
        raise ValueError(f"{path} was made by {made_by}; leave --algorithm out")
    learner = CLASSES[algorithm].load(path, device=device)
    seen = learner.observation_space
    if isinstance(seen, spaces.Box) and len(seen.shape) == 3:  # saved with channels first
        low, high = (end.transpose(1, 2, 0) for end in (seen.low, seen.high))
        seen = spaces.Box(low, high, dtype=seen.dtype.type)  # type: ignore[arg-type]
    return learner.policy, seen


def settings_in(path: Path) -> list[str]:
    """Names of the settings in a zip; nothing is unpickled for it."""
    try:
        with zipfile.ZipFile(path) as file:
            if sum(info.file_size for info in file.infolist()) > LARGEST:
                raise ValueError(f"{path} unpacks to more than {LARGEST >> 30} GiB: refused")
            return list(json.loads(file.read("data")))
    except (zipfile.BadZipFile, KeyError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} is not a whole Stable-Baselines3 model: {error}") from error


def algorithm_of(names: Iterable[str]) -> str | None:
    """Which algorithm made a zip, by the names of its settings; None where no one knows."""
    known = set(names)
    return next((algorithm for algorithm, mark in MARKS.items() if mark in known), None)
